"""18-kick: a command that closes other connections, in the middle of a batch of events for them."""
from __future__ import annotations

from contextlib import ExitStack

from cases.replies import long_request
from cases.talk import paused
from grading import Submission, points
from harness import Conn, Server, wait_until, wire

PERTURB = {
    "MALLOC_PERTURB_": "165", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",  # what is freed is overwritten
    "IDLE_TIMEOUT_MS": "0",
}  # fmt: skip
GET, NIL = wire.request("get", "k"), b"\1\0\0\0\0"


def expect_alive(work: Submission, server: Server, before: int, cause: str) -> None:
    """A new client is served, and no descriptor is left of those who are gone."""
    with server.connect() as conn:
        conn.ask("set", "alive", "yes", expect=None)
        conn.ask("get", "alive", expect=b"yes")
    wait_until(lambda: server.fd_count() == before, "the descriptors of those who are gone are closed")
    work.expect(server.alive(), came="the server has ended", expected="it goes on", cause=cause)


def expect_end(work: Submission, conn: Conn, most: int = 0) -> None:
    """The connection of one who was kicked ends, after so many bytes at most."""
    data = conn.read_to_end()
    work.expect(
        len(data) <= most, came=f"one who was kicked has got {len(data)} bytes, {most} at most were to come",
        expected="the end of the connection",
    )  # fmt: skip


@points(3, "kick")
def test_kick(work: Submission) -> None:
    """Five clients have spoken, and one kicks the others. Then she goes on, and kicks again, twice in one write."""
    with Server(18, env=PERTURB) as server:
        before = server.fd_count()
        with ExitStack() as stack:
            conns = [stack.enter_context(server.connect()) for _ in range(6)]
            for conn in conns:
                conn.ask("get", "k", expect=None)
            wait_until(lambda: server.fd_count() == before + 6, "six are connected")
            reply = conns[2].ask("kick")
            work.expect(
                reply == 5, came=f"with six clients connected, kick answered {reply}",
                expected="(int) 5: the others, and not the one who asks", cause="for whom does the command run?",
            )  # fmt: skip
            for i in (0, 1, 3, 4, 5):
                expect_end(work, conns[i])
            conns[2].ask("set", "k", "v", expect=None)
            conns[2].send(wire.request("kick") * 2 + wire.request("get", "k"))
            conns[2].recv(0)
            conns[2].recv(0)
            conns[2].recv(b"v")
        expect_alive(work, server, before, "is a connection freed twice?")


@points(4, "one batch")
def test_one_batch(work: Submission) -> None:
    """The server is stopped; thirty clients set a key each, one of them kicks, and new ones connect. It goes on. What
    was set before the kick is there, and what was not is not set any more."""
    n = 30
    with Server(18, env=PERTURB) as server:
        before = server.fd_count()
        for kicker in (0, 7, 29, 3, 15):
            with ExitStack() as stack:
                conns = [stack.enter_context(server.connect()) for _ in range(n)]
                for conn in conns:
                    conn.ask("get", "k", expect=None)
                with paused(server):
                    for i, conn in enumerate(conns):
                        conn.send(wire.request("kick") + wire.request("keys") if i == kicker else
                                  wire.request("set", f"{kicker}:{i}", "v"))  # fmt: skip
                    for _ in range(5):
                        stack.enter_context(server.connect()).send(GET)
                kicked = conns[kicker].recv()
                work.expect(
                    isinstance(kicked, int) and n - 1 <= kicked <= n + 4, came=f"kick answered {kicked!r}",
                    expected=f"an integer: {n - 1} others, and perhaps some of five who have just come",
                )  # fmt: skip
                there = conns[kicker].recv()
                for i, conn in enumerate(conns):
                    if i != kicker:
                        expect_end(work, conn, len(NIL))
                later = conns[kicker].ask("keys")
                assert isinstance(there, list) and isinstance(later, list)
                work.expect(
                    len(there) == len(later),
                    came=f"right after the kick there were {len(there)} keys, and later {len(later)}: some who had been"
                    " kicked were served after the kick",
                    expected="who is kicked is not served any more",
                    cause="there is an event for it in the batch: who looks whether it has been kicked?",
                )
            expect_alive(work, server, before, "was an event served whose connection was freed before?")


@points(3, "who waits for a turn")
def test_who_waits_for_a_turn(work: Submission) -> None:
    """Clients ask for long things, many times over, so that they wait for their turns; and are kicked."""
    with Server(18, env=PERTURB) as server:
        before = server.fd_count()
        for _ in range(3):
            with server.connect() as kicker, ExitStack() as stack:
                keys = long_request(kicker)
                kicker.ask("set", "big", b"b" * 50_000, expect=None)
                conns = [stack.enter_context(server.connect()) for _ in range(10)]
                for conn in conns:
                    conn.ask("get", "k", expect=None)
                with paused(server):
                    for i, conn in enumerate(conns):
                        conn.send(keys * 20 if i % 2 else wire.request("get", "big") * 20)
                    kicker.send(GET + wire.request("kick"))
                kicker.recv(None)
                kicker.recv(10)
                kicker.ask("get", "k", expect=None)
                for conn in conns:
                    conn.read_to_end()
            expect_alive(work, server, before, "in which lists may a connection be, when it is closed?")


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of descriptors that come back, of long requests, and of connections that go while they wait.
    """
    work.chapter_tests("same_turn or one_long_request or long_requests_take or gone_while or used_again")
