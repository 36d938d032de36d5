"""Strings (07 and later): get, set, del, the names of commands, the form of a request, many keys, the
hash; and the client of 07 and 08 (clients.py has that of 09 and later).
"""
from __future__ import annotations

import contextlib
import itertools
import random
import socket
import struct
import time
from typing import Dict, List, Sequence, Tuple

from harness import Conn, Err, Status, exchange, fail, redis, run_client, run_program, seed, settings, wire
from harness.failure import explained
from harness.fake import FakeServer, read_frame, replies
from harness.model import COMMANDS, Model, run_model_test
from harness.wire import frame, request, u32

from . import case
from .processes import one_line
from .talk import asked, done, found, missing, start

__tracebackhide__ = settings.__tracebackhide__

LOOKS_AT = "entry* lookup_key slice_dup do_get do_set do_del reply reply_err"
AT_TABLE = "entry* lookup_key slice_dup"
AT_NAMES = "k_commands is_command do_request"
AT_REQUESTS = "do_request try_one_request reject_input"
AT_CLIENT = "client.main client.send_req client.read_res"


def deleted(chapter: int, count: int) -> object:
    """The reply to a `del`; count is 1 where the key was there, else 0."""
    return Status(wire.RES_OK, b"") if chapter < 9 else count


def unknown(chapter: int) -> object:
    """The reply to a command that the chapter does not know."""
    return Status(wire.RES_ERR, b"Unknown cmd") if chapter < 9 else Err(wire.ERR_UNKNOWN, "Unknown cmd")


def bad_argument(chapter: int) -> object:
    """The reply to a wrong number of arguments, from 09 on also to an argument that means nothing."""
    return Status(wire.RES_ERR) if chapter < 9 else Err(wire.ERR_ARG)


class Script:
    """Requests on a few keys and the replies that must come, put together in one go."""

    def __init__(self, chapter: int) -> None:
        self.chapter = chapter
        self.now: Dict[bytes, bytes] = {}  # what the server holds after the last request
        self.requests: List[Tuple[bytes, ...]] = []
        self.replies: List[object] = []

    def ask(self, reply: object, *words: bytes) -> None:
        self.requests.append(words)
        self.replies.append(reply)

    def set(self, key: bytes, value: bytes) -> None:
        self.now[key] = value
        self.ask(done(self.chapter), b"set", key, value)

    def get(self, key: bytes) -> None:
        there = key in self.now
        self.ask(found(self.chapter, self.now[key]) if there else missing(self.chapter), b"get", key)

    def delete(self, key: bytes) -> None:
        there = self.now.pop(key, None) is not None
        self.ask(deleted(self.chapter, int(there)), b"del", key)

    def play(self, conn: Conn, batch: int = 10_000) -> None:
        """Sends all requests, a batch at a time, and compares the replies."""
        for i in range(0, len(self.requests), batch):
            conn.pipeline(self.requests[i : i + batch], self.replies[i : i + batch])
        self.requests, self.replies = [], []


# ---- get, set, del ----


@case(since=7)
def a_key_comes_and_goes(chapter: int) -> None:
    with start(chapter) as server, server.connect() as conn:
        conn.ask("get", "k", expect=missing(chapter))
        conn.ask("set", "k", "v", expect=done(chapter))
        conn.ask("get", "k", expect=found(chapter, b"v"))
        conn.ask("set", "k", "other", expect=done(chapter))
        conn.ask("get", "k", expect=found(chapter, b"other"))
        conn.ask("del", "k", expect=deleted(chapter, 1))
        conn.ask("get", "k", expect=missing(chapter))
        conn.ask("del", "k", expect=deleted(chapter, 0))
        conn.ask("aaa", "bbb", expect=unknown(chapter))


@case(since=7)
def connections_share_the_keys(chapter: int) -> None:
    """What one connection sets, others see, and it outlives the connection."""
    with start(chapter) as server:
        with server.connect() as one, server.connect() as other:
            one.ask("set", "shared", "1", expect=done(chapter))
            other.ask("get", "shared", expect=found(chapter, b"1"))
            other.ask("set", "shared", "22", expect=done(chapter))
            one.ask("get", "shared", expect=found(chapter, b"22"))
            one.ask("del", "shared", expect=deleted(chapter, 1))
            other.ask("get", "shared", expect=missing(chapter))
            other.ask("set", "left", "behind", expect=done(chapter))
        with server.connect() as conn:
            conn.ask("get", "left", expect=found(chapter, b"behind"))


