"""Chapter 11: the sorted set. zadd, zrem, zscore, zquery; doubles."""
from __future__ import annotations

import random
from contextlib import ExitStack
from typing import Dict, List, Tuple

import pytest

from cases import Case, case, earlier, new
from cases.labs import lab_passes
from cases.replies import LIMIT, MIB, memory_below, reply_size
from cases.talk import answered, asked, bulk, numbered, say, start
from cases.zsets import ALL, Pairs, add_all
from harness import AnyOrder, Err, check_session, fail, seed, wire
from harness.codec import codec
from harness.model import BAD_INTS, BAD_SCORES, INT64_MAX, INT64_MIN
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers
from harness.wire import ERR_2BIG, ERR_ARG, ERR_TYPE

assert vector_servers  # a fixture

# What must come, to the byte but for free texts: tests/sessions/NAME.session. Read them in this order; to watch them,
# python3 tests/tools/play.py --show 11. The rules are in book/protocol.md.
SESSIONS = [
    "11-demo", "11-zadd", "11-zscore", "11-zquery", "11-ties", "11-changes",
    "11-numbers", "11-infinity", "11-types", "11-errors",
]  # fmt: skip


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str) -> None:
    check_session(name)


# Bytes that go in and come out, for programs in any language: tests/vectors/.
@pytest.mark.parametrize("vector", vector_cases(11))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 11)


Command = Tuple[wire.Arg, ...]


def flat(*pairs: Tuple[str, float]) -> List[object]:
    """The reply to a `zquery` that finds these."""
    return [value for name, score in pairs for value in (name.encode(), float(score))]


# A case, @case(since=11), holds for this chapter and each later one, in its own words (harness/codec.py translates);
# binary: for the bytes of our own protocol, up to 19; inside: looks into our own programs; all is in cases/__init__.py.


# ---- the commands ----


@case(since=11, binary=True)
def replies_byte_for_byte(chapter: int) -> None:
    """The tag of a double and its eight bytes; how an array of pairs lies on the wire."""
    with start(chapter) as server, server.connect() as conn:
        for words, body in (
            (["zscore", "z", "n"], "00"),
            (["zquery", "z", "1", "", "0", "10"], "04 00000000"),
            (["zadd", "z", "1.5", "n"], "03 0100000000000000"),
            (["zscore", "z", "n"], "05 000000000000f83f"),
            (["zadd", "z", "-0", "m"], "03 0100000000000000"),
            (["zscore", "z", "m"], "05 0000000000000000"),
            (["zquery", "z", "-1", "", "0", "10"],
             "04 04000000 02 01000000 6d 05 0000000000000000 02 01000000 6e 05 000000000000f83f"),
            (["zadd", "z", "-inf", "m"], "03 0000000000000000"),
            (["zscore", "z", "m"], "05 000000000000f0ff"),
            (["zrem", "z", "m"], "03 0100000000000000"),
            (["zrem", "z", "m"], "03 0000000000000000"),
        ):  # fmt: skip
            conn.send(asked(chapter, *words))
            conn.expect_bytes(wire.frame(bytes.fromhex(body)))


@case(since=11)
def pairs_come_change_and_go(chapter: int) -> None:
    """zadd answers 1 for a new name, 0 for one that gets another score, or the same."""
    with start(chapter) as server, server.connect() as conn:
        conn.ask("zquery", "board", 5, "ida", 1, 9, expect=[])
        conn.ask("zscore", "nobody", "ida", expect=None)
        conn.ask("zrem", "board", "ida", expect=0)
        conn.ask("keys", expect=[])
        conn.ask("zadd", "board", 5, "ida", expect=1)
        conn.ask("zadd", "board", 8, "leo", expect=1)
        conn.ask("zadd", "board", 6.7, "ida", expect=0)
        conn.ask("zadd", "board", 6.7, "ida", expect=0)
        conn.ask("zscore", "board", "ida", expect=6.7)
        conn.ask("zscore", "board", "Ida", expect=None)
        conn.ask("zquery", "board", 5, "", 0, 9, expect=flat(("ida", 6.7), ("leo", 8)))
        conn.ask("zquery", "board", 6.7, "", 1, 9, expect=flat(("leo", 8)))
        conn.ask("zquery", "board", 6.7, "", 2, 9, expect=[])
        conn.ask("zadd", "board", 9, "ida", expect=0)
        conn.ask("zquery", "board", 5, "", 0, 9, expect=flat(("leo", 8), ("ida", 9)))
        conn.ask("zrem", "board", "mia", expect=0)
        conn.ask("zrem", "board", "ida", expect=1)
        conn.ask("zquery", "board", 5, "", 0, 9, expect=flat(("leo", 8)))
        conn.ask("zscore", "board", "ida", expect=None)


