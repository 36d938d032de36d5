"""The benchmarks: `make bench` (about half an hour), `make bench-full`, `make bench-quick` (half a minute).

Prints tables; but for quick, writes them to book/bench.md and draws book/figures/bench-*.svg.
`make bench ARGS=stalls` measures one section alone (any in SECTIONS), and only prints it.
Candidates take turns at each measurement, so that a machine that is slower for a while is so for all of
them; what is quoted is the median of the rounds. Server and client are bound to different processors.
Speed is never judged here, but every reply is checked, and a wrong one ends the run.
"""

from __future__ import annotations

import json
import os
import platform
import random
import re
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Callable, Dict, Hashable, Iterable, List, Mapping, Sequence, Tuple, TypeVar

import draw
from servers import (
    BUILD, CHAPTERS, HERE, ROOT, Candidate, Result, Server, chapter, compiled, finish, may_hurry, redis, variant,
)  # fmt: skip
from harness import Conn  # servers has said where it is

FIGURES = ROOT / "book" / "figures"
ALL = tuple(number for number in CHAPTERS if number >= 4)
Case = TypeVar("Case", bound=Hashable)
Options = Dict[str, object]  # of the load generator
Points = List[Tuple[float, float]]


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    name: str
    rounds: int
    seconds: float  # of one measurement of a rate
    sizes: Tuple[int, ...]  # of structures
    list_sizes: Tuple[int, ...]  # of the list and of walking, which are slow
    keys: int  # in the table while rates are measured
    stall: int  # keys that expire, members of the set that is asked for ranges
    pairs: int  # in the set that is deleted
    insert: int  # keys inserted while another connection looks on
    expire: int  # keys that expire at one instant, and nobody asks for them
    listeners: Tuple[int, ...]  # to one channel
    after: float  # seconds to look on after an event
    chapters: Tuple[int, ...]

    @property
    def large(self) -> int:
        """Bytes of a value that others wait for."""
        return 30 * self.pairs

    @property
    def few_rounds(self) -> int:
        """Of what takes long."""
        return min(self.rounds, 3)


SCALES = {
    "quick": Scale(
        "quick", 1, 0.05, (1000, 10_000), (1000,), 1000, 12_000, 12_000, 20_000, 20_000, (1, 100), 0.05,
        (4, 6, 8, 9, ALL[-1]),
    ),
    "normal": Scale(
        "normal", 3, 0.3, (1000, 10_000, 100_000, 1_000_000), (1000, 10_000, 100_000),
        100_000, 300_000, 1_000_000, 1_000_000, 1_000_000, (1, 100, 10_000), 3.0, ALL,
    ),
    "full": Scale(
        "full", 9, 1.0, (1000, 10_000, 100_000, 1_000_000, 10_000_000), (1000, 10_000, 100_000, 1_000_000),
        1_000_000, 1_000_000, 1_000_000, 5_000_000, 1_000_000, (1, 100, 10_000), 3.0, ALL,
    ),
}  # fmt: skip


class Report:
    """What is printed and written: paragraphs, tables, pictures."""

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self.lines: List[str] = []
        models = re.findall(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.M)
        cpu = models[0] if models else platform.machine()
        self.machine = (
            f"{time.strftime('%Y-%m-%d')}, {cpu}, {len(os.sched_getaffinity(0))} processors,"
            f" {platform.system()} {platform.release().split('-')[0]}, make"
            f" bench{'' if scale.name == 'normal' else '-' + scale.name}"
        )

    def say(self, words: str = "") -> None:
        print(words, flush=True)
        self.lines.append(words)

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        self.say("| " + " | ".join(head) + " |")
        self.say("|" + " --- |" * len(head))
        for row in rows:
            self.say("| " + " | ".join(row) + " |")
        self.say()

    def picture(self, name: str, title: str) -> Path:
        """Notes a picture in the text; returns where to draw it."""
        self.lines += [f"![{title}](figures/bench-{name}.svg)", ""]
        folder = BUILD if self.scale.name == "quick" else FIGURES
        return folder / f"bench-{name}.svg"


# ---- measuring, and judging what was measured ----


def in_turns(rounds: int, cases: Sequence[Case], measure: Callable[[Case], Result]) -> Dict[Case, List[Result]]:
    """Measures every case in each round; returns the figures of all rounds by case."""
    results: Dict[Case, List[Result]] = {case: [] for case in cases}
    for _ in range(rounds):
        for case in cases:
            results[case].append(measure(case))
    return results


def middle(results: Sequence[Result], field: str) -> float:
    return median(result[field] for result in results)


def spread(runs: Sequence[Result]) -> float:
    """How far apart the rates of the rounds are, relative to their median; without the outer quarters."""
    found = sorted(run["rate"] for run in runs)
    cut = len(found) // 4
    return (found[-1 - cut] - found[cut]) / median(found)


def micro(program: Path, name: str, nodes: int) -> Result:
    """Runs one micro-benchmark; returns its figures."""
    out = subprocess.run([str(program), name, str(nodes)], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)


# ---- requests a second ----

