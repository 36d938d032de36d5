"""15-stats: what has happened since the start, counted by a file that owns the counters."""
from __future__ import annotations

from typing import List

from cases.files import calls_down, shared_state
from grading import Submission, points
from harness import Conn, Err, Server, wait_until
from many_files import objects, order


def stats(conn: Conn) -> List[int]:
    came = conn.ask("stats")
    if not isinstance(came, list) or len(came) != 3:
        conn.ask("stats", expect=[1, 1, 0])  # fails, and says what came
    return came  # type: ignore[return-value]


@points(2, "requests")
def test_requests(work: Submission) -> None:
    """Requests of two clients, alone and in a pipeline, some of them errors; `stats` in between."""
    answered = 0
    with Server(15) as server, server.connect() as conn, server.connect() as other:

        def look(asking: Conn, tried: str) -> None:
            nonlocal answered
            came = stats(asking)[2]
            work.expect(
                came == answered, tried=tried, came=f"{came} requests", expected=f"{answered} requests",
                cause="is each counted once, whoever sends it, and `stats` itself only when it has been answered?",
            )  # fmt: skip
            answered += 1

        look(conn, "`stats` is the first request of all")
        look(conn, "`stats` for the second time")
        conn.ask("set", "k", "v", expect=None)
        answered += 1
        look(other, "`set`, then another client asks")
        other.pipeline([("get", "k")] * 500)
        answered += 500
        look(conn, "500 `get` in a pipeline")
        for words in (["no-such-command"], ["get"], ["zadd", "k", "1", "n"], ["expire", "k", "x"]):
            conn.ask(*words)
            answered += 1
        look(other, "four requests that are answered with errors")
        conn.ask("stats", "now", expect=Err(4))
        answered += 1
        look(other, "`stats` with an argument, which it does not have")
        with server.connect() as bad:
            bad.send(b"\xff" * 8)
            bad.expect_closed()
        with server.connect() as half:
            half.send(b"\x20\0\0\0\x01")
        look(conn, "a bad message, and one that never came whole")


@points(3, "connections")
def test_connections(work: Submission) -> None:
    """Connections come, and go: the client leaves, sends nonsense, is reset, is silent for too long."""
    with Server(15, env={"IDLE_TIMEOUT_MS": "700"}) as server:
        accepted = 0

        def look(conn: Conn, opened: int, tried: str) -> None:
            def there() -> bool:
                return stats(conn)[:2] == [accepted, opened]

            try:
                wait_until(there, "the counts", 2)
            except AssertionError:
                came = stats(conn)
                work.fail(
                    tried=tried, came=f"{came[0]} accepted, {came[1]} open",
                    expected=f"{accepted} accepted, {opened} open",
                    cause="which functions do all beginnings and all ends of connections go through?",
                )  # fmt: skip

        with server.connect() as conn:
            accepted += 1
            look(conn, 1, "one client, which asks")
            others = [server.connect() for _ in range(5)]
            accepted += 5
            look(conn, 6, "five more connect and say nothing")
            for each in others[:2]:
                each.close()
            look(conn, 4, "two of them leave")
            others[2].send(b"\xff" * 8)
            others[2].expect_closed()
            others[2].close()
            look(conn, 3, "one sends nonsense and is closed")
            others[3].reset()
            look(conn, 2, "one ends with a reset")
            look(conn, 1, "the last one is silent for longer than IDLE_TIMEOUT_MS, which is 700")


@points(2, "who owns the numbers")
def test_owner(work: Submission) -> None:
    """The variables of each file, as nm shows them in the object files."""
    found = objects(work)
    work.expect("stats.c" in found, came="there is no src/stats.c", expected="a file that owns the counters")
    shared = shared_state(found)
    work.expect(
        not shared, came=f"every file can reach {', '.join(shared)}", expected="state that only its own file can reach",
        cause="a variable without `static` can be declared and changed anywhere",
    )  # fmt: skip
    own = ", ".join(sorted(found["stats.c"].own)) or "nothing"
    work.expect(own != "nothing", came="stats.c has no variable", expected="the counters, in the file that counts")
    for file, of in found.items():
        twice = of.own & found["stats.c"].own if file != "stats.c" else set()
        work.expect(
            not twice, came=f"stats.c and {file} each have a variable {', '.join(sorted(twice))}",
            expected=f"one, in stats.c, which has {own}", cause="what a header defines, each file that includes it has",
        )  # fmt: skip


@points(2, "who calls whom")
def test_order(work: Submission) -> None:
    """What each file needs of others, as nm shows it, and the order of the files in server.h."""
    names = order(work)
    head = "server.h has no heading `// stats.c`"
    work.expect("stats.c" in names, came=head, expected="its functions for others, below its name")
    wrong = calls_down(objects(work), names)
    work.expect(
        not wrong, came="; ".join(wrong), expected="a file needs only those that stand above it in server.h",
        cause="a file that is called from all sides stands above them, and then it can call none of them",
    )  # fmt: skip


@points(1, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests: random commands, connections that renew their time."""
    work.chapter_tests("15-same or 07-random_commands_pipelined")