@case(since=11)
def names_are_any_bytes(chapter: int) -> None:
    """Also none, NULs, and a name of a megabyte; sets and connections do not mix them up."""
    names = [b"", b"\0", b"a", b"a\0", b"a\0b", b"\xff" * 9, bytes(range(256)), b"x" * MIB]
    with start(chapter) as server, server.connect() as conn, server.connect() as other:
        for i, name in enumerate(names):
            conn.ask("zadd", name, i, name, expect=1)
            conn.ask("zadd", "all", i, name, expect=1)
        for i, name in enumerate(names):
            other.ask("zscore", name, name, expect=float(i))
            other.ask("zscore", name, name + b"\0", expect=None)
            other.ask("zscore", "all", name, expect=float(i))
            other.ask("zquery", "all", i, name, 0, 1, expect=[name, float(i)])
        other.ask("keys", expect=AnyOrder(names + [b"all"]))
        for name in names:
            other.ask("zrem", "all", name, expect=1)
            conn.ask("zscore", "all", name, expect=None)


# ---- order ----


@case(since=11)
def close_scores_keep_their_order(chapter: int) -> None:
    """Scores that lie close together, down to the last bit, down to the last bit, are neither equal nor lost."""
    scores = [0.1, 0.2, 0.3, 0.30000000000000004, 0.5, 0.9999999999999999, 1.0, 1.0000000000000002]
    scores += [-0.1, -0.2, -0.5, -1e-300, 5e-324, 1e-323, 1.5, 1e15, 1e15 + 0.125, 1e15 + 0.25, 2**53, 2**53 + 2]
    order = random.Random(11).sample(scores, len(scores))
    with start(chapter) as server, server.connect() as conn:
        add_all(conn, "z", [(score, f"n{i}") for i, score in enumerate(order)])
        expect = flat(*sorted(((f"n{i}", s) for i, s in enumerate(order)), key=lambda pair: pair[1]))
        conn.ask("zquery", "z", *ALL, expect=expect)
        for i, score in enumerate(sorted(scores)):
            conn.ask("zquery", "z", score, "", 0, 1, expect=expect[2 * i : 2 * i + 2])
        for i, score in enumerate(order):
            conn.ask("zscore", "z", f"n{i}", expect=float(score))


@case(since=11)
def equal_scores_go_by_name(chapter: int) -> None:
    """Bytes decide, above 127 too; a shorter name comes before one that begins with it."""
    names = [
        b"", b"\0", b"\0\0", b"A", b"a", b"a\0", b"a\0\0", b"a\0b", b"a\0a", b"\0b\0", b"\0a\xff", b"a\x01", b"aa",
        b"aaa", b"ab", b"b", b"ba",
    ]  # fmt: skip
    names += [b"name" * 50, b"name" * 50 + b"\0", b"\x7f", b"\x80", b"\x80\0", b"\xff", b"\xff\0", b"\xff\xff"]
    pairs = Pairs()
    with start(chapter) as server, server.connect() as conn:
        for name in random.Random(12).sample(names, len(names)):
            conn.ask("zadd", "z", 7, name, expect=pairs.add(7, name))
        conn.ask("zquery", "z", *ALL, expect=pairs.query(7, b""))
        assert [name for _, name in pairs.pairs] == sorted(names)
        for name in names + [b"a\0\0\0", b"zz", b"\xff\xff\0", b"m", b"name"]:
            conn.ask("zquery", "z", 7, name, 0, 2, expect=pairs.query(7, name, 0, 2))
            conn.ask("zquery", "z", 7, name, -1, 2, expect=pairs.query(7, name, -1, 2))
            conn.ask("zquery", "z", 6.9, name, 0, 1, expect=pairs.query(6.9, name, 0, 1))
            conn.ask("zquery", "z", 7.1, name, -1, 1, expect=pairs.query(7.1, name, -1, 1))