@case(since=7)
def an_empty_value_is_not_a_missing_one(chapter: int) -> None:
    """Also an empty last string of a request."""
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "", expect=done(chapter))
        conn.ask("get", "k", expect=found(chapter, b""))
        conn.ask("set", "k", "v", expect=done(chapter))
        conn.ask("set", "k", "", expect=done(chapter))
        conn.ask("get", "k", expect=found(chapter, b""))
        conn.ask("del", "k", expect=deleted(chapter, 1))
        conn.ask("get", "k", expect=missing(chapter))


@case(since=7)
def an_empty_key_is_a_key(chapter: int) -> None:
    with start(chapter) as server, server.connect() as conn:
        conn.ask("get", "", expect=missing(chapter))
        conn.ask("set", "", "of nothing", expect=done(chapter))
        conn.ask("get", "", expect=found(chapter, b"of nothing"))
        conn.ask("get", "\0", expect=missing(chapter))
        conn.ask("set", "k", "v", expect=done(chapter))
        conn.ask("set", "", "", expect=done(chapter))
        conn.ask("get", "", expect=found(chapter, b""))
        conn.ask("del", "", expect=deleted(chapter, 1))
        conn.ask("get", "", expect=missing(chapter))
        conn.ask("get", "k", expect=found(chapter, b"v"))


@case(since=7)
def keys_and_values_are_any_bytes(chapter: int) -> None:
    """Each of the 256 bytes as a key of its own, all of them in a value, NULs anywhere."""
    script, every = Script(chapter), bytes(range(256))
    keys = [bytes([b]) for b in every]
    keys += [b"k" + text for text in (b"\0", b"\0\0\0", b"a\0b", b"\0a", b"a\0", b"\r\n", b"\xff" * 5)]
    keys += ["ß€😀".encode(), every]
    for key in keys:
        script.set(key, key + every + key)
    for key in keys + [every[:-1], every[1:], b"\0" * 256]:
        script.get(key)
    with start(chapter) as server, server.connect() as conn:
        script.play(conn)


@case(since=7, at=AT_TABLE)
def keys_that_are_nearly_the_same(chapter: int) -> None:
    """Prefixes of one another, NULs at the end, other letters, another first or last byte."""
    keys = [b"key"[:n] for n in range(4)] + [b"key" + b"\0" * n for n in range(1, 4)]
    keys += [b"Key", b"KEY", b"kez", b"\0key", b" key", b"key "]
    for n in (7, 8, 9, 15, 16, 17, 63, 64, 65, 1000):
        keys += [b"x" * n, b"x" * (n - 1) + b"y", b"y" + b"x" * (n - 1), b"x" * (n - 1) + b"\0"]
    keys = list(dict.fromkeys(keys))
    script = Script(chapter)
    for i, key in enumerate(keys):
        script.set(key, b"%d" % i)
    for gone in ([], keys[::3], keys[::2], keys):
        for key in gone:
            script.delete(key)
        for key in keys:
            script.get(key)
    with start(chapter) as server, server.connect() as conn:
        script.play(conn)


@case(since=7)
def a_value_of_every_length_replaces_one_of_any(chapter: int) -> None:
    """`set` of another length may move the value. The key and its neighbours must not notice."""
    lengths = list(range(130)) + [255, 256, 257, 1000, 1023, 1024, 1025, 2000, 3000, 4000]
    order = lengths + lengths[::-1] + random.Random(7).sample(lengths, len(lengths))
    keys = [b"", b"k", b"middle", b"l" * 60]
    script = Script(chapter)
    for i, n in enumerate(order):
        script.set(keys[i % 4] if i % 3 else keys[2], bytes([i % 256]) * n)
        for key in keys:
            script.get(key)
    with start(chapter) as server, server.connect() as conn:
        script.play(conn)


