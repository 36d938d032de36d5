"""Keys and strings: get, set, del, the names of commands, the form of a request. Chapters 07 on.

A case is a function that takes a running, empty server and fails where it misbehaves:

    @pytest.mark.parametrize("case", strings.cases(7), ids=strings.name)
    def test_strings(case: strings.Case) -> None:
        with Server(7) as server:
            case(server)

Beyond these there are, each with parameters of its own: bad_frame, random_commands, mutated_requests,
growing, colliding_keys, client_prints.
"""
from __future__ import annotations

import itertools
import random
import struct
import time
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from harness import Conn, Err, Server, Status, exchange, fail, run_client, settings, wire
from harness.model import COMMANDS, Model, run_model_test
from harness.wire import frame, request, u32

__tracebackhide__ = settings.__tracebackhide__

Case = Callable[[Server], None]
Command = List[bytes]


# ---- what the replies are in a chapter ----------------------------------------------------------


def stored(chapter: int) -> object:
    """The answer to `set`."""
    return Status(wire.RES_OK, b"") if chapter < 9 else None


def value(chapter: int, data: bytes) -> object:
    """The answer to `get` of a key that is there."""
    return Status(wire.RES_OK, data) if chapter < 9 else data


def missing(chapter: int) -> object:
    """The answer to `get` of a key that is not there."""
    return Status(wire.RES_NX, b"") if chapter < 9 else None


def deleted(chapter: int, count: int) -> object:
    """The answer to `del`; count is 1 where the key was there, else 0."""
    return Status(wire.RES_OK, b"") if chapter < 9 else count


def unknown(chapter: int) -> object:
    """The answer to a command that the chapter does not know."""
    return Status(wire.RES_ERR, b"Unknown cmd") if chapter < 9 else Err(wire.ERR_UNKNOWN, "Unknown cmd")


def bad_argument(chapter: int) -> object:
    """The answer to a wrong number of arguments, from 09 on also to arguments that mean nothing."""
    return Status(wire.RES_ERR) if chapter < 9 else Err(wire.ERR_ARG)


