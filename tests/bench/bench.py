"""The benchmarks: `make bench` (about half an hour), `make bench-full`, `make bench-quick` (half a minute).

Prints tables; but for quick, writes them to book/bench.md and draws book/figures/bench-*.svg.
`make bench ARGS=stalls` measures one section alone (any in SECTIONS), and only prints it.
Candidates take turns at each measurement, so that a machine that is slower for a while is so for all of
them; what is quoted is the median of the rounds. Server and client are bound to different processors.
Speed is never judged here, but every reply is checked, and a wrong one ends the run.
"""

from __future__ import annotations

import csv
import itertools
import json
import platform
import random
import resource
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import draw
from servers import BUILD, HERE, ROOT, Candidate, Result, Server, chapter, compiled, finish, may_hurry, processors
from servers import pin, redis, variant

FIGURES = ROOT / "book" / "figures"
K_MAX_WORKS = "    k_max_works = 200,"
FETCH = "    if (batch.n > 1) {"
YIELD = "                sched_yield();"
TIDY = "void *volatile block = malloc(k_tidy_size);"
ALL = tuple(sorted(int(p.parent.name) for p in ROOT.glob("chapters/*/server.c") if p.parent.name >= "04"))
LOAD_FACTOR = "    k_max_load_factor = 2,"


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
    chosen: int  # keys that an attacker would choose
    after: float  # seconds to look on after an event
    chapters: Tuple[int, ...]


SCALES = {
    "quick": Scale(
        "quick", 1, 0.05, (1000, 10_000), (1000,), 1000, 12_000, 12_000, 20_000, 20_000, 2000, 0.05,
        (4, 6, 8, 9, ALL[-1]),
    ),
    "normal": Scale(
        "normal", 3, 0.3, (1000, 10_000, 100_000, 1_000_000), (1000, 10_000, 100_000),
        100_000, 300_000, 1_000_000, 1_000_000, 1_000_000, 40_000, 3.0, ALL,
    ),
    "full": Scale(
        "full", 9, 1.0, (1000, 10_000, 100_000, 1_000_000, 10_000_000), (1000, 10_000, 100_000, 1_000_000),
        1_000_000, 1_000_000, 1_000_000, 5_000_000, 1_000_000, 40_000, 3.0, ALL,
    ),
}  # fmt: skip


class Report:
    """What is printed and written: paragraphs, tables, pictures."""

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self.lines: List[str] = []
        cpu = platform.processor() or platform.machine()
        for row in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
            if row.startswith("model name"):
                cpu = row.split(":", 1)[1].strip()
                break
        self.machine = (
            f"{time.strftime('%Y-%m-%d')}, {cpu}, {len(processors()) or '?'} processors,"
            f" {platform.system()} {platform.release().split('-')[0]}, make"
            f" bench{'' if scale.name == 'normal' else '-' + scale.name}"
        )

    def say(self, words: str = "") -> None:
        print(words, flush=True)
        self.lines.append(words)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
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


def micro(program: Path, name: str, nodes: int) -> Result:
    """Runs one micro-benchmark; returns its figures."""
    out = subprocess.run([str(program), name, str(nodes)], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)


def middle(results: Sequence[Result], field: str) -> float:
    return median(result[field] for result in results)


# ---- requests a second ----

LOADS: Dict[str, Dict[str, object]] = {
    "1 connection": {"conns": 1},
    "50 connections": {"conns": 50},
    "50 connections, pipelines of 16": {"conns": 50, "pipeline": 16},
    "10 connections, pipelines of 1000": {"conns": 10, "pipeline": 1000},
    "50 connections beside 1000 idle": {"conns": 50, "idle": 1000},
    "50 connections beside 9900 idle": {"conns": 50, "idle": 9900},
}
DESCRIPTORS = 10_100  # that the last of them needs
UNAWARE = "15 without fetch_ahead"
MOST_SPREAD = 0.25  # between rounds; where it is more, there are more rounds
EXTRA_ROUNDS = 3


def can_run(candidate: Candidate, load: Dict[str, object]) -> bool:
    """Chapter 04 serves one client at a time; 05 has room for 1000 clients, and loses what a client does not take at
    once; the list of 07 is measured by itself. What 15 is without fetch_ahead shows in pipelines alone. The largest
    crowd, where we may have so many descriptors, is for Redis and the last stages: with poll, one is like the other."""
    if load.get("idle", 0) == 9900:
        few = resource.getrlimit(resource.RLIMIT_NOFILE)[0] < DESCRIPTORS
        return not few and (candidate.name == "redis" or candidate.name.isdigit() and candidate.name >= "14")
    if candidate.name == UNAWARE:
        return "pipeline" in load
    if candidate.name == "04":
        return load["conns"] == 1
    return candidate.name != "05" or ("idle" not in load and "pipeline" not in load)


