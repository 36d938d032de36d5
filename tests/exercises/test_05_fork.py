"""05-fork: each client has a process of its own, and nothing is left of those that have gone."""
from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import List, Tuple

from grading import Submission, points
from harness import Server, settings, wait_until

WORLD = b"world"


def as_chapter_4(work: Submission) -> None:
    """Puts the server where the tests of chapter 04 look for theirs."""
    folder = settings.build_dir() / "04"
    folder.mkdir(exist_ok=True)
    shutil.copy2(work.program("server"), folder / "server")


def children(pid: int) -> Tuple[List[int], List[int]]:
    """The processes below this one: those that run, and those that have ended and were not waited for."""
    below: dict[int, List[Tuple[int, str]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                state, parent = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[:2]
            except (OSError, ValueError):
                continue  # it has just gone
            below.setdefault(int(parent), []).append((int(name), state))
    found, waiting = [], [pid]
    while waiting:
        mine = below.get(waiting.pop(), [])
        found += mine
        waiting += [child for child, _ in mine]
    return [child for child, state in found if state not in "ZX"], [child for child, state in found if state in "ZX"]


def settles(work: Submission, server: Server, running: int, came: str, cause: str) -> None:
    """Waits until so many processes run below the server."""
    try:
        wait_until(lambda: len(children(server.pid)[0]) == running, "", 3)
    except AssertionError:
        left = len(children(server.pid)[0])
        work.fail(
            came=f"{came}: {left} process{'es' * (left != 1)} of the server's are left that run",
            expected=f"{running}",
            cause=cause,
        )


@points(3, "at the same time")
def test_at_the_same_time(work: Submission) -> None:
    """Twenty clients at once; every second one says nothing, the others speak in turn."""
    as_chapter_4(work)
    with work.count("fork") as counted, Server(4) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect(seconds=2)) for _ in range(20)]
        for _ in range(3):
            for conn in reversed(conns[1::2]):
                conn.ask("hello", expect=WORLD)
        settles(work, server, 20, "twenty clients are connected", "a process for each client, and no others")
        forks = counted["fork"]
    work.expect(forks == 20, came=f"twenty clients, and {forks} calls of fork()", expected="one for each client")


@points(3, "the end of a connection")
def test_end(work: Submission) -> None:
    """Clients end their output, or send a bad length, while another one stays. They must see the end, and their
    processes go."""
    as_chapter_4(work)
    with Server(4) as server, server.connect() as other:
        other.ask("other", expect=WORLD)
        for sent in (b"", b"\xff\xff\0\0", b"\5\0\0\0he"):
            with server.connect(seconds=2) as conn:
                conn.ask("hello", expect=WORLD)
                conn.send(sent)
                if sent[:1] != b"\xff":
                    conn.shutdown_write()
                try:
                    conn.expect_closed()
                except AssertionError:
                    work.fail(
                        came="the server is done with the connection, and the client's side of it is still open",
                        expected="the end", cause="who else has a copy of the connection?",
                    )
        settles(
            work, server, 1, "three clients have left, one is there", "what does a process do when its client has left?"
        )
        other.ask("other", expect=WORLD)


@points(3, "come and go")
def test_come_and_go(work: Submission) -> None:
    """Fifty clients, one after another, while one stays. Which processes and descriptors does the server have then?"""
    as_chapter_4(work)
    with Server(4) as server, server.connect() as other:
        other.ask("other", expect=WORLD)
        before = server.fd_count()
        for _ in range(50):
            with server.connect(seconds=2) as conn:
                conn.ask("hello", expect=WORLD)
        settles(
            work, server, 1, "fifty clients have come and gone, one is there",
            "what does a process do when its client has left?",
        )  # fmt: skip
        with server.connect(seconds=2) as conn:
            conn.ask("the next one", expect=WORLD)
        settles(work, server, 1, "all but one client have gone", "what does a process do when its client has left?")
        dead = len(children(server.pid)[1])
        work.expect(
            dead <= 10,
            came=f"{dead} processes have ended and are still in the table of processes",
            expected="a few at most",
            cause="who asks for the status of a process that has ended, and when?",
        )
        fds = server.fd_count()
        work.expect(
            fds <= before,
            came=f"the server had {before} descriptors, and {fds} after fifty clients",
            expected="not one more",
            cause="who closes the connection in the parent?",
        )
        other.ask("other", expect=WORLD)


@points(1, "fork() fails")
def test_fork_fails(work: Submission) -> None:
    """More clients than there may be processes. The server sends those away, and serves others when some have left."""
    as_chapter_4(work)
    with Server(4) as server, ExitStack() as stack:
        conns = []
        for _ in range(200):
            conn = stack.enter_context(server.connect(seconds=3))
            conn.send(conn.encode(["hello"]))
            try:
                conn.recv(WORLD)
            except AssertionError:
                break
            conns.append(conn)
        else:
            return  # processes do not run out here
        work.expect(
            server.alive() and conn.ended,
            came=f"with {len(conns)} clients, processes have run out; for the next one the server "
            + ("does nothing" if server.alive() else "ended"),
            expected="it is sent away",
        )
        for conn in conns[:20]:
            conn.close()
        settles(work, server, len(conns) - 20, f"there were {len(conns)} clients, twenty have left", "")
        with server.connect(seconds=2) as conn:
            conn.send(b"")
        with server.connect(seconds=2) as conn:
            conn.ask("room again?", expect=WORLD)


@points(3, "the tests of chapter 04")
def test_chapter(work: Submission) -> None:
    """The tests of chapter 04: framing, one client after another, and clients that leave."""
    as_chapter_4(work)
    work.chapter_tests("test_new and 04- or one_client_after or get_their_turn or leaves_does_no_harm", chapter=4)