LOADS: Dict[str, Dict[str, int]] = {
    "1 connection": {"conns": 1},
    "50 connections": {"conns": 50},
    "50 connections, pipelines of 16": {"conns": 50, "pipeline": 16},
    "10 connections, pipelines of 1000": {"conns": 10, "pipeline": 1000},
    "50 connections beside 1000 idle": {"conns": 50, "idle": 1000},
    "50 connections beside 9900 idle": {"conns": 50, "idle": 9900},
}
DESCRIPTORS = 10_100  # that the last of them needs
UNAWARE = "17 without fetch_ahead"
MOST_SPREAD = 0.25  # between rounds; where it is more, there are more rounds
EXTRA_ROUNDS = 3
Rates = Mapping[Tuple[str, str, str], List[Result]]  # by load, operation and server; messages count as `get`


def can_run(candidate: Candidate, load: Dict[str, int]) -> bool:
    """Chapter 04 serves one client at a time; 05 has room for 1000 clients, and loses what a client does not take at
    once; the list of 07 is measured by itself. What 17 is without fetch_ahead shows in pipelines alone. The largest
    crowd, where we may have so many descriptors, is for Redis and the last stages: with poll, one is like the other."""
    if load.get("idle", 0) == 9900:
        few = resource.getrlimit(resource.RLIMIT_NOFILE)[0] < DESCRIPTORS
        return not few and candidate.chapter >= 14 and candidate.name != UNAWARE
    if candidate.name == UNAWARE:
        return "pipeline" in load
    if candidate.name == "04":
        return load["conns"] == 1
    return candidate.name != "05" or ("idle" not in load and "pipeline" not in load)


def measured_rates(scale: Scale, candidates: Sequence[Candidate]) -> Rates:
    """All servers under all loads. Where the rounds of one differ too much, all take more turns at that load."""
    cases = [(load, op, c.name) for load in LOADS for op in ("get", "set") for c in candidates
             if can_run(c, LOADS[load]) and (op == "get" or not c.echoes)]  # fmt: skip
    with ExitStack() as stack:
        servers = {c.name: stack.enter_context(Server(c)) for c in candidates}
        how: Dict[str, Options] = {}
        for c in candidates:
            keys = 1000 if c.name == "07" else scale.keys
            how[c.name] = {"mix": "ping", "value_size": 32} if c.echoes else {"keys": keys, "value_size": 16}
            if not c.echoes:
                servers[c.name].fill("set", keys)

        def measure(case: Tuple[str, str, str]) -> Result:
            load, op, name = case
            return servers[name].load(**{"mix": op, **how[name]}, seconds=scale.seconds, **LOADS[load])

        results = in_turns(scale.rounds, cases, measure)
        for _ in range(EXTRA_ROUNDS):
            restless = disturbed(results)
            for case, runs in in_turns(1, [case for case in cases if case[:2] in restless], measure).items():
                results[case] += runs
    return results


def disturbed(results: Rates) -> Dict[Tuple[str, str], List[str]]:
    """The servers whose rounds are too far apart, by load and operation."""
    found: Dict[Tuple[str, str], List[str]] = {}
    for (load, op, name), runs in results.items():
        if spread(runs) > MOST_SPREAD:
            found.setdefault((load, op), []).append(name)
    return found


def echo_caps(results: Rates, load: str) -> bool:
    """Is the echo server a ceiling under this load? Its messages are larger than requests."""
    rates = {name: middle(runs, "rate") for (of, _, name), runs in results.items() if of == load}
    return rates["echo"] >= max(rate for name, rate in rates.items() if name != "echo")


def rate_row(results: Rates, load: str, name: str) -> List[str]:
    """The cells of one server: of `get` and of `set` the rate, the ratio to Redis, the slowest percent."""
    row = [name]
    for op in ("get", "set"):
        runs = results.get((load, op, name), results[load, "get", name])
        base = results.get((load, op, "redis"))
        ratio = f"{middle(runs, 'rate') / middle(base, 'rate'):.2f}" if base else ""
        row += [f"{middle(runs, 'rate') / 1e3:.1f}", ratio, f"{middle(runs, 'p99_us'):.0f}"]
    return row


def rate_table(report: Report, load: str, results: Rates) -> None:
    """The table and the picture of one load."""
    names = [name for of, op, name in results if (of, op) == (load, "get")]
    if not names:
        report.say(f"{load}: left out, with fewer than {DESCRIPTORS:,} descriptors (`ulimit -n`).\n")
        return
    too_slow = "echo" in names and not echo_caps(results, load)
    names = [name for name in names if name != "echo" or not too_slow]
    report.say(f"### {load}\n")
    report.table(("server", "get", "to Redis", "p99, us", "set", "to Redis", "p99, us"),
                 (rate_row(results, load, name) for name in names))  # fmt: skip
    if too_slow:
        report.say("The echo server is left out here: its messages are larger than these, and it caps nothing.\n")
    groups = {title: [(name, middle(results[load, op, name], "rate")) for name in names if (load, op, name) in results]
              for title, op in (("get (04 to 06, echo: messages)", "get"), ("set", "set"))}  # fmt: skip
    slug, title = "rate-" + load.replace(",", "").replace(" ", "-"), f"Requests a second, {load}"
    draw.bars(report.picture(slug, title), title, "requests a second", report.machine, groups)