def rates(report: Report) -> None:
    scale = report.scale
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < DESCRIPTORS <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))  # the servers and the load inherit it
    others = [c for c in (redis(), Candidate("echo", [str(BUILD / "echo")], "echo")) if c]
    unaware = variant("15-unaware", "chapters/15/server.c", FETCH, "    if (false) {", "chapters/15/server.c")
    candidates = [*(chapter(n) for n in scale.chapters), Candidate(UNAWARE, [str(unaware)], "tagged"), *others]
    if not redis():
        report.say("redis-server is not installed: it is left out, and so are the ratios to it.\n")
    results: Dict[Tuple[str, str, str], List[Result]] = {}
    with ExitStack() as stack:
        servers = {candidate: stack.enter_context(Server(candidate)) for candidate in candidates}
        keys = {c: 1000 if c.name == "07" else scale.keys for c in candidates}
        plain = {c: c.proto in ("world", "raw", "echo") for c in candidates}
        for candidate, server in servers.items():
            if not plain[candidate]:
                server.load(mix="set", fill=True, keys=keys[candidate], conns=5, pipeline=100)

        def one_round(load_name: str, op: str) -> None:
            for candidate, server in servers.items():
                kind = "ping" if plain[candidate] else op
                if can_run(candidate, LOADS[load_name]) and (kind == op or op == "get"):
                    size = 32 if plain[candidate] else 16
                    figures = server.load(
                        mix=kind, keys=keys[candidate], seconds=scale.seconds, value_size=size, **LOADS[load_name]
                    )
                    results.setdefault((load_name, candidate.name, kind), []).append(figures)

        turns = [(load_name, op) for load_name in LOADS for op in ("get", "set")]
        for _ in range(scale.rounds):
            for load_name, op in turns:
                one_round(load_name, op)
        for load_name, op in turns if scale.rounds > 1 else []:
            for _ in range(EXTRA_ROUNDS):
                if disturbed(results, load_name, op):
                    one_round(load_name, op)
    report.say("## Requests a second\n")
    report.say(
        "Thousands a second; for 04 to 06 and the echo server these are messages of 32 bytes, from 07 on "
        f"`get` and `set` of {scale.keys:,} keys of 16 bytes with values of 16 (07, whose list is slow: 1,000 keys). "
        "The echo server is the ceiling of the tables of this section: it sends back what comes and does nothing "
        "else.\n"
    )
    restless = sorted({f"{load_name}, {op}: {', '.join(names)}" for load_name, op in turns
                       for names in [disturbed(results, load_name, op)] if names and scale.rounds > 1})  # fmt: skip
    if restless:
        report.say(
            f"The machine was disturbed: after {EXTRA_ROUNDS} more rounds, those in the middle still differ by more "
            f"than {MOST_SPREAD:.0%} at {'; '.join(restless)}.\n"
        )
    for load_name in LOADS:
        groups: Dict[str, List[Tuple[str, float]]] = {"get (04 to 06, echo: messages)": [], "set": []}
        rows = []
        echo = results.get((load_name, "echo", "ping"))
        too_slow = bool(echo) and middle(echo, "rate") < fastest(results, load_name)
        for candidate in candidates:
            if candidate.name == "echo" and too_slow:
                continue
            cells = []
            for op in ("get", "set"):
                kind = op if (load_name, candidate.name, op) in results else "ping"
                runs = results.get((load_name, candidate.name, kind))
                if not runs:
                    cells += ["", "", ""]
                    continue
                rate = middle(runs, "rate")
                base = results.get((load_name, "redis", op))
                ratio = f"{rate / middle(base, 'rate'):.2f}" if base else ""
                cells += [f"{rate / 1e3:.1f}", ratio, f"{middle(runs, 'p99_us'):.0f}"]
                if kind == op or op == "get":
                    groups["set" if kind == "set" else "get (04 to 06, echo: messages)"].append((candidate.name, rate))
            if any(cells):
                rows.append([candidate.name, *cells])
        if not rows:
            report.say(f"{load_name}: left out, with fewer than {DESCRIPTORS:,} descriptors (`ulimit -n`).\n")
            continue
        report.say(f"### {load_name}\n")
        report.table(("server", "get", "to Redis", "p99, us", "set", "to Redis", "p99, us"), rows)
        if too_slow:
            report.say("The echo server is left out here: its messages are larger than these, and it caps nothing.\n")
        slug = "rate-" + load_name.replace(",", "").replace(" ", "-")
        draw.bars(
            report.picture(slug, f"Requests a second, {load_name}"),
            f"Requests a second, {load_name}", "requests a second", report.machine, groups,
        )  # fmt: skip


