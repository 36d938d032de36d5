"""06-ppoll: signals arrive inside ppoll() and nowhere else, and none is lost."""
from __future__ import annotations

import signal
from contextlib import ExitStack

from cases.talk import paused
from grading import Build, Submission, points
from harness import Server, wire

RACE = r'''// Raises SIGTERM where no program can avoid it: when ppoll() is called, after the last look and before
// it waits. WHEN is a condition: what must be so.
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>

// Returns how many bytes lie in a socket of these, at most.
static inline int waiting(const struct pollfd *fds, nfds_t n) {
    int most = 0;
    for (nfds_t i = 0; i < n; i++) {
        int bytes = 0;
        if (fds[i].fd >= 0 && ioctl(fds[i].fd, FIONREAD, &bytes) == 0 && bytes > most) {
            most = bytes;
        }
    }
    return most;
}

static int late_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask) {
    static int calls, raised;
    calls++;
    if (!raised && (WHEN)) {
        raised = 1;
        raise(SIGTERM);
    }
    return ppoll(fds, n, timeout, mask);
}
#define ppoll late_ppoll
'''


def racing(work: Submission, when: str) -> Build:
    """The server, built so that SIGTERM comes once, when ppoll() is called and this C expression is true."""
    flags = ["-D_GNU_SOURCE", f"-DWHEN={when}", "-include", "race.h"]
    return work.variant("", ["server"], {"race.h": RACE}, flags)


@points(2, "it waits in ppoll()")
def test_waits_in_ppoll(work: Submission) -> None:
    """In which call does the server wait, and which descriptors does it have, when nobody is connected?"""
    with work.count("poll", "ppoll") as counted, Server(6) as server:
        fds = server.fd_count()
        with server.connect() as conn:
            for i in range(10):
                conn.ask(f"{i}", expect=b"%d" % i)
        seen = counted.now()
    work.expect(
        seen["ppoll"] > 0 and seen["poll"] - seen["ppoll"] <= 1,  # one call may be half counted
        came=f"{seen['ppoll']} calls of ppoll(), {seen['poll'] - seen['ppoll']} of another call that waits",
        expected="ppoll() alone",
    )
    work.expect(
        fds <= 4,
        came=f"without clients the server has {fds} descriptors",
        expected="4: input, output, errors, and the listening socket",
    )


@points(2, "the signals")
def test_signals(work: Submission) -> None:
    """SIGINT and SIGTERM, to a server without clients, and to one with clients that wait in all ways."""
    for sig, name in ((signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM")):
        for clients in (0, 3):
            with Server(6) as server, ExitStack() as stack:
                conns = [stack.enter_context(server.connect()) for _ in range(clients)]
                for conn in conns:
                    conn.ask("hello", expect=b"hello")
                if conns:
                    conns[0].send(b"\5\0")
                    conns[1].send_some(wire.frame(b"x" * 1000) * 10_000, 0.1)
                status = server.stop(sig)
                work.expect(
                    status == 0,
                    came=f"{name}, with {clients} clients: "
                    + (f"exit status {status}" if status > 0 else f"ended by signal {-status}"),
                    expected="exit status 0",
                    cause="is the handler in place, and does the loop end when it has run?",
                )


@points(3, "between the look and the call")
def test_between(work: Submission) -> None:
    """The server is built so that SIGTERM comes at the worst moment: when ppoll() is called, before it waits."""
    with racing(work, "calls == 3").server() as server, server.connect(seconds=2) as conn:
        conn.ask("hello", expect=b"hello")
        try:
            conn.expect_closed()
        except AssertionError:
            server.stop(signal.SIGKILL)
            work.fail(
                came=(
                    "SIGTERM came after the server had looked, and before it waited; it waits, and the connection is"
                    " still open"
                ),
                expected="the signal waits until ppoll() begins, and interrupts it",
                cause="in which lines of the loop may the handler run?",
            )
        status = server.stop()
        work.expect(status == 0, came=f"the server ended with status {status}", expected="exit status 0")


@points(2, "a busy server")
def test_busy(work: Submission) -> None:
    """SIGTERM comes when ppoll() is called, and requests for dozens of rounds lie ready. After how many rounds does the
    server end?"""
    build = racing(work, "waiting(fds, n) > 20000")
    with work.count("ppoll") as counted, build.server() as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(2)]
        for conn in conns:
            conn.ask("hello", expect=b"hello")
        with paused(server):
            for conn in conns:
                conn.send(wire.frame(b"x" * 1000) * 100)
            counted.reset()
        for conn in conns:
            conn.read_to_end()
        status = server.stop()
        rounds = counted["ppoll"]
    work.expect(status == 0, came=f"the server ended with status {status}", expected="exit status 0")
    work.expect(
        rounds <= 3,
        came=f"SIGTERM was pending, and requests for some 25 rounds were there; the server went on for {rounds} rounds",
        expected="it ends after the round that it is in, or the next one",
        cause="does ppoll() let the handler run where it need not wait?",
    )


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of framing, of signals, of writes that wait, and of idle clients."""
    work.chapter_tests(
        "04- or leaves_when or behind_a_blocked or no_cpu or used_again or signal and not second or stopped"
    )
