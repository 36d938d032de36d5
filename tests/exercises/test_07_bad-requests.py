"""07-bad-requests: a lie about a length brings what another client has sent, from a server that believes it."""
from __future__ import annotations

import random

from grading import Submission, points
from harness import Status, wait_until

DONE = Status(0, b"")


def hexadecimal(rng: random.Random, n: int) -> str:
    """Digits that nobody can know."""
    return "".join(rng.choice("0123456789abcdef") for _ in range(n))


def attack(work: Submission, weak: bool, before: int, behind: int) -> None:
    """A client leaves a secret in a value, `before` and `behind` bytes around it; then attack.py may look for it."""
    which = "a server that believes lengths" if weak else "the server of the chapter"
    rng = random.SystemRandom()
    key, secret = hexadecimal(rng, 16), hexadecimal(rng, 32)
    value = "." * before + f"secret={secret}" + "." * behind
    files = {"request.h": work.starter("request.h")} if weak else {}
    with work.stage(7, files=files).server() as server:
        before_it = server.fd_count()
        with server.connect() as victim:
            victim.ask("set", key, value, expect=DONE)
        wait_until(lambda: server.fd_count() == before_it, "the server closes the connection of the client before")
        ran = work.run(["python3", work.path / "attack.py", str(server.port)], seconds=10)
        tried = (
            f"attack.py against {which}; the value of the client before has {len(value)} bytes, {before} of them in"
            " front of `secret=`"
        )
        last = "".join(f"\n{line}" for line in ran.err.splitlines()[-1:])
        work.expect(
            ran.status == 0, tried=tried,
            came=f"it ended with exit status {ran.status}" + f", and said last{last}" * bool(last),
            expected="a line on standard output, and exit status 0",
            cause="what does a server do with a request that it does not understand, and for what does it wait?",
        )
        said = ran.out.strip()
        wanted = secret if weak else "nothing"
        work.expect(
            said == wanted,
            tried=tried,
            came=f"it printed {said[:100]!r}",
            expected=f"the 32 characters behind `secret=`, here {wanted}"
            if weak
            else "nothing: this server does not give it away",
            cause="which bytes has the server taken for your value, how many, and what stood there?",
        )
        work.expect(
            server.alive(), tried=tried, came="the server is gone", expected="it is still there",
            cause="how much fits into a reply?",
        )  # fmt: skip
        with server.connect() as other:
            for word in ("after", "the", "attack"):
                other.ask("set", word, word * 500, expect=DONE)
                other.ask("get", word, expect=Status(0, word.encode() * 500))
            other.ask("get", key, expect=Status(0, value.encode()))


@points(4, "the secret of another one")
def test_secret(work: Submission) -> None:
    """A client has stored a secret and has left. Then attack.py runs against the server, which believes lengths."""
    attack(work, True, 60, 0)


@points(2, "other secrets")
def test_others(work: Submission) -> None:
    """The same with long and short values, and with the secret at several places of them."""
    for before, behind in ((40, 3000), (3500, 300), (600, 0)):
        attack(work, True, before, behind)


@points(3, "the server of the chapter")
def test_strong(work: Submission) -> None:
    """The same against a server that believes lengths, and then against that of the chapter, which compares them."""
    attack(work, True, 60, 0)
    for before, behind in ((60, 0), (3500, 300)):
        attack(work, False, before, behind)
