"""Chapter 07: get, set, del. A reply is a status (0 done, 1 an error, 2 no such key) and data; what is no request ends
its connection."""
from __future__ import annotations

import contextlib
import itertools
import random
import socket
import struct
from typing import Dict, List, Sequence

import pytest

from cases import CLIENT, Case, case, earlier, new
from cases.processes import one_line
from cases.strings import Script
from cases.talk import asked, end_input, say, start
from harness import Status, check_session, fail, redis, run_client, seed, wire
from harness.codec import codec
from harness.failure import explained
from harness.fake import FakeServer, read_frame, replies
from harness.model import COMMANDS, Model, run_model_test
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers
from harness.wire import DELETED, DONE, MISSING, NOT_THERE, UNKNOWN, WRONG_ARGUMENTS, frame, request, u32

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 07. The rules are in book/protocol.md.
SESSIONS = ["07-demo", "07-commands", "07-replaced", "07-keys", "07-bytes", "07-limits", "07-malformed"]


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(7))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 7)


# A case, @case(since=7), holds for this chapter and each later one, in its own words (harness/codec.py translates);
# binary: for the bytes of our own protocol, up to 19; inside: looks into our own programs; all is in cases/__init__.py.
# DONE, DELETED and NOT_THERE are status 0 without data (09 tells them apart), MISSING is status 2: harness/wire.py.


# ---- get, set, del ----


@case(since=7)
def a_key_comes_and_goes(chapter: int) -> None:
    with start(chapter) as server, server.connect() as conn:
        conn.ask("get", "k", expect=MISSING)
        conn.ask("set", "k", "v", expect=DONE)
        conn.ask("get", "k", expect=Status(0, b"v"))
        conn.ask("set", "k", "other", expect=DONE)
        conn.ask("get", "k", expect=Status(0, b"other"))
        conn.ask("del", "k", expect=DELETED)
        conn.ask("get", "k", expect=MISSING)
        conn.ask("del", "k", expect=NOT_THERE)
        conn.ask("aaa", "bbb", expect=UNKNOWN)


@case(since=7)
def connections_share_the_keys(chapter: int) -> None:
    """What one connection sets, others see, and it outlives the connection."""
    with start(chapter) as server:
        with server.connect() as one, server.connect() as other:
            one.ask("set", "shared", "1", expect=DONE)
            other.ask("get", "shared", expect=Status(0, b"1"))
            other.ask("set", "shared", "22", expect=DONE)
            one.ask("get", "shared", expect=Status(0, b"22"))
            one.ask("del", "shared", expect=DELETED)
            other.ask("get", "shared", expect=MISSING)
            other.ask("set", "left", "behind", expect=DONE)
        with server.connect() as conn:
            conn.ask("get", "left", expect=Status(0, b"behind"))


@case(since=7)
def an_empty_value_is_not_a_missing_one(chapter: int) -> None:
    """Also an empty last string of a request."""
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "", expect=DONE)
        conn.ask("get", "k", expect=Status(0, b""))
        conn.ask("set", "k", "v", expect=DONE)
        conn.ask("set", "k", "", expect=DONE)
        conn.ask("get", "k", expect=Status(0, b""))
        conn.ask("del", "k", expect=DELETED)
        conn.ask("get", "k", expect=MISSING)


@case(since=7)
def an_empty_key_is_a_key(chapter: int) -> None:
    with start(chapter) as server, server.connect() as conn:
        conn.ask("get", "", expect=MISSING)
        conn.ask("set", "", "of nothing", expect=DONE)
        conn.ask("get", "", expect=Status(0, b"of nothing"))
        conn.ask("get", "\0", expect=MISSING)
        conn.ask("set", "k", "v", expect=DONE)
        conn.ask("set", "", "", expect=DONE)
        conn.ask("get", "", expect=Status(0, b""))
        conn.ask("del", "", expect=DELETED)
        conn.ask("get", "", expect=MISSING)
        conn.ask("get", "k", expect=Status(0, b"v"))


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


@case(since=7)
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


@case(since=7)
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


@case(since=7)
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