@case(since=7, at=AT_TABLE)
def long_keys(chapter: int) -> None:
    """Keys that fill 4096 bytes together with the rest, and differ in the last byte alone."""
    n = 4096 - len(wire.body("set", "", "v"))
    script, one, other = Script(chapter), b"k" * (n - 1) + b"1", b"k" * (n - 1) + b"2"
    script.set(one, b"1")
    script.get(other)
    script.set(other, b"2")
    script.get(one)
    script.delete(one)
    script.get(one)
    script.get(other)
    with start(chapter) as server, server.connect() as conn:
        script.play(conn)


@case(since=7, at=AT_TABLE)
def keys_removed_in_any_order(chapter: int) -> None:
    """The first, the last, one in the middle, all: the others stay what they are."""
    rng, script = random.Random(8), Script(chapter)
    keys = [b"key:%d" % i for i in range(12)]
    for order in [keys, keys[::-1]] + [rng.sample(keys, len(keys)) for _ in range(4)]:
        for key in keys:
            script.set(key, key)
        for gone in order:
            script.delete(gone)
            script.delete(gone)
            for key in keys:
                script.get(key)
    with start(chapter) as server, server.connect() as conn:
        script.play(conn)


@case(since=7)
def pipelined_requests_see_each_other(chapter: int) -> None:
    """Ten thousand requests in one write: each sees what those before it did."""
    script = Script(chapter)
    for i in range(2500):
        key = b"k%d" % (i % 7)
        script.set(key, b"%d" % i)
        script.get(key)
        script.delete(key)
        script.get(key)
    with start(chapter) as server, server.connect() as conn:
        script.play(conn)


# ---- names of commands, numbers of arguments ----


def _spellings(name: str) -> List[str]:
    return ["".join(letters) for letters in itertools.product(*((c, c.upper()) for c in name))]


@case(since=7, at=AT_NAMES)
def names_in_any_letter_case(chapter: int) -> None:
    """get, gEt, GET; keys and values stay as they are written."""
    with start(chapter) as server, server.connect() as conn:
        for i, (set_, get, del_) in enumerate(zip(*map(_spellings, ("set", "get", "del")))):
            conn.ask(set_, "Key", f"Value {i}", expect=done(chapter))
            conn.ask(get, "Key", expect=found(chapter, b"Value %d" % i))
            conn.ask(get, "key", expect=missing(chapter))
            conn.ask(del_, "Key", expect=deleted(chapter, 1))
            conn.ask(get, "Key", expect=missing(chapter))


@case(since=7, at=AT_NAMES)
def names_that_are_no_commands(chapter: int) -> None:
    """A name is compared whole: no prefix of it, nothing behind it, not even a NUL."""
    names = [b"", b"g", b"ge", b"gett", b"get\0", b"get\0\0", b"g\0t", b"\0get", b"get ", b" get", b"get\n"]
    names += [b"GET\0", b"set\0", b"SET\0x", b"del\0", b"se", b"sets", b"de", b"delete", b"\0", b"\0\0\0"]
    names += [b"get\xff", b"x" * 1000, b"get" * 300, b"get k", b"set\0k\0v"]
    # the same letters in some of the bits, but not in all
    names += [bytes(b ^ bits for b in name) for name in (b"get", b"set", b"del") for bits in (0x40, 0x60, 0x80, 0xA0)]
    names += [bytes([name[0] ^ 0x80]) + name[1:] for name in (b"get", b"set", b"del")]
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "v", expect=done(chapter))
        for name in filter(redis.tells_apart, names):
            for arguments in ([], ["k"], ["k", "other"]):
                conn.ask(name, *arguments, expect=unknown(chapter))
        conn.ask("get", "k", expect=found(chapter, b"v"))


@case(since=7, binary=True, at=AT_NAMES)
def commands_of_later_chapters(chapter: int) -> None:
    """They are unknown, with any number of arguments."""
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "v", expect=done(chapter))
        for name, (since, count) in COMMANDS.items():
            if since > chapter:
                for n in (0, count - 1, count):
                    conn.ask(name, *["k", "1", "1", "1", "1", "1"][:n], expect=unknown(chapter))
        conn.ask("get", "k", expect=found(chapter, b"v"))


