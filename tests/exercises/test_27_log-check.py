"""27-log-check: a program that says how much of a log is whole, and whether what follows is a torn tail or damage."""
from __future__ import annotations

import random
import re
import signal
from typing import Dict, List

from batches import HEAD, Found, Log, batches, command, judge
from cases.append_only import batch
from grading import Build, Ran, Submission, points

LINE = re.compile(r"^(.*): (\d+) batches, (\d+) commands, (\d+) bytes: (\w+)$")
FORM = "NAME: 2 batches, 2 commands, 182 bytes: whole"

# What the chapter's server has written for a few requests, in two databases, until its end.
WRITTEN = (
    b"#BATCH:0000000000 00000000000000000000\r\n"
    b"#CRC:37b5a06eaa54d3e0\r\n"
    b"#BATCH:0000000056 00000000000000000000\r\n"
    b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$4\r\ncity\r\n$4\r\nOslo\r\n#CRC:251988411336211f\r\n"
    b"#BATCH:0000000076 00000000000000000182\r\n"
    b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*6\r\n$4\r\nzadd\r\n$1\r\nz\r\n$1\r\n1\r\n$3\r\none\r\n$1\r\n2\r\n$3\r\n"
    b"two\r\n#CRC:81f9563d74063405\r\n"
    b"#BATCH:0000000080 00000000000000000321\r\n"
    b"*2\r\n$6\r\nSELECT\r\n$1\r\n5\r\n*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$4\r\nPXAT\r\n$13\r\n"
    b"1796048605901\r\n#CRC:3f781992b2bf124a\r\n"
    b"#BATCH:0000000053 00000000000000000464\r\n"
    b"*2\r\n$6\r\nSELECT\r\n$1\r\n5\r\n*3\r\n$6\r\nappend\r\n$1\r\nk\r\n$1\r\nw\r\n#CRC:24c37165e8d8ee04\r\n"
    b"#BATCH:0000000103 00000000000000000580\r\n"
    b"*2\r\n$6\r\nSELECT\r\n$1\r\n5\r\n*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nincr\r\n$1\r\nn\r\n*3\r\n$3\r\ndel\r\n"
    b"$4\r\ncity\r\n$1\r\nk\r\n*1\r\n$4\r\nEXEC\r\n#CRC:6e82e8b7f086d473\r\n"
    b"#BATCH:0000000086 00000000000000000746\r\n"
    b"*2\r\n$6\r\nSELECT\r\n$1\r\n5\r\n*2\r\n$4\r\nincr\r\n$1\r\nn\r\n*2\r\n$4\r\nincr\r\n$1\r\nn\r\n*2\r\n"
    b"$4\r\nincr\r\n$1\r\nn\r\n#CRC:0fc4237ba1fe3083\r\n"
    b"#BATCH:0000000055 00000000000000000895\r\n"
    b"*2\r\n$6\r\nSELECT\r\n$1\r\n5\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$6\r\n\x00\r\n#*\xff\r\n"
    b"#CRC:cc24268feac07d60\r\n"
    b"#BATCH:0000000000 00000000000000001013\r\n"
    b"#CRC:16bea9038c137d7c\r\n"
)

# Has each file end where its memory ends: who reads a byte more is ended.
GUARD = r"""
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static inline void *guarded_malloc(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (size + page - 1) / page * page;
    uint8_t *p = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + room, page, PROT_NONE) < 0) {
        return NULL;
    }
    return p + room - size;
}

static inline void guarded_free(void *p) {
    (void)p;
}

#define malloc guarded_malloc
#define free guarded_free
"""


def run(work: Submission, logs: Dict[str, bytes], build: Build = None) -> Ran:  # type: ignore[assignment]
    """Runs logcheck with these files, by their names."""
    folder = work.shared / "logs"
    folder.mkdir(exist_ok=True)
    for name, data in logs.items():
        (folder / name).write_bytes(data)
    program = build.program("logcheck") if build else work.program("logcheck")
    return work.run([program, *(folder / name for name in logs)], seconds=20)


def found_of(work: Submission, logs: Dict[str, bytes], ran: Ran) -> List[Found]:
    """What it has printed, for each of the files."""
    work.expect(
        ran.status != -signal.SIGSEGV, came="it was ended by SIGSEGV: it has read a byte behind the end of a file",
        expected="no byte is read that is not there",
        cause="is each length compared with what is left before it is followed?",
    )  # fmt: skip
    lines = [LINE.match(line) for line in ran.out.splitlines()]
    last = "\n".join([*ran.out.splitlines()[-1:], *ran.err.splitlines()[:12]])
    work.expect(
        len(lines) == len(logs) and all(lines),
        came=f"{len(lines)} lines for {len(logs)} files; the last of them\n{last}",
        expected=f"a line for each file, in the form\n{FORM}", cause="did it end before it had looked at all files?",
    )  # fmt: skip
    return [Found(int(line[2]), int(line[3]), int(line[4]), line[5]) for line in lines if line]