def want_descriptors() -> None:
    """Takes as many as the largest crowd needs, where we may. The servers and the load inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < DESCRIPTORS <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))


def rates(report: Report) -> None:
    scale = report.scale
    want_descriptors()
    parses = "chapters/17/src/batch.c"
    unaware = variant("17-unaware", "chapters/17/server.c", parses, "    if (batch.n > 1) {", "    if (false) {")
    echo = Candidate("echo", (str(BUILD / "echo"),), 0)
    if not redis():
        report.say("redis-server is not installed: it is left out, and so are the ratios to it.\n")
    unlike = [Candidate(UNAWARE, (str(unaware),), 17), *redis(), echo]
    results = measured_rates(scale, [*map(chapter, scale.chapters), *unlike])
    report.say("## Requests a second\n")
    report.say(
        "Thousands a second; for 04 to 06 and the echo server these are messages of 32 bytes, from 07 on "
        f"`get` and `set` of {scale.keys:,} keys of 16 bytes with values of 16 (07, whose list is slow: 1,000 keys). "
        "The echo server is the ceiling of the tables of this section: it sends back what comes and does nothing "
        "else.\n"
    )
    restless = "; ".join(f"{load}, {op}: {', '.join(names)}" for (load, op), names in disturbed(results).items())
    if restless:
        report.say(
            f"The machine was disturbed: after {EXTRA_ROUNDS} more rounds, those in the middle still differ by more "
            f"than {MOST_SPREAD:.0%} at {restless}.\n"
        )
    for load in LOADS:
        rate_table(report, load, results)


def sorted_sets(report: Report) -> None:
    scale = report.scale
    candidates = [*map(chapter, (11, 14, 17, 19)), *redis()]
    queries: Dict[str, Options] = {
        f"zadd, one set growing to {scale.stall:,}, pipelines of 16": {"mix": "zadd", "fill": True, "pipeline": 16},
        "10 pairs from a score": {"mix": "zquery", "seconds": scale.seconds},
        "10 pairs from a score, pipelines of 16": {"mix": "zquery", "seconds": scale.seconds, "pipeline": 16},
        f"10 pairs at an offset up to {scale.stall // 10:,} from a score": {"mix": "zoff", "seconds": scale.seconds},
    }

    def measure(candidate: Candidate) -> Result:
        with Server(candidate) as server:
            load: Options = {"keys": scale.stall, "conns": 50, "offset_max": scale.stall // 10}
            return {title: server.load(**load, **query)["rate"] for title, query in queries.items()}

    results = in_turns(scale.rounds, candidates, measure)
    report.say("## Sorted sets\n")
    report.say("Thousands a second, 50 connections. Redis 7.0 walks to an offset, from 11 on we count.\n")
    rows = []
    for title in queries:
        base = [middle(results[c], title) for c in redis()]
        for candidate, runs in results.items():
            rate = middle(runs, title)
            rows.append([title, candidate.name, f"{rate / 1e3:.1f}", *(f"{rate / other:.2f}" for other in base)])
    report.table(("what", "server", "rate", *(["to Redis"] if redis() else [])), rows)


# ---- structures ----

# Of each table and picture the name, title, unit and figure; of each row the benchmark, and whether it is a slow one.
CURVES: Tuple[Tuple[str, str, str, str, Dict[str, Tuple[str, bool]]], ...] = (
    ("lookup", "A key in the list of 07 and in the table of 08", "nanoseconds", "ns",
     {"list": ("list-get", True), "table": ("table-get", False)}),
    ("pause", "The worst insertion: a table that grows in steps, and at once", "microseconds", "worst_us",
     {"in steps": ("table-insert", False), "at once": ("table-insert-at-once", False)}),
    ("offset", "Moving up to 100,000 places in a sorted set", "nanoseconds", "ns",
     {"step by step": ("offset-walk", True), "by counts": ("offset-counts", False)}),
    ("heap", "TTLs in a heap", "nanoseconds", "ns",
     {"add": ("heap-add", False), "change": ("heap-change", False), "take the nearest": ("heap-pop", False)}),
    ("zset", "Adding to a sorted set, and finding a place in it", "nanoseconds", "ns",
     {"add": ("zset-add", False), "find": ("zset-seek", False)}),
)  # fmt: skip
LOAD_FACTOR = "    k_max_load_factor = {},"


def measured_curve(scale: Scale, benchmark: str, slow: bool, field: str) -> Points:
    """The figure of a micro-benchmark for each size."""
    points: Points = []
    for size in scale.list_sizes if slow else scale.sizes:
        runs = [micro(BUILD / "micro", benchmark, size) for _ in range(scale.few_rounds)]
        points.append((size, max(middle(runs, field), 0.001)))
    return points


def structures(report: Report) -> None:
    scale = report.scale
    compiled(HERE / "micro.c", "micro")
    report.say("## What each structure buys\n")
    report.say(
        "Nanoseconds an operation, or the worst single one, without a server around it (`tests/bench/micro.c`).\n"
    )
    for slug, title, unit, field, names in CURVES:
        series = {name: measured_curve(scale, *which, field) for name, which in names.items()}
        report.say(f"### {title}\n")
        rows = []
        for name, points in series.items():
            values = dict(points)
            rows.append([name, *(f"{values[s]:,.1f}" if s in values else "" for s in scale.sizes)])
        report.table((unit, *(f"{s:,}" for s in scale.sizes)), rows)
        draw.lines(report.picture(slug, title), title, "nodes", unit, report.machine, series, log=True)
    load_factor(report, min(scale.sizes[-1], 1_000_000))


def load_factor(report: Report, nodes: int) -> None:
    """A lookup and the memory of the table, by how full its buckets may become."""
    rows = []
    for factor in (1, 2, 4, 8):
        lines = LOAD_FACTOR.format(2), LOAD_FACTOR.format(factor)
        program = variant(f"micro-{factor}", "tests/bench/micro.c", "common/hashtable.h", *lines)
        runs = [micro(program, "table-get", nodes) for _ in range(report.scale.rounds)]
        buckets = 4
        while buckets * factor < nodes:
            buckets *= 2
        rows.append([str(factor), f"{middle(runs, 'ns'):.0f}", f"{buckets * 8 / nodes:.1f}"])
    report.say(f"### The load factor, with {nodes:,} keys\n")
    report.table(("nodes a bucket at which the table grows", "nanoseconds a lookup", "bytes a key for buckets"), rows)


# ---- the stall lab ----

Prepare = Callable[[Server, Scale], Callable[[], object]]  # returns the event
LIMIT = (
    "    k_max_works = 200, // keys and pairs that may expire in a round; each request adds one",
    "    k_max_works = 1 << 30,",
)
TIDY = (
    "    void *volatile block = malloc(k_tidy_size); // volatile: or the compiler leaves both calls out",
    "    void *volatile block = NULL;",
)


# A get allocates nothing, a new key a little and sometimes a large value, a connection its buffers: each pays another
# part of what an event leaves behind. A probe that comes seldom pays at once what has piled up until then.
def probes(scale: Scale) -> Dict[str, Options]:
    """Options of the load generator for each probe."""
    seldom = min(700, round(1000 * scale.after / 4))
    get: Options = {"mix": "get", "keys": 1000, "seconds": 3600}
    new_keys = {"mix": "set", "fill": True, "first": 10**8, "keys": 10**9, "large": 3000}
    return {
        "get, every 20 ms": {**get, "every": 20},
        "set of a new key, every 20 ms": {**new_keys, "every": 20},
        "connect, every 20 ms": {**get, "every": 20, "reconnect": True},
        f"connect, every {seldom} ms": {**get, "every": seldom, "reconnect": True},
    }


def nothing(server: Server, scale: Scale) -> Callable[[], object]:
    return lambda: None


def insert(server: Server, scale: Scale) -> Callable[[], object]:
    return lambda: server.load(mix="set", fill=True, keys=scale.insert, conns=10, pipeline=16)


def delete(server: Server, scale: Scale, command: str = "del") -> Callable[[], object]:
    server.fill("zadd", scale.pairs)
    return lambda: server.ask(command, "zs")


def unlink(server: Server, scale: Scale) -> Callable[[], object]:
    return delete(server, scale, "unlink")


def expire(server: Server, scale: Scale) -> Callable[[], object]:
    server.fill("set", scale.stall)
    ttl_ms = max(200, scale.stall // 100)
    end = time.monotonic() + ttl_ms / 1000
    server.fill("expire", scale.stall, ttl=ttl_ms)
    return lambda: time.sleep(max(0, end - time.monotonic()))


def at_once(server: Server, *words: object) -> Callable[[], object]:
    """Twenty clients send a request in one moment, and read what comes."""
    conns = [server.connect(seconds=60) for _ in range(20)]
    data = server.encode(*words)

    def event() -> None:
        def play(conn: Conn) -> None:
            conn.send(data)
            conn.recv_body()

        threads = [threading.Thread(target=play, args=(conn,)) for conn in conns]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return event


def get_large(server: Server, scale: Scale) -> Callable[[], object]:
    server.ask("set", "large", b"v" * scale.large)
    return at_once(server, "get", "large")


def set_large(server: Server, scale: Scale) -> Callable[[], object]:
    return at_once(server, "set", "large", b"v" * scale.large)


def stall_cases(scale: Scale) -> List[Tuple[str, str, Candidate, Prepare]]:
    """Of each row the event, the name, the server, and what is done before."""
    stage = "chapters/14/server.c"

    def without(what: str, line: str, instead: str, file: str = stage) -> Candidate:
        return Candidate(f"14 without {what}", (str(variant(f"14-without-{what}", stage, file, line, instead)),), 14)

    unlimited = without("k_max_works", *LIMIT)
    rude = without("sched_yield", "                sched_yield();", "                ;")
    untidy = without("mem_tidy", *TIDY, "common/mem_tidy.h")
    inserted, deleted = f"{scale.insert:,} keys are inserted", f"a sorted set of {scale.pairs:,} is deleted"
    expired = f"{scale.stall:,} keys expire at one instant"
    events: List[Tuple[str, Prepare, List[Candidate]]] = [
        ("nothing", nothing, [chapter(14), *redis()]),
        (inserted, insert, [chapter(14), *redis()]),
        (deleted, delete, [chapter(13), chapter(14), rude, untidy, *redis()]),
        (deleted, unlink, redis()),
        (expired, expire, [chapter(13), chapter(14), unlimited, *redis()]),
        (f"20 clients get {scale.large:,} bytes each", get_large, [chapter(15), chapter(16), *redis()]),
        (f"20 clients set {scale.large:,} bytes each", set_large, [chapter(15), chapter(16), *redis()]),
    ]
    said = {("redis", delete): "redis, DEL", ("redis", unlink): "redis, UNLINK"}
    return [(event, said.get((c.name, prepare), c.name), c, prepare) for event, prepare, cs in events for c in cs]


def stalls(report: Report) -> None:
    scale = report.scale
    cases = stall_cases(scale)

    def measure(case: Tuple[Tuple[str, str, Candidate, Prepare], str]) -> Result:
        """What a probe sees from 0.2 seconds before an event until some time after it."""
        (_, _, candidate, prepare), probe = case
        with Server(candidate) as server:
            event = prepare(server, scale)
            running = server.start_load(probe=True, **probes(scale)[probe])
            time.sleep(0.2)
            event()
            time.sleep(scale.after)
            running.terminate()
            return finish(running)

    results = in_turns(scale.few_rounds, [(case, probe) for case in cases for probe in probes(scale)], measure)
    report.say("## The stall lab\n")
    report.say(
        "The longest wait of another client, a probe, from 0.2 seconds before something heavy happens until "
        f"{scale.after:g} seconds after it. Microseconds; the least of all rounds, since whatever else the machine "
        f"does can only add to it (rounds: {scale.few_rounds}). Every 16th new key has a value of 3,000 bytes; a new "
        "connection asks one `get`, and its wait begins before it connects. Redis frees a set in its loop for `DEL` "
        "and in a thread for `UNLINK`, which is what to compare with. The probe had "
        f"{'' if may_hurry() else 'no '}real-time priority.\n"
    )
    rows, groups = [], {}
    for case in cases:
        event, name, *_ = case
        waits = [min(run["max_us"] for run in results[case, probe]) for probe in probes(scale)]
        rows.append([event, name, *(f"{wait:,.0f}" for wait in waits)])
        groups.setdefault(event, []).append((name, max(waits)))
    report.table(("event", "server", *probes(scale)), rows)
    title = "The longest wait of any probe"
    draw.bars(report.picture("stalls", title), title, "microseconds", report.machine, groups, log=True)


# ---- keys that expire ----

STEADY_TTL_MS = 1000  # at most; any number up to it is as frequent
STEADY_RATE = 50_000  # keys a second
STEADY_TURN_S = 0.01
NEVER_S = 20.0


def fill_to_expire(server: Server, keys: int) -> float:
    """Sets keys that expire at one instant; returns it."""
    start = time.monotonic()
    server.fill("set", keys)
    ttl_ms = round(300 + 3000 * (time.monotonic() - start))  # all have one before the first is up
    start = time.monotonic()
    server.fill("expire", keys, ttl=ttl_ms)
    return start + ttl_ms / 1000


def watch_die(server: Server, since: float) -> Points:
    """Asks for the number of keys, and for no key, until there is none or it has taken too long. Returns what was
    said, and how many seconds after `since`."""
    time.sleep(max(0.0, since - time.monotonic()))
    seen: Points = []
    while not seen or (seen[-1][1] > 0 and seen[-1][0] < NEVER_S):
        keys = int(str(server.ask("dbsize")))
        seen.append((time.monotonic() - since, keys))
        time.sleep(0.05)
    return seen


def neighbours_waits(server: Server, scale: Scale) -> Result:
    """The waits of a client that asks for one key, back to back, before and while all others expire."""
    server.load(mix="get", keys=1, seconds=0.05)
    probe: Options = {"probe": True, "mix": "get", "keys": 1}
    before = finish(server.start_load(seconds=scale.after, **probe))
    instant = fill_to_expire(server, scale.expire)
    time.sleep(max(0.0, instant - time.monotonic()))
    running = server.start_load(seconds=3600, **probe)
    watch_die(server, instant)
    running.terminate()
    during = finish(running)
    return {f"{field} {when}": waits[field] for field in ("p999_us", "max_us")
            for when, waits in (("before", before), ("during", during))}  # fmt: skip


def steady_share(server: Server, seconds: float) -> float:
    """Sets new keys with short TTLs at a steady rate, and asks for none. Returns the share of the keys in memory that
    have expired: the median of many looks."""
    key, dbsize = b"short:0000000", server.encode("dbsize")
    parts = [server.encode("set", key, "v", "px", str(ttl)).split(key) for ttl in range(1, STEADY_TTL_MS + 1)]
    rng, deadlines, shares = random.Random(1), [], []
    start = turn = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        while turn < start + seconds:
            ttls = [rng.randint(1, STEADY_TTL_MS) for _ in range(round(STEADY_RATE * STEADY_TURN_S))]
            batch = [(b"short:%07d" % i).join(parts[ttl - 1]) for i, ttl in enumerate(ttls, len(deadlines))]
            sock.sendall(b"".join(batch) + dbsize)
            replies = b""
            while replies.count(b"\r\n") <= len(ttls):
                replies += sock.recv(1 << 16)
            now = time.monotonic()
            deadlines += [now + ttl / 1000 for ttl in ttls]
            if now > start + 2 * STEADY_TTL_MS / 1000 and len(shares) < 5 * (now - start):
                there = int(replies.split(b":")[1])
                shares.append(1 - min(there, sum(deadline > now for deadline in deadlines)) / there)
            turn += STEADY_TURN_S
            time.sleep(max(0.0, turn - time.monotonic()))
    return median(shares)


def lab_courses() -> Dict[str, Points]:
    """Keys in memory over time, in percent, by the lab program of chapter 24: of those with evenly spread TTLs."""
    out = subprocess.run([str(ROOT / "build/test/24/expire_lab")], check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = [line.split() for line in out.splitlines()]
    seconds = [float(word) for word in rows[1][1:6]]
    return {row[1]: [(0.0, 0.0), *zip(seconds, map(float, row[2:7]))] for row in rows if row[0] == "uniform"}


def expiry(report: Report) -> None:
    scale = report.scale
    courses: Dict[str, Points] = {}

    def measure(candidate: Candidate) -> Result:
        with Server(candidate) as server:
            before = server.rss_kb()
            instant = fill_to_expire(server, scale.expire)
            size = (server.rss_kb() - before) * 1024 / scale.expire
            course = courses[candidate.name] = watch_die(server, instant)
        with Server(candidate) as server:
            waits = neighbours_waits(server, scale)
        with Server(candidate) as server:
            share = steady_share(server, 3.5 if scale.rounds > 1 else 2.3)
        return {"bytes": size, "seconds": course[-1][0], "share": share, **waits}

    results = in_turns(scale.few_rounds, [chapter(21), chapter(24), *redis()], measure)
    report.say("## Keys that expire\n")
    report.say(
        f"{scale.expire:,} keys of 16 bytes with values of 16 expire at one instant, and nobody asks for any of them: "
        "how many bytes each has taken, and after how long the last is gone. Then once more, beside a client that asks "
        "for one key, again and again, back to back: its waits, before and while the others die, in microseconds. "
        f"Last, {STEADY_RATE:,} keys a second are set with TTLs of 1 to {STEADY_TTL_MS:,} ms: how many of those in "
        f"memory (`DBSIZE`) are dead. Medians; rounds: {scale.few_rounds}.\n"
    )
    rows = []
    for candidate, runs in results.items():
        seconds = middle(runs, "seconds")
        waits = [f"{middle(runs, f'{field} {when}'):,.0f}" for field in ("p999_us", "max_us")
                 for when in ("before", "during")]  # fmt: skip
        rows.append([candidate.name, f"{middle(runs, 'bytes'):.1f}", f"{seconds:.1f}" if seconds < NEVER_S else "never",
                     *waits, f"{middle(runs, 'share'):.1%}"])  # fmt: skip
    report.table(("server", "bytes a key", "gone after, s", "p99.9 before", "p99.9 while they die", "worst before",
                  "worst while they die", "dead, in a steady state"), rows)  # fmt: skip
    title = f"{scale.expire:,} keys expire at one instant: how many are in memory"
    draw.lines(report.picture("expiry", title), title, "seconds after that instant", "keys", report.machine, courses)
    title = "Keys with TTLs of up to 20 seconds, set evenly: how many are in memory"
    draw.lines(report.picture("expiry-lab", title), title, "seconds (of the lab program's clock)",
               "percent of those set in 10 seconds", "./expire_lab, chapter 24", lab_courses())  # fmt: skip


# ---- messages ----


def processor_s(pid: int) -> float:
    """Seconds of a processor that a server has taken, all its threads together."""
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def messages(report: Report) -> None:
    scale = report.scale
    want_descriptors()
    room = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - (DESCRIPTORS - max(scale.listeners))
    sizes = [n for n in scale.listeners if n <= room]
    cases = [(n, pipeline, c) for n in sizes for pipeline in (1, 100) for c in (chapter(26), *redis())]

    def measure(case: Tuple[int, int, Candidate]) -> Result:
        n, pipeline, candidate = case
        with Server(candidate) as server:
            if candidate.name == "redis":
                server.ask("config", "set", "maxclients", str(max(sizes) + 50))
            load: Options = {"mix": "publish", "listeners": n, "pipeline": pipeline}
            server.load(**load, seconds=0)  # each listens once, and buffers have grown
            before = processor_s(server.pid)
            found = server.load(**load, seconds=scale.seconds)
            return {**found, "us": (processor_s(server.pid) - before) * 1e6 / found["requests"]}

    results = in_turns(scale.rounds, cases, measure)
    report.say("## Messages\n")
    report.say(
        "One client publishes to a channel to which others listen, messages of 16 bytes: so many in one write, and "
        "the next when all have heard all of them. Thousands a second, each counted once for everyone who hears it; "
        "after how long it is heard; and what that costs of the server's processor, with the beginning and the end of "
        f"the connections. Medians; rounds: {scale.rounds}. The load generator is one thread, which reads what all "
        "hear.\n"
    )
    if len(sizes) < len(scale.listeners):
        report.say(f"{max(scale.listeners):,} are left out, with fewer than {DESCRIPTORS:,} descriptors.\n")
    rows = []
    for (n, pipeline, candidate), runs in results.items():
        rate = middle(runs, "rate")
        base = [middle(results[n, pipeline, c], "rate") for c in redis()]
        rows.append([f"{n:,}", str(pipeline), candidate.name, f"{rate / 1e3:.1f}",
                     *(f"{rate / other:.2f}" for other in base), f"{middle(runs, 'p50_us'):,.0f}",
                     f"{middle(runs, 'us'):.2f}"])  # fmt: skip
    report.table(("listeners", "in one write", "server", "heard", *(["to Redis"] if redis() else []), "p50, us",
                  "of the server's processor, us"), rows)  # fmt: skip


# ---- the log ----

POLICIES = ("no log", "everysec", "always")
LOG_LOADS: Dict[str, Options] = {"alone": {"conns": 50}, "of 16": {"conns": 50, "pipeline": 16}}


def file_system(folder: Path) -> str:
    """The kind of the file system that a folder is on, as the kernel has it."""
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    here = f"{folder.resolve()}/"
    found = max((place.rstrip("/") + "/", kind) for place, kind in mounts if here.startswith(place.rstrip("/") + "/"))
    return found[1]


def sync_us(folder: str, times: int) -> float:
    """What it takes to bring 100 bytes more of a file to the disk: the median, in microseconds."""
    taken = []
    fd = os.open(f"{folder}/sync", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for _ in range(times):
        start = time.monotonic()
        os.write(fd, b"x" * 100)
        os.fdatasync(fd)
        taken.append((time.monotonic() - start) * 1e6)
    os.close(fd)
    return median(taken)


def keeping(folder: str, policy: str) -> Dict[str, str]:
    """Settings: the log is in `folder`, by one of POLICIES."""
    on = policy != POLICIES[0]
    return {"DIR": folder, "APPENDONLY": "yes" if on else "no", "APPENDFSYNC": policy if on else "everysec"}


def loading_s(candidate: Candidate, keys: int) -> Result:
    """How long a server takes that has to load so many keys, from its start to its first reply about them; and the
    bytes of its log."""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        with Server(candidate, keeping(folder, "everysec")) as server:
            server.fill("set", keys)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.aof"))
        start = time.monotonic()
        with Server(candidate, keeping(folder, "everysec")) as server, server.connect() as conn:
            while conn.ask("dbsize") != keys:
                assert time.monotonic() < start + 600, f"{candidate.name} has not loaded its log"
                time.sleep(0.002)
            return {"seconds": time.monotonic() - start, "bytes": size / keys}


def log(report: Report) -> None:
    scale = report.scale
    kind = file_system(BUILD)
    report.say("## The log\n")
    if kind in ("tmpfs", "ramfs"):
        report.say(f"Left out: {BUILD} is in memory ({kind}), where bringing a file to the disk costs nothing.\n")
        return
    candidates = [chapter(27), *redis()]

    def measure(case: Tuple[str, Candidate]) -> Result:
        policy, candidate = case
        with tempfile.TemporaryDirectory(dir=BUILD) as folder, Server(candidate, keeping(folder, policy)) as server:
            server.fill("set", scale.keys)
            found = {load: server.load(mix="set", keys=scale.keys, seconds=scale.seconds, **options)
                     for load, options in LOG_LOADS.items()}  # fmt: skip
            return {f"{load}, {field}": runs[field] for load, runs in found.items() for field in ("rate", "p99_us")}

    def waits(case: Tuple[str, Candidate]) -> Result:
        """Of a client that sets a key every 20 ms, while others set keys in pipelines."""
        policy, candidate = case
        with tempfile.TemporaryDirectory(dir=BUILD) as folder, Server(candidate, keeping(folder, policy)) as server:
            running = server.start_load(mix="set", keys=scale.keys, seconds=3600, **LOG_LOADS["of 16"])
            found = server.load(probe=True, mix="set", keys=1, every=20, seconds=scale.after)
            running.terminate()
            finish(running)
            return found

    rates = in_turns(scale.rounds, [(policy, c) for policy in POLICIES for c in candidates], measure)
    worst = in_turns(scale.few_rounds, [(policy, c) for policy in POLICIES[:2] for c in candidates], waits)
    loaded = in_turns(scale.few_rounds, candidates, lambda candidate: loading_s(candidate, scale.insert))
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        one_sync = sync_us(folder, 20 * scale.rounds)
    report.say(
        f"`set` of {scale.keys:,} keys of 16 bytes with values of 16, 50 connections, each with one request on its way "
        "or with 16: without a log, with one that is brought to the disk once a second (`everysec`), and with one that "
        "is on the disk before each reply (`always`). Thousands a second, also as a share of what the same server does "
        f"without a log. Medians; rounds: {scale.rounds}. The files are on {kind}, where `fdatasync` of 100 bytes more "
        f"takes {one_sync:,.0f} microseconds.\n"
    )
    rows = []
    for load, (policy, candidate) in [(load, case) for load in LOG_LOADS for case in rates]:
        rate, without = (middle(rates[each, candidate], f"{load}, rate") for each in (policy, POLICIES[0]))
        base, late = [middle(rates[policy, c], f"{load}, rate") for c in redis()], f"{load}, p99_us"
        rows.append([load, policy, candidate.name, f"{rate / 1e3:.1f}", *(f"{rate / other:.2f}" for other in base),
                     f"{rate / without:.2f}", f"{middle(rates[policy, candidate], late):,.0f}"])  # fmt: skip
    compared = ["to Redis"] if redis() else []
    report.table(("pipelines", "log", "server", "set", *compared, "to no log", "p99, us"), rows)
    report.say(
        "The longest wait of a client that sets a key every 20 ms, while 50 others set keys in pipelines of 16: "
        f"milliseconds, the least of all rounds ({scale.few_rounds}), {scale.after:g} seconds each.\n"
    )
    report.table(("log", "server", "longest wait, ms"),
                 ([policy, candidate.name, f"{min(run['max_us'] for run in runs) / 1e3:,.1f}"]
                  for (policy, candidate), runs in worst.items()))  # fmt: skip
    report.say(f"Loading a log of {scale.insert:,} such keys, from the start of the server to its first reply.\n")
    report.table(("server", "seconds", "bytes of the log a key"),
                 ([candidate.name, f"{middle(runs, 'seconds'):.2f}", f"{middle(runs, 'bytes'):.1f}"]
                  for candidate, runs in loaded.items()))  # fmt: skip


# ---- memory ----

CROWD = 500


def grown(candidate: Candidate, keys: int, mixes: Sequence[str]) -> float:
    """Bytes a key that the last of these fills adds."""
    with Server(candidate) as server:
        server.load(mix="get", keys=1, pipeline=100, seconds=0.05)
        for mix in mixes:
            before = server.rss_kb()
            server.fill(mix, keys, ttl=3_600_000)
        return (server.rss_kb() - before) * 1024 / keys


def idle_bytes(candidate: Candidate) -> float:
    """What each connection of a crowd costs that have been busy, one after the other, and are idle."""
    with Server(candidate) as server, ExitStack() as stack:
        value = b"v" * 100_000
        talk = [
            server.exchange(1, None, "set", "large", value),
            server.exchange(1, value, "get", "large"),
            server.exchange(1000, None, "get", "nothing"),
        ]

        def be_busy() -> None:
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            for requests, size in talk:
                sock.sendall(requests)
                while size:
                    size -= len(sock.recv(size))

        for _ in range(20):
            be_busy()
        before = server.rss_kb()
        for _ in range(CROWD):
            be_busy()
        time.sleep(1.5)  # Redis shrinks the buffers of its clients bit by bit
        return (server.rss_kb() - before) * 1024 / CROWD


def memory(report: Report) -> None:
    keys, more = report.scale.keys, report.scale.keys * 11 // 10
    late = [chapter(14), chapter(19), *redis()]
    early = [chapter(8), *late]
    measured: Dict[str, Dict[str, float]] = {
        f"a key, of {keys:,}": {c.name: grown(c, keys, ["set"]) for c in early},
        f"a key, of {more:,}": {c.name: grown(c, more, ["set"]) for c in early},
        f"a member, of {keys:,}": {c.name: grown(c, keys, ["zadd"]) for c in late},
        f"a TTL, of {keys:,}": {c.name: grown(c, keys, ["set", "expire"]) for c in late},
        f"a connection that was busy and is idle, of {CROWD:,}": {
            c.name: idle_bytes(c) for c in (*map(chapter, (14, 17, 18, 19)), *redis())
        },
    }
    report.say("## Memory\n")
    report.say("Bytes of resident memory. Keys are 16 bytes, values 16, names of members 12. A busy connection has set "
               "a value of 100,000 bytes, has got it back, and then a thousand replies in a pipeline.\n")  # fmt: skip
    report.table(("what", "server", "bytes"),
                 ([what, name, f"{size:,.1f}"] for what, sizes in measured.items() for name, size in sizes.items()))
    groups = {what: [(name, max(size, 0.1)) for name, size in sizes.items()] for what, sizes in measured.items()}
    picture = report.picture("memory", "Bytes of memory")
    draw.bars(picture, "Bytes of memory", "bytes", report.machine, groups, log=True)


SECTIONS = (rates, sorted_sets, structures, stalls, expiry, messages, log, memory)


def main() -> None:
    scale = SCALES[sys.argv[1] if len(sys.argv) > 1 else "normal"]
    known = {section.__name__: section for section in SECTIONS}
    names = sys.argv[2:] or list(known)
    if not set(names) <= set(known):
        raise SystemExit(f"the sections are {', '.join(known)}")
    report = Report(scale)
    for name in ("load", "echo"):
        compiled(HERE / f"{name}.c", name)
    report.say("# Benchmarks\n")
    report.say(f"{report.machine}.")
    report.say("Written by `make bench`; `make bench-full` takes the time that solid medians need. Compare ratios, not "
               "absolute numbers: machines differ, and this one may have had other things to do. "
               "[Appendix A8](A8-measuring.md) reads the tables line by line.\n")  # fmt: skip
    try:
        for name in names:
            known[name](report)
    except AssertionError as failure:  # of the harness: what happened, in its words
        raise SystemExit(str(failure)) from None
    if scale.name != "quick" and not sys.argv[2:]:
        text = "\n".join(report.lines).rstrip() + "\n"
        (ROOT / "book" / "bench.md").write_text(text)
        print("written: book/bench.md, book/figures/bench-*.svg")


if __name__ == "__main__":
    main()
