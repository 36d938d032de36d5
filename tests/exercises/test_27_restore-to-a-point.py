"""27-restore-to-a-point: of a log another one that ends before a command, in the form that the server reads."""
from __future__ import annotations

import re
from pathlib import Path
from typing import List, Optional

from batches import Command, Log, batches
from grading import Submission, points
from harness import Server
from harness.resp import OK

SELECT = [b"SELECT", b"0"]


def words(text: str) -> Command:
    return text.encode().split()


def restore(work: Submission, data: bytes, name: str = "flushall") -> Optional[bytes]:
    """What restore.py makes of a log; None where it says that there is no such command."""
    old, new = work.shared / "from.aof", work.shared / "to" / "to.aof"
    new.parent.mkdir(exist_ok=True)
    new.parent.chmod(0o777)
    if new.exists():
        new.unlink()
    old.write_bytes(data)
    ran = work.run(["python3", work.path / "restore.py", old, new, name])
    work.expect(
        ran.status in (0, 1) and "Traceback" not in ran.err,
        came=f"exit status {ran.status}, and it said\n{ran.err[-300:]}",
        expected="exit status 0, or 1 where there is no such command",
    )  # fmt: skip
    work.expect(new.exists() == (ran.status == 0), came=f"exit status {ran.status}, and TO is"
                f" {'there' if new.exists() else 'not there'}", expected="TO is there if the status is 0")  # fmt: skip
    return new.read_bytes() if ran.status == 0 else None


def shown(commands: List[Command]) -> str:
    return "\n".join(b" ".join(each).decode("utf-8", "backslashreplace") for each in commands) or "nothing"


def expect(work: Submission, log: Log, right: List[Command], said: str, name: str = "flushall") -> bytes:
    """It must make a log of these commands; a SELECT at the end is neither here nor there."""
    made = restore(work, log.data, name)
    work.expect(made is not None, tried=said, came=f"it says that there is no {name}", expected="TO")
    assert made is not None
    found = list(batches(made))
    whole = found[-1].end if found else 0
    work.expect(
        whole == len(made), tried=said, came=f"the batch at byte {whole} of TO is not whole; TO has {len(made)} bytes",
        expected="batches that are whole, up to the end",
        cause="of which bytes is the sum, and which length is in front?",
    )  # fmt: skip
    late = [each for each in found if each.synced > each.begin]
    work.expect(not late, tried=said, came="a batch says that more was on the disk than is in front of it",
                expected="what FROM says, at most")  # fmt: skip
    commands = [words for each in found for words in each.commands]
    while commands and commands[-1][0].upper() == b"SELECT":
        commands.pop()
    work.expect(
        commands == right, tried=said, came=f"TO has\n{shown(commands)}", expected=shown(right),
        cause="where is the last time that it was done, and what is in front of it?",
    )  # fmt: skip
    return made


@points(3, "in the middle of a log")
def test_middle(work: Submission) -> None:
    """A flushall in a batch of its own, with others in front and behind; and two of them."""
    log = Log()
    log.add(SELECT, words("SET a 1"))
    log.mark()
    log.add(SELECT, words("flushall"))
    log.add(SELECT, words("SET c 3"))
    log.mark()
    expect(work, log, [SELECT, words("SET a 1")], "SET a, flushall, SET c, each in its batch")
    right = [SELECT, words("SET a 1"), SELECT, words("flushall"), SELECT, words("SET c 3"), words("SET b 2")]
    log.add(words("SET b 2"))
    log.add(SELECT, words("FlushAll"))
    log.mark()
    expect(work, log, right, "the same, then SET b and a second flushall")
    first = Log()
    first.add(SELECT, words("flushall"))
    first.add(SELECT, words("SET a 1"))
    expect(work, first, [], "flushall is the first of all")