def expect(work: Submission, logs: Dict[str, bytes], build: Build = None) -> None:  # type: ignore[assignment]
    """What it says of each log must be right; `logs` has them by what was done to them."""
    files = {f"{number}.aof": data for number, data in enumerate(logs.values())}
    ran = run(work, files, build)
    for (what, data), came in zip(logs.items(), found_of(work, files, ran)):
        right = judge(data)
        work.expect(
            came == right, tried=what, came=shown(came), expected=shown(right),
            cause=("is what follows judged by what the batches behind it say?" if came[:3] == right[:3] else
                   "which bytes are a command, and which are part of a value?" if came[0] == right[0] else
                   "what does a batch need to be whole?"),
        )  # fmt: skip
    good = all(judge(data).end == "whole" for data in logs.values())
    work.expect(
        ran.status == (0 if good else 1), came=f"exit status {ran.status}",
        expected="0 where all files are whole, else 1",
    )  # fmt: skip


def shown(found: Found) -> str:
    return f"{found.batches} batches, {found.commands} commands, {found.whole} bytes: {found.end}"


def a_log() -> Log:
    """A short log: values of all kinds, two commands in a batch, a mark in the middle and at the end."""
    log = Log()
    log.add([b"SELECT", b"0"], [b"SET", b"city", b"Oslo"])
    log.mark()
    log.add([b"SELECT", b"3"], [b"SET", b"*1", b"*3\r\n$3\r\n#B"])
    log.add([b"SELECT", b"0"], [b"DEL", b"city"])
    return log


@points(2, "a log of the server")
def test_server(work: Submission) -> None:
    """A log that the chapter's server has written, up to its end, and one in which nothing is."""
    expect(work, {"a log of nine batches": WRITTEN, "an empty file": b""})


@points(3, "cut at each byte")
def test_cut(work: Submission) -> None:
    """A log of four batches that ends after 0 bytes, after 1, and so on."""
    data = a_log().data
    expect(work, {f"a log of {len(data)} bytes that was cut after {n} bytes": data[:n] for n in range(len(data) + 1)})


@points(3, "each byte of it wrong")
def test_flipped(work: Submission) -> None:
    """A log of four batches with a mark in which one byte is another, the first, the second, and so on."""
    data, chance = a_log().data, random.Random(27)
    logs = {}
    for at in range(len(data)):
        byte = data[at] ^ 1 << chance.randrange(8)
        logs[f"a log whose byte {at} is {byte:#04x}, not {data[at]:#04x}"] = data[:at] + bytes([byte]) + data[at + 1 :]
    expect(work, logs)


@points(2, "what looks like a batch")
def test_looks(work: Submission) -> None:
    """Values that look like commands and batches, old batches in another place, zeros, lengths beyond the end of the
    file; all of it with a program that watches each byte that it reads."""
    log = a_log()
    first = next(batches(log.data))
    old = log.data[: first.end]
    inside = Log()
    inside.add([b"SET", b"k", old + b"\r\n*1\r\n$4\r\nPING\r\n"], [b"INCR", b"n"])
    claims = batch(command([b"INCR", b"n"]), len(log.data) + 5, len(log.data) + 1)
    huge = b"#BATCH:9999999999 00000000000000000000\r\n"
    odd = Log()
    odd.data = batch(b"*99999999999999999999\r\n$18446744073709551600\r\nx\r\n", 0, 0)
    logs = {
        "a value that is a batch": inside.data,
        "a log with its own first batch behind it, as an old block of the disk": log.data + old,
        "a value with a batch in it, whose own batch is cut": inside.data[:-1],
        "a log with 4096 zeros behind it": log.data + bytes(4096),
        "a log with a batch behind five bytes that are none, which says that one of these was on the disk":
            log.data + b"xxxxx" + claims,
        "a log with a batch behind five bytes that are none, which says nothing of these":
            log.data + b"xxxxx" + batch(command([b"INCR", b"n"]), len(log.data) + 5, len(log.data)),
        "a batch that says it has 9999999999 bytes": log.data + huge,
        "63 bytes, and a length of 9999999999": huge + b"#CRC:0000000000000000\r\n",
        "no digits where a length is": old[:7] + b"-000000001" + old[17:],
        "a file of zeros": bytes(HEAD),
    }  # fmt: skip
    build = work.variant(files={"guard.h": GUARD}, flags=["-include", "guard.h"])
    expect(work, logs, build)
    name = {"odd.aof": odd.data}
    came = found_of(work, name, run(work, name, build))[0]
    work.expect(
        (came.batches, came.whole, came.end) == (1, len(odd.data), "whole"),
        tried="a whole batch of words that are no commands", came=shown(came),
        expected=f"1 batch, {len(odd.data)} bytes: whole; of what is in it, any number of commands",
    )  # fmt: skip