def spread(runs: Sequence[Result]) -> float:
    """How far apart the rounds are, relative to their median; without the outer quarters."""
    rates = sorted(run["rate"] for run in runs)
    cut = len(rates) // 4
    return (rates[-1 - cut] - rates[cut]) / median(rates)


def disturbed(results: Mapping[Tuple[str, str, str], List[Result]], load_name: str, op: str) -> List[str]:
    """The servers whose rounds under this load are too far apart. Messages of 04 to 06 count as `get`."""
    kinds = (op, "ping") if op == "get" else (op,)
    return [name for (load, name, kind), runs in results.items()
            if load == load_name and kind in kinds and spread(runs) > MOST_SPREAD]  # fmt: skip


def fastest(results: Mapping[Tuple[str, str, str], List[Result]], load_name: str) -> float:
    """The rate of the fastest server under this load, the echo server aside."""
    others = (runs for (load, name, _), runs in results.items() if load == load_name and name != "echo")
    return max(middle(runs, "rate") for runs in others)


def redis_benchmark(report: Report) -> None:
    """The benchmark of Redis itself, against chapter 17, Redis and the echo server in turns."""
    report.say("## redis-benchmark\n")
    program, other = shutil.which("redis-benchmark"), redis()
    if not program or not other:
        report.say("Left out: redis-benchmark or redis-server is not installed.\n")
        return
    scale = report.scale
    candidates = (chapter(17), other, Candidate("echo", [str(BUILD / "echo")], "echo"))
    turns = [(pipeline, op) for pipeline in (1, 16) for op in ("set", "get", "zadd")]
    results: Dict[Tuple[int, str, str], List[Result]] = {}
    with ExitStack() as stack:
        servers = {candidate: stack.enter_context(Server(candidate)) for candidate in candidates}
        for _ in range(scale.rounds):
            for pipeline, op in turns:
                for candidate, server in servers.items():
                    requests = int(scale.keys * pipeline ** 0.5)
                    command = [program, "-p", str(server.port), "-t", op, "-c", "50", "-P", str(pipeline),
                               "-n", str(requests), "-r", str(scale.keys), "--csv"]  # fmt: skip
                    before = server.cpu_ns()
                    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                          text=True, preexec_fn=lambda: pin("load"))  # fmt: skip
                    each_us = (server.cpu_ns() - before) / 1e3 / requests
                    rate = float(next(csv.DictReader(done.stdout.splitlines()))["rps"])
                    results.setdefault((pipeline, op, candidate.name), []).append({"rate": rate, "us": each_us})
    report.say(
        f"Thousands a second, as it prints them: 50 connections, {scale.keys:,} keys. And what a request takes of the"
        " server's processor time, in microseconds.\n"
    )
    rows = []
    for pipeline, op in turns:
        ours, theirs, echo = (results[pipeline, op, candidate.name] for candidate in candidates)
        rate, other_rate, us, other_us = (middle(runs, field) for field in ("rate", "us") for runs in (ours, theirs))
        rows.append([
            f"`{op}`" + f", pipelines of {pipeline}" * (pipeline > 1),
            f"{rate / 1e3:.1f}", f"{other_rate / 1e3:.1f}", f"{rate / other_rate:.2f}",
            f"{us:.2f}", f"{other_us:.2f}", f"{other_us / us:.2f}", f"{middle(echo, 'rate') / 1e3:.1f}",
        ])  # fmt: skip
    report.table(("what", "17", "Redis", "17 to Redis", "17, us", "Redis, us", "Redis to 17", "echo"), rows)
    report.say(
        "redis-benchmark is one thread. One request at a time it is busier than the servers, and they wait for it. The"
        " less a server has to do, the more often it sleeps, and to wake it is work of the client: as a rule the echo"
        " server, which sends requests back unread, is the slowest of the three. So these rates say little of the"
        " servers. What a request takes of their time says more.\n"
    )


