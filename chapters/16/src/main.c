// main.c: the event loop
//
// Owns the socket that clients connect to. It calls all other files, and none calls it.

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base.h"
#include "clock.h"
#include "fd.h"
#include "mem_arena.h"
#include "mem_tidy.h"
#include "net.h"

#include "server.h"

enum {
    k_max_accepts = 1000, // connections accepted in one round
    k_accept_retry_ms = 100,
    k_max_works = 200, // keys and pairs that may expire in a round; each request adds one
};

static int listen_fd;

// ---- timers ----
//
// A timer goes off when the clock, in whole milliseconds, is past its deadline. So what is left to
// wait is rounded up: else poll() would come back too early, and then again and again until it is time.

// Returns how many milliseconds after `now_ms` the next timer goes off: poll() may wait for that
// long. -1 if no timer is set: poll() takes it for "as long as you like".
static int next_timer_ms(int64_t now_ms) {
    if (turns_wait()) {
        return 0;
    }
    int64_t next_ms = INT64_MAX;
    if (!watched_for(listen_fd)) {
        next_ms = now_ms + k_accept_retry_ms;
    }
    const struct conn *conn = first_idle();
    if (conn && idle_deadline(conn) < next_ms) {
        next_ms = idle_deadline(conn);
    }
    const struct entry *ent = first_to_expire();
    if (ent && entry_deadline(ent) < next_ms) {
        next_ms = entry_deadline(ent);
    }
    if (next_ms == INT64_MAX) {
        return -1;
    }
    if (next_ms < now_ms) {
        return 0;
    }
    return next_ms - now_ms < INT_MAX ? (int)(next_ms - now_ms) + 1 : INT_MAX;
}

// Closes the connections that had been idle for too long at `now_ms`, and removes keys that have
// expired, but stops after k_max_works keys and pairs, and one for each request of this round. If
// some are left, next_timer_ms() returns 0, and the next round goes on with them.
static void process_timers(int64_t now_ms) {
    struct conn *conn;
    while ((conn = first_idle()) && now_ms > idle_deadline(conn)) {
        msg("removing idle connection: %d", conn->fd);
        conn_done(conn);
    }
    size_t works = 0, max_works = k_max_works + take_answered();
    struct entry *ent;
    while (works < max_works && (ent = first_to_expire()) && now_ms > entry_deadline(ent)) {
        works += 1 + entry_cost(ent);
        entry_drop(ent);
    }
}

// ---- the loop ----

// One round: waits until something is ready, then serves it. Returns whether another one follows.
static bool one_round(void) {
    int64_t now_ms = get_monotonic_msec();
    int wait_ms = next_timer_ms(now_ms);
    int ready = poller_wait(wait_ms);
    // The last moment at which poll() is sure to have checked every client. Idle time is judged by
    // it: a byte that arrived later, while we were busy or stopped, has not been read yet.
    int64_t looked_ms = ready == 0 ? now_ms + wait_ms : now_ms;
    watch(listen_fd, POLLIN);
    serve_more();
    for (int fd; (fd = next_ready()) >= 0;) {
        if (stop_asked() || fd == stop_fd()) {
            return false;
        }
        if (fd == listen_fd) {
            for (int left = k_max_accepts; left > 0 && accept_new_conn(listen_fd); left--) {
            }
        } else {
            struct conn *conn = poller_conn(fd);
            if (!conn->more) { // else its client has hung up: it waits for its turn all the same
                connection_io(conn);
            }
        }
    }
    if (!stop_asked()) {
        serve_slow();
    }
    process_timers(looked_ms);
    return true;
}

int main(void) {
    hold_std_fds();
    db_start();
    conns_start();
    catch_signals();
    mem_one_arena();
    lazyfree_start();
    listen_fd = tcp_listen(env_ip("BIND"), env_port());
    if (fd_set_nb(listen_fd) < 0) {
        die("fcntl");
    }
    watch(stop_fd(), POLLIN);
    watch(listen_fd, POLLIN);
    while (one_round()) {
        mem_tidy();
    }

    signal(SIGALRM, SIG_IGN); // what is left to do is short
    conns_end();
    close(listen_fd);
    stop_end();
    poller_end();
    entry_clear();
    lazyfree_end();
}