def most_strings(chapter: int) -> int:
    """How many (empty) strings a request can have: in 07 and 08 the frame allows one fewer than 1024."""
    return min(wire.MAX_STRINGS, (wire.max_msg(chapter) - 4) // 4)


def longest_value(chapter: int, key: bytes) -> int:
    """How long a value can be, so that `set key value` still fits into a message."""
    return wire.max_msg(chapter) - len(wire.body("set", key, ""))


# ---- get, set, del ------------------------------------------------------------------------------


def a_key_comes_and_goes(server: Server) -> None:
    """The session of chapter 07."""
    chapter = server.chapter
    with server.connect() as c:
        c.ask("get", "k", expect=missing(chapter))
        c.ask("set", "k", "v", expect=stored(chapter))
        c.ask("get", "k", expect=value(chapter, b"v"))
        c.ask("del", "k", expect=deleted(chapter, 1))
        c.ask("get", "k", expect=missing(chapter))
        c.ask("del", "k", expect=deleted(chapter, 0))
        c.ask("aaa", "bbb", expect=unknown(chapter))


def connections_share_the_keys(server: Server) -> None:
    """What one connection sets, others see; and it outlives the connection."""
    chapter = server.chapter
    with server.connect() as one, server.connect() as other:
        one.ask("set", "shared", "1", expect=stored(chapter))
        other.ask("get", "shared", expect=value(chapter, b"1"))
        other.ask("set", "shared", "2", expect=stored(chapter))
        one.ask("get", "shared", expect=value(chapter, b"2"))
        one.ask("del", "shared", expect=deleted(chapter, 1))
        other.ask("get", "shared", expect=missing(chapter))
        other.ask("set", "left", "behind", expect=stored(chapter))
    with server.connect() as c:
        c.ask("get", "left", expect=value(chapter, b"behind"))


def an_empty_value_is_not_a_missing_one(server: Server) -> None:
    """A value of no bytes, which is also an empty last string."""
    chapter = server.chapter
    with server.connect() as c:
        c.ask("set", "k", "", expect=stored(chapter))
        c.ask("get", "k", expect=value(chapter, b""))
        c.ask("set", "k", "v", expect=stored(chapter))
        c.ask("set", "k", "", expect=stored(chapter))
        c.ask("get", "k", expect=value(chapter, b""))
        c.ask("del", "k", expect=deleted(chapter, 1))
        c.ask("get", "k", expect=missing(chapter))


def an_empty_key_is_a_key(server: Server) -> None:
    """A key of no bytes, alone and beside others."""
    chapter = server.chapter
    with server.connect() as c:
        c.ask("get", "", expect=missing(chapter))
        c.ask("set", "", "of nothing", expect=stored(chapter))
        c.ask("get", "", expect=value(chapter, b"of nothing"))
        c.ask("get", "\0", expect=missing(chapter))
        c.ask("set", "k", "v", expect=stored(chapter))
        c.ask("set", "", "", expect=stored(chapter))
        c.ask("get", "", expect=value(chapter, b""))
        c.ask("del", "", expect=deleted(chapter, 1))
        c.ask("get", "", expect=missing(chapter))
        c.ask("get", "k", expect=value(chapter, b"v"))


def keys_and_values_are_any_bytes(server: Server) -> None:
    """Each of the 256 bytes as a key of its own, all of them as a value, NULs anywhere."""
    chapter, every = server.chapter, bytes(range(256))
    singles = [bytes([b]) for b in range(256)]
    with server.connect() as c:
        c.pipeline([["set", k, k + every + k] for k in singles], [stored(chapter)] * 256)
        c.pipeline([["get", k] for k in singles], [value(chapter, k + every + k) for k in singles])
        c.ask("get", every, expect=missing(chapter))
        c.ask("set", every, every[::-1], expect=stored(chapter))
        c.ask("get", every, expect=value(chapter, every[::-1]))
        for text in (b"\0", b"\0\0\0", b"a\0b", b"\0a", b"a\0", b"\r\n", b"\xff" * 5, "ß€😀".encode()):
            c.ask("set", b"k" + text, text, expect=stored(chapter))
            c.ask("get", b"k" + text, expect=value(chapter, text))


def keys_that_are_nearly_the_same(server: Server) -> None:
    """Prefixes of one another, keys that end in NULs, in other letters, in one other byte."""
    chapter = server.chapter
    keys = [b"key"[:n] for n in range(4)] + [b"key" + b"\0" * n for n in range(1, 4)]
    keys += [b"Key", b"KEY", b"kez", b"\0key", b" key", b"key "]
    for n in (7, 8, 9, 15, 16, 17, 63, 64, 65, 1000):
        keys += [b"x" * n, b"x" * (n - 1) + b"y", b"y" + b"x" * (n - 1), b"x" * (n - 1) + b"\0"]
    keys = list(dict.fromkeys(keys))
    with server.connect() as c:
        c.pipeline([["set", k, b"%d" % i] for i, k in enumerate(keys)], [stored(chapter)] * len(keys))
        c.pipeline([["get", k] for k in keys], [value(chapter, b"%d" % i) for i in range(len(keys))])
        gone = keys[::2]
        c.pipeline([["del", k] for k in gone], [deleted(chapter, 1)] * len(gone))
        left = [missing(chapter) if i % 2 == 0 else value(chapter, b"%d" % i) for i in range(len(keys))]
        c.pipeline([["get", k] for k in keys], left)


def a_value_of_every_length_replaces_one_of_any(server: Server) -> None:
    """`set` of another length may move the value; its neighbours and the key must not notice."""
    chapter, rng = server.chapter, random.Random(7)
    lengths = list(range(0, 130)) + [255, 256, 257, 1000, 1023, 1024, 1025, 2000, 3000, 4000]
    order = lengths + lengths[::-1] + rng.sample(lengths, len(lengths))
    keys = [b"", b"k", b"middle", b"l" * 60]
    now: Dict[bytes, bytes] = {}
    requests: List[Command] = []
    replies: List[object] = []
    for i, n in enumerate(order):
        key = keys[i % len(keys)] if i % 3 else keys[2]
        now[key] = bytes([i % 256]) * n
        requests.append([b"set", key, now[key]])
        replies.append(stored(chapter))
        for k in keys:
            requests.append([b"get", k])
            replies.append(value(chapter, now[k]) if k in now else missing(chapter))
    with server.connect() as c:
        c.pipeline(requests, replies)


def the_largest_value(server: Server) -> None:
    """A `set` that fills its message to the last byte, and the value comes back whole."""
    chapter = server.chapter
    n = longest_value(chapter, b"k")
    with server.connect() as c:
        for size in (n - 1, n):
            data = b"begin" + b"." * (size - 8) + b"end"
            c.ask("set", "k", data, expect=stored(chapter))
            c.ask("get", "k", expect=value(chapter, data))
        c.ask("set", "k", "", expect=stored(chapter))
        c.ask("get", "k", expect=value(chapter, b""))


def the_longest_key(server: Server) -> None:
    """Keys that fill their message, and differ in the last byte only."""
    chapter = server.chapter
    n = 4096 - len(wire.body("set", "", "v"))
    one, other = b"k" * (n - 1) + b"1", b"k" * (n - 1) + b"2"
    with server.connect() as c:
        c.ask("set", one, "1", expect=stored(chapter))
        c.ask("get", other, expect=missing(chapter))
        c.ask("set", other, "2", expect=stored(chapter))
        c.ask("get", one, expect=value(chapter, b"1"))
        c.ask("del", one, expect=deleted(chapter, 1))
        c.ask("get", one, expect=missing(chapter))
        c.ask("get", other, expect=value(chapter, b"2"))


def keys_removed_in_any_order(server: Server) -> None:
    """The first, the last, one in the middle, all: the others stay what they are."""
    chapter, rng = server.chapter, random.Random(8)
    keys = [b"key:%d" % i for i in range(12)]
    orders = [keys, keys[::-1]] + [rng.sample(keys, len(keys)) for _ in range(4)]
    with server.connect() as c:
        for order in orders:
            c.pipeline([["set", k, k] for k in keys], [stored(chapter)] * len(keys))
            left = set(keys)
            for key in order:
                left.discard(key)
                expect = [value(chapter, k) if k in left else missing(chapter) for k in keys]
                c.pipeline(
                    [["del", key], ["del", key]] + [["get", k] for k in keys],
                    [deleted(chapter, 1), deleted(chapter, 0)] + expect,
                )


def pipelined_requests_see_each_other(server: Server) -> None:
    """Ten thousand requests in one write: each sees what those before it did."""
    chapter = server.chapter
    requests: List[Command] = []
    replies: List[object] = []
    for i in range(2500):
        key, data = b"k%d" % (i % 7), b"%d" % i
        requests += [[b"set", key, data], [b"get", key], [b"del", key], [b"get", key]]
        replies += [stored(chapter), value(chapter, data), deleted(chapter, 1), missing(chapter)]
    with server.connect() as c:
        c.pipeline(requests, replies)


# ---- names of commands, numbers of arguments ----------------------------------------------------


def _spellings(name: str) -> List[str]:
    return ["".join(p) for p in itertools.product(*((c, c.upper()) for c in name))]


def names_in_any_letter_case(server: Server) -> None:
    """get, gEt, GET; keys and values stay as they are written."""
    chapter = server.chapter
    with server.connect() as c:
        for i, (set_, get, del_) in enumerate(zip(*map(_spellings, ("set", "get", "del")))):
            c.ask(set_, "Key", f"Value {i}", expect=stored(chapter))
            c.ask(get, "Key", expect=value(chapter, b"Value %d" % i))
            c.ask(get, "key", expect=missing(chapter))
            c.ask(del_, "Key", expect=deleted(chapter, 1))


def names_that_are_no_commands(server: Server) -> None:
    """A name is compared whole: no prefix of it, nothing behind it, not even a NUL."""
    chapter = server.chapter
    names = [b"", b"g", b"ge", b"gett", b"get\0", b"get\0\0", b"g\0t", b"\0get", b"get ", b" get", b"get\n"]
    names += [b"GET\0", b"set\0", b"SET\0x", b"del\0", b"se", b"sets", b"de", b"delete", b"\xe7et", b"\0"]
    names += [b"7et", b"get\xff", b"'\x05\x14", b"g\x65\x54\x00", b"x" * 1000, b"get" * 300]
    # bytes that become a letter where only some bits are compared
    names += [bytes(b ^ bit for b in b"get") for bit in (0x40, 0x80, 0xA0, 0x60)]
    with server.connect() as c:
        c.ask("set", "k", "v", expect=stored(chapter))
        for name in names:
            for arguments in ([], ["k"], ["k", "other"]):
                c.ask(name, *arguments, expect=unknown(chapter))
        c.ask("get", "k", expect=value(chapter, b"v"))


def commands_of_later_chapters(server: Server) -> None:
    """They are unknown, whatever they are given."""
    chapter = server.chapter
    later = {name: count for name, (since, count) in COMMANDS.items() if since > chapter}
    with server.connect() as c:
        c.ask("set", "k", "v", expect=stored(chapter))
        for name, count in later.items():
            c.ask(name, *["k", "1", "1", "1", "1"][: count - 1], expect=unknown(chapter))
        c.ask("get", "k", expect=value(chapter, b"v"))


def wrong_numbers_of_arguments(server: Server) -> None:
    """For every command of the chapter: an error that says so, not `Unknown cmd`, and nothing is done."""
    chapter = server.chapter
    known = {name: count for name, (since, count) in COMMANDS.items() if since <= chapter}
    with server.connect() as c:
        c.ask("set", "k", "v", expect=stored(chapter))
        for name, count in known.items():
            for n in {0, count - 2, count, count + 1, 20} - {count - 1}:
                if n < 0:
                    continue
                words = [name.upper() if n % 2 else name] + [b"k", b"1", b"1", b"1", b"1"][:n] + [b"k"] * (n - 5)
                reply = c.ask(*words, expect=bad_argument(chapter))
                text = reply.data if isinstance(reply, Status) else getattr(reply, "text", "").encode()
                if not text or b"unknown" in text.lower():
                    fail(f"{wire.show_args(words)}: the text of the error does not say what is wrong: {text!r}")
        c.ask("get", "k", expect=value(chapter, b"v"))


def as_many_strings_as_there_may_be(server: Server) -> None:
    """1024 strings (in 07 and 08 as many as fit) are a request like any; one more is none."""
    chapter = server.chapter
    most = most_strings(chapter)
    with server.connect() as c:
        c.ask(*[b""] * most, expect=unknown(chapter))
        c.ask(*[b""] * (most - 1), expect=unknown(chapter))
        fits = most if chapter >= 9 else most - 1  # a name takes room too
        c.ask("get", *[b""] * (fits - 1), expect=bad_argument(chapter))
        c.ask("get", "", expect=missing(chapter))
        if chapter >= 9:
            c.ask(*[b"x" * 100] * most, expect=unknown(chapter))
            c.send(request(*[b"x"] * (most + 1)))
            c.expect_closed()
    with server.connect() as c:
        c.ask("get", "", expect=missing(chapter))


# ---- requests that are malformed ----------------------------------------------------------------


def bad_requests(chapter: int) -> Dict[str, bytes]:
    """Framed requests that must be refused by closing, by what is wrong. `k` must stay as it is."""
    bad = dict(wire.malformed_requests(chapter))
    set_ = wire.body("set", "k", "bad")
    bad.update(
        {
            "set with one byte left over": frame(set_ + b"\0"),
            "set with a whole request left over": frame(set_ + request("get", "k")),
            "set counted as get": frame(wire.body("set", "k", "bad", count=2)),
            "set with a string too few": frame(wire.body("set", "k", "bad", count=4)),
            "set with an empty string left over": frame(set_ + u32(0)),
            "set cut by one byte": frame(set_[:-1]),
            "set without its value": frame(set_[:-3]),
            "set without the length of its value": frame(set_[:-7]),
            "set with half of the length of its value": frame(set_[:-5]),
            "del counted as three": frame(wire.body("del", "k", count=3)),
            "del with one byte left over": frame(wire.body("del", "k") + b"k"),
            "del of a key of 2^32-1 bytes": frame(u32(2) + u32(3) + b"del" + u32(2**32 - 1) + b"k"),
            "a value that ends in the next request": frame(u32(3) + u32(3) + b"set" + u32(1) + b"k" + u32(20)),
            "a length that ends at the start again": frame(
                u32(3) + u32(3) + b"set" + u32(1) + b"k" + u32(2**32 - 20)
            ),
            "big-endian count": frame(struct.pack(">I", 2) + wire.body("get", "k")[4:]),
            "big-endian length": frame(u32(2) + struct.pack(">I", 3) + wire.body("get", "k")[8:]),
            "count 2^31": frame(u32(2**31) + wire.body("get", "k")[4:]),
            "count 65536 and bytes for two": frame(u32(65538) + wire.body("get", "k")[4:]),
            "text": frame(b"get k\r\n"),
            "all bits set": frame(b"\xff" * 64),
            "many empty strings, one too few": frame(u32(1000) + u32(0) * 999),
            "many empty strings, one too many": frame(u32(1000) + u32(0) * 1001),
        }
    )
    return bad


def bad_frame(server: Server, what: str) -> None:
    """One of bad_requests: what came before it is answered, then the connection is closed; nothing
    of it is executed, nor anything behind it; nobody else notices."""
    chapter, bad = server.chapter, bad_requests(server.chapter)[what]
    with server.connect() as witness, server.connect() as c:
        witness.ask("set", "k", "good", expect=stored(chapter))
        c.send(request("set", "before", "1") + request("get", "k") + bad + request("set", "after", "1"))
        c.recv(stored(chapter))
        c.recv(value(chapter, b"good"))
        c.expect_closed()
        witness.pipeline(
            [["get", "k"], ["get", "before"], ["get", "after"]],
            [value(chapter, b"good"), value(chapter, b"1"), missing(chapter)],
        )


def a_frame_above_the_limit(server: Server) -> None:
    """The same for a length that no message may have, with nothing, little or much behind it."""
    chapter, limit = server.chapter, wire.max_msg(server.chapter)
    with server.connect() as witness:
        for n in (limit + 1, 2**31 - 1, 2**31, 2**32 - 5, 2**32 - 4, 2**32 - 1):
            for behind in (b"", b"\0\0", wire.body("set", "k", "bad"), b"x" * 8192):
                with server.connect() as c:
                    c.send(request("set", "before", str(n)) + u32(n) + behind)
                    c.recv(stored(chapter))
                    c.expect_closed()
            witness.ask("get", "before", expect=value(chapter, b"%d" % n))
        witness.ask("get", "k", expect=missing(chapter))


def an_incomplete_request_is_dropped(server: Server) -> None:
    """`set k new`, ended after each of its bytes: nothing of it is done, what came before is."""
    chapter, data = server.chapter, request("set", "k", "new")
    with server.connect() as witness:
        witness.ask("set", "k", "old", expect=stored(chapter))
        for cut in range(len(data)):
            with server.connect() as c:
                c.send(request("set", "n", str(cut)) + data[:cut])
                c.shutdown_write()
                c.recv(stored(chapter))
                c.expect_closed()
            witness.ask("get", "k", expect=value(chapter, b"old"))
            witness.ask("get", "n", expect=value(chapter, b"%d" % cut))


def a_request_in_two_pieces(server: Server) -> None:
    """`set k v`, cut after each of its bytes, the rest a moment later; then byte by byte."""
    chapter, data = server.chapter, request("set", "k", "value")
    with server.connect() as c:
        for cut in range(1, len(data)):
            c.ask("del", "k")
            c.send(data[:cut])
            time.sleep(0.001)
            c.send(data[cut:] + request("get", "k"))
            c.recv(stored(chapter))
            c.recv(value(chapter, b"value"))
        c.send_pieces(request("del", "k") + data + request("GET", "k"))
        c.recv(deleted(chapter, 1))
        c.recv(stored(chapter))
        c.recv(value(chapter, b"value"))


def mutated_requests(server: Server, count: int = 400, seed: Optional[int] = None) -> None:
    """Valid requests with a few bytes changed, cut, doubled: each is answered as the model does, or
    refused where the protocol calls it malformed."""
    chapter = server.chapter
    seed = settings.seed() if seed is None else seed
    rng, model = random.Random(seed), Model(chapter)
    conn = server.connect()
    try:
        for number in range(count):
            words = rng.choice([[b"get", b"k"], [b"set", b"k", b"v%d" % number], [b"set", b"", b""], [b"del", b"k"]])
            body = _mutate(rng, wire.body(*words))
            try:
                expect = model.do(*wire.decode_request(body))
                bad = False
            except wire.WireError:
                bad = True
            conn.send(frame(body))
            if bad:
                conn.expect_closed()
                conn.close()
                conn = server.connect()
            else:
                conn.recv(expect)
        for key, data in list(model.values.items()):
            conn.ask("get", key, expect=value(chapter, data))  # type: ignore[arg-type]
    except AssertionError as e:
        raise AssertionError(f"{e}\n  seed      {seed}") from None
    finally:
        conn.close()


def _mutate(rng: random.Random, body: bytes) -> bytes:
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


# ---- random commands ----------------------------------------------------------------------------

# (connections, pipelined, operations)
RANDOM_RUNS: List[Tuple[int, bool, int]] = [(1, False, 3000), (3, False, 3000), (1, True, 8000), (5, True, 8000)]


def run_name(run: Tuple[int, bool, int]) -> str:
    """A name for one of RANDOM_RUNS."""
    return f"{run[0]}-{'pipelined' if run[1] else 'one-by-one'}"


def random_commands(server: Server, run: Tuple[int, bool, int]) -> None:
    """Random commands of the chapter against the model: one of RANDOM_RUNS."""
    connections, pipelined, operations = run
    run_model_test(server, server.chapter, operations, connections, pipelined)


# ---- many keys ----------------------------------------------------------------------------------


def growing(server: Server, keys: int = 20_000, seed: Optional[int] = None) -> None:
    """After every insertion: the new key, an old one, one that is not there; now and then a removal
    or another value. At the end every key, then the removal of them all."""
    chapter = server.chapter
    seed = settings.seed() if seed is None else seed
    rng = random.Random(seed)
    now: Dict[bytes, bytes] = {}
    names: List[bytes] = []  # all that were ever there
    requests: List[Command] = []
    replies: List[object] = []

    def ask(reply: object, *words: bytes) -> None:
        requests.append(list(words))
        replies.append(reply)

    def get(key: bytes) -> None:
        ask(value(chapter, now[key]) if key in now else missing(chapter), b"get", key)

    def put(key: bytes, data: bytes) -> None:
        now[key] = data
        ask(stored(chapter), b"set", key, data)

    for i in range(keys):
        names.append(b"%x" % i)
        put(names[-1], b"v%d" % i)
        get(names[-1])
        get(names[rng.randrange(len(names))])
        draw = rng.random()
        if draw < 0.2:
            key = names[rng.randrange(len(names))]
            ask(deleted(chapter, int(now.pop(key, None) is not None)), b"del", key)
            get(key)
        elif draw < 0.4:
            put(names[rng.randrange(len(names))], b"w" * (i % 40))
        elif draw < 0.5:
            ask(missing(chapter), b"get", b"never %d" % i)
    for key in names:
        get(key)
    for key in rng.sample(names, len(names)):
        ask(deleted(chapter, int(now.pop(key, None) is not None)), b"del", key)
    for key in names[:: max(1, keys // 1000)]:
        get(key)
    with server.connect() as c:
        try:
            for i in range(0, len(requests), 20_000):
                c.pipeline(requests[i : i + 20_000], replies[i : i + 20_000])
        except AssertionError as e:
            raise AssertionError(f"{e}\n  seed      {seed}") from None


# Pairs of blocks that take a hash from one state to the same next state, one pair after another: so
# either block of each pair gives 2^15 keys with one hash.
_FNV1A_32 = (
    "puxalbyvw6 cgf5idof7x 32kdme3ou7 zrrcx0zix4 9mmgdlpo1z seg6epma6t p6fcqhty5b 92pgmkuksm "
    "rrkxj7f941 t7hinoimk8 8vfmui2yr6 3rzwjhw7q9 99kwkso3sw ls5wl2x0lw 0odbpevv4r"
)
_FNV1A_64_LOW = (  # the lower 32 bits, which are what chooses the bucket
    "7ry49e4r3c xzoyx4taix 1m5jdekczd 67njonjzam kshrch1h2n 695nescno6 e30dt1mpfd srk24j3ws1 "
    "uljcd9r4sd rpecqkysrz xz8h760o00 anuwttv7jx v86l8fladk sp87ah78tz pzn2rs6jvm"
)
_PAIRS = {
    "fnv1a-32": [(s[:5].encode(), s[5:].encode()) for s in _FNV1A_32.split()],
    "fnv1a-64": [(s[:5].encode(), s[5:].encode()) for s in _FNV1A_64_LOW.split()],
    "times-31": [(b"Aa", b"BB")] * 15,
    "times-33": [(b"Ab", b"BA")] * 15,
}
HASHES = list(_PAIRS)


def colliding(hash_name: str, count: int) -> List[bytes]:
    """Keys of one length that all have the same hash, in one of HASHES; up to 2^15."""
    return [b"".join(blocks) for blocks in itertools.islice(itertools.product(*_PAIRS[hash_name]), count)]


def colliding_keys(server: Server, hash_name: str, count: int = 20_000) -> None:
    """Keys that were chosen to collide take no longer than others of the same length."""
    keys = colliding(hash_name, count)
    rng = random.Random(9)
    others = [bytes(rng.sample(key, len(key))) + b"%05d" % i for i, key in enumerate(keys)]
    others = [key[len(key) - len(keys[0]) :] for key in others]
    tries = []
    with server.connect() as c:
        for _ in range(4):
            tries.append((_time_of(c, others), _time_of(c, keys)))
            if tries[-1][1] < 3 * tries[-1][0]:
                return
    shown = ", ".join(f"{bad:.2f} s against {good:.2f} s" for good, bad in tries)
    fail(f"{count} keys that collide under {hash_name} take longer than {count} others: {shown}")


def _time_of(c: Conn, keys: Sequence[bytes]) -> float:
    """Seconds for inserting, finding and removing the keys."""
    chapter = c.chapter
    data = [b"".join(request(*words) for words in requests) for requests in (
        [(b"set", k, b"v") for k in keys], [(b"get", k) for k in keys], [(b"del", k) for k in keys]
    )]  # fmt: skip
    begin = time.monotonic()
    results = [exchange([(c, part, len(keys))])[0] for part in data]
    seconds = time.monotonic() - begin
    expect = [stored(chapter), value(chapter, b"v"), deleted(chapter, 1)]
    for bodies, want in zip(results, expect):
        for body in bodies:
            c.check(body, want)
    return seconds


# ---- the client ---------------------------------------------------------------------------------


def client_prints(server: Server, words: Sequence[bytes], reply: object) -> None:
    """The client, with words as its arguments, prints exactly this reply and exits with 0."""
    result = run_client(server.chapter, list(words), server)
    expected = wire.client_text(reply, server.chapter)
    got = result.stdout.encode(errors="surrogateescape")
    if (got, result.stderr, result.status) != (expected, "", 0):
        fail(
            f"./client {wire.show_args(words)}\n  must print {expected!r}\n  not        {got!r}\n"
            f"  standard error: {result.stderr!r}, exit status {result.status}"
        )


# ---- the list -----------------------------------------------------------------------------------

_CASES: List[Case] = [
    a_key_comes_and_goes,
    connections_share_the_keys,
    an_empty_value_is_not_a_missing_one,
    an_empty_key_is_a_key,
    keys_and_values_are_any_bytes,
    keys_that_are_nearly_the_same,
    a_value_of_every_length_replaces_one_of_any,
    the_largest_value,
    the_longest_key,
    keys_removed_in_any_order,
    pipelined_requests_see_each_other,
    names_in_any_letter_case,
    names_that_are_no_commands,
    commands_of_later_chapters,
    wrong_numbers_of_arguments,
    as_many_strings_as_there_may_be,
    a_frame_above_the_limit,
    an_incomplete_request_is_dropped,
    a_request_in_two_pieces,
]


def cases(chapter: int) -> List[Case]:
    """The cases of a chapter that need nothing but a server."""
    assert chapter >= 7
    return _CASES


def name(case: Case) -> str:
    """The name of a case, for parametrize(ids=)."""
    return case.__name__
