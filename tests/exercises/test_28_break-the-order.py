"""28-break-the-order: three wrong orders at the end of a rewrite, and for each a crash that loses keys."""
from __future__ import annotations

import itertools
import random
import re
import shutil
import time
from pathlib import Path
from typing import Dict, FrozenSet, Iterator, List, NamedTuple, Tuple

from batches import Log
from grading import Submission, points
from harness import Server

MANIFEST, TEMP_MANIFEST = "appendonly.aof.manifest", "temp-appendonly.aof.manifest"
TEMP = "temp-appendonly.base"
Files = Dict[str, object]  # what is in each; of the manifest, which files it names
Named = FrozenSet[Tuple[str, str]]  # names, and types


class Before(NamedTuple):
    """A directory before the steps."""

    folder: Path
    keys: Dict[str, str]
    old: List[str]  # the files that the base stands for
    new: str  # the file behind it
    base: str  # the name that it gets


def log_of(keys: Dict[str, str]) -> bytes:
    """A file that sets these."""
    log = Log()
    log.add()
    log.add([b"SELECT", b"0"], *([b"SET", key.encode(), value.encode()] for key, value in keys.items()))
    return log.data


def before(work: Submission, order: str) -> Before:
    """Makes one, with other numbers each time."""
    chance = random.Random(order)
    first, folder = chance.randrange(2, 50), work.shared / f"before-{order}"
    shutil.rmtree(folder, ignore_errors=True)
    last = first + chance.randrange(1, 4)
    folder.mkdir()
    old = [f"appendonly.aof.{first}.base.aof", f"appendonly.aof.{first}.incr.aof"]
    new = f"appendonly.aof.{last}.incr.aof"
    parts = [{f"{part}:{i}": f"{chance.randrange(1000)}" for i in range(5)} for part in ("early", "late", "new")]
    for name, part in zip((*old, new), parts):
        (folder / name).write_bytes(log_of(part))
    (folder / TEMP).write_bytes(log_of({**parts[0], **parts[1]}))
    (folder / MANIFEST).write_text(
        f"file {old[0]} seq {first} type b size {(folder / old[0]).stat().st_size}\n"
        f"file {old[1]} seq {first} type i size {(folder / old[1]).stat().st_size}\n"
        f"file {new} seq {last} type i\n"
        f"file appendonly.aof.{last}.base.aof seq {last} type h\n"
    )
    keys = {key: value for part in parts for key, value in part.items()}
    return Before(folder, keys, old, new, f"appendonly.aof.{last}.base.aof")


def named(text: str) -> Named:
    """What a manifest names."""
    return frozenset(re.findall(r"^file (\S+) .*?type (\w)", text, re.M))


def files_of(folder: Path) -> Files:
    """What is in a directory. A manifest that has not got its name makes no difference."""
    found: Files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != TEMP_MANIFEST}
    if MANIFEST in found:
        found[MANIFEST] = named((folder / MANIFEST).read_text(errors="replace"))
    return found


def states(made: Before, order: str) -> Iterator[Files]:
    """All states in which a crash may leave it: some first steps, of which those since the last sync may be missing."""
    history = [(name, "h") for name in made.old] * ("d" not in order[: order.index("m")])
    manifest: Named = frozenset([(made.base, "b"), (made.new, "i"), *history])
    steps: List[Tuple[str, ...]] = []
    for letter in order:
        steps += {"r": [("rename",)], "s": [("sync",)], "m": [("name",), ("sync",)],
                  "d": [("delete", name) for name in reversed(made.old)]}[letter]  # fmt: skip
    for n in range(len(steps) + 1):
        synced = max((i + 1 for i in range(n) if steps[i] == ("sync",)), default=0)
        for chosen in itertools.product((True, False), repeat=n - synced):
            files = files_of(made.folder)
            for step, is_there in zip(steps[:n], (*[True] * synced, *chosen)):
                if is_there and step[0] == "rename":
                    files[made.base] = files.pop(TEMP)
                elif is_there and step[0] == "name":
                    files[MANIFEST] = manifest
                elif is_there and step[0] == "delete":
                    del files[step[1]]
            yield files


def shown(files: Files) -> str:
    """The names, and those of the manifest."""
    says = files.get(MANIFEST, frozenset())
    assert isinstance(says, frozenset)
    lines = ", ".join(f"{name} ({kind})" for name, kind in sorted(says))
    return f"{', '.join(sorted(files))}\nthe manifest names {lines or 'nothing'}"


def has(work: Submission, folder: Path) -> Dict[str, str]:
    """The keys of a server that starts with it, none where it does not start."""
    env = {"DIR": str(folder.parent), "APPENDONLY": "yes", "PORT": "0"}
    with work.running([work.program("server")], env=env) as server:
        while server.alive() and not any("Ready to accept" in line for line in server.lines):
            time.sleep(0.01)
        if not server.alive():
            return {}
    with Server(28, env=env) as server, server.connect() as conn:
        server.wait_line(re.compile("Ready to accept"))
        names = conn.ask("keys", "*")
        assert isinstance(names, list)
        return {name.decode(): bytes(conn.ask("get", name)).decode() for name in names}  # type: ignore


def crash(work: Submission, order: str, cause: str) -> None:
    """crash.py must make a state that may be, and in which keys are lost."""
    made, place = before(work, order), work.shared / f"crashed-{order}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for path in (work.shared, place, made.folder, *made.folder.iterdir()):
        path.chmod(0o777 if path.is_dir() else 0o666)
    folder = place / "appendonlydir"
    work.run_ok(["python3", work.path / "crash.py", order, made.folder, folder])
    work.expect(folder.is_dir(), came="CRASHED is not there", expected="a folder")
    found = files_of(folder)
    work.expect(
        found in list(states(made, order)), tried=order,
        came=f"no crash of {order} leaves what is in CRASHED:\n{shown(found)}\n"
        f"in BEFORE are {shown(files_of(made.folder))}",
        expected="some first steps, all of which are there but for names since the last sync", cause=cause,
    )  # fmt: skip
    for path in (folder, *folder.iterdir()):
        path.chmod(0o777 if path.is_dir() else 0o666)
    there = has(work, folder)
    lost = [key for key, value in made.keys.items() if there.get(key) != value]
    work.expect(bool(lost), tried=order, came=f"a server that starts with CRASHED has all keys: {shown(found)}",
                expected="keys are lost", cause=cause)  # fmt: skip


@points(3, "deleted first")
def test_deleted(work: Submission) -> None:
    """The order `rsdm`: CRASHED, and a server that starts with it."""
    crash(work, "rsdm", "which manifest is there when the old files are deleted, and what does it name?")


@points(3, "named first")
def test_named(work: Submission) -> None:
    """The order `mrsd`: CRASHED, and a server that starts with it."""
    crash(work, "mrsd", "what is the base called when the manifest names it? A start is not a part of the crash.")


@points(3, "not synced")
def test_unsynced(work: Submission) -> None:
    """The order `rmd`: CRASHED, and a server that starts with it."""
    crash(work, "rmd", "which names may be missing, once the new manifest has its own?")
