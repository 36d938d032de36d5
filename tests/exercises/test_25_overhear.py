"""25-overhear: an attack that hears, through a queue that borrows, what another client stores."""
from __future__ import annotations

import random
import string
import threading
from typing import List, NamedTuple

from grading import Build, Submission, points
from harness import Server
from harness.resp import OK

MOST_SENT = 4_000


class Heard(NamedTuple):
    """What attack.py has printed, and what was to be heard."""

    printed: str
    number: str


def others(server: Server, key: str, number: str, done: threading.Event) -> None:
    """The other program: stores the number every 20 ms, and deletes it."""
    with server.connect() as conn:
        while not done.wait(0.02):
            conn.pipeline([("set", key, number), ("del", key)], [OK, 1])


_weak: List[Build] = []  # built once for all tests


def weak_server(work: Submission) -> Build:
    """The server whose queue borrows: the starter's, whatever has become of it."""
    if not _weak:
        _weak.append(work.stage(25, work.exercise.path("starter").read_text(encoding="utf-8")))
    return _weak[0]


def attack(work: Submission, build: Build, tried: str) -> Heard:
    """Runs attack.py beside the other program."""
    key = "".join(random.choices(string.ascii_lowercase, k=random.randint(3, 12)))
    number, done = f"{random.randrange(10 ** 6):06}", threading.Event()
    with build.server(env={"IDLE_TIMEOUT_MS": "0"}) as server:
        other = threading.Thread(target=others, args=(server, key, number, done))
        other.start()
        try:
            ran = work.run(["python3", work.path / "attack.py", str(server.port)], seconds=6)
        finally:
            done.set()
            other.join()
        work.expect(server.alive(), tried=tried, came="the server is gone", expected="it is still there")
    last = "".join(f"\n{line}" for line in ran.err.splitlines()[-1:])
    work.expect(
        ran.status == 0, tried=tried,
        came=f"it ended with exit status {ran.status}" + f", and said last{last}" * bool(last),
        expected="exit status 0, against either server", cause="does it wait for something that does not come?",
    )  # fmt: skip
    return Heard(ran.out.strip(), number)


def hear(work: Submission, build: Build) -> None:
    """It must hear the number."""
    heard = attack(work, build, "attack.py against the server whose queue borrows")
    work.expect(
        heard.printed == heard.number, tried="attack.py against the server whose queue borrows",
        came=f"it printed {heard.printed!r}", expected=f"the number that the other program stores, {heard.number}",
        cause="to which bytes does the argument in the queue point, and what is there when exec comes?",
    )  # fmt: skip


@points(5, "the number")
def test_number(work: Submission) -> None:
    """Three times, with a new key and a new number: attack.py against the server whose queue borrows."""
    build = weak_server(work)
    for _ in range(3):
        hear(work, build)


@points(2, "at a small price")
def test_price(work: Submission) -> None:
    """attack.py against a server to which nobody else speaks. How many bytes does the server read?"""
    build = weak_server(work)
    hear(work, build)
    with work.count("read_bytes") as counted, build.server(env={"IDLE_TIMEOUT_MS": "0"}) as server:
        work.run(["python3", work.path / "attack.py", str(server.port)], seconds=6)
        sent = counted["read_bytes"]
    work.expect(
        sent <= MOST_SENT, came=f"the server has read {sent} bytes from you",
        expected=f"{MOST_SENT} bytes at most", cause="how long must the argument be that you queue?",
    )  # fmt: skip


@points(3, "the server of chapter 25")
def test_strong(work: Submission) -> None:
    """attack.py against the weak server, and then against that of the chapter, whose queue copies."""
    hear(work, weak_server(work))
    heard = attack(work, work.stage(25), "attack.py against the server of chapter 25")
    work.expect(
        heard.printed == "", came=f"it printed {heard.printed!r}",
        expected="nothing: that server has told you nothing", cause="where is the number from?",
    )  # fmt: skip
