"""27-hunt-stray: what is written to a database is there again after any number of restarts, and nowhere else."""
from __future__ import annotations

import random
import re
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from batches import Batch, batches
from grading import Submission, points
from harness import Conn, Server
from harness.resp import OK, Simple

DATABASES = (0, 3, 5, 12)
Keys = Dict[Tuple[int, str], str]  # database and name: value


def new_folder(work: Submission, name: str) -> Path:
    """A folder for a log."""
    folder = work.shared / name
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def last_file(folder: Path) -> Path:
    return sorted((folder / "appendonlydir").glob("*.incr.aof"), key=lambda path: int(path.name.split(".")[2]))[-1]


class Life:
    """A server from its start to its end, and what should be in it."""

    def __init__(self, work: Submission, server: Server, conn: Conn, keys: Keys) -> None:
        self.work, self.server, self.conn, self.keys = work, server, conn, keys

    def write(self, db: int, name: str, value: str) -> None:
        self.conn.ask("select", str(db), expect=OK)
        self.conn.ask("set", name, value, expect=OK)
        self.keys[db, name] = value

    def delete(self, db: int, name: str) -> None:
        self.conn.ask("select", str(db), expect=OK)
        self.conn.ask("del", name)
        self.keys.pop((db, name), None)

    def expect_keys(self, said: str) -> None:
        """Each database must have its keys, and no other."""
        for db in DATABASES:
            self.conn.ask("select", str(db), expect=OK)
            names = self.conn.ask("keys", "*")
            assert isinstance(names, list)
            found = {name.decode(): bytes(self.conn.ask("get", name)).decode() for name in names}  # type: ignore
            right = {name: value for (each, name), value in self.keys.items() if each == db}
            self.work.expect(
                found == right, came=f"{said}: database {db} has {shown(found)}", expected=shown(right),
                cause="what has told the reader of the log in which database the missing ones were written?",
            )  # fmt: skip


def shown(keys: Dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(keys.items())) or "no keys"


@contextmanager
def life(work: Submission, folder: Path, keys: Keys, fsync: str = "everysec") -> Iterator[Life]:
    """The submission's server with its log in this folder."""
    env = {"DIR": str(folder), "APPENDONLY": "yes", "APPENDFSYNC": fsync, "IDLE_TIMEOUT_MS": "0"}
    with Server(27, env=env) as server, server.connect() as conn:
        server.wait_line(re.compile("Ready to accept connections"))
        yield Life(work, server, conn, keys)


@points(4, "restarted")
def test_restarted(work: Submission) -> None:
    """A server is started and ended six times. Each time a few keys are written, to several databases."""
    folder, keys, chance = new_folder(work, "restarted"), {}, random.Random(27)  # type: Path, Keys, random.Random
    plans: List[List[int]] = [[0, 3], [0, 0], [3], [5, 12, 0], [12]]
    for number, dbs in enumerate(plans):
        with life(work, folder, keys) as it:
            it.expect_keys(f"after {number} restarts")
            for db in dbs:
                it.write(db, f"k{number}", str(chance.randrange(1000)))
                it.write(db, "shared", str(chance.randrange(1000)))
            if number > 1:
                it.delete(dbs[0], f"k{number - 2}")
    with life(work, folder, keys) as it:
        it.expect_keys(f"after {len(plans)} restarts")


@points(2, "killed")
def test_killed(work: Submission) -> None:
    """A server is killed. The first time its log is left as it is, the second time the machine has not written its
    last batch to the end."""
    folder, keys = new_folder(work, "killed"), {}  # type: Path, Keys
    for number, (dbs, cut) in enumerate((((0, 3), False), ((0, 5), True), ((12, 0), False), ((0, 3), False))):
        with life(work, folder, keys, "no") as it:
            it.expect_keys(f"killed {number} times")
            for db in dbs:
                it.write(db, f"k{number}", "v")
            it.server.stop(signal.SIGKILL)
        if cut:
            log = last_file(folder)
            last = [each for each in batches(log.read_bytes()) if each.commands][-1]
            log.write_bytes(log.read_bytes()[: last.end - 5])
            del keys[dbs[-1], f"k{number}"]
    with life(work, folder, keys) as it:
        it.expect_keys("killed four times, and once the end of the log was torn")


@points(2, "turned off and on")
def test_turned(work: Submission) -> None:
    """The log is turned off, something is written, and it is turned on again; then the server is restarted."""
    folder, keys = new_folder(work, "turned"), {}  # type: Path, Keys
    with life(work, folder, keys) as it:
        it.write(0, "before", "1")
        it.write(5, "before", "2")
    with life(work, folder, keys) as it:
        it.expect_keys("after a restart")
        it.conn.ask("config", "set", "appendonly", "no", expect=OK)
        it.write(5, "meanwhile", "3")
        it.conn.ask("config", "set", "appendonly", "yes", expect=OK)
        it.write(5, "after", "4")
        it.write(0, "after", "5")
    with life(work, folder, keys) as it:
        it.expect_keys("the log was turned off and on again, then the server was restarted")


@points(2, "not larger than it needs to be")
def test_small(work: Submission) -> None:
    """Two hundred requests in two pipelines, each pipeline in one database, and some in a transaction."""
    folder = new_folder(work, "small")
    with life(work, folder, {}) as it:
        for db in ("5", "0"):
            it.conn.pipeline([("select", db), *[("incr", "n")] * 100], [OK, *range(1, 101)])
        it.conn.pipeline([("multi",), *[("incr", "m")] * 5, ("exec",)], [OK, *[Simple(b"QUEUED")] * 5, [1, 2, 3, 4, 5]])
    for each in batches(last_file(folder).read_bytes()):
        selects = sum(words[0].upper() == b"SELECT" for words in each.commands)
        most = moves(each)
        work.expect(
            selects <= most, came=f"{selects} times SELECT in a batch of {len(each.commands)} commands",
            expected=f"{most} at most: the commands behind it are done in that database, too",
        )  # fmt: skip


def moves(batch: Batch) -> int:
    """How many times SELECT is needed in a batch that is read by itself."""
    dbs = [words[1] for words in batch.commands if words[0].upper() == b"SELECT"]
    return len([db for at, db in enumerate(dbs) if at == 0 or db != dbs[at - 1]])
