// turn.c: what a connection may do in its turn
//
// Owns the count of its work. Work is what makes other clients wait, counted in bytes that come in or
// go out; work that moves none counts as the bytes that take as long. This file calls no other, so
// that all can call it.

#include "server.h"

static size_t work;  // done in this turn
static bool own;     // the turn is for one slow request alone
static bool refused; // a request was not allowed what it asked for: it is slow

// Begins the turn of a connection: one `own` of a slow request, or one like others.
void turn_begin(bool own_turn) {
    work = 0;
    own = own_turn;
    refused = false;
}

// Counts work that has been done.
void turn_add(size_t cost) {
    work += cost;
}

// Asks for work before it is done. More than a whole turn is slow, and needs a turn of its own; that
// ends with the request. Where this returns false, the request is asked again in such a turn: its
// command must return at once, and have changed nothing; what it has replied is dropped.
bool may_take(size_t cost) {
    if (cost > k_turn_work && !own) {
        refused = true;
        return false;
    }
    work += cost;
    return true;
}

// Tells whether the turn has had its work.
bool turn_done(void) {
    return work >= k_turn_work;
}

// Tells whether the last request was refused what it asked for.
bool turn_refused(void) {
    return refused;
}
