"""27-break-the-tail: one bit of a log, and a server that looks at no sum tells another value, or loses one."""
from __future__ import annotations

import random
import re
import shutil
from pathlib import Path
from typing import Dict, NamedTuple, Tuple

from grading import Submission, points
from harness import Server
from harness.resp import OK
from layout import ROOT

NAME = "appendonlydir/appendonly.aof.1.incr.aof"
Keys = Dict[Tuple[int, str], str]  # database and name: value


def settings(folder: Path) -> Dict[str, str]:
    return {"DIR": str(folder), "APPENDONLY": "yes", "APPENDFSYNC": "always", "IDLE_TIMEOUT_MS": "0"}


def for_all(folder: Path) -> Path:
    """Everybody may write into this folder, and into what is in it."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    return folder


class Made(NamedTuple):
    """The log of a server that was ended properly."""

    folder: Path
    early: Keys  # what was set before the receipt
    balance: str


_made: Dict[Path, Made] = {}  # once for all tests


def a_log(work: Submission) -> Made:
    """Has a server write a log. The form of it is the same for both servers."""
    if work.scratch not in _made:
        folder, chance, keys = work.shared / "made", random.Random(27), {}  # type: Path, random.Random, Keys
        folder.mkdir()
        with Server(27, env=settings(for_all(folder))) as server, server.connect() as conn:
            for db, name in ((0, "name"), (0, "balance"), (2, "balance"), (0, "balance"), (2, "balance"), (0, "town")):
                keys[db, name] = str(chance.randrange(10_000, 90_000))
                conn.ask("select", str(db), expect=OK)
                conn.ask("set", name, keys[db, name], expect=OK)
            conn.ask("set", "receipt", "paid", expect=OK)
            conn.ask("set", "last", keys[0, "balance"], expect=OK)
            server.stop()
        _made[work.scratch] = Made(folder, keys, keys[0, "balance"])
    return _made[work.scratch]


def flip(work: Submission, what: str) -> Path:
    """Runs flip.py on a copy of the log, which must differ in one bit then; where the copy is."""
    made, number = a_log(work), len(list(work.shared.iterdir()))
    folder = work.shared / f"{what}-{number}"
    shutil.copytree(made.folder, folder)
    log = for_all(folder) / NAME
    before = log.read_bytes()
    work.run_ok(["python3", work.path / "flip.py", what, log])
    after = log.read_bytes()
    work.expect(
        len(before) == len(after), came=f"the log has {len(after)} bytes, not {len(before)}", expected="it is as long",
    )  # fmt: skip
    bits = sum(bin(one ^ other).count("1") for one, other in zip(before, after))
    work.expect(bits == 1, came=f"{bits} bits of the log are others", expected="one bit")
    return folder


def weak_has(work: Submission, folder: Path) -> Keys:
    """The keys of the weak server, with this log."""
    with Server(27, env=settings(folder)) as server, server.connect() as conn:
        end = re.compile("Ready to accept connections|Bad file format|denied")
        line = server.wait_line(end)
        work.expect("Ready" in line, came=f"the weak server does not start: {line}",
                    expected="it starts, and says nothing", cause="which of its bytes does it look at?")  # fmt: skip
        keys: Keys = {}
        for db in (0, 2):
            conn.ask("select", str(db), expect=OK)
            for name in ("name", "town", "balance", "receipt", "last"):
                value = conn.ask("get", name)
                if value is not None:
                    keys[db, name] = bytes(value).decode("utf-8", "replace")  # type: ignore[call-overload]
    return keys


def deceive(work: Submission, what: str) -> Path:
    """flip.py must deceive the weak server; where a log is that was flipped in the same way, and not loaded yet."""
    made, found = a_log(work), weak_has(work, flip(work, what))
    lost = [name for name in made.early if name != (0, "balance") and found.get(name) != made.early[name]]
    work.expect(
        not lost, tried=what, came="".join(f"{name} of database {db}, which was set before receipt, is"
                                           f" {found.get((db, name), 'gone')}\n" for db, name in lost).rstrip(),
        expected="all that was set before receipt is as it was, but for the balance where that is asked for",
        cause="what else does the weak server drop, or read otherwise?",
    )  # fmt: skip
    balance = found.get((0, "balance"), "gone")
    if what == "value":
        rest = {name: found.get((0, name)) for name in ("receipt", "last")}
        work.expect(
            balance != made.balance and balance.isdigit(), tried=what,
            came=f"balance is {'still ' * (balance == made.balance)}{balance}",
            expected=f"another number than {made.balance}", cause="which place in the log has the last word about it?",
        )  # fmt: skip
        work.expect(rest == {"receipt": "paid", "last": made.balance}, tried=what, came=f"{rest}",
                    expected="all keys but balance are as they were")  # fmt: skip
    else:
        work.expect(balance == made.balance, tried=what, came=f"balance, which was set before receipt, is {balance}",
                    expected=made.balance)  # fmt: skip
        work.expect(
            (0, "receipt") not in found, tried=what, came=f"receipt is still there: {found.get((0, 'receipt'))}",
            expected="it is gone", cause="from where on does the weak server drop the log?",
        )  # fmt: skip
    return flip(work, what)


@points(3, "another value")
def test_value(work: Submission) -> None:
    """flip.py value, then the weak server with that log."""
    deceive(work, "value")


@points(3, "a key less")
def test_lose(work: Submission) -> None:
    """flip.py lose, then the weak server with that log."""
    deceive(work, "lose")


@points(3, "the server of the chapter is not deceived")
def test_strong(work: Submission) -> None:
    """Both logs, and the server of the chapter with them."""
    files = {f"src/{path.name}": path.read_text(encoding="utf-8") for path in (ROOT / "chapters/27/src").iterdir()}
    build = work.variant(programs=["server"], files=files, flags=["-O0", "-g0"])  # it has little to do
    for what in ("value", "lose"):
        folder = deceive(work, what)
        before = (folder / NAME).read_bytes()
        ran = build.run("server", env={**settings(folder), "PORT": "0"})
        work.expect(
            ran.status == 1 and "Bad file format" in ran.err, tried=f"the server of the chapter, after {what}",
            came=f"exit status {ran.status}, and it said\n{ran.err[-300:]}",
            expected="exit status 1, and a line that says which byte is wrong",
        )  # fmt: skip
        work.expect((folder / NAME).read_bytes() == before, tried=f"the server of the chapter, after {what}",
                    came="it has changed the log", expected="the log is as it was")  # fmt: skip
