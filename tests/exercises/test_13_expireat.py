"""13-expireat: a deadline that is given as a point in time of the wall clock."""
from __future__ import annotations

from fake_clock import Clock
from grading import Submission, points
from harness import Conn, Err, wire

INT64_MAX = 2**63 - 1


def expect_left(work: Submission, clock: Clock, conn: Conn, key: str, at: int, tried: str) -> int:
    """Asks pttl of a key that goes at a point in time; returns the answer."""
    left = at * 1000 - clock.wall_ms
    came = conn.ask("pttl", key)
    work.expect(
        isinstance(came, int) and left <= came <= left + 1000,
        tried=tried,
        came=f"pttl {key}: {wire.show_value(came)}",
        expected=f"{left} ms, or up to a second more",
        cause="what is the time to live of a key that goes at a point in time? Which clock tells what time it is now?",
    )
    assert isinstance(came, int)
    return came


@points(3, "near and far")
def test_near_and_far(work: Submission) -> None:
    """Keys get deadlines in two seconds, in a day, in a hundred years, at different fractions of a second."""
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        conn.ask("expireat", "none", str(clock.wall_ms // 1000 + 100), expect=0)
        for ms in (0, 1, 250, 400, 348):
            clock.step(ms)
            for ahead in (2, 60, 86_400, 3_155_760_000, 10**12):
                at = clock.wall_ms // 1000 + ahead
                conn.ask("set", "k", "v", expect=None)
                conn.ask("expireat", "k", str(at), expect=1)
                expect_left(
                    work, clock, conn, "k", at, f"expireat k {at}, when the wall clock says {clock.wall_ms / 1000:.3f}"
                )
        for ms in (0, 1, 500, 999):
            clock.set_wall((ms - clock.wall_ms) % 1000)
            at = clock.wall_ms // 1000 + 3
            conn.ask("set", "k", "v", expect=None)
            conn.ask("expireat", "k", str(at), expect=1)
            what = f"expireat k {at}, when the wall clock says {clock.wall_ms / 1000:.3f}"
            left = expect_left(work, clock, conn, "k", at, what)
            clock.step(left)
            conn.ask("get", "k", expect=b"v")
            clock.step(1)
            conn.ask("get", "k", expect=None)
            work.expect(
                clock.wait == -1, came=f"when the key has gone the server means to wait {clock.wait} ms",
                expected="for ever",
            )  # fmt: skip


@points(2, "now and the past")
def test_the_past(work: Submission) -> None:
    """Points in time that have passed remove the key: now, a second ago, 1970, long before."""
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        now = clock.wall_ms // 1000
        for at in (now, now - 1, 1, 0, -1, -now, -(2**31), -(2**62), -INT64_MAX, -INT64_MAX - 1):
            for words in (("set", "k", "v"), ("zadd", "k", "1", "n")):
                for earlier in (False, True):
                    conn.ask(*words)
                    if earlier:
                        conn.ask("expire", "k", "100", expect=1)
                    came = conn.ask("expireat", "k", str(at))
                    there = conn.ask("keys")
                    work.expect(
                        came == 1 and there == [],
                        tried=f"expireat k {at}, when it is {now} seconds since 1970, and then keys",
                        came=f"{wire.show_value(came)}, and {wire.show_value(there)}",
                        expected="(int) 1, and the key is gone",
                        cause="is the point in time compared before anything is multiplied?",
                    )
                    conn.ask("del", "k", expect=0)
            conn.ask("expireat", "k", str(at), expect=0)


@points(2, "what is no point in time")
def test_no_point_in_time(work: Submission) -> None:
    """Numbers that do not fit, and what is no integer: an error, and nothing has changed."""
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        conn.ask("set", "k", "v", expect=None)
        conn.ask("pexpire", "k", "5000000", expect=1)
        now = clock.wall_ms // 1000
        far = (INT64_MAX, INT64_MAX - 1, INT64_MAX // 1000 + 2 * 10**9, 2**64 // 1000 + now + 5, 10**17)
        for at in (
            *map(str, far), "", "x", "1.5", "1e9", " 1", "9223372036854775808", "-9223372036854775809", "1700000000x"
        ):
            for key in ("k", "none"):
                came = conn.ask("expireat", key, at)
                left = conn.ask("pttl", key)
                if at[:1].isdigit() and at.isdigit() and len(at) > 15 and key == "none" and came == 0:
                    continue  # there is nothing that could get this deadline
                work.expect(
                    came == Err(wire.ERR_ARG) and left == (5_000_000 if key == "k" else -2),
                    tried=f"expireat {key} {at!r}, and then pttl {key}",
                    came=f"{wire.show_value(came)}, and {wire.show_value(left)}",
                    expected=f"an error of code {wire.ERR_ARG}, and (int) {5_000_000 if key == 'k' else -2} as before",
                    cause="does every step fit that is made with the number, the difference and the product?",
                )
        for words in (("expireat", "k"), ("expireat", "k", "1700000000", "x")):
            conn.ask(*words, expect=Err(wire.ERR_ARG))


@points(2, "somebody sets the clock")
def test_clock_is_set(work: Submission) -> None:
    """A key gets a deadline in 100 seconds. Then the wall clock is set, forth by an hour and back by a day."""
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        for ahead in (3_600_000, -86_400_000):
            at = clock.wall_ms // 1000 + 100
            conn.ask("set", "k", "v", expect=None)
            conn.ask("expireat", "k", str(at), expect=1)
            left = expect_left(
                work, clock, conn, "k", at, f"expireat k {at}, when the wall clock says {clock.wall_ms / 1000:.3f}"
            )
            clock.set_wall(ahead)
            came = conn.ask("pttl", "k")
            work.expect(
                came == left,
                tried=f"the wall clock is set by {ahead // 3_600_000} hours, then pttl k",
                came=wire.show_value(came),
                expected=f"(int) {left}, as before",
                cause="once the command has been run, the wall clock is not asked any more",
            )
            clock.step(left)
            conn.ask("get", "k", expect=b"v")
            clock.step(1)
            conn.ask("get", "k", expect=None)
            at = clock.wall_ms // 1000 + 10
            conn.ask("set", "k", "v", expect=None)
            conn.ask("expireat", "k", str(at), expect=1)
            expect_left(work, clock, conn, "k", at, "expireat, after the clock was set")
            conn.ask("del", "k", expect=1)


@points(1, "a deadline as any other")
def test_as_any_other(work: Submission) -> None:
    """persist, set and expire after expireat; sorted sets; the chapter's tests of far deadlines."""
    with Clock(work) as clock, clock.server(IDLE_TIMEOUT_MS=0) as server, server.connect() as conn:
        at = str(clock.wall_ms // 1000 + 50)
        for words in (("set", "k", "v"), ("zadd", "k", "1", "n")):
            conn.ask(*words)
            conn.ask("EXPIREAT", "k", at, expect=1)
            conn.ask("persist", "k", expect=1)
            conn.ask("pttl", "k", expect=-1)
            conn.ask("expireat", "k", at, expect=1)
            conn.ask("pexpire", "k", "123456", expect=1)
            conn.ask("pttl", "k", expect=123456)
            conn.ask("set", "k", "w", expect=None)
            conn.ask("pttl", "k", expect=-1)
            conn.ask("del", "k", expect=1)
    work.chapter_tests("far_deadlines or deadlines_that_do_not_fit or zero_or_less_deletes")