@case(since=7, binary=True, at=AT_NAMES)
def wrong_numbers_of_arguments(chapter: int) -> None:
    """For every command there is: an error that says so, not `Unknown cmd`, and nothing is done."""
    arguments = [b"k", b"1", b"1", b"1", b"1"] + [b"k"] * 100
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "v", expect=done(chapter))
        for name, (since, count) in COMMANDS.items():
            for n in {0, count - 2, count, count + 1, 100} if since <= chapter else ():
                if n < 0 or n == count - 1:
                    continue
                words = [name.upper() if n % 2 else name] + arguments[:n]
                reply = conn.ask(*words, expect=bad_argument(chapter))
                text = reply.data.decode(errors="replace") if isinstance(reply, Status) else reply.text
                if not text or "unknown" in text.lower():
                    fail(f"{wire.show_args(words)}: the text of the error must say what is wrong: {text!r}")
        conn.ask("get", "k", expect=found(chapter, b"v"))


@case(since=7, binary=True, at=AT_REQUESTS)
def as_many_strings_as_there_may_be(chapter: int) -> None:
    """1024 strings, in 07 and 08 as many as fit into a message, are a request like any."""
    most = min(wire.MAX_STRINGS, (wire.max_msg(chapter) - 4) // 4)
    with start(chapter) as server:
        with server.connect() as conn:
            conn.ask(*[""] * most, expect=unknown(chapter))
            conn.ask(*[""] * (most - 1), expect=unknown(chapter))
            fit = most if chapter >= 9 else most - 1  # the three letters take room too
            conn.ask("get", *[""] * (fit - 1), expect=bad_argument(chapter))
            conn.ask("get", "", expect=missing(chapter))
            if chapter >= 9:
                conn.ask(*["x" * 100] * most, expect=unknown(chapter))
                conn.send(asked(chapter, *["x"] * (most + 1)))
                conn.expect_closed()
        with server.connect() as conn:
            conn.ask("get", "", expect=missing(chapter))


# ---- malformed requests, beyond those of framing.malformed_requests ----


def bad_requests() -> Dict[str, bytes]:
    """Framed requests that every chapter must refuse by closing, by what is wrong with them."""
    get, set_, del_ = wire.body("get", "k"), wire.body("set", "k", "bad"), wire.body("del", "k")
    set_k = u32(3) + u32(3) + b"set" + u32(1) + b"k"
    return {
        "set with one byte left over": frame(set_ + b"\0"),
        "set with a whole request left over": frame(set_ + request("get", "k")),
        "set with an empty string left over": frame(set_ + u32(0)),
        "set counted as two strings": frame(wire.body("set", "k", "bad", count=2)),
        "set counted as four strings": frame(wire.body("set", "k", "bad", count=4)),
        "set cut by one byte": frame(set_[:-1]),
        "set without its value": frame(set_[:-3]),
        "set without the length of its value": frame(set_[:-7]),
        "set with half of the length of its value": frame(set_[:-5]),
        "del counted as three strings": frame(wire.body("del", "k", count=3)),
        "del with one byte left over": frame(del_ + b"k"),
        "del of a key of 2^32-1 bytes": frame(u32(2) + u32(3) + b"del" + u32(2**32 - 1) + b"k"),
        "a value that ends in the next request": frame(set_k + u32(20)),
        "a value that wraps to the start of the body": frame(set_k + u32(2**32 - len(set_k) - 4)),
        "a value that wraps to the start of the frame": frame(set_k + u32(2**32 - len(set_k) - 8)),
        "a length that wraps to where the rest fits": frame(
            u32(3) + u32(8) + u32(8) + b"rest" + u32(2**32 - 12)
        ),
        "a value of 2^31-1 bytes": frame(set_k + u32(2**31 - 1) + b"bad"),
        "a value of 2^31 bytes": frame(set_k + u32(2**31) + b"bad"),
        "count in big-endian": frame(struct.pack(">I", 2) + get[4:]),
        "length in big-endian": frame(u32(2) + struct.pack(">I", 3) + get[8:]),
        "count 2^31": frame(u32(2**31) + get[4:]),
        "count 2^30, which times four wraps to 0": frame(u32(2**30) + get[4:]),
        "count 2 and a bit above": frame(u32(2 + (1 << 16)) + get[4:]),
        "a thousand strings, one too few": frame(u32(1000) + u32(0) * 999),
        "a thousand strings, one too many": frame(u32(1000) + u32(0) * 1001),
        "text": frame(b"get k\r\n"),
        "all bits set": frame(b"\xff" * 64),
    }


@case(since=7, binary=True, at=AT_REQUESTS)
def nothing_of_a_bad_request_is_executed(chapter: int) -> None:
    """What came before it is answered, what comes after it is not, and nobody else notices."""
    with start(chapter) as server, server.connect() as other:
        other.ask("set", "k", "good", expect=done(chapter))
        for what, bad in bad_requests().items():
            with server.connect() as conn:
                before = asked(chapter, "set", "before", what) + asked(chapter, "get", "k")
                try:
                    conn.send(before + bad + asked(chapter, "set", "after", "1"))
                    conn.recv(done(chapter))
                    conn.recv(found(chapter, b"good"))
                    conn.expect_closed()
                    other.ask("get", "k", expect=found(chapter, b"good"))
                    other.ask("get", "before", expect=found(chapter, what.encode()))
                    other.ask("get", "after", expect=missing(chapter))
                except AssertionError as e:
                    raise explained(e).within(f"{what}: ") from None


@case(since=7, at=AT_REQUESTS)
def nothing_of_a_cut_request_is_executed(chapter: int) -> None:
    """`set k new`, ended behind each of its bytes. What came before it is done and answered."""
    data = asked(chapter, "set", "k", "new")
    with start(chapter) as server, server.connect() as other:
        other.ask("set", "k", "old", expect=done(chapter))
        for cut in range(len(data)):
            with server.connect() as conn:
                conn.send(asked(chapter, "set", "cut", str(cut)) + data[:cut])
                conn.shutdown_write()
                conn.recv(done(chapter))
                conn.expect_closed()
            other.ask("get", "k", expect=found(chapter, b"old"))
            other.ask("get", "cut", expect=found(chapter, b"%d" % cut))


@case(since=7, binary=True, at=AT_REQUESTS)
def answers_before_a_frame_above_the_limit(chapter: int) -> None:
    """They arrive however much lies behind the bad length, which is not taken for requests."""
    most = wire.max_msg(chapter)
    with start(chapter) as server, server.connect() as other:
        for n in (most + 1, 2**31, 2**32 - 4, 2**32 - 1):
            for behind in (b"", wire.body("set", "k", "bad"), asked(chapter, "set", "k", "bad") * 400):
                with server.connect() as conn:
                    conn.send(asked(chapter, "set", "n", str(n)) * 3 + u32(n) + behind)
                    for _ in range(3):
                        conn.recv(done(chapter))
                    with contextlib.suppress(OSError):  # it may have closed by now
                        conn.shutdown_write()
                    conn.expect_closed()
            other.ask("get", "n", expect=found(chapter, b"%d" % n))
        other.ask("get", "k", expect=missing(chapter))


@case(since=7, binary=True, at=AT_REQUESTS)
def mutated_requests(chapter: int) -> None:
    """Valid requests with a few bytes changed, gone or doubled: each is answered as the model does,
    or refused where it is malformed."""
    rng, model = random.Random(seed()), Model(chapter)
    with start(chapter) as server:
        conn = server.connect()
        for i in range(400):
            value = b"v%d" % i
            words = rng.choice([[b"get", b"k"], [b"set", b"k", value], [b"set", b"", b""], [b"del", b"k"]])
            body = _mutated(rng, wire.body(*words))
            conn.send(frame(body))
            try:
                expect = model.do(*wire.decode_request(body))
            except wire.WireError:
                conn.expect_closed()
                conn.close()
                conn = server.connect()
            else:
                conn.recv(expect)
        for key in list(model.values):
            conn.ask("get", key, expect=model.do("get", key))
        conn.close()


def _mutated(rng: random.Random, body: bytes) -> bytes:
    data = bytearray(body)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 5])):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] = rng.choice([0, 1, 2, 3, 4, 5, 127, 128, 255, rng.randrange(256)])
        elif kind == 1 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            data[at:at] = bytes([rng.choice([0, 107, 255])] * rng.randrange(1, 9))
        elif kind == 4:
            del data[at : at + rng.randrange(1, 5)]
        else:
            data[at:at] = data[max(0, at - 8) : at]
    return bytes(data)