def sorted_sets(report: Report) -> None:
    scale = report.scale
    candidates = [c for c in (chapter(11), chapter(14), chapter(15), chapter(16), redis()) if c]
    sixteen, seconds = {"pipeline": 16}, {"seconds": scale.seconds}
    operations: Dict[str, Dict[str, object]] = {
        f"zadd, one set growing to {scale.stall:,}, pipelines of 16": {"mix": "zadd", "fill": True, **sixteen},
        "10 pairs from a score": {"mix": "zquery", **seconds},
        "10 pairs from a score, pipelines of 16": {"mix": "zquery", **seconds, **sixteen},
        f"10 pairs at an offset up to {scale.stall // 10:,} from a score": {"mix": "zoff", **seconds},
    }
    results: Dict[Tuple[str, str], List[Result]] = {}
    for _ in range(scale.rounds):
        with ExitStack() as stack:
            servers = {candidate: stack.enter_context(Server(candidate)) for candidate in candidates}
            for title, how in operations.items():
                for candidate, server in servers.items():
                    figures = server.load(keys=scale.stall, conns=50, offset_max=scale.stall // 10, **how)
                    results.setdefault((title, candidate.name), []).append(figures)
    report.say("## Sorted sets\n")
    report.say("Thousands a second, 50 connections. Redis 7.0 walks to an offset, from 11 on we count.\n")
    rows = []
    for title in operations:
        for candidate in candidates:
            rate = middle(results[title, candidate.name], "rate")
            base = results.get((title, "redis"))
            rows.append(
                [title, candidate.name, f"{rate / 1e3:.1f}", f"{rate / middle(base, 'rate'):.2f}" if base else ""]
            )
    report.table(("what", "server", "rate", "to Redis"), rows)


# ---- structures ----


def curve(
    report: Report, slug: str, title: str, unit: str, names: Dict[str, Tuple[str, Sequence[int]]], field: str
) -> None:
    """Measures micro-benchmarks over sizes: {series: (benchmark, sizes)}; a table and a picture."""
    scale = report.scale
    series: Dict[str, List[Tuple[float, float]]] = {}
    for name, (benchmark, sizes) in names.items():
        for size in sizes:
            runs = [micro(BUILD / "micro", benchmark, size) for _ in range(min(scale.rounds, 3))]
            series.setdefault(name, []).append((size, max(middle(runs, field), 0.001)))
    report.say(f"### {title}\n")
    sizes = sorted({int(x) for points in series.values() for x, _ in points})
    rows = []
    for name, points in series.items():
        values = dict(points)
        rows.append([name, *(f"{values[s]:,.1f}" if s in values else "" for s in sizes)])
    report.table((unit, *(f"{s:,}" for s in sizes)), rows)
    draw.lines(report.picture(slug, title), title, "nodes", unit, report.machine, series)


def structures(report: Report) -> None:
    scale = report.scale
    report.say("## What each structure buys\n")
    report.say(
        "Nanoseconds an operation, or the worst single one, without a server around it (`tests/bench/micro.c`).\n"
    )
    curve(report, "lookup", "A key in the list of 07 and in the table of 08", "nanoseconds",
          {"list": ("list-get", scale.list_sizes), "table": ("table-get", scale.sizes)}, "ns")  # fmt: skip
    curve(report, "pause", "The worst insertion: a table that grows in steps, and at once", "microseconds",
          {"in steps": ("table-insert", scale.sizes), "at once": ("table-insert-at-once", scale.sizes)},
          "worst_us")  # fmt: skip
    curve(report, "offset", "Moving up to 100,000 places in a sorted set", "nanoseconds",
          {"step by step": ("offset-walk", scale.list_sizes), "by counts": ("offset-counts", scale.sizes)},
          "ns")  # fmt: skip
    curve(
        report,
        "heap",
        "TTLs in a heap",
        "nanoseconds",
        {
            "add": ("heap-add", scale.sizes),
            "change": ("heap-change", scale.sizes),
            "take the nearest": ("heap-pop", scale.sizes),
        },
        "ns",
    )
    curve(report, "zset", "Adding to a sorted set, and finding a place in it", "nanoseconds",
          {"add": ("zset-add", scale.sizes), "find": ("zset-seek", scale.sizes)}, "ns")  # fmt: skip
    nodes = scale.sizes[-1] if scale.sizes[-1] < 2_000_000 else 1_000_000
    rows = []
    for factor in (1, 2, 4, 8):
        line = LOAD_FACTOR.replace("2", str(factor))
        program = variant(f"micro-{factor}", "common/hashtable.h", LOAD_FACTOR, line, "tests/bench/micro.c")
        runs = [micro(program, "table-get", nodes) for _ in range(scale.rounds)]
        buckets = 4
        while buckets * factor < nodes:
            buckets *= 2
        rows.append([str(factor), f"{middle(runs, 'ns'):.0f}", f"{buckets * 8 / nodes:.1f}"])
    report.say(f"### The load factor, with {nodes:,} keys\n")
    report.table(("nodes a bucket at which the table grows", "nanoseconds a lookup", "bytes a key for buckets"), rows)


# ---- the stall lab ----


# A get allocates nothing, a new key a little and sometimes a large value, a connection its buffers: each pays another
# part of what an event leaves behind. A probe that comes seldom pays at once what has piled up until then.
def probes(scale: Scale) -> Dict[str, Dict[str, object]]:
    """Options of the load generator for each probe."""
    seldom = min(700, round(1000 * scale.after / 4))
    get: Dict[str, object] = {"mix": "get", "keys": 1000, "seconds": 3600}
    new_keys = {"mix": "set", "fill": True, "first": 10**8, "keys": 10**9, "large": 3000}
    return {
        "get, every 20 ms": {**get, "every": 20},
        "set of a new key, every 20 ms": {**new_keys, "every": 20},
        "connect, every 20 ms": {**get, "every": 20, "reconnect": True},
        f"connect, every {seldom} ms": {**get, "every": seldom, "reconnect": True},
    }


def watch(server: Server, probe: Dict[str, object], event: Callable[[], object], after: float) -> Result:
    """What a probe sees from 0.2 seconds before an event until `after` it."""
    running = server.start_load(probe=True, **probe)
    time.sleep(0.2)
    event()
    time.sleep(after)
    running.terminate()
    return finish(running)


def stalls(report: Report) -> None:
    scale = report.scale

    def without(what: str, line: str, instead: str, file: str = "chapters/14/server.c") -> Candidate:
        program = variant(f"14-without-{what.split()[-1]}", file, line, instead, "chapters/14/server.c")
        return Candidate(f"14 without {what}", [str(program)], "tagged")

    unlimited = without("k_max_works", K_MAX_WORKS, K_MAX_WORKS.replace("200", "1 << 30"))
    rude = without("sched_yield", YIELD, "                ;")
    untidy = without("mem_tidy", TIDY, TIDY.replace("malloc(k_tidy_size)", "NULL"), "common/mem_tidy.h")
    others = [c for c in (redis(),) if c]

    def nothing(server: Server) -> Callable[[], object]:
        return lambda: None

    def insert(server: Server) -> Callable[[], object]:
        return lambda: server.load(mix="set", fill=True, keys=scale.insert, conns=10, pipeline=16)

    def delete(server: Server, command: str = "del") -> Callable[[], object]:
        server.load(mix="zadd", fill=True, keys=scale.pairs, pipeline=100)
        return lambda: server.ask(command, "zs")

    def unlink(server: Server) -> Callable[[], object]:
        return delete(server, "UNLINK")

    def expire(server: Server) -> Callable[[], object]:
        server.load(mix="set", fill=True, keys=scale.stall, conns=5, pipeline=100)
        ttl_ms = max(200, scale.stall // 100)
        start = time.monotonic()
        server.load(mix="expire", fill=True, keys=scale.stall, pipeline=100, ttl=ttl_ms)
        left = start + ttl_ms / 1000 - time.monotonic()
        return lambda: time.sleep(max(0, left))

    deleted = f"a sorted set of {scale.pairs:,} is deleted"
    cases: List[Tuple[str, Candidate, str, Callable[[Server], Callable[[], object]]]] = [
        *(("nothing", c, c.name, nothing) for c in (chapter(14), *others)),
        *((f"{scale.insert:,} keys are inserted", c, c.name, insert) for c in (chapter(14), *others)),
        *((deleted, c, c.name, delete) for c in (chapter(13), chapter(14), rude, untidy)),
        *((deleted, c, f"{c.name}, DEL", delete) for c in others),
        *((deleted, c, f"{c.name}, UNLINK", unlink) for c in others),
        *((f"{scale.stall:,} keys expire at one instant", c, c.name, expire)
          for c in (chapter(13), chapter(14), unlimited, *others)),
    ]  # fmt: skip
    results: Dict[Tuple[str, str, str], List[float]] = {}
    rounds = min(scale.rounds, 3)
    for _ in range(rounds):
        for event_name, candidate, name, prepare in cases:
            for probe_name, probe in probes(scale).items():
                with Server(candidate) as server:
                    seen = watch(server, probe, prepare(server), scale.after)
                    results.setdefault((event_name, name, probe_name), []).append(seen["max_us"])
    report.say("## The stall lab\n")
    report.say(
        "The longest wait of another client, a probe, from 0.2 seconds before something heavy happens until "
        f"{scale.after:g} seconds after it. Microseconds; the least of all rounds, since whatever else the machine "
        f"does can only add to it (rounds: {rounds}). Every 16th new key has a value of 3,000 bytes; a new connection "
        "asks one `get`, and its wait begins before it connects. Redis frees a set in its loop for `DEL` and in a "
        "thread for `UNLINK`, which is what to compare with. The probe had "
        f"{'' if may_hurry() else 'no '}real-time priority.\n"
    )
    rows, groups = [], {}
    for event_name, _, name, _ in cases:
        waits = [min(results[event_name, name, probe_name]) for probe_name in probes(scale)]
        rows.append([event_name, name, *(f"{wait:,.0f}" for wait in waits)])
        groups.setdefault(event_name, []).append((name, max(waits)))
    report.table(("event", "server", *probes(scale)), rows)
    title = "The longest wait of any probe"
    draw.bars(report.picture("stalls", title), title, "microseconds", report.machine, groups, log=True)


# ---- keys that expire ----

STEADY_TTL_MS = 1000  # at most; any number up to it is as frequent
STEADY_RATE = 50_000  # keys a second
STEADY_TURN_S = 0.01


def fill_to_expire(server: Server, keys: int) -> float:
    """Sets keys that expire at one instant; returns it."""
    start = time.monotonic()
    server.load(mix="set", fill=True, keys=keys, conns=5, pipeline=100)
    ttl_ms = round(300 + 3000 * (time.monotonic() - start))  # all have one before the first is up
    start = time.monotonic()
    server.load(mix="expire", fill=True, keys=keys, conns=5, pipeline=100, ttl=ttl_ms)
    return start + ttl_ms / 1000


def watch_die(server: Server, since: float, most: float) -> List[Tuple[float, float]]:
    """Asks for the number of keys, and for no key, until there is none or `most` seconds are over. Returns what was
    said, and how many seconds after `since`."""
    time.sleep(max(0.0, since - time.monotonic()))
    seen: List[Tuple[float, float]] = []
    while not seen or (seen[-1][1] > 0 and seen[-1][0] < most):
        reply = server.ask("DBSIZE")
        seen.append((time.monotonic() - since, int(reply[1:])))
        time.sleep(0.05)
    return seen


def steady_share(server: Server, seconds: float) -> float:
    """Sets new keys with short TTLs at a steady rate, and asks for none. Returns the share of the keys in memory that
    have expired: the median of many looks."""
    rng, deadlines, shares = random.Random(1), [], []
    start = turn = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        while turn < start + seconds:
            ttls = [rng.randint(1, STEADY_TTL_MS) for _ in range(round(STEADY_RATE * STEADY_TURN_S))]
            first = len(deadlines)
            batch = [server.encode(b"set", b"short:%d" % (first + i), b"v", b"px", b"%d" % ttl)
                     for i, ttl in enumerate(ttls)]  # fmt: skip
            sock.sendall(b"".join(batch) + server.encode(b"dbsize"))
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


def lab_courses() -> Dict[str, List[Tuple[float, float]]]:
    """Keys in memory over time, in percent, by the lab program of chapter 18: of those with evenly spread TTLs."""
    out = subprocess.run([str(ROOT / "build/test/18/expire_lab")], check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = [line.split() for line in out.splitlines()]
    seconds = [float(word) for word in rows[1][1:6]]
    return {row[1]: [(0.0, 0.0), *zip(seconds, map(float, row[2:7]))] for row in rows if row[0] == "uniform"}


def expiry(report: Report) -> None:
    scale = report.scale
    candidates = [c for c in (*(chapter(n) for n in (17, 18)), redis()) if c]
    keys, most = scale.expire, 20.0
    quiet: Dict[str, List[Result]] = {}
    busy: Dict[str, List[Result]] = {}
    figures: Dict[Tuple[str, str], List[float]] = {}
    courses: Dict[str, List[Tuple[float, float]]] = {}
    rounds = min(scale.rounds, 3)
    for _ in range(rounds):
        for candidate in candidates:
            name = candidate.name
            with Server(candidate) as server:
                before = server.rss_bytes()
                instant = fill_to_expire(server, keys)
                figures.setdefault((name, "bytes"), []).append((server.rss_bytes() - before) / keys)
                courses[name] = watch_die(server, instant, most)
                figures.setdefault((name, "seconds"), []).append(courses[name][-1][0])
            with Server(candidate) as server:
                server.load(mix="get", keys=1, seconds=0.05)
                probe: Dict[str, object] = {"probe": True, "mix": "get", "keys": 1}
                quiet.setdefault(name, []).append(finish(server.start_load(seconds=scale.after, **probe)))
                instant = fill_to_expire(server, keys)
                time.sleep(max(0.0, instant - time.monotonic()))
                running = server.start_load(seconds=3600, **probe)
                watch_die(server, instant, most)
                running.terminate()
                busy.setdefault(name, []).append(finish(running))
            with Server(candidate) as server:
                share = steady_share(server, 3.5 if scale.rounds > 1 else 2.3)
                figures.setdefault((name, "share"), []).append(share)
    report.say("## Keys that expire\n")
    report.say(
        f"{keys:,} keys of 16 bytes with values of 16 expire at one instant, and nobody asks for any of them: how many "
        "bytes each has taken, and after how long the last is gone. Then once more, beside a client that asks for one "
        "key, again and again, back to back: its waits, before and while the others die, in microseconds. Last, "
        f"{STEADY_RATE:,} keys a second are set with TTLs of 1 to {STEADY_TTL_MS:,} ms: how many of those in memory "
        f"(`DBSIZE`) are dead. Medians; rounds: {rounds}.\n"
    )
    rows = []
    for candidate in candidates:
        name = candidate.name
        seconds = median(figures[name, "seconds"])
        waits = [f"{middle(results[name], field):,.0f}" for field in ("p999_us", "max_us") for results in (quiet, busy)]
        rows.append([name, f"{median(figures[name, 'bytes']):.1f}", f"{seconds:.1f}" if seconds < most else "never",
                     *waits, f"{median(figures[name, 'share']):.1%}"])  # fmt: skip
    report.table(("server", "bytes a key", "gone after, s", "p99.9 before", "p99.9 while they die", "worst before",
                  "worst while they die", "dead, in a steady state"), rows)  # fmt: skip
    title = f"{keys:,} keys expire at one instant: how many are in memory"
    draw.course(report.picture("expiry", title), title, "seconds after that instant", "keys", report.machine, courses)
    title = "Keys with TTLs of up to 20 seconds, set evenly: how many are in memory"
    draw.course(report.picture("expiry-lab", title), title, "seconds (of the lab program's clock)",
                "percent of those set in 10 seconds", "./expire_lab, chapter 18", lab_courses())  # fmt: skip


# ---- an attack ----


def colliding(count: int) -> List[bytes]:
    """Keys of one length and of one hash code under FNV-1a of 32 bits, which needs no secret.

    A pair of blocks leads from one state to another; the next pair begins there. n pairs make 2^n keys (A. Joux,
    "Multicollisions in iterated hash functions", 2004). Cost: some 2^16 blocks for each pair.
    """
    rng, state, pairs = random.Random(count), 0x811C9DC5, []
    while 2 ** len(pairs) < count:
        seen: Dict[int, bytes] = {}
        while True:
            block, after = b"%08x" % rng.getrandbits(32), state
            for byte in block:
                after = (after ^ byte) * 0x01000193 & 0xFFFFFFFF
            if seen.setdefault(after, block) != block:
                break
        pairs.append((seen[after], block))
        state = after
    return [b"".join(blocks) for blocks in itertools.islice(itertools.product(*pairs), count)]


def chosen_keys(report: Report) -> None:
    scale = report.scale
    chosen, rng = colliding(scale.chosen), random.Random(1)
    others = [b"%0*x" % (len(chosen[0]), rng.getrandbits(4 * len(chosen[0]))) for _ in chosen]
    candidates = [c for c in (chapter(9), chapter(14), redis()) if c]
    times: Dict[Tuple[str, str], List[float]] = {}
    for _ in range(scale.rounds):
        for candidate in candidates:
            for name, keys in (("others", others), ("chosen", chosen)):
                with Server(candidate) as server:
                    times.setdefault((candidate.name, name), []).append(server.set_all(keys))
    report.say("## Keys chosen to collide\n")
    report.say(
        f"Nanoseconds of the server for each of {len(chosen):,} `set`, in pipelines of 1000. The chosen keys all have"
        " the same hash code under FNV-1a. Here a secret key goes into each hash code, so they are keys like others.\n"
    )
    rows = []
    for candidate in candidates:
        one, other = (median(times[candidate.name, name]) for name in ("others", "chosen"))
        rows.append([candidate.name, f"{one:,.0f}", f"{other:,.0f}", f"{other / one:.2f}" if one else "-"])
    report.table(("server", "random keys", "chosen keys", "ratio"), rows)


# ---- memory ----


def idle_bytes(candidate: Candidate, n: int) -> float:
    """What each of n connections costs that have been busy, one after the other, and are idle."""
    with Server(candidate) as server, ExitStack() as stack:
        value, resp = b"v" * 100_000, candidate.proto == "resp"
        talk = [
            (server.encode(b"set", b"large", value), 5),
            (server.encode(b"get", b"large"), len(value) + (len(b"$100000\r\n\r\n") if resp else 9)),
            (server.encode(b"get", b"nothing") * 1000, 5000),
        ]

        def be_busy() -> None:
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            for request, size in talk:
                sock.sendall(request)
                while size:
                    size -= len(sock.recv(size))

        for _ in range(20):
            be_busy()
        before = server.rss_bytes()
        for _ in range(n):
            be_busy()
        time.sleep(1.5)  # Redis shrinks the buffers of its clients bit by bit
        return (server.rss_bytes() - before) / n


def memory(report: Report) -> None:
    scale = report.scale
    candidates = [chapter(8), chapter(14), chapter(16)] + [c for c in (redis(),) if c]
    n = scale.keys
    rows, groups = [], {}

    def grown(candidate: Candidate, fills: Sequence[Dict[str, object]]) -> float:
        """Bytes that the last of the fills adds, over its number of keys."""
        with Server(candidate) as server:
            server.load(mix="get", keys=1, pipeline=100, seconds=0.05)
            for fill in fills:
                before = server.rss_bytes()
                server.load(fill=True, pipeline=100, **fill)
            return (server.rss_bytes() - before) / float(str(fills[-1]["keys"]))

    sets: Dict[str, Tuple[List[Dict[str, object]], Optional[int]]] = {
        f"a key, of {n:,}": ([{"mix": "set", "keys": n}], 7),
        f"a key, of {n + n // 10:,}": ([{"mix": "set", "keys": n + n // 10}], 7),
        f"a member, of {n:,}": ([{"mix": "zadd", "keys": n}], 11),
        f"a TTL, of {n:,}": ([{"mix": "set", "keys": n}, {"mix": "expire", "keys": n, "ttl": 3_600_000}], 13),
    }
    for name, (fills, since) in sets.items():
        groups[name] = []
        for c in candidates:
            if c.name == "redis" or int(c.name) >= (since or 0):
                value = grown(c, fills)
                groups[name].append((c.name, max(value, 0.1)))
                rows.append([name, c.name, f"{value:.1f}"])
    crowd = 500
    name = f"a connection that was busy and is idle, of {crowd:,}"
    groups[name] = []
    for c in (chapter(14), chapter(15), chapter(16), redis()):
        if c:
            value = idle_bytes(c, crowd)
            groups[name].append((c.name, max(value, 0.1)))
            rows.append([name, c.name, f"{value:,.1f}"])
    report.say("## Memory\n")
    report.say("Bytes of resident memory. Keys are 16 bytes, values 16, names of members 12. A busy connection has set "
               "a value of 100,000 bytes, has got it back, and then a thousand replies in a pipeline.\n")  # fmt: skip
    report.table(("what", "server", "bytes"), rows)
    picture = report.picture("memory", "Bytes of memory")
    draw.bars(picture, "Bytes of memory", "bytes", report.machine, groups, log=True)


SECTIONS = (rates, redis_benchmark, sorted_sets, structures, chosen_keys, stalls, expiry, memory)


def main() -> None:
    scale = SCALES[sys.argv[1] if len(sys.argv) > 1 else "normal"]
    known = {section.__name__: section for section in SECTIONS}
    names = sys.argv[2:] or list(known)
    if not set(names) <= set(known):
        raise SystemExit(f"the sections are {', '.join(known)}")
    report = Report(scale)
    for name in ("load", "echo", "micro"):
        compiled(HERE / f"{name}.c", name)
    report.say("# Benchmarks\n")
    report.say(f"{report.machine}.")
    report.say("Written by `make bench`; `make bench-full` takes the time that solid medians need. Compare ratios, not "
               "absolute numbers: machines differ, and this one may have had other things to do. "
               "[Appendix A8](A8-measuring.md) reads the tables line by line.\n")  # fmt: skip
    for name in names:
        known[name](report)
    if scale.name != "quick" and not sys.argv[2:]:
        text = "\n".join(report.lines).rstrip() + "\n"
        (ROOT / "book" / "bench.md").write_text(text)
        print("written: book/bench.md, book/figures/bench-*.svg")


if __name__ == "__main__":
    main()
