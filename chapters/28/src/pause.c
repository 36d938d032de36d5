// pause.c: a pause that a client has asked for
//
// Owns what is paused, and until when. A request that it holds waits in its place, and what its client
// has sent behind it waits, too.

#include "server.h"

static bool paused;
static bool paused_all; // all requests, not only those that change keys
static int64_t until_ms;

// Begins a pause, or goes on with the one that there is: the longer and the stricter one counts.
void pause_begin(bool all, int64_t end_ms) {
    until_ms = paused && until_ms > end_ms ? until_ms : end_ms;
    paused_all = all || (paused && paused_all);
    paused = true;
}

// Ends the pause, if there is one.
void pause_end(void) {
    paused = false;
}

// Returns when the pause ends, INT64_MAX if there is none.
int64_t pause_deadline(void) {
    return paused ? until_ms : INT64_MAX;
}

// Tells whether the pause holds a request with this command. What others hear of, Redis would send to its
// copies: it counts as a write.
bool pause_holds(const struct command *command) {
    return paused && (paused_all || command->flags & (WRITE | SPREADS));
}