# ---- random commands of the chapter against the model ----


def _random(chapter: int, operations: int, connections: int = 1, pipelined: bool = False) -> None:
    with start(chapter) as server:
        run_model_test(server, chapter, operations, connections, pipelined)


@case(since=7)
def random_commands(chapter: int) -> None:
    _random(chapter, 3000)


@case(since=7)
def random_commands_on_several_connections(chapter: int) -> None:
    _random(chapter, 3000, connections=4)


@case(since=7)
def random_commands_pipelined(chapter: int) -> None:
    _random(chapter, 8000, pipelined=True)


@case(since=7)
def random_commands_pipelined_on_several_connections(chapter: int) -> None:
    _random(chapter, 8000, connections=5, pipelined=True)


# ---- many keys ----


@case(since=7, at=AT_TABLE)
def all_keys_after_each_insertion(chapter: int) -> None:
    """Every key is found at every size up to 140, whatever the table is doing at that moment."""
    script = Script(chapter)
    keys = [b"key:%d" % i for i in range(140)]
    for i, key in enumerate(keys):
        script.set(key, b"%d" % i)
        for k in keys[: i + 2]:
            script.get(k)
    with start(chapter) as server, server.connect() as conn:
        script.play(conn)


@case(since=8, at=AT_TABLE)
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