@case(since=7)
def names_in_any_letter_case(chapter: int) -> None:
    """get, gEt, GET; keys and values stay as they are written."""
    with start(chapter) as server, server.connect() as conn:
        for i, (set_, get, del_) in enumerate(zip(*map(_spellings, ("set", "get", "del")))):
            conn.ask(set_, "Key", f"Value {i}", expect=DONE)
            conn.ask(get, "Key", expect=Status(0, b"Value %d" % i))
            conn.ask(get, "key", expect=MISSING)
            conn.ask(del_, "Key", expect=DELETED)
            conn.ask(get, "Key", expect=MISSING)


@case(since=7)
def names_that_are_no_commands(chapter: int) -> None:
    """A name is compared whole: no prefix of it, nothing behind it, not even a NUL."""
    names = [b"", b"g", b"ge", b"gett", b"get\0", b"get\0\0", b"g\0t", b"\0get", b"get ", b" get", b"get\n"]
    names += [b"GET\0", b"set\0", b"SET\0x", b"del\0", b"se", b"sets", b"de", b"delete", b"\0", b"\0\0\0"]
    names += [b"get\xff", b"x" * 1000, b"get" * 300, b"get k", b"set\0k\0v"]
    # the same letters in some of the bits, but not in all
    names += [bytes(b ^ bits for b in name) for name in (b"get", b"set", b"del") for bits in (0x40, 0x60, 0x80, 0xA0)]
    names += [bytes([name[0] ^ 0x80]) + name[1:] for name in (b"get", b"set", b"del")]
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "v", expect=DONE)
        for name in filter(redis.tells_apart, names):
            for arguments in ([], ["k"], ["k", "other"]):
                conn.ask(name, *arguments, expect=UNKNOWN)
        conn.ask("get", "k", expect=Status(0, b"v"))


@case(since=7, binary=True)
def commands_of_later_chapters(chapter: int) -> None:
    """They are unknown, with no argument, with as many as they will have, and with one more."""
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "v", expect=DONE)
        for name, (since, strings) in COMMANDS.items():
            if since > chapter:
                for n in (0, strings - 1, strings):
                    conn.ask(name, *["k", "1", "1", "1", "1", "1"][:n], expect=UNKNOWN)
        conn.ask("get", "k", expect=Status(0, b"v"))


@case(since=7, binary=True,
      perhaps="the command is known, its arguments are not right: an error of its own, not Unknown cmd")  # fmt: skip
def wrong_numbers_of_arguments(chapter: int) -> None:
    """For every command there is: an error that says so, not `Unknown cmd`, and nothing is done."""
    arguments = [b"k", b"1", b"1", b"1", b"1"] + [b"k"] * 100
    with start(chapter) as server, server.connect() as conn:
        conn.ask("set", "k", "v", expect=DONE)
        for name, (since, strings) in COMMANDS.items():
            right = strings - 1  # the name is one of the strings
            for n in {0, right - 1, right + 1, right + 2, 100} - {right, -1} if since <= chapter else ():
                words = [name.upper() if n % 2 else name] + arguments[:n]
                reply = conn.ask(*words, expect=WRONG_ARGUMENTS)
                text = reply.data.decode(errors="replace") if isinstance(reply, Status) else reply.text
                if not text or "unknown" in text.lower():
                    fail(f"{wire.show_args(words)}: the text of the error must say what is wrong: {text!r}")
        conn.ask("get", "k", expect=Status(0, b"v"))


