"""19-hunt-crowd: what is left over of a request is kept, whatever stood in front of it, and no more than that."""
from __future__ import annotations

from contextlib import ExitStack

from cases.memory import Memory
from grading import Submission, points
from harness import Server, wait_until, wire

NIL = b"\1\0\0\0\0"


@points(3, "cuts")
def test_cuts(work: Submission) -> None:
    """Five requests go out in two writes, cut at every place: in the first one, between two, in the last."""
    words = [["set", "a", "1"], ["get", "a"], ["set", "a", "22"], ["get", "a"], ["del", "a"]]
    data = b"".join(wire.request(*each) for each in words)
    with Server(19) as server:
        for cut in range(1, len(data)):
            with server.connect(seconds=2) as conn, server.connect() as other:
                conn.send(data[:cut])
                other.ask("get", "other", expect=None)
                conn.send(data[cut:])
                for i, reply in enumerate((None, b"1", None, b"22", 1)):
                    try:
                        conn.recv(reply)
                    except AssertionError:
                        work.fail(
                            came=f"five requests were cut behind byte {cut} of {len(data)}; reply {i + 1} did not come",
                            expected="an answer to each of them", cause="what stands in front of what is left over?",
                        )  # fmt: skip
                        raise


@points(2, "many in the middle")
def test_many_in_the_middle(work: Submission) -> None:
    """A hundred clients have each sent some requests and the beginning of one more. Then all send the rest."""
    with Server(19) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect(seconds=3)) for _ in range(100)]
        requests = [wire.request("set", f"key{i}", f"value {i} " * (i * 7)) for i in range(100)]
        for i, conn in enumerate(conns):
            conn.send(wire.request("get", "nothing") * (i % 5) + requests[i][: 5 + i])
            conn.expect_bytes(NIL * (i % 5))
        for i, conn in enumerate(conns):
            conn.send(requests[i][5 + i :] + wire.request("get", f"key{i}"))
        for i, conn in enumerate(conns):
            conn.recv(None)
            conn.recv((f"value {i} " * (i * 7)).encode())


@points(2, "memory")
def test_memory(work: Submission) -> None:
    """A hundred clients were busy and are idle; a hundred have sent some requests, and ten bytes of the next one."""
    memory, n = Memory(), 100
    for half, who in ((b"", "idle"), (wire.request("get", "nothing")[:10], "in the middle of a request")):
        with Server(19, env={**memory.env, "IDLE_TIMEOUT_MS": "0"}) as server, ExitStack() as stack:
            other = stack.enter_context(server.connect())
            other.ask("set", "large", b"x" * 100_000, expect=None)
            before, fds = memory.bytes, server.fd_count()
            for _ in range(n):
                conn = stack.enter_context(server.connect())
                conn.send(wire.request("set", "large", b"x" * 100_000) + wire.request("get", "nothing") * 300 + half)
                conn.expect_bytes(NIL * 301)
            other.ask("get", "nothing", expect=None)
            wait_until(lambda: server.fd_count() == fds + n, "all are connected")
            each = (memory.bytes - before) // n
            work.expect(
                each < 2000, came=f"{n} clients who are {who} cost {each} bytes each",
                expected="some hundred bytes each", cause="whose memory is it when the turn is over?",
            )  # fmt: skip


@points(1, "the chapter's tests")
def test_chapter(work: Submission) -> None:
    """The chapter's tests of messages in pieces, and of what is left over."""
    work.chapter_tests("04- or left_over or own_nothing")
