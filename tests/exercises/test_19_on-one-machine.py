"""19-on-one-machine: replies are sent at the end of each turn, from buffers on loan."""
from __future__ import annotations

import re
from contextlib import ExitStack

from cases.talk import Hold, answered, asked, paused, readable, say
from grading import Submission, points
from harness import Server, wait_until

GONE = ("send_list", "unsent", "k_unsent", "end_turns", "turn_work")


@points(3, "in its turn")
def test_in_its_turn(work: Submission) -> None:
    """Twenty clients ask for little, all at once, and one more does. While the server reads what she wants, all others
    have replies, also the one who has asked for twenty of 10 KB: the first few, as they take several turns."""
    hold, n, value = Hold(), 20, b"v" * 10_000
    with Server(19, env={**hold.env, "IDLE_TIMEOUT_MS": "0"}) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(n)]
        last = stack.enter_context(server.connect())
        conns[0].ask("set", "v", value, expect=None)
        for conn in [last, *conns, conns[0]]:  # epoll may report first whom it has reported last
            say(conn)
        with paused(server):
            conns[0].send(asked(19, "get", "v") * 20)
            for conn in conns[1:]:
                conn.send(asked(19, "get", "k"))
            last.send(asked(19, "get", hold.WORD))
        wait_until(hold.is_held, "the server reads the last request of the batch")
        early = sum(map(readable, conns))
        hold.release()
        conns[0].expect_bytes(answered(19, value) * 20)
        for conn in [*conns[1:], last]:
            conn.expect_bytes(answered(19, None))
        work.expect(
            early == n, came=f"while the last request of a round was read, {early} of {n} clients had replies",
            expected="all of them, as each has had its turn", cause="what do the replies of a turn wait for?",
        )  # fmt: skip


@points(1, "what is gone")
def test_gone(work: Submission) -> None:
    """None of the names that belong to the list are there any more."""
    code = "\n".join(work.code(f"src/{name}") for name in ("server.h", "conn.c", "main.c", "turn.c"))
    left = [name for name in GONE if re.search(rf"\b{name}\b", code)]
    work.expect(not left, came=f"src/ still has {', '.join(left)}", expected="none of these names",
                cause="what does a turn need that ends at once?")  # fmt: skip


@points(4, "memory")
def test_memory(work: Submission) -> None:
    """The chapter's tests of silent connections that were busy, and of what is left over."""
    work.chapter_tests("own_nothing or left_over_is_kept")


@points(2, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of how connections end, of slow readers, and of turns."""
    work.chapter_tests("gone_while or same_round or becomes_short or more_to_do or 06-half or told_of_changes")
