// stop.c: how the program is told to end
//
// Owns the flag and the pipe that a signal is noted in.

#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "base.h"
#include "fd.h"

#include "server.h"

enum {
    k_stop_ms = 400, // after the signal to stop, until the program ends wherever it is
};

static int stop_pipe[2];
static volatile sig_atomic_t stopping;

// Ends the program where it stands: the loop was told to stop, and has something to do that takes
// longer than we wait. All that it holds would be gone in a moment anyway.
static void on_stop_late(int sig) {
    (void)sig;
    if (!aof_is_on()) { // else what has changed is written first, however long that takes
        _exit(0);
    }
}

// Tells the loop to stop, in two ways. The flag ends a round that is under way. But a signal may
// come after the loop looked at the flag and before it waits, and it would wait for ever; so there
// is a byte in a pipe as well, which ends the wait. A second signal finds no handler any more: it
// ends the program at once. And an alarm ends it soon, whatever the first one has to wait for.
static void on_stop_signal(int sig) {
    (void)sig;
    int err = errno;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    stopping = 1;
    if (write(stop_pipe[1], "", 1) < 0) {
        // The pipe is full: epoll will report it all the same.
    }
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = k_stop_ms * 1000}, NULL);
    errno = err;
}

// Lets SIGINT and SIGTERM call on_stop_signal(), and their alarm on_stop_late(); ignores SIGPIPE.
void catch_signals(void) {
    if (pipe(stop_pipe) < 0 || fd_set_nb(stop_pipe[1]) < 0) {
        die("pipe");
    }
    struct sigaction action = {.sa_handler = on_stop_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = on_stop_late;
    sigaction(SIGALRM, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

// Tells whether the program has been told to end.
bool stop_asked(void) {
    return stopping;
}

// Returns the descriptor that is readable once the program has been told to end.
int stop_fd(void) {
    return stop_pipe[0];
}

// Closes the pipe, when nobody waits for it any more.
void stop_end(void) {
    close(stop_pipe[0]);
    close(stop_pipe[1]);
}