@case(since=7, binary=True)
def as_many_strings_as_there_may_be(chapter: int) -> None:
    """1024 strings, in 07 and 08 as many as fit into a message, are a request like any."""
    most = min(wire.MAX_STRINGS, (wire.max_msg(chapter) - 4) // 4)
    with start(chapter) as server:
        with server.connect() as conn:
            conn.ask(*[""] * most, expect=UNKNOWN)
            conn.ask(*[""] * (most - 1), expect=UNKNOWN)
            fit = most if codec(chapter).has_values else most - 1  # the three letters take room too
            conn.ask("get", *[""] * (fit - 1), expect=WRONG_ARGUMENTS)
            conn.ask("get", "", expect=MISSING)
            if codec(chapter).has_values:
                conn.ask(*["x" * 100] * most, expect=UNKNOWN)
                conn.send(asked(chapter, *["x"] * (most + 1)))
                conn.expect_closed()
        with server.connect() as conn:
            conn.ask("get", "", expect=MISSING)


# ---- malformed requests: the plain ones are in harness/wire.py ----


@case(since=7)
def malformed_requests(chapter: int) -> None:
    """Each costs its connection, after the answer to the request before, and nothing else."""
    with start(chapter) as server, server.connect() as other:
        say(other, tag="other")
        for name, data in codec(chapter).malformed().items():
            with server.connect() as conn:
                conn.send(asked(chapter, "set", "k", name) + data + asked(chapter, "set", "k", "late"))
                conn.recv(DONE)
                end_input(conn)
                conn.expect_refused()
            other.ask("get", "k", expect=Status(0, name.encode()))


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


@case(since=7, binary=True)
def nothing_of_a_bad_request_is_executed(chapter: int) -> None:
    """What came before it is answered, what comes after it is not, and nobody else notices."""
    with start(chapter) as server, server.connect() as other:
        other.ask("set", "k", "good", expect=DONE)
        for what, bad in bad_requests().items():
            with server.connect() as conn:
                before = asked(chapter, "set", "before", what) + asked(chapter, "get", "k")
                try:
                    conn.send(before + bad + asked(chapter, "set", "after", "1"))
                    conn.recv(DONE)
                    conn.recv(Status(0, b"good"))
                    conn.expect_closed()
                    other.ask("get", "k", expect=Status(0, b"good"))
                    other.ask("get", "before", expect=Status(0, what.encode()))
                    other.ask("get", "after", expect=MISSING)
                except AssertionError as e:
                    raise explained(e).within(f"{what}: ") from None


@case(since=7)
def nothing_of_a_cut_request_is_executed(chapter: int) -> None:
    """`set k new`, ended before each of its bytes. What came before it is done and answered."""
    data = asked(chapter, "set", "k", "new")
    with start(chapter) as server, server.connect() as other:
        other.ask("set", "k", "old", expect=DONE)
        for cut in range(len(data)):
            with server.connect() as conn:
                conn.send(asked(chapter, "set", "cut", str(cut)) + data[:cut])
                conn.shutdown_write()
                conn.recv(DONE)
                conn.expect_closed(reset_ok=False)
            other.ask("get", "k", expect=Status(0, b"old"))
            other.ask("get", "cut", expect=Status(0, b"%d" % cut))


@case(since=7, binary=True)
def answers_before_a_frame_above_the_limit(chapter: int) -> None:
    """They arrive however much lies behind the bad length, which is not taken for requests."""
    most = wire.max_msg(chapter)
    with start(chapter) as server, server.connect() as other:
        for n in (most + 1, 2**31, 2**32 - 4, 2**32 - 1):
            for behind in (b"", wire.body("set", "k", "bad"), asked(chapter, "set", "k", "bad") * 400):
                with server.connect() as conn:
                    conn.send(asked(chapter, "set", "n", str(n)) * 3 + u32(n) + behind)
                    for _ in range(3):
                        conn.recv(DONE)
                    with contextlib.suppress(OSError):  # it may have closed by now
                        conn.shutdown_write()
                    conn.expect_closed()
            other.ask("get", "n", expect=Status(0, b"%d" % n))
        other.ask("get", "k", expect=MISSING)


@case(since=7, binary=True)
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


@case(since=7)
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


@case(since=7)
def growing(chapter: int) -> None:
    """While the key space grows: the new key, an old one, one that never was; now and then a removal,
    or a value of another length. Then every key, and the removal of all."""
    count = 400 if not codec(chapter).has_hashtable else 5000 if codec(chapter).has_values else 20_000
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


# ---- the client of 07 and 08 ----


@case(since=7, until=8)
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


@case(since=7, until=8, perhaps=CLIENT)
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


@case(since=7, until=8)
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


@case(since=7, until=8)
def client_whose_command_is_no_request(chapter: int) -> None:
    """No argument at all, one byte too many, many strings that are too long together: one line, and status 1."""
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


# Runs each function above that is marked @case, and those of tests/cases/ with since=7 (abuse.py, client_errors.py).
@pytest.mark.parametrize("case", new(7))
def test_new(case: Case) -> None:
    case(7)


# The cases of 03 to 06, as far as they still hold.
@pytest.mark.parametrize("case", earlier(7))
def test_earlier(case: Case) -> None:
    case(7)