@case(since=11)
def minus_zero_is_zero(chapter: int) -> None:
    """It is stored as 0, equals it as a score and as a start, and the name decides."""
    with start(chapter) as server, server.connect() as conn:
        for score, name in (("0", "b"), ("-0", "a"), ("-0.0", "c"), ("-00.", "d"), ("+0", "e"), ("-0e5", "f")):
            conn.ask("zadd", "z", score, name, expect=1)
            conn.ask("zscore", "z", name, expect=0.0)
        whole = flat(*((name, 0) for name in "abcdef"))
        for score in ("0", "-0", "-0.0", "0e0"):
            conn.ask("zquery", "z", score, "", 0, 9, expect=whole)
            conn.ask("zquery", "z", score, "c", 0, 9, expect=whole[4:])
            conn.ask("zadd", "z", score, "b", expect=0)
            conn.ask("zscore", "z", "b", expect=0.0)
        conn.ask("zadd", "z", 5, "a", expect=0)
        conn.ask("zadd", "z", "-0", "a", expect=0)
        conn.ask("zscore", "z", "a", expect=0.0)
        conn.ask("zquery", "z", *ALL, expect=whole)


@case(since=11)
def infinities(chapter: int) -> None:
    """In any letter case, as scores and as starts."""
    inf = float("inf")
    order = flat(
        ("a", -inf), ("b", -inf), ("c", -1.7976931348623157e308), ("d", 0), ("e", 1e308), ("f", inf), ("g", inf)
    )
    with start(chapter) as server, server.connect() as conn:
        for score, name in (("INF", "g"), ("+inf", "f"), ("-Inf", "b"), ("-inf", "a")):
            conn.ask("zadd", "z", score, name, expect=1)
        for score, name in (("0", "d"), ("1e308", "e"), ("-1.7976931348623157e308", "c")):
            conn.ask("zadd", "z", score, name, expect=1)
        conn.ask("zscore", "z", "f", expect=inf)
        conn.ask("zscore", "z", "a", expect=-inf)
        conn.ask("zquery", "z", *ALL, expect=order)
        conn.ask("zquery", "z", "-inf", "b", 0, 1, expect=order[2:4])
        conn.ask("zquery", "z", "-inf", "bb", 0, 1, expect=order[4:6])
        conn.ask("zquery", "z", "+INF", "", 0, 9, expect=order[10:])
        conn.ask("zquery", "z", "inf", "g", 0, 9, expect=order[12:])
        conn.ask("zquery", "z", "inf", "gg", 0, 9, expect=[])
        conn.ask("zquery", "z", "inf", "gg", -7, 9, expect=order)
        conn.ask("zadd", "z", "inf", "a", expect=0)
        conn.ask("zquery", "z", "-inf", "", 0, 1, expect=order[2:4])


# ---- offsets and limits ----


