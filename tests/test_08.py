"""Chapter 08: hashtables. All that 07 says, and no slower with many keys, whoever has chosen them."""
from __future__ import annotations

import itertools
import os
import random
import subprocess
import time
from pathlib import Path
from typing import List, Sequence, Tuple

import pytest

from cases import Case, case, earlier, new
from cases.labs import lab_passes
from cases.processes import one_line
from cases.strings import BAD_SEEDS, SAME_HASH, SEED, Script
from cases.talk import asked, start
from harness import Status, check_session, exchange, fail, run_program
from harness.settings import ROOT
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers
from harness.wire import DONE

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 08. The rules are in book/protocol.md.
SESSIONS = ["08-demo", "08-many", "08-seed"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# A case, @case(since=8), holds for this chapter and each later one, in its own words (harness/codec.py translates);
# binary: for the bytes of our own protocol, up to 19; inside: looks into our own programs; all is in cases/__init__.py.


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(8))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 8)


@case(since=8)
def a_few_removed_at_every_size(chapter: int) -> None:
    """Where a table may just have begun to grow; then all others are there."""
    for gone in (1, 4, 7):
        script, keys = Script(chapter), []
        for size in (9, 17, 33, 65, 129, 257, 513, 1025):
            for i in range(len(script.now), size):
                keys.append(b"%d:%d" % (size, i))
                script.set(keys[-1], b"%d" % i)
            for key in keys[:: size // gone]:
                script.delete(key)
            for key in keys:
                script.get(key)
        with start(chapter) as server, server.connect() as conn:
            script.play(conn)


# Pairs of blocks: either of the two takes the hash from one state to the same next one. So 15 pairs
# give 2^15 keys of one length that share one hash.
FNV1A_32 = (
    "puxalbyvw6 cgf5idof7x 32kdme3ou7 zrrcx0zix4 9mmgdlpo1z seg6epma6t p6fcqhty5b 92pgmkuksm "
    "rrkxj7f941 t7hinoimk8 8vfmui2yr6 3rzwjhw7q9 99kwkso3sw ls5wl2x0lw 0odbpevv4r"
)
FNV1A_64 = (  # in the lower 32 bits, which choose the bucket
    "7ry49e4r3c xzoyx4taix 1m5jdekczd 67njonjzam kshrch1h2n 695nescno6 e30dt1mpfd srk24j3ws1 "
    "uljcd9r4sd rpecqkysrz xz8h760o00 anuwttv7jx v86l8fladk sp87ah78tz pzn2rs6jvm"
)
PAIRS = {
    "FNV-1a, 32 bits": [(s[:5], s[5:]) for s in FNV1A_32.split()],
    "FNV-1a, 64 bits": [(s[:5], s[5:]) for s in FNV1A_64.split()],
    "h * 31 + byte": [("Aa", "BB")] * 15,
    "h * 33 + byte": [("Ab", "BA")] * 15,
}


def colliding(hash_name: str, count: int) -> List[bytes]:
    """Keys of one length with the same hash (one of PAIRS), at most 2^15."""
    blocks = itertools.islice(itertools.product(*PAIRS[hash_name]), count)
    return ["".join(words).encode() for words in blocks]


@case(since=8, perhaps="a client that knows the hash can choose keys of one bucket: hash with a random key (SipHash)")
def keys_that_collide_on_purpose(chapter: int) -> None:
    """Under hashes that everybody can compute. They take no longer than others of the same length."""
    rng, count = random.Random(9), 10_000
    for hash_name in PAIRS:
        keys = colliding(hash_name, count)
        others = [bytes(rng.sample(key[:-5], len(key) - 5)) + b"%05d" % i for i, key in enumerate(keys)]
        tries: List[Tuple[float, float]] = []
        while not tries or tries[-1][1] > 3 * tries[-1][0]:
            if len(tries) == 3:  # once may be another program's fault; fifteen times as long never is
                fail(
                    f"{count} keys that collide under {hash_name} took {tries[-1][1]:.2f} s,"
                    f" as many others {tries[-1][0]:.2f} s: can a client know which keys collide?"
                )
            tries.append((_time_to_set(chapter, others), _time_to_set(chapter, keys)))


def _time_to_set(chapter: int, keys: Sequence[bytes]) -> float:
    """Seconds that it takes to set the keys in an empty server."""
    data = b"".join(asked(chapter, "set", key, "v") for key in keys)
    with start(chapter) as server, server.connect() as conn:
        began = time.monotonic()
        (replies,) = exchange([(conn, data, len(keys))])
        seconds = time.monotonic() - began
        for i in (0, len(keys) // 2, -1):
            conn.check(replies[i], DONE)
            conn.ask("get", keys[i], expect=Status(0, b"v"))
        if len(set(replies)) > 1:
            fail("the replies to the same `set` differ")
    return seconds


GOOD_SEEDS = ["0" * 32, "f" * 32, "0123456789ABCDEFabcdef0123456789"]


@case(since=8)
def hash_seed_makes_no_difference_to_clients(chapter: int) -> None:
    """Also none for keys that collide, at least in a table of a few hundred."""
    for text in GOOD_SEEDS:
        script = Script(chapter)
        for i, key in enumerate(colliding("FNV-1a, 32 bits", 300) + [b"%d" % i for i in range(300)]):
            script.set(key, b"%d" % i)
        for key in list(script.now):
            script.get(key)
        for key in list(script.now)[::2]:
            script.delete(key)
            script.get(key)
        with start(chapter, env={"HASH_SEED": text}) as server, server.connect() as conn:
            script.play(conn)


@case(since=8)
def keys_with_the_same_hash(chapter: int) -> None:
    """All 32 bits of it, and of one length: the bytes of the keys decide."""
    pairs = [(text[: len(text) // 2].encode(), text[len(text) // 2 :].encode()) for text in SAME_HASH.split()]
    script = Script(chapter)
    for pair in pairs:
        for one, other in (pair, pair[::-1]):
            script.set(one, b"1")
            script.get(other)
            script.delete(other)
            script.set(other, b"2")
            script.get(one)
            script.set(one, b"of another length")
            script.get(other)
            script.delete(one)
            script.get(one)
            script.get(other)
    for one, other in pairs:
        script.get(one)
        script.get(other)
    with start(chapter, env={"HASH_SEED": SEED}) as server, server.connect() as conn:
        script.play(conn)


@case(since=8, inside=True,
      perhaps="32 hex digits, no more and no less: say `HASH_SEED=...:` and what is wrong, exit status 1")  # fmt: skip
def hash_seed_that_is_wrong(chapter: int) -> None:
    """One line that shows it, and exit status 1."""
    for text in BAD_SEEDS:
        result = run_program(chapter, "server", env={"HASH_SEED": text, "PORT": "0"}, seconds=5)
        if f"HASH_SEED={text}:" not in one_line(result, f"a server with HASH_SEED={text}"):
            fail(f"a server with HASH_SEED={text} does not say what is wrong: {result.stderr}")


# Runs each function above that is marked @case, and those of tests/cases/ with since=8 (memory.py, merges.py,
# processes.py).
@pytest.mark.parametrize("case", new(8))
def test_new(case: Case) -> None:
    case(8)


# The cases of 03 to 07, as far as they still hold.
@pytest.mark.parametrize("case", earlier(8))
def test_earlier(case: Case) -> None:
    case(8)


# ---- the lab program ----


@pytest.mark.inside
@pytest.mark.time_limit(60)
def test_lab_program() -> None:
    """The table against its model at every size, and the work of each call counted."""
    lab_passes(8, "test_hashtable")


# ---- container_of ----


@pytest.mark.inside
@pytest.mark.parametrize(
    "line, compiles",
    [
        ("struct entry *a = container_of(node, struct entry, node);", True),
        ("const struct entry *a = container_of((const struct hnode *)node, struct entry, node);", True),
        ("struct entry *a = container_of((const struct hnode *)node, struct entry, node);", False),
        ("struct entry *a = container_of(&number, struct entry, node);", False),
        ("struct entry *a = container_of((void *)node, struct entry, node);", False),
    ],
    ids=["node", "const node", "const is not cast away", "another member", "any pointer"],
)
def test_container_of_looks_at_types(tmp_path: Path, line: str, compiles: bool) -> None:
    """What is no node of an entry does not lead to one, and what was const stays const."""
    source = tmp_path / "types.c"
    source.write_text(
        f"""#include "hashtable.h"
#include "intrusive.h"
struct entry {{
    int before;
    struct hnode node;
}};
int look(struct hnode *node, int number);
int look(struct hnode *node, int number) {{
    {line}
    return a->before + number + (node != NULL);
}}
"""
    )
    cc = os.environ.get("CC", "cc").split()
    common = os.environ.get("HEADERS", str(ROOT / "common"))
    command = [
        *cc, "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{common}", f"-I{ROOT / 'common'}", "-c", str(source)
    ]
    done = subprocess.run([*command, "-o", str(tmp_path / "types.o")], stderr=subprocess.PIPE, text=True)
    assert (done.returncode == 0) == compiles, done.stderr or f"it compiles: {line}"