@case(since=7, at=AT_TABLE)
def growing(chapter: int) -> None:
    """While the key space grows: the new key, an old one, one that never was; now and then a removal,
    or a value of another length. Then every key, and the removal of all."""
    count = 400 if chapter < 8 else 20_000 if chapter == 8 else 5000
    rng, script = random.Random(seed()), Script(chapter)
    keys: List[bytes] = []
    for i in range(count):
        keys.append(b"%x" % i)
        script.set(keys[-1], b"v%d" % i)
        script.get(keys[-1])
        old, draw = rng.choice(keys), rng.random()
        if draw < 0.2:
            script.delete(old)
        elif draw < 0.4:
            script.set(old, b"w" * (i % 40))
        elif draw < 0.5:
            script.get(b"never %d" % i)
        script.get(old)
    for key in keys:
        script.get(key)
    for key in rng.sample(keys, count):
        script.delete(key)
    for key in rng.sample(keys, count // 10):
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


@case(since=8, at=AT_TABLE)
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
            conn.check(replies[i], done(chapter))
            conn.ask("get", keys[i], expect=found(chapter, b"v"))
        if len(set(replies)) > 1:
            fail("the replies to the same `set` differ")
    return seconds


GOOD_SEEDS = ["0" * 32, "f" * 32, "0123456789ABCDEFabcdef0123456789"]
BAD_SEEDS = ["0", "x", "0" * 31, "0" * 33, "0" * 31 + "g", "0x" + "0" * 30, "-" + "0" * 31]
BAD_SEEDS += [" " + "0" * 31, "0" * 31 + " ", "0" * 15 + " " + "0" * 16]


@case(since=8, at=AT_TABLE)
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


# Pairs of keys that have the same hash where the first 16 digits of HASH_SEED are the number k0 of
# SipHash-1-3, the other 16 are k1, and the lower 32 bits are taken.
SEED = "000102030405060708090a0b0c0d0e0f"
SAME_HASH = (
    "00fd5b01fd5d 01478c0260ca 01c3d7036946 005c720218d0 0105a4039c2f 0004a100f16f 00bf6f036797 "
    "02f63b03aa1d 009ec4024ef0 key:028b86key:028ea7 key:01531dkey:015589 key:007fd7key:031a57 "
    "long-prefix:001e29long-prefix:01ff14 long-prefix:00735clong-prefix:027b03"
)


@case(since=8, at=AT_TABLE)
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


@case(since=8, at="server.main", inside=True)
def hash_seed_that_is_wrong(chapter: int) -> None:
    """One line that shows it, and exit status 1."""
    for text in BAD_SEEDS:
        result = run_program(chapter, "server", env={"HASH_SEED": text, "PORT": "0"}, seconds=5)
        if f"HASH_SEED={text}:" not in one_line(result, f"a server with HASH_SEED={text}"):
            fail(f"a server with HASH_SEED={text} does not say what is wrong: {result.stderr}")


# ---- the client of 07 and 08 ----


@case(since=7, until=8, at=AT_CLIENT)
def client_prints_replies(chapter: int) -> None:
    """Of every status, with data and without, the bytes as they are. An error is a reply too."""
    every = bytes(range(256)).replace(b"\0", b"")  # an argument cannot hold a NUL
    with start(chapter) as server:
        for words, text in (
            (["get", "k"], b"[2]"),
            (["set", "k", "v"], b"[0]"),
            (["GET", "k"], b"[0] v"),
            (["set", "k", every], b"[0]"),
            (["get", "k"], b"[0] " + every),
            (["set", "k", ""], b"[0]"),
            (["get", "k"], b"[0]"),
            (["del", "k"], b"[0]"),
            (["del", "k"], b"[0]"),
            (["get", "k"], b"[2]"),
            (["set", "", "two words"], b"[0]"),
            (["get", ""], b"[0] two words"),
            (["aaa", "bbb"], b"[1] Unknown cmd"),
            ([""], b"[1] Unknown cmd"),
        ):
            _prints(chapter, words, server, b"server says: " + text + b"\n")


def _prints(chapter: int, words: Sequence[wire.Arg], server: object, expected: bytes) -> None:
    """Fails unless the client prints just this, and ends with status 0."""
    result = run_client(chapter, [wire.to_bytes(word) for word in words], server)
    got = result.stdout.encode(errors="surrogateescape")
    if (got, result.stderr, result.status) != (expected, "", 0):
        fail(
            f"./client {wire.show_args(words)}\n  must print {expected!r}\n  not        {got!r}\n"
            f"  standard error {result.stderr!r}, exit status {result.status}"
        )


@case(since=7, until=8, at=AT_CLIENT)
def client_sends_its_arguments(chapter: int) -> None:
    """As one request, whatever they are: empty, many, so long that they fill it to the last byte."""
    most = wire.max_msg(chapter)
    for words in (
        ["get", "k"],
        ["x"],
        ["", "", ""],
        ["set", "two words", "\xff\n%s"],
        [str(i) for i in range(500)],
        [""] * ((most - 4) // 4),
        ["set", "k", "v" * (most - len(wire.body("set", "k", "")))],
    ):
        heard: List[bytes] = []
        with FakeServer(replies(frame(u32(0) + b"yes"), requests=heard)) as fake:
            _prints(chapter, words, fake, b"server says: [0] yes\n")
        if heard != [wire.body(*words)]:
            fail(f"./client {wire.show_args(words)}\n  must send {wire.body(*words)!r}\n  not       {heard}")


@case(since=7, until=8, at=AT_CLIENT)
def client_takes_replies_in_pieces(chapter: int) -> None:
    data = frame(u32(2) + b"x" * 50)

    def drip(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        read_frame(sock)
        for i in range(len(data)):
            sock.sendall(data[i : i + 1])

    with FakeServer(drip) as fake:
        _prints(chapter, ["get", "k"], fake, b"server says: [2] " + b"x" * 50 + b"\n")
    for text in (b"x" * (wire.max_msg(chapter) - 4), b"a\0b\0", b"100%s%n\n"):
        with FakeServer(replies(frame(u32(1) + text))) as fake:
            _prints(chapter, ["get", "k"], fake, b"server says: [1] " + text + b"\n")


@case(since=7, until=8, at=AT_CLIENT)
def client_whose_command_is_no_request(chapter: int) -> None:
    """No argument at all, one byte too many, too many strings: one line, and status 1."""
    most = wire.max_msg(chapter)
    with start(chapter) as server:
        for words in (
            [],
            ["set", "k", "v" * (most + 1 - len(wire.body("set", "k", "")))],
            ["set", "k", "v" * 100_000],
            ["x"] * (most // 5),
            [""] * 1025,
        ):
            one_line(run_client(chapter, words, server), f"./client {wire.show_args(words)}")
        _prints(chapter, ["get", "k"], server, b"server says: [2]\n")