@case(since=11)
def offsets_from_every_rank_to_every_rank(chapter: int) -> None:
    """And one past either end, and the largest there are, in sets of several sizes. The start may be a
    pair, lie between two, before the first, or past the last."""
    far = [INT64_MIN, INT64_MIN + 1, -(2**63) + 2, -(2**32), -(2**32) - 1, -(2**31) - 1, 1 - 2**32]
    far += [INT64_MAX, INT64_MAX - 1, 2**32, 2**32 - 1, 2**32 + 1, 2**31]
    with start(chapter) as server, server.connect() as conn:
        for size in (1, 2, 3, 8, 23):
            pairs, key = Pairs(), f"z{size}"
            for i in range(size):
                pairs.add(i // 2, b"n%02d" % i)
            add_all(conn, key, pairs.pairs)
            starts = [*pairs.pairs, *((score, name + b"+") for score, name in pairs.pairs)]
            starts += [(-0.5, b""), (size + 0.0, b"z"), (float("inf"), b"")]
            asked = [
                (score, name, offset)
                for score, name in starts
                for offset in [*range(-size - 2, size + 3), *far]
            ]
            conn.pipeline(
                [("zquery", key, score, name, offset, 1) for score, name, offset in asked],
                [pairs.query(score, name, offset, 1) for score, name, offset in asked],
            )
        conn.pipeline(
            [("zquery", "none", 0, "", offset, 1) for offset in far], [[]] * len(far)
        )


@case(since=11)
def a_negative_offset_counts_back_from_the_end(chapter: int) -> None:
    """Where no pair is that large the start is one past the last: -1 is the last, -n the first."""
    with start(chapter) as server, server.connect() as conn:
        add_all(conn, "z", [(i, f"n{i}") for i in range(1, 6)])
        whole = flat(*((f"n{i}", i) for i in range(1, 6)))
        for score, name in ((5, "n6"), (5.5, ""), (6, ""), ("inf", "")):
            for offset in (INT64_MIN, -7, -6):
                conn.ask("zquery", "z", score, name, offset, 10, expect=[])
            for offset in range(-5, 0):
                conn.ask("zquery", "z", score, name, offset, 10, expect=whole[2 * offset :])
            for offset in (0, 1, INT64_MAX):
                conn.ask("zquery", "z", score, name, offset, 10, expect=[])


@case(since=11)
def limits_count_pairs(chapter: int) -> None:
    """Zero or less is none; more than there are is all of them."""
    with start(chapter) as server, server.connect() as conn:
        add_all(conn, "z", [(i, f"n{i}") for i in range(6)])
        whole = flat(*((f"n{i}", i) for i in range(6)))
        for most in (INT64_MIN, -(2**32) + 3, -1, 0, 1, 2, 5, 6, 7, 1000, 2**31, 2**32, 2**32 + 1, 2**63 - 1):
            conn.ask("zquery", "z", 0, "", 0, most, expect=whole[: 2 * most] if most > 0 else [])
            conn.ask("zquery", "z", 2, "", 1, most, expect=whole[6:][: 2 * most] if most > 0 else [])
            conn.ask("zquery", "z", 9, "", -2, most, expect=whole[8:][: 2 * most] if most > 0 else [])


# ---- numbers ----


DOUBLES = [
    b"0", b"1", b"-1", b"+1", b"1.5", b"-1.5", b".5", b"-.5", b"+.5e1", b"5.", b"5.e1", b"1e3", b"1E3", b"1e+3",
    b"1e-3",
    b"00012", b"0.1", b"0.30000000000000004", b"9007199254740993", b"1e308", b"1.7976931348623157e308",
    b"2.2250738585072014e-308", b"5e-324", b"2e-324", b"1e-400", b"-1e-400", b"123456789012345678901234567890",
    b"0." + b"0" * 400 + b"1e400", b"1" + b"0" * 300, b"1" * 63, b"1" * 64, b"1" * 65, b"0" * 5000 + b"7.5",
    b"inf", b"INF", b"iNf", b"+inf", b"-inf", b"-INF",
]  # fmt: skip
NO_DOUBLES = BAD_SCORES + [
    b"+nan", b"NaN", b"nan(1)", b"infinity", b"-infinity", b"Infinity", b"infx", b"inff", b"+-inf", b"0x1p3", b"0X10",
    b"\t1", b"1\n", b"\n1", b"1 2", b"1e", b"1e+", b"e", b"+e1", b"..1", b"1..", b"1.2.3", b"1e2e3", b"1e2.5", b"+-1",
    b"1_0",
    b"1e309", b"-1e309", b"1.8e308", b"1" + b"0" * 400, b"\0", b"\x001", b"1\x00", b"x" * 5000, b"1d", b"1f", b"0b1",
    b"1e99999999999",
    b"\xef\xbc\x91", b"1\xff", b"- 1", b"inf ", b" inf",
]  # fmt: skip
NO_INTS = BAD_INTS + [
    b"+0", b"\t1", b"1\n", b"- 1", b"1e3", b"0x10", b"inf", b"nan", b"1.", b".", b"\0", b"1 2", b"--0", b"-+1", b"-00",
    b"1-", b"\xff", b"0" * 5000,
    b"18446744073709551616", b"18446744073709551617", b"-18446744073709551615", b"9" * 5000, b"-" + b"9" * 40,
    b"\xef\xbc\x91",
]  # fmt: skip


@case(since=11)
def scores_that_are_numbers(chapter: int) -> None:
    """Decimal as strtod() reads it, to the nearest double, bit for bit."""
    with start(chapter) as server, server.connect() as conn:
        for i, text in enumerate([*DOUBLES, *codec(chapter).more_doubles]):
            value = codec(chapter).parse_double(text)
            if text in codec(chapter).fewer_doubles:
                continue
            assert value is not None, text
            conn.ask("zadd", "z", text, f"n{i}", expect=1)
            conn.ask("zscore", "z", f"n{i}", expect=value)
            conn.ask("zquery", "z", text, f"n{i}", 0, 1, expect=[b"n%d" % i, value])


@case(since=11)
def scores_that_are_none(chapter: int) -> None:
    """Error 4, and nothing was changed: no key appears, no score moves."""
    with start(chapter) as server, server.connect() as conn:
        conn.ask("zadd", "z", 1, "n", expect=1)
        for text in [*NO_DOUBLES, *codec(chapter).fewer_doubles]:
            if text in codec(chapter).more_doubles:
                continue
            assert codec(chapter).parse_double(text) is None, text
            conn.ask("zadd", "new", text, "n", expect=Err(ERR_ARG))
            conn.ask("zadd", "z", text, "n", expect=Err(ERR_ARG))
            conn.ask("zadd", "z", text, "other", expect=Err(ERR_ARG))
            conn.ask("zquery", "z", text, "", 0, 10, expect=Err(ERR_ARG))
            conn.ask("zquery", "none", text, "", 0, 10, expect=Err(ERR_ARG))
        conn.ask("keys", expect=[b"z"])
        conn.ask("zquery", "z", *ALL, expect=flat(("n", 1)))


@case(since=11)
def offsets_and_limits_that_are_none(chapter: int) -> None:
    """Integers of 64 bits as they are written, with no sign or zero that could be left out; also where the key is
    missing."""
    with start(chapter) as server, server.connect() as conn:
        conn.ask("zadd", "z", 1, "n", expect=1)
        for key in ("z", "none"):
            for text in NO_INTS:
                conn.ask("zquery", key, 0, "", text, 10, expect=Err(ERR_ARG))
                conn.ask("zquery", key, 0, "", 0, text, expect=Err(ERR_ARG))
        for text in (b"0", b"-1", b"1", b"9223372036854775807", b"-9223372036854775808"):
            conn.ask("zquery", "z", 0, "", text, 10, expect=flat(("n", 1)) if text == b"0" else [])


# ---- types ----


def _on_every_type(chapter: int) -> List[Tuple[Command, object, object, object]]:
    """(command, reply where the key is missing, holds the string v, holds the set {n: 1})."""
    wrong = Err(ERR_TYPE)
    rows: List[Tuple[Command, object, object, object]] = [
        (("get", "k"), None, b"v", wrong),
        (("zadd", "k", 2, "m"), 1, wrong, 1),
        (("zadd", "k", 2, "n"), 1, wrong, 0),
        (("zrem", "k", "n"), 0, wrong, 1),
        (("zrem", "k", "m"), 0, wrong, 0),
        (("zscore", "k", "n"), None, wrong, 1.0),
        (("zscore", "k", "m"), None, wrong, None),
        (("zquery", "k", 0, "", 0, 10), [], wrong, flat(("n", 1))),
        (("zquery", "k", 0, "", 0, 0), [], wrong, []),
        (("zquery", "k", 9, "", INT64_MIN, -1), [], wrong, []),
        (("set", "k", "w"), None, None, None),
        (("del", "k"), 0, 1, 1),
        (("keys",), [], [b"k"], [b"k"]),
    ]
    if codec(chapter).has_ttl:
        rows += [
            (("expire", "k", 1000), 0, 1, 1), (("pexpire", "k", 100000), 0, 1, 1), (("ttl", "k"), -2, -1, -1),
            (("pttl", "k"), -2, -1, -1), (("persist", "k"), 0, 0, 0), (("expire", "k", 0), 0, 1, 1),
        ]  # fmt: skip
    return rows


@case(since=11)
def every_command_on_every_type(chapter: int) -> None:
    """The wrong type is error 3 and changes nothing; set, del and the like take any."""
    with start(chapter) as server, server.connect() as conn:
        for words, on_nothing, on_string, on_zset in _on_every_type(chapter):
            conn.ask("del", "k")
            conn.ask(*words, expect=on_nothing)
            conn.ask("set", "k", "v", expect=None)
            conn.ask(*words, expect=on_string)
            if on_string == Err(ERR_TYPE):
                conn.ask("get", "k", expect=b"v")
            conn.ask("del", "k")
            conn.ask("zadd", "k", 1, "n", expect=1)
            conn.ask(*words, expect=on_zset)
            if on_zset == Err(ERR_TYPE):
                conn.ask("zquery", "k", *ALL, expect=flat(("n", 1)))


@case(since=11)
def an_emptied_set_is_gone(chapter: int) -> None:
    """The key with it: `keys` does not list it, `get` finds nothing, a new set begins from nothing."""
    with start(chapter) as server, server.connect() as conn:
        for n in (1, 2, 50):
            add_all(conn, "k", [(i % 5, f"n{i}") for i in range(n)])
            for i in range(n):
                conn.ask("keys", expect=[b"k"])
                conn.ask("zrem", "k", f"n{i}", expect=1)
                conn.ask("zrem", "k", f"n{i}", expect=0)
            conn.ask("keys", expect=[])
            conn.ask("get", "k", expect=None)
            conn.ask("zscore", "k", "n0", expect=None)
            conn.ask("zquery", "k", *ALL, expect=[])
            conn.ask("del", "k", expect=0)
        conn.ask("zadd", "k", 1, "n", expect=1)
        conn.ask("zrem", "k", "n", expect=1)
        conn.ask("set", "k", "v", expect=None)
        conn.ask("get", "k", expect=b"v")


@case(since=11)
def set_and_del_take_a_set(chapter: int) -> None:
    """`set` over a sorted set of any size leaves a string and nothing of the set; so does `del`."""
    with start(chapter) as server, server.connect() as conn:
        for n in (1, 3, 200):
            for value in (b"", b"v", b"12345678", b"x" * 5000):
                add_all(conn, "k", [(i, f"n{i}") for i in range(n)])
                conn.ask("get", "k", expect=Err(ERR_TYPE))
                conn.ask("set", "k", value, expect=None)
                conn.ask("get", "k", expect=value)
                conn.ask("zadd", "k", 1, "n", expect=Err(ERR_TYPE))
                conn.ask("set", "k", value + b"+", expect=None)
                conn.ask("keys", expect=[b"k"])
                conn.ask("del", "k", expect=1)
                add_all(conn, "k", [(i, f"m{i}") for i in range(n)])
                conn.ask("zscore", "k", "n0", expect=None)
                conn.ask("del", "k", expect=1)
                conn.ask("keys", expect=[])


# ---- long replies ----


@case(since=11, ours="Redis has no limit for a reply")
def a_reply_above_the_limit(chapter: int) -> None:
    """A zquery of 32 MiB is answered; with one pair more it is error 2, and the connection goes on. What asks for less
    of the same set is answered as ever."""
    with start(chapter) as server, server.connect() as conn:
        names = [b"%d" % i + b"x" * (LIMIT // 4 - 100_000) for i in range(4)]
        room = LIMIT - reply_size(conn, [value for i, name in enumerate(names) for value in (name, float(i))])
        names = [name + b"x" * (room // 4 + (i < room % 4)) for i, name in enumerate(names)]
        add_all(conn, "z", [(i, name) for i, name in enumerate(names)])
        say(conn)
        before = server.rss_kb()
        whole = [value for i, name in enumerate(names) for value in (name, float(i))]
        conn.ask("zquery", "z", *ALL, expect=whole)
        conn.ask("zadd", "z", 9, "", expect=1)
        conn.pipeline(
            [("zscore", "z", ""), ("zquery", "z", *ALL), ("zscore", "z", ""), ("zquery", "z", 1, "", 2, INT64_MAX)],
            [9.0, Err(ERR_2BIG), 9.0, whole[6:] + [b"", 9.0]],
        )
        conn.ask("zrem", "z", "", expect=1)
        conn.ask("zquery", "z", *ALL, expect=whole)
        say(conn)
        memory_below(server, before, 40, "replies of 32 MiB and more have been answered")


# ---- many pairs, random runs ----


@case(since=11)
def many_pairs(chapter: int) -> None:
    """20,000 pairs in one write, some in order, some not; queries anywhere; the removal of most."""
    rng, pairs = random.Random(seed()), Pairs()
    with start(chapter) as server, server.connect() as conn:
        adds = [(float(i), b"up%d" % i) for i in range(5000)]
        adds += [(float(-i), b"down%d" % i) for i in range(5000)]
        adds += [(rng.gauss(0, 3000), b"any%d" % i) for i in range(8000)]
        adds += [(0.5, b"same%d" % i) for i in range(2000)]
        pairs.pairs = sorted(adds)
        pairs.scores = {name: score for score, name in adds}
        add_all(conn, "z", adds)
        for keep in (20_000, 3000, 10):
            gone = rng.sample(sorted(pairs.scores), len(pairs.scores) - keep)
            conn.pipeline([("zrem", "z", name) for name in gone], [1] * len(gone))
            for name in gone:
                del pairs.scores[name]
            pairs.pairs = sorted((score, name) for name, score in pairs.scores.items())
            asked = [
                (rng.gauss(0, 4000), b"any", rng.randrange(-keep - 5, keep + 5), rng.choice([1, 2, 50]))
                for _ in range(300)
            ]
            conn.pipeline(
                [("zquery", "z", *words) for words in asked], [pairs.query(*words) for words in asked]
            )
            conn.ask("zquery", "z", *ALL, expect=pairs.query(float("-inf"), b""))


@case(since=11)
def more_pairs_than_two_bytes_count(chapter: int) -> None:
    """65,537 pairs are 1 where their number is kept in two bytes; as names and scores, 32,768 are none."""
    with start(chapter) as server, server.connect(seconds=20) as conn:
        bulk(conn, numbered(range(65_537), "zadd", "z", "1", "######"), 1)
        for n in (32_768, 65_537):
            conn.send(asked(chapter, "zquery", "z", "-inf", "", 0, n))
            conn.expect_bytes(answered(chapter, flat(*[("%06d" % i, 1.0) for i in range(n)]), "zquery"))


@case(since=11)
def a_large_set_comes_and_goes_within_a_batch(chapter: int) -> None:
    """Requests about 6,000 pairs, right and wrong ones; then without a pause the set goes, and comes again."""
    pairs = Pairs()
    for i in range(6000):
        pairs.add(float(i % 70), b"n%d" % i)
    asked: List[Command] = [("zquery", "z", score, "n30", 0, 3) for score in (-1, 35, 70, "inf")]
    asked += [
        ("zquery", "z", "x", "", 0, 1), ("zquery", "z", "", "", 0, 1), ("zadd", "z", "nan", "n"),
        ("zquery", "z", 1, ""),
    ]  # fmt: skip
    queries = [(-1.0, b"n30", 0, 3), (35.0, b"n30", 0, 3), (70.0, b"n30", 0, 3), (float("inf"), b"n30", 0, 3)]
    wrong = [Err(ERR_ARG)] * 4
    fill: List[Command] = [("zadd", "z", score, name) for score, name in pairs.pairs]
    filled = [*[1] * len(fill), *[pairs.query(*words) for words in queries], *wrong]
    with start(chapter) as server, server.connect() as conn:
        conn.pipeline(
            [
                *fill,
                *asked,
                ("del", "z"),
                *asked,
                *fill,
                *asked,
                ("set", "z", "v" * 16),
                *asked * 4,
                ("del", "z"),
                *fill,
                *asked,
            ],
            [*filled, 1, *[[]] * 4, *wrong, *filled, None, *([Err(ERR_TYPE)] * 4 + wrong) * 4, 1, *filled],
        )


@case(since=11, inside=True)
def far_offsets_cost_no_more_than_near_ones(chapter: int) -> None:
    """To move by rank takes O(log n) steps, not as many as the offset says. Processor time tells."""
    n = 20_000
    with start(chapter) as server, server.connect() as conn:
        add_all(conn, "z", [(i, b"n%d" % i) for i in range(n)])
        spent = []
        for score, offset, rank in ((0, 1, 1), (0, n - 1, n - 1), ("inf", -n, 0)):
            before = server.cpu_ms()
            conn.pipeline([("zquery", "z", score, "", offset, 1)] * 2000, [flat((f"n{rank}", rank))] * 2000)
            spent.append(server.cpu_ms() - before)
        if max(spent) > 10 * spent[0] + 50:
            fail(
                f"2,000 offsets of 1 took {spent[0]} ms of processor time, of {n - 1} {spent[1]} ms, of"
                f" -{n} {spent[2]} ms",
                "does the server walk from pair to pair? With the number of nodes below each, avl_offset() skips whole "
                "subtrees.",
                "about as much time for each",
            )


def _random(chapter: int, operations: int, connections: int, most: int) -> None:
    """Random commands on three sets of a few hundred names, in batches of up to `most`."""
    rng = random.Random(seed())
    sets: Dict[bytes, Pairs] = {key: Pairs() for key in (b"", b"z", b"Z\0")}
    with start(chapter) as server, ExitStack() as stack:
        conns = [stack.enter_context(server.connect()) for _ in range(connections)]
        done, grow = 0, 0.5
        while done < operations:
            if rng.random() < 0.1:
                grow = rng.choice([0.1, 0.4, 0.6])
            batch = [_random_step(rng, sets, grow) for _ in range(rng.randrange(1, most + 1))]
            rng.choice(conns).pipeline([words for words, _ in batch], [reply for _, reply in batch])
            done += len(batch)
        for key, pairs in sets.items():
            conns[0].ask("zquery", key, *ALL, expect=pairs.query(float("-inf"), b""))
        conns[0].ask("keys", expect=AnyOrder([key for key, pairs in sets.items() if pairs.pairs]))


def _random_step(rng: random.Random, sets: Dict[bytes, Pairs], grow: float) -> Tuple[Command, object]:
    """A command and the reply that must come."""
    key = rng.choice(list(sets))
    pairs, draw = sets[key], rng.random()
    name = b"n%d" % rng.randrange(300) if rng.random() < 0.9 else b"\xff" * rng.randrange(5)
    score = rng.choice([rng.uniform(-5, 5), float(rng.randrange(-4, 5)), rng.random() / 1e3, 0.0])
    if draw < grow * 0.8:
        return (b"zadd", key, repr(score).encode(), name), pairs.add(score, name)
    if draw < 0.5:
        return (b"zrem", key, name), pairs.remove(name)
    if draw < 0.6:
        return (b"zscore", key, name), pairs.scores.get(name)
    if draw < 0.605:
        there, sets[key] = bool(pairs.pairs), Pairs()
        return (b"del", key), int(there)
    n = len(pairs.pairs)
    if n and draw < 0.8:
        score, name = rng.choice(pairs.pairs)
    offset, most = rng.randrange(-n - 2, n + 3) if rng.random() < 0.5 else rng.randrange(-3, 4), rng.randrange(8)
    words = (b"zquery", key, repr(score).encode(), name, offset, most)
    return words, pairs.query(score, name, offset, most)


@case(since=11)
def random_pairs(chapter: int) -> None:
    _random(chapter, 5000, 1, 1)


@case(since=11)
def random_pairs_pipelined(chapter: int) -> None:
    _random(chapter, 20_000, 1, 500)


@case(since=11)
def random_pairs_on_several_connections(chapter: int) -> None:
    _random(chapter, 10_000, 4, 40)


# Runs each function above that is marked @case, and those of tests/cases/ with since=11 (clients.py).
@pytest.mark.parametrize("case", new(11))
def test_new(case: Case) -> None:
    case(11)


# The cases of 03 to 10, as far as they still hold.
@pytest.mark.parametrize("case", earlier(11))
def test_earlier(case: Case) -> None:
    case(11)


# ---- the lab program ----


@pytest.mark.inside
@pytest.mark.time_limit(60)
def test_lab_program() -> None:
    """From every rank to every rank, from every start by every offset, and random runs."""
    lab_passes(11, "test_zset")
