// idle.c: all connections, by how long they have been idle
//
// Owns their list and their number, and the timeout after which they are closed.

#include <limits.h>

#include "base.h"
#include "clock.h"
#include "dlist.h"
#include "intrusive.h"

#include "server.h"

enum {
    k_idle_timeout_ms = 5000,
};

static int64_t idle_timeout_ms; // 0 for never
static struct dlist idle_list;  // all connections, the longest idle first
static size_t num_conns;

static size_t accepted; // since the start, or since the counters were reset

// Reads the settings. Ends the program with one line if one is wrong.
void idle_start(void) {
    idle_timeout_ms = env_long("IDLE_TIMEOUT_MS", k_idle_timeout_ms, 0, INT_MAX);
    dlist_init(&idle_list);
}

// Returns how many milliseconds a connection may be idle, 0 for any time.
int64_t get_idle_timeout(void) {
    return idle_timeout_ms;
}

// Has connections be idle for `ms` at most, 0 for any time.
void set_idle_timeout(int64_t ms) {
    idle_timeout_ms = ms;
}

// Notes that the connection is not idle, although no byte moves: it waits for us, or for others.
void spare_idle(struct conn *conn) {
    conn->idle_start = get_monotonic_msec();
    dlist_detach(&conn->idle_node);
    dlist_insert_before(&idle_list, &conn->idle_node);
}

// Notes that a byte has moved: the connection is the least idle of all.
void renew_idle(struct conn *conn) {
    spare_idle(conn);
    conn->moved_ms = conn->idle_start;
}

// Adds a connection that has just been accepted.
void conn_added(struct conn *conn) {
    dlist_init(&conn->idle_node);
    renew_idle(conn);
    conn->start_ms = conn->idle_start;
    num_conns++;
    accepted++;
}

// Takes out a connection that is to be closed.
void conn_gone(struct conn *conn) {
    dlist_detach(&conn->idle_node);
    num_conns--;
}

// Returns the list of all connections, borrowed: to be looked at, not to be changed.
const struct dlist *all_conns(void) {
    return &idle_list;
}

// Returns how many connections there are.
size_t conns_count(void) {
    return num_conns;
}

// Returns how many connections were accepted.
size_t num_accepted(void) {
    return accepted;
}

// Counts from 0 again.
void reset_accepted(void) {
    accepted = 0;
}

// Returns the connection that has been idle for longest, NULL if there is none or the timeout is
// off.
struct conn *first_idle(void) {
    if (idle_timeout_ms == 0 || dlist_empty(&idle_list)) {
        return NULL;
    }
    return container_of(idle_list.next, struct conn, idle_node);
}

// Returns when the connection will have been idle for too long, if no byte moves.
int64_t idle_deadline(const struct conn *conn) {
    return conn->idle_start + idle_timeout_ms;
}
