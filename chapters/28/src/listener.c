// listener.c: the socket that clients connect to
//
// Owns it, and knows whether epoll reports those who wait to be accepted.

#include <sys/epoll.h>
#include <unistd.h>

#include "base.h"
#include "clock.h"
#include "fd.h"
#include "net.h"

#include "server.h"

enum {
    k_accept_retry_ms = 100,
};

static int listen_fd;
static bool accepting;          // epoll watches listen_fd
static int64_t accept_again_ms; // when it is to watch it again

// Listens at the address that the settings name. Ends the program if it cannot.
void listener_start(void) {
    listen_fd = tcp_listen(env_ip("BIND"), env_port());
    if (fd_set_nb(listen_fd) < 0) {
        die("fcntl");
    }
    if (watch(EPOLL_CTL_ADD, listen_fd, EPOLLIN, &listen_fd) < 0) {
        die("epoll_ctl");
    }
    accepting = true;
}

// Closes the socket.
void listener_end(void) {
    close(listen_fd);
}

// Returns the socket, to be given to accept().
int listener_fd(void) {
    return listen_fd;
}

// Tells whether an event about `what` is one of the socket.
bool is_listener(const void *what) {
    return what == &listen_fd;
}

// Turns on or off that epoll reports clients who wait to be accepted: off for k_accept_retry_ms, see
// accept_deadline().
void set_accepting(bool on) {
    if (!on) {
        accept_again_ms = get_monotonic_msec() + k_accept_retry_ms;
    }
    uint32_t events = on ? EPOLLIN : 0;
    if (on != accepting && watch(EPOLL_CTL_MOD, listen_fd, events, &listen_fd) == 0) {
        accepting = on;
    }
}

// Returns when it is to be turned on again, INT64_MAX where it is on.
int64_t accept_deadline(void) {
    return accepting ? INT64_MAX : accept_again_ms;
}