@points(3, "in a batch with others")
def test_batch(work: Submission) -> None:
    """A flushall between the commands of a batch, in a transaction, and its name where it is a value."""
    log = Log()
    log.add(SELECT, words("SET a 1"))
    log.add(words("SELECT 3"), words("SET c 3"), words("flushall"), words("SET d 4"))
    log.add(SELECT, words("SET e 5"))
    right = [SELECT, words("SET a 1"), words("SELECT 3"), words("SET c 3")]
    expect(work, log, right, "a batch of SET c, flushall, SET d")
    value = [b"SET", b"v", b"*1\r\n$8\r\nflushall\r\n"]
    log = Log()
    log.add(SELECT, words("MULTI"), words("SET a 1"), words("EXEC"), words("SET b 2"), words("MULTI"), words("SET c 3"),
            words("FLUSHALL"), words("SET d 4"), words("EXEC"), words("SET e 5"))  # fmt: skip
    right = [SELECT, words("MULTI"), words("SET a 1"), words("EXEC"), words("SET b 2")]
    expect(work, log, right, "a batch with two transactions, and flushall in the second one")
    log = Log()
    log.add(SELECT, words("MULTI"), words("SET a 1"), words("EXEC"), words("SET d 4"), words("flushall"))
    log.add(SELECT, value, words("SET flushall 1"), words("DEL flushall"))
    right = [SELECT, words("MULTI"), words("SET a 1"), words("EXEC"), words("SET d 4")]
    expect(work, log, right, "flushall, then a batch in which it is a key, and part of a value")
    expect(work, log, [*right, words("flushall"), SELECT, value, words("SET flushall 1")], "the same, for del", "del")


@points(2, "torn, or not there")
def test_torn(work: Submission) -> None:
    """A log whose end is torn, a command that is not there, or only in what is torn."""
    log = Log()
    log.add(SELECT, words("SET a 1"))
    log.add(SELECT, words("flushdb"))
    whole = log.data
    log.add(SELECT, words("SET b 2"), words("flushall"))
    at = log.data.rindex(b"SET")
    torn = {
        "cut": log.data[:-9], "with zeros": log.data[:at] + bytes(len(log.data) - at),
        "with another byte": log.data[:at] + b"G" + log.data[at + 1 :], "not there": whole,
    }  # fmt: skip
    for said, data in torn.items():
        work.expect(
            restore(work, data) is None, tried=f"flushall is in a batch that is torn, {said}", came="TO is there",
            expected="exit status 1: of what is torn, nothing was done",
        )  # fmt: skip
        torn_log = Log()
        torn_log.data = data
        expect(work, torn_log, [SELECT, words("SET a 1")], f"flushdb is in front of what is torn, {said}", "flushdb")


@points(2, "the server starts with it")
def test_server(work: Submission) -> None:
    """The server writes a log, with a flushall from another client in it, and starts with what was made of it."""
    folder = work.shared / "server"
    folder.mkdir()
    folder.chmod(0o777)
    env = {"DIR": str(folder), "APPENDONLY": "yes", "IDLE_TIMEOUT_MS": "0"}
    with Server(27, env=env) as server, server.connect() as conn:
        conn.pipeline([("set", "city", "Oslo"), ("select", "3"), ("incr", "n"), ("incr", "n")])
        conn.pipeline([("set", "a", "x" * 5000), ("append", "a", "y"), ("flushall",), ("select", "0"),
                       ("set", "city", "Rome")])  # fmt: skip
        server.stop()
    log: Path = folder / "appendonlydir" / "appendonly.aof.1.incr.aof"
    made = restore(work, log.read_bytes())
    work.expect(made is not None, came="it says that there is no flushall", expected="TO")
    log.write_bytes(made or b"")
    with Server(27, env=env) as server, server.connect() as conn:
        line = server.wait_line(re.compile("Ready to accept connections|Bad file format"))
        work.expect("Ready" in line, came=f"the server does not start with it: {line}", expected="it starts")
        conn.ask("get", "city", expect=b"Oslo")
        conn.ask("select", "3", expect=OK)
        conn.ask("get", "n", expect=b"2")
        conn.ask("get", "a", expect=b"x" * 5000 + b"y")
