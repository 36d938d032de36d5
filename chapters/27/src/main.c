// main.c: the event loop
//
// Has no state. It calls all other files, and none calls it.

#include <limits.h>
#include <signal.h>
#include <sys/epoll.h>

#include "base.h"
#include "clock.h"
#include "mem_arena.h"
#include "mem_tidy.h"

#include "server.h"

enum {
    k_max_accepts = 1000, // connections accepted in one round
};

static char stop_event; // its address stands for stop_fd(): see watch()

// ---- timers ----
//
// A timer goes off when the clock, in whole milliseconds, is past its deadline. So what is left to
// wait is rounded up: epoll_wait() neither comes back too early, nor again and again until it is time.

// Returns how many milliseconds epoll_wait() may wait at `now_ms`: until the next timer, or 0 if
// connections are waiting for us. -1 if no timer is set: it takes that for "as long as you like".
static int next_timer_ms(int64_t now_ms) {
    if (turns_wait() || aof_is_loading()) {
        return 0;
    }
    int64_t next_ms = accept_deadline();
    const struct conn *conn = first_idle();
    if (conn && idle_deadline(conn) < next_ms) {
        next_ms = idle_deadline(conn);
    }
    if (pause_deadline() < next_ms) {
        next_ms = pause_deadline();
    }
    if (next_slice_ms() < next_ms) {
        next_ms = next_slice_ms();
    }
    if (full_deadline() < next_ms) {
        next_ms = full_deadline();
    }
    if (aof_deadline() < next_ms) {
        next_ms = aof_deadline();
    }
    if (next_ms == INT64_MAX) {
        return -1;
    }
    if (next_ms < now_ms) {
        return 0;
    }
    return next_ms - now_ms < INT_MAX ? (int)(next_ms - now_ms) + 1 : INT_MAX;
}

// Closes the connections that had been idle for too long at `now_ms`, and lets the cycle have its slice
// of time when it is due.
static void process_timers(int64_t now_ms) {
    struct conn *conn;
    while ((conn = first_idle()) && now_ms > idle_deadline(conn)) {
        if (conn->more || (is_subscriber(conn) && conn->state != STATE_RES)) {
            spare_idle(conn); // it waits for us, or for others
        } else {
            msg("removing idle connection: %d", conn->fd);
            conn_done(conn);
        }
    }
    if (now_ms > accept_deadline()) {
        set_accepting(true);
    }
    if (now_ms > pause_deadline()) {
        pause_end();
    }
    if (pause_deadline() == INT64_MAX) {
        serve_held();
    }
    if (now_ms > next_slice_ms()) {
        run_cycle();
    }
    end_full(now_ms);
    if (now_ms > aof_deadline()) {
        aof_tick();
    }
}

// ---- the loop ----

// Waits until something is ready or a timer goes off. Returns the last moment at which epoll_wait() is
// sure to have checked every client. Idle time is judged by it: a byte that arrived later, while we
// were busy or stopped, has not been read yet.
static int64_t wait_for_events(void) {
    int64_t looked_ms;
    int n, wait_ms;
    do { // a signal, SIGCONT too, ends the wait before anything was looked at: wait again
        looked_ms = get_monotonic_msec();
        wait_ms = next_timer_ms(looked_ms);
        n = poller_wait(conns_count() + 2, wait_ms);
    } while (n < 0);
    return n == 0 ? looked_ms + wait_ms : looked_ms;
}

// Serves the connections that are ready. Returns whether the loop goes on.
static bool serve_events(void) {
    bool go_on = true;
    for (void *what; go_on && (what = next_ready());) {
        if (stop_asked() || what == &stop_event) {
            go_on = false;
        } else if (is_listener(what)) {
            for (int left = k_max_accepts; left > 0 && accept_new_conn(listener_fd()); left--) {
            }
        } else {
            struct conn *conn = what;
            if (conn->paused) {
                if (!send_held(conn)) {
                    end_held(conn);
                }
            } else if (!conn->more) { // else it waits for its turn all the same
                connection_io(conn);
            }
        }
    }
    end_turns();
    return go_on;
}

// One round: waits until something is ready, then serves it. Returns whether another one follows.
static bool one_round(void) {
    int64_t looked_ms = wait_for_events();
    const struct dlist *last = last_of_more(); // those put behind it have had their turn
    if (!serve_events()) {
        return false;
    }
    bool more = last != NULL;
    while (more && !stop_asked()) {
        more = serve_more(last);
    }
    end_turns();
    if (!stop_asked()) {
        serve_slow();
    }
    end_turns();
    send_messages();
    process_timers(looked_ms);
    aof_commit();
    if (aof_is_loading()) {
        load_some();
    }
    return true;
}

int main(int argc, char **argv) {
    hold_std_fds();
    idle_start();
    settings_start(argc, argv);
    db_start();
    aof_start();
    info_start();
    pubsub_start();
    conns_start();
    commands_start();
    catch_signals();
    mem_one_arena();
    lazyfree_start();
    poller_start();
    listener_start();
    if (watch(EPOLL_CTL_ADD, stop_fd(), EPOLLIN, &stop_event) < 0) {
        die("epoll_ctl");
    }
    load_start();
    while (one_round()) {
        mem_tidy();
    }

    signal(SIGALRM, SIG_IGN); // what is left to do is short
    bool logged = aof_end();
    conns_end();
    watch_end();
    pubsub_end();
    inbox_end();
    listener_end();
    stop_end();
    poller_end();
    batch_end();
    entry_clear();
    lazyfree_end();
    return logged ? 0 : 1;
}
