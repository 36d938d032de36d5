"""Tests of the harness itself: what it decodes, how it fails, that it leaves nothing behind.

They need no C program: the servers here are a few lines of Python.
"""
from __future__ import annotations

import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Dict, List, Tuple

import pytest

from harness import AnyOrder, Between, Conn, Err, Model, OneOf, Server, Status, session, wire
from harness import build, check_session, diagnose, model, run_client, run_model_test, run_program, settings
from harness.codec import codec
from harness.failure import Cause, Failure
from harness.fake import FakeServer, replies
from harness.grammar import RespGenerator
from harness.hints import why_wrong
from harness.process import free_port
from harness.resp_model import RespModel
from harness.session import SessionError, console_blocks, load, parse, play, side_by_side

pytestmark = pytest.mark.inside

TESTS = Path(__file__).parents[1]
MODEL_SERVER = f"{sys.executable} {TESTS}/harness/model_server.py NN"


def failure(action: Callable[[], object]) -> str:
    """The text with which it fails."""
    with pytest.raises(AssertionError) as caught:
        action()
    return str(caught.value)


# ---- wire -------------------------------------------------------------------------------------


def test_values_survive_encoding_and_decoding() -> None:
    value = [b"a\0", 1.5, -0.0, float("-inf"), None, -(2**63), Err(1, "Unknown cmd"), [], [b""]]
    assert wire.same(value, wire.decode_value(wire.encode_value(value)))
    assert wire.encode_value([b"k", 2]).hex() == "0402000000" "02010000006b" "030200000000000000"
    assert wire.encode_value(Err(4, "no")).hex() == "010400000002000000" "6e6f"
    assert wire.decode_status(bytes.fromhex("02000000")) == Status(wire.RES_NX, b"")


def test_requests_survive_encoding_and_decoding() -> None:
    assert wire.request("get", b"k").hex() == "10000000" "02000000" "03000000676574" "010000006b"
    assert wire.decode_request(wire.body("set", b"", "v")) == [b"set", b"", b"v"]


def test_numbers_as_arguments() -> None:
    assert [wire.to_bytes(a) for a in (5, 0.1, float("inf"), "é")] == [b"5", b"0.1", b"inf", b"\xc3\xa9"]


@pytest.mark.parametrize("chapter", [7, 9])
@pytest.mark.parametrize("name", wire.malformed_requests(9))
def test_malformed_requests_are_malformed_but_framed(chapter: int, name: str) -> None:
    raw = wire.malformed_requests(chapter)[name]
    (body,), rest = wire.split_frames(raw)
    assert rest == b"" and len(body) <= wire.max_msg(chapter)
    with pytest.raises(wire.WireError):
        wire.decode_request(body)


@pytest.mark.parametrize("name", wire.malformed_replies(11))
def test_malformed_replies_are_malformed(name: str) -> None:
    raw = wire.malformed_replies(11)[name]
    bodies, rest = wire.split_frames(raw)
    if bodies:
        with pytest.raises(wire.WireError):
            wire.decode_reply(11, bodies[0])
    else:
        assert len(rest) < 4 or struct.unpack_from("<I", rest)[0] > len(rest) - 4


@pytest.mark.parametrize(
    "body, offset, text",
    [
        (b"\x07", 0, "7 is no tag"),
        (b"\2\5\0\0\0abc", 5, "a string needs 5 bytes, 3 are left"),
        (b"\4\2\0\0\0\0", 6, "a tag needs 1 byte, 0 are left"),
        (b"\0\0", 1, "1 byte is left over"),
        (b"\5" + struct.pack("<d", float("nan")), 0, "the double is not a number"),
    ],
)
def test_the_decoder_names_the_wrong_byte(body: bytes, offset: int, text: str) -> None:
    with pytest.raises(wire.WireError) as caught:
        wire.decode_value(body)
    assert (caught.value.offset, str(caught.value)) == (offset, text)


@pytest.mark.parametrize(
    "expected, got, result",
    [
        (1, 1, True), (1, 1.0, False), (1.0, 1, False), (0.0, -0.0, False), (None, 0, False),
        ("v", b"v", True), (b"v", b"w", False), ([1, [b"a"]], [1, [b"a"]], True), ([1], [1, 2], False),
        (Err(4), Err(4, "x"), True), (Err(4), Err(3, "x"), False), (Err(1, "a"), Err(1, "b"), False),
        (Status(1), Status(1, b"x"), True), (Status(0, b""), Status(0, b"x"), False),
        (OneOf(1, None), None, True), (OneOf(1, None), 2, False),
        (Between(1, 3), 3, True), (Between(1, 3), 4, False), (Between(1, 3), 2.0, False),
        (AnyOrder([b"a", b"b"]), [b"b", b"a"], True), (AnyOrder([b"a", b"a"]), [b"a", b"b"], False),
        (AnyOrder([b"a"]), [b"a", b"a"], False), (AnyOrder([]), None, False),
    ],
)  # fmt: skip
def test_same(expected: object, got: object, result: bool) -> None:
    assert wire.same(expected, got) is result
    if not isinstance(expected, (OneOf, Between, AnyOrder)):
        return
    assert wire.same(expected, wire.nearest(expected, got))  # a plain value that fits the pattern


def test_doubles_are_printed_with_the_fewest_digits() -> None:
    shown = [wire.show_double(x) for x in (1.0, 0.1, 1 / 3, 1e16, 5e-324, float("-inf"), 100000.0)]
    assert shown == ["1", "0.1", "0.3333333333333333", "1e+16", "5e-324", "-inf", "100000"]


def test_what_the_client_prints() -> None:
    text = wire.client_text([b"a", [None], Err(1, "Unknown cmd"), -2])
    assert text == b"""(arr) len=4
(str) a
(arr) len=1
(nil)
(arr) end
(err) 1 Unknown cmd
(int) -2
(arr) end
"""
    assert wire.client_text(Status(2, b"")) == b"server says: [2]\n"
    assert wire.client_text(Status(0, b"v")) == b"server says: [0] v\n"
    assert wire.client_text(b"world", 4) == b"server says: world\n"


def test_the_caret_stands_under_the_byte() -> None:
    data = bytes(range(256))
    for mark in (0, 5, 15, 16, 200, 255):
        rows = wire.hexdump(data, mark, "here")
        i = next(i for i, row in enumerate(rows) if "^^" in row)
        column = rows[i].index("^^")
        assert rows[i - 1][column : column + 2] == f"{mark:02x}"
        assert rows[i].endswith("^^ here")
    assert wire.hexdump(b"ab", 2)[-1].index("^^") == len("0000  61 62 ")  # a byte that is missing
    assert len(wire.hexdump(bytes(10000), 5000)) < 15
    assert wire.hexdump(bytes(100), 20)[-1] == "..."  # what follows the wrong byte matters less
    assert len(wire.hexdump(bytes(100), 20)) == 5


# ---- conn -------------------------------------------------------------------------------------


def ask_fake(chapter: int, raw: bytes, *args: wire.Arg, **options: object) -> str:
    """How `ask` fails where the server answers with these bytes."""
    with FakeServer(replies(raw)) as fake, Conn(fake.port, chapter) as conn:
        return failure(lambda: conn.ask(*args, **options))  # type: ignore[arg-type]


def test_a_wrong_value_is_explained() -> None:
    text = ask_fake(9, wire.frame(wire.encode_value(b"vw")), "get", "k", expect=b"v")
    assert text.splitlines() == [
        "the reply is wrong (chapter 09)",
        "  sent      get k",
        "            0000  10 00 00 00 02 00 00 00 03 00 00 00 67 65 74 01  ............get.",
        "            0010  00 00 00 6b                                      ...k",
        "  expected  (str) v",
        "  came      (str) vw",
        "  its bytes 0000  07 00 00 00 02 02 00 00 00 76 77                 .........vw",
        "                                 ^^",
        "  perhaps   only the end differs: is the length right?",
    ]


@pytest.mark.parametrize(
    "words, expected, got, perhaps",
    [
        ("get k", b"a\0b", b"a", "is it taken for a C string?"),
        ("get k", None, b"v", "finds a key that should not be there"),
        ("get k", b"v", None, "does not find what was set"),
        ("get k", Err(4), 1, "accepts what it must refuse"),
        ("get k", Err(4), Err(1, "x"), "its code is not: 4 is a bad argument"),
        ("del k", 1, Err(4, "x"), "refuses what it must accept"),
        ("zscore z n", 1.0, 1, "a score is a double"),
        ("zquery z 0 n 0 2", [b"a", 1.0, b"b", 2.0], [b"a", 1.0], "does `limit` count elements?"),
        ("zquery z 0 n 0 2", [b"a", 1.0, b"b", 2.0], [b"b", 2.0], "the first pairs are missing: an `offset` of 0"),
        ("zquery z 0 n 0 2", [b"a", 1.0, b"b", 1.0], [b"b", 1.0, b"a", 1.0], "there the names decide"),
        ("zadd z 1 n", 0, 1, "whose score it changes"),
        ("keys", AnyOrder([b"a", b"b"]), [b"b"], "1 are missing, a for one"),
        ("pttl k", Between(900, 1000), -1, "the deadline is lost"),
        ("ttl k", Between(90, 100), 99_000, "seconds or milliseconds?"),
        ("ttl k", -2, -1, "-2 says that there is no such key; -1 is for one without a deadline"),
        ("expire k 1", 0, 1, "answers 0 where there is no such key"),
    ],
)
def test_a_likely_cause_of_a_wrong_value(words: str, expected: object, got: object, perhaps: str) -> None:
    text = ask_fake(13, wire.frame(wire.encode_value(got)), *words.split(), expect=expected)
    assert perhaps in text.splitlines()[-1]


@pytest.mark.parametrize(
    "before, words, expected, got, perhaps",
    [
        ("set k w; set k v", "get k", b"v", b"w", "an older value"),
        ("set k v; pexpire k 1", "get k", None, b"v", "whenever a key is looked up"),
        ("pexpire k 1; set k v", "get k", b"v", None, "although `set` came after"),
        ("set k v; pexpire k 99", "get k", b"v", None, "gone before its time"),
        ("set k v; del k", "get k", None, b"v", "`del` has answered"),
        ("set k v; pexpire k 99; persist k", "pttl k", -1, 50, "`persist` takes the deadline away"),
        ("zadd k 1 n; zadd k 2 n", "zscore k n", 2.0, 1.0, "an older score"),
    ],
)
def test_what_came_before_tells(before: str, words: str, expected: object, got: object, perhaps: str) -> None:
    past = [line.encode().split() for line in before.split("; ")]
    assert perhaps in why_wrong(codec(13), words.encode().split(), expected, got, past)


def test_a_port_is_its_own_by_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container root may not see what sockets another user's process has: then the user of the socket counts."""
    monkeypatch.setenv("SUBMISSION", "/somewhere")
    monkeypatch.setattr(diagnose, "own_sockets", lambda pid: {})
    monkeypatch.setattr(diagnose, "may_look", lambda pid: False)
    with Server(6, command=MODEL_SERVER.replace("NN", "06").split()) as server:
        assert server.port in diagnose.ports_of_its_user(server.pid)
    monkeypatch.setattr(diagnose, "may_look", lambda pid: True)
    with pytest.raises(AssertionError, match="is not its own"):
        Server(6, command=MODEL_SERVER.replace("NN", "06").split()).__enter__()


@pytest.mark.parametrize(
    "chapter, raw, says",
    [
        (4, wire.frame(b"World"), ["the reply is wrong", "expected  world", "came      World",
                                   "other bytes of the right number"]),
        (9, wire.frame(b"\2\5\0\0\0abc"), ["the reply is malformed (chapter 09)\n",
                                           "^^ a string needs 5 bytes, 3 are left\n  perhaps   is each part"]),
        (7, b"", ["the connection was closed without a reply", "did the server crash, or take the request"]),
        (7, b"\5\0", ["the connection was closed after 2 of 4 bytes", "ended inside a reply"]),
        (7, b"\5\0\0\0", ["the connection was closed after 4 of 9 bytes", "ended inside a reply"]),
        (7, b"\0\0\0\5\0\0\0\0\0", ["a reply of 83886080 bytes is announced", "the length is big-endian"]),
        (7, b"\5\0\0\0\0", ["the connection was closed after 5 of 9 bytes", "count its own four bytes",
                            "  sent      get k"]),
    ],
)  # fmt: skip
def test_a_reply_that_is_none_is_explained(chapter: int, raw: bytes, says: List[str]) -> None:
    text = ask_fake(4, raw, "hello", expect=b"world") if chapter == 4 else ask_fake(chapter, raw, "get", "k")
    assert text.startswith(says[0]) and all(words in text for words in says), text


def test_a_server_that_does_not_put_pieces_together_is_explained() -> None:
    def handler(sock: socket.socket) -> None:
        sock.recv(4)
        sock.sendall(wire.frame(b"\0\0\0\0")[:4])

    with FakeServer(handler) as fake, Conn(fake.port, 7) as conn:
        conn.send(wire.request("get", "k")[:4])
        conn.recv_exactly(1)
        conn.send(wire.request("get", "k")[4:])
        text = failure(conn.recv)
    assert "does the server handle a request that arrives in 2 pieces?" in text.splitlines()[-1]
    assert "\n            in pieces of 4 and 16 bytes\n" in text


def test_what_was_sent_is_told_up_to_the_end_of_the_input() -> None:
    """A connection that stays open although all is answered and the client leaves."""

    def handler(sock: socket.socket) -> None:
        sock.recv(100)
        sock.sendall(wire.frame(b"world"))
        time.sleep(settings.limit(0.5))

    with FakeServer(handler) as fake, Conn(fake.port, 4, seconds=0.1) as conn:
        conn.ask("hello", expect=b"world")
        assert "  sent      nothing more: all that was sent has had its answer\n" in failure(conn.expect_closed)
        conn.shutdown_write()
        assert "has had its answer, and the client has ended its input\n" in failure(conn.expect_closed)


def test_no_answer_is_explained_within_the_limit() -> None:
    with FakeServer(lambda sock: time.sleep(5)) as fake, Conn(fake.port, 9, seconds=0.1) as conn:
        start = time.monotonic()
        text = failure(lambda: conn.ask("get", "k"))
        assert text.startswith(f"no reply within {settings.limit(0.1):g} s")
        assert time.monotonic() - start < settings.limit(0.1) + 2
        assert "still open after" in failure(conn.expect_closed)


def test_big_pipelines_do_not_deadlock() -> None:
    def echo(sock: socket.socket) -> None:
        while True:
            data = sock.recv(1 << 16)
            if not data:
                return
            sock.sendall(data)  # blocks until we read

    texts = [(b"x" * 4000 + b"%d" % i,) for i in range(5000)]  # 20 MB, more than any socket buffer
    with FakeServer(echo) as fake, Conn(fake.port, 6) as conn:
        assert conn.pipeline(texts, expect=[text for (text,) in texts]) == [text for (text,) in texts]


def test_a_wrong_reply_in_a_pipeline_is_named() -> None:
    good = [wire.frame(wire.encode_value(i)) for i in range(10)]
    good[6] = wire.frame(wire.encode_value(60))
    with FakeServer(replies(b"".join(good))) as fake, Conn(fake.port, 9) as conn:
        text = failure(lambda: conn.pipeline([["del", str(i)] for i in range(10)], list(range(10))))
    assert text.startswith("reply 7 of 10: the reply is wrong")
    assert "sent      del 6" in text


def test_a_pipeline_that_stops_is_explained() -> None:
    raw = wire.frame(b"\0") * 3
    with FakeServer(replies(raw)) as fake, Conn(fake.port, 9) as conn:
        text = failure(lambda: conn.pipeline([["get", "k"]] * 10))
    assert text.startswith("reply 4 of 10: the connection was ")
    assert "... 7 requests in all" in text


def test_the_first_wrong_byte_of_raw_bytes() -> None:
    with FakeServer(replies(b"server says world")) as fake, Conn(fake.port, 5) as conn:
        conn.send(wire.frame(b""))
        text = failure(lambda: conn.expect_bytes(b"server said world"))
    lines = text.splitlines()
    i = next(i for i, line in enumerate(lines) if "^^" in line)
    assert lines[i - 1][lines[i].index("^^") :].startswith("79")  # the y
    with FakeServer(replies(b"a" * 200 + b"xy")) as fake, Conn(fake.port, 5) as conn:
        conn.send(wire.frame(b""))
        text = failure(lambda: conn.expect_bytes(b"a" * 200 + b"xz"))
    rows = [row for row in text.splitlines() if "00c0  61" in row]
    assert text.count("^^") == 1 and len(rows) == 2, text  # the row that differs, of both


def test_a_nil_of_the_other_version_is_explained() -> None:
    def handler(sock: socket.socket) -> None:
        sock.recv(100)
        sock.sendall(b"$-1\r\n")

    with FakeServer(handler) as fake, Conn(fake.port, 20) as conn:
        conn.send(b"*2\r\n$3\r\nget\r\n$1\r\nk\r\n")
        assert "this is the nil of version 2" in failure(lambda: conn.expect_bytes(b"_\r\n"))


def test_how_a_connection_ends() -> None:
    def reset(sock: socket.socket) -> None:
        sock.recv(1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with FakeServer(replies(b"")) as fake, Conn(fake.port, 9) as conn:
        conn.send(wire.request("get", "k"))
        conn.expect_closed(reset_ok=False)
    with FakeServer(replies(b"x")) as fake, Conn(fake.port, 9) as conn:
        conn.send(wire.request("get", "k"))
        assert "bytes came where" in failure(conn.expect_closed)
    with FakeServer(reset) as fake, Conn(fake.port, 9) as conn:
        conn.send(b"x")
        conn.expect_closed()
        assert "was reset, not closed" in failure(lambda: conn.expect_closed(reset_ok=False))
    with FakeServer(replies(b"")) as fake, Conn(fake.port, 9) as conn:
        conn.expect_silence(0.05)
        conn.send(wire.request("get", "k"))
        assert "the connection was closed where the server should wait" in failure(lambda: conn.expect_silence(5))


def test_our_end_of_a_connection() -> None:
    seen: List[object] = []

    def handler(sock: socket.socket) -> None:
        try:
            seen.append(sock.recv(100))
            seen.append(sock.recv(100))
        except ConnectionResetError:
            seen.append("reset")

    with FakeServer(handler) as fake:
        conn = Conn(fake.port, 9)
        conn.send(b"a")
        settings.wait_until(lambda: seen, "the first byte")
        conn.shutdown_write()
        conn.expect_closed()
        assert seen == [b"a", b""]
        seen.clear()
        conn = Conn(fake.port, 9)
        conn.send(b"b")
        settings.wait_until(lambda: seen, "the first byte")
        conn.reset()
        settings.wait_until(lambda: len(seen) == 2, "the reset")
        assert seen == [b"b", "reset"]


def test_a_peer_that_takes_nothing_does_not_hang_us() -> None:
    with FakeServer(lambda sock: time.sleep(30)) as fake, Conn(fake.port, 9, seconds=0.1) as conn:
        taken = conn.send_some(bytes(50 << 20), seconds=0.05)
        assert 0 < taken < 50 << 20
        assert "took no byte" in failure(lambda: conn.send(bytes(50 << 20)))


# ---- process ----------------------------------------------------------------------------------

# What a server may do wrong: the place in the model server, and what stands there then.
LISTENING, ENDING = 'print("listening on', "signal.signal(sig, lambda *_: os._exit(0))"
READING = "            more = sock.recv(1 << 16)\n"
WRONG = {
    "plain": ("", ""),
    "crash": (READING, f"{READING}            os.kill(os.getpid(), signal.SIGSEGV)\n"
              "            signal.pause()  # another thread may take it: this one must not answer meanwhile\n"),
    "status": (ENDING, "signal.signal(sig, lambda *_: os._exit(3))"),
    "stubborn": (ENDING, "signal.signal(sig, signal.SIG_IGN)"),
    "report": (LISTENING, f'print("==1==ERROR: LeakSanitizer: detected memory leaks")\n    {LISTENING}'),
    "silent": (LISTENING, '(lambda *_, **__: None)("listening on'),
    "child": (LISTENING, f"child = os.fork() or signal.pause()\n    print('child', child)\n    {LISTENING}"),
    "picky": ("                    with lock:\n", "                    if b'bad' in body:\n"
              "                        raise wire.WireError(0, 'bad')\n                    with lock:\n"),
    "talker": (  # in its log, what clients say; `get crash` ends it
        "                    sock.sendall(reply)\n",
        "                    sock.sendall(reply)\n"
        "                    words = b' '.join(wire.decode_request(body)).decode()\n"
        "                    os.kill(os.getpid(), signal.SIGKILL * (words == 'get crash'))\n"
        "                    print('client says:', words, flush=True)\n",
    ),
}


def server_of(folder: Path, how: str, *more: Tuple[str, str]) -> List[str]:
    """The command line of a server that is wrong in this way."""
    source = (TESTS / "harness" / "model_server.py").read_text()
    hello = f"    lock = threading.Lock()\n    print('hello from {how}', flush=True)\n"
    home = ("Path(__file__).resolve().parents[1]", repr(str(TESTS)))
    for old, new in [home, ("    lock = threading.Lock()\n", hello), WRONG[how], *more]:
        assert old in source, old
        source = source.replace(old, new, 1) if old else source
    path = folder / f"{how}.py"
    path.write_text(source)
    return [sys.executable, str(path), "09"]


@pytest.fixture
def mean(tmp_path: Path) -> Callable[[str], List[str]]:
    """The command line of a server that misbehaves in the given way."""
    return lambda how: server_of(tmp_path, how)


def use(chapter: int, command: List[str]) -> None:
    """Starts and ends a server."""
    with Server(chapter, command=command):
        pass


@pytest.mark.parametrize(
    "chapter, how, says",
    [
        (9, "crash", ["the connection was ", "the server ended in the middle of the test (killed by SIGSEGV)",
                      "hello from crash", "  sent      get k"]),
        (3, "crash", ["the server ended in the middle of the test (killed by SIGSEGV)"]),  # after its last answer
        (6, "status", ["after SIGTERM the server must exit with status 0, not with exit status 3"]),
        (5, "status", []),  # it counts from 06 on
        (9, "report", ["the server's run has findings", "LeakSanitizer: detected"]),
    ],
)  # fmt: skip
def test_what_is_said_of_a_server(
    chapter: int, how: str, says: List[str], mean: Callable[[str], List[str]]
) -> None:
    def run() -> None:
        with Server(chapter, command=mean(how)) as server, server.connect() as conn:
            if chapter == 9 and how == "crash":
                conn.ask("get", "k")
            if chapter == 3:
                conn.send(b"x")
                conn.expect_closed()

    if not says:
        return run()
    text = failure(run)
    assert text.startswith(says[0]) and all(words in text for words in says), text


def test_a_server_that_reads_lengths_right_is_not_told_how(mean: Callable[[str], List[str]]) -> None:
    """It hangs up on its first request; that it answers another one is found out."""
    with Server(9, command=mean("picky")) as server, server.connect() as conn:
        text = failure(lambda: conn.ask("get", "bad"))
    assert "did the server crash, or take the request for malformed?" in text and "little-endian" not in text


def test_a_server_that_ignores_sigterm(mean: Callable[[str], List[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(9, command=mean("stubborn"))

    def run() -> None:
        with server:
            monkeypatch.setenv("TEST_TIME_FACTOR", "0.05")

    assert "did not end within 0.5 s of SIGTERM" in failure(run)
    assert not server.alive()


def test_a_server_that_does_not_come_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_TIME_FACTOR", "0.05")
    text = failure(lambda: use(9, ["sh", "-c", "echo starting; exec sleep 60"]))
    assert "did not come up within 0.5 s" in text and "  starting" in text
    assert "ended at once (exit status 7)" in failure(lambda: use(9, ["sh", "-c", "exit 7"]))
    assert "cannot be started" in failure(lambda: use(9, ["/does/not/exist"]))


@pytest.mark.parametrize("early", [False, True])
def test_a_server_that_comes_up_late(early: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It listens, where it was told to, after the test has given up: then its PORT was not ignored."""
    go = tmp_path / "go"
    waits = f"import time\n    while not Path({str(go)!r}).exists(): time.sleep(0.01)\n    listener ="
    server = Server(9, command=server_of(tmp_path, "plain", ("listener =", waits)))
    server._early = early
    wait, why = server._wait_listening, diagnose.not_listening

    def late(server: Server) -> Cause:
        go.touch()
        assert wait() == ""
        return why(server)

    monkeypatch.setattr(server, "_wait_listening", lambda: "the server did not come up within 2 s")
    monkeypatch.setattr(diagnose, "not_listening", late)
    text = failure(server.__enter__)
    assert "it came up after all, too late" in text and "PORT is ignored" not in text


def test_a_foreign_server_that_is_silent_is_found(
    mean: Callable[[str], List[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER", " ".join(mean("silent")))
    with Server(9) as server, server.connect() as conn:
        conn.send(b"x")
        assert server.wait_line("hello from silent") == server.log[0]
        assert "did not print 2 times the line" in failure(lambda: server.wait_line("hello", 2, 0.05))


def test_the_whole_process_group_ends(mean: Callable[[str], List[str]]) -> None:
    with Server(9, command=mean("child")) as server:
        child = server.wait_line(re.compile("^child")).split()[1]
    status = Path(f"/proc/{child}/stat")
    gone = lambda: not status.exists() or status.read_text().split()[2] == "Z"  # noqa: E731
    settings.wait_until(gone, "the child has ended")


def test_looking_at_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER", MODEL_SERVER)
    with Server(9) as server:
        before = server.fd_count()
        with server.connect() as conn:
            assert conn.ask("get", "k", expect=None) is None
            assert server.fd_count() == before + 1
        settings.wait_until(lambda: server.fd_count() == before, "the connection is closed")
        assert server.rss_kb() > 1000
        assert server.cpu_ms() > 0
        assert "did not print the line" in failure(lambda: server.wait_line("x", seconds=0.05))
        assert server.stop(signal.SIGINT) == 0


def test_the_number_of_descriptors_can_be_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER", MODEL_SERVER)
    with Server(9, nofile=20) as server:
        limits = Path(f"/proc/{server.pid}/limits").read_text()
        assert [line.split()[3] for line in limits.splitlines() if "open files" in line] == ["20"]


def test_the_caller_s_variables_do_not_reach_a_server(
    mean: Callable[[str], List[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PORT", "BIND", "IDLE_TIMEOUT_MS"):
        monkeypatch.setenv(name, "77")
    with Server(5, command=mean("plain"), env={"HASH_SEED": "5"}) as server:
        words = Path(f"/proc/{server.pid}/environ").read_bytes().split(b"\0")
        assert b"HASH_SEED=5" in words
        assert not [word for word in words if word.endswith(b"=77")]


def test_a_program_s_output_status_and_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIENT", "sh -c 'cat; echo \"$PORT $1\" >&2; exit 5' sh")
    assert run_client(9, ["arg"], 77, stdin="in\n") == ("in\n", "77 arg\n", 5)
    monkeypatch.setenv("CLIENT", "sh -c 'echo begun; sleep 60'")
    text = failure(lambda: run_client(9, [], 77, seconds=0.2))
    assert "did not end within" in text and "begun" in text
    monkeypatch.setenv("CLIENT", "sh -c 'kill -SEGV $$'")
    assert "killed by SIGSEGV" in failure(lambda: run_client(9, [], 77))


def test_a_missing_program_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SERVER", raising=False)
    monkeypatch.setenv("WORKBOOK_PREBUILT", "1")
    monkeypatch.setenv("WORKBOOK_BUILD", str(tmp_path))
    monkeypatch.setattr(build, "_built", {})
    assert f"there is no server of chapter 09: {tmp_path}/09/server" in failure(lambda: Server(9))
    assert "there is no test_avl of chapter 10" in failure(lambda: run_program(10, "test_avl"))


def test_make_is_called_once_with_the_agreed_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SERVER", raising=False)
    monkeypatch.delenv("WORKBOOK_PREBUILT", raising=False)
    monkeypatch.setenv("WORKBOOK_BUILD", str(tmp_path / "b"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(build, "_built", {})
    fake = tmp_path / "make"
    fake.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/log\necho server.c:1: broken\nexit 2\n')
    fake.chmod(0o755)
    for _ in range(2):
        text = failure(lambda: build.program(9, "server"))
        assert "chapter 09 does not build" in text and "server.c:1: broken" in text
    assert (tmp_path / "log").read_text() == f"-s -C {settings.ROOT} build-09 B={tmp_path}/b\n"


# ---- model ------------------------------------------------------------------------------------


@pytest.mark.parametrize("chapter", [13, 20, 24])
def test_random_commands_reach_every_command_and_error(chapter: int) -> None:
    rng, resp = random.Random(1), chapter >= wire.RESP_FROM
    generator = RespGenerator(chapter, rng) if resp else model.Generator(chapter, rng)
    m = RespModel(chapter) if resp else Model(chapter)
    got: Dict[bytes, List[object]] = {}
    for _ in range(20000):
        command = generator.command()
        got.setdefault(command[0].lower(), []).append(m.do(*command))
    for name in map(str.encode, generator.grammar) if isinstance(generator, RespGenerator) else model.COMMANDS:
        kinds = {wire.show_value(reply)[:7] for reply in got[name]}
        assert len(kinds) >= 2, f"{name!r} always gets the same kind of reply"
        assert resp or "(err) 4" in kinds, f"{name!r} never gets a wrong argument"
    for name in (b"get", b"zadd", b"expire"):
        codes = {reply.code for reply in got[name] if isinstance(reply, Err)}
        assert codes >= ({4} if name == b"expire" else {3, 4}), f"{name!r} meets no value of another type"
    assert max(len(reply) for reply in got[b"zquery"] if isinstance(reply, list)) >= 12


@pytest.mark.parametrize("chapter", [7, 9, 11, 14, 20, 24])
@pytest.mark.parametrize("connections, pipelined", [(1, False), (4, True)])
def test_the_model_test_accepts_a_right_server(
    chapter: int, connections: int, pipelined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER", MODEL_SERVER)
    with Server(chapter) as server:
        run_model_test(server, chapter, 1000, connections, pipelined)


@pytest.mark.parametrize(
    "chapter, fault",
    [
        (7, "words[0].lower().decode() == 'get\\0'"),
        (9, "words[0] == b'keys' and self.values and self.values.popitem()"),
        (11, "words[0] == b'zrem' and self.values.update({words[1]: {}})"),
        (13, "words[0] == b'set' and self.deadlines.update({words[1]: 10**15})"),
        (24, "words[0] == b'rename' and r == resp.OK and self.deadlines.pop(words[2], None)"),
        (24, "words[0] == b'swapdb' and self.selected.clear()"),
        (24, "words[0] == b'randomkey' and self.values and r.__init__(b'none')"),
        (24, "words[0] == b'pexpireat' and words[1] in self.deadlines and self.deadlines.update({words[1]: 10**15})"),
    ],
    ids=["a NUL in a name", "keys loses one", "an emptied set stays", "set keeps a TTL", "rename loses the TTL",
         "swapdb selects", "a key that is not there", "another date"],
)
def test_the_model_test_catches_a_wrong_server(
    chapter: int, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "RespModel" if chapter == 24 else "Model"
    words = r"words[0].split(b'\0')[0], *words[1:]" if chapter == 7 else "*words"
    command = server_of(tmp_path, "plain", (
        "def serve(", f"class {name}({name}):\n    def do(self, *words):\n        r = super().do({words})\n"
        f"        {fault}\n        return r\n\n\ndef serve(",
    ))  # fmt: skip
    monkeypatch.setenv("SERVER", " ".join([*command[:2], "NN"]))
    with Server(chapter) as server:
        text = failure(lambda: run_model_test(server, chapter, 5000, 1, True, seed=7))
    assert "operation " in text and "seed      7" in text


def test_the_model_test_repeats_with_its_seed() -> None:
    def commands(seed: int) -> List[model.Command]:
        generator = model.Generator(14, random.Random(seed))
        return [generator.command() for _ in range(200)]

    assert commands(5) == commands(5) != commands(6)


# ---- sessions ---------------------------------------------------------------------------------

@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model server; what is typed goes to it through the codec. The folder for session files."""
    monkeypatch.setenv("SERVER", MODEL_SERVER)
    monkeypatch.delenv("CLIENT", raising=False)
    monkeypatch.setattr(build, "ensure_built", lambda chapter: settings.fail("something is compiled"))
    return tmp_path


@pytest.fixture
def talker(programs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A server that prints lines."""
    greets = "    lock = threading.Lock()\n    print('greeting:', os.environ.get('GREETING', 'none'), flush=True)\n"
    ends = "signal.signal(sig, lambda sig, _: os._exit(int(os.environ.get('STATUS', 0)) * (sig == signal.SIGINT)))"
    changes = [("    lock = threading.Lock()\n    print('hello from talker', flush=True)\n", greets), (ENDING, ends)]
    monkeypatch.setenv("SERVER", " ".join(server_of(programs, "talker", *changes)))
    return programs


def play_text(folder: Path, text: str, name: str = "09-x.session") -> str:
    """Plays a session; returns what differs, or what is wrong with it, or ""."""
    (folder / name).write_text(text)
    try:
        return "\n\n".join(play(load(str(folder / name))))
    except SessionError as e:
        return str(e)


def test_parsing_a_session() -> None:
    steps = parse("""# a comment
server$ X=1 ./server

$ ./client a
one

two
# not output

$ ./client <<'EOF'
get k
# sent
EOF
(nil)
[exit 1]
server| client says: a
server|
server^C
[exit 3]
""")
    assert [(s.kind, s.line, s.command, s.output, s.status) for s in steps] == [
        ("start", 2, "X=1 ./server", [], 0),
        ("run", 4, "./client a", ["one", "", "two"], 0),
        ("run", 10, "./client <<'EOF'\nget k\n# sent\nEOF", ["(nil)"], 1),
        ("lines", 16, "", ["client says: a", ""], 0),
        ("interrupt", 18, "", [], 3),
    ]


@pytest.mark.parametrize(
    "text, error",
    [
        ("\nhello\n", "line 2: this is no command and no output of one: hello"),
        ("server| x\nhello\n", "line 2: this is no command"),
        ("$ cat <<EOF\nabc\n", "line 1: the here-document does not end with EOF"),
    ],
)
def test_what_is_no_session(text: str, error: str, tmp_path: Path) -> None:
    assert error in play_text(tmp_path, text)


def test_console_blocks_of_markdown() -> None:
    text = "# T\n```console\n$ a\n```\n```sh\n$ b\n```\n- item\n  ~~~~console\n  $ c\n  ```\n  ~~~~\n"
    assert console_blocks(text) == [(3, "$ a"), (10, "$ c\n```")]


@pytest.mark.parametrize(
    "path, chapter", [("07-basic.session", 7), ("11-sorted-set.md", 11), ("chapters/13/README.md", 13)]
)
def test_the_chapter_of_a_file(path: str, chapter: int, tmp_path: Path) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text("# The title.\n")
    assert load(str(tmp_path / path)).chapter == chapter


RIGHT = """# A session.
$ ./client set k v
(nil)
$ ./client get k
(str) v

$ ./client <<'EOF'
get k
keys
EOF
(str) v
(arr) len=1
(str) k
(arr) end
$ echo $PORT 127.0.0.1:$PORT | sed 's/^[0-9]* //'; exit 4
127.0.0.1:1234
[exit 4]
$ PORT=1234 ./client get k
(str) v
"""


def test_a_right_session_passes(programs: Path) -> None:
    assert play_text(programs, RIGHT) == ""


@pytest.mark.parametrize(
    "chapter, text",
    [
        (7, "$ ./client set k 'a b'\nserver says: [0]\n$ ./client get k\nserver says: [0] a b\n"),
        (12, "$ ./client\n> zadd z 1.5 n\n(int) 1\n> zscore z n\n(dbl) 1.5\n> get 'no end\n"
             "not sent: a quote that is not closed, or has more behind it\n[exit 1]\n"),
        (21, "$ ./client\n> mset k v l 'a b'\n(str) OK\n> mget k l m\n(arr) len=3\n(str) v\n(str) a b\n(nil)\n"
             "(arr) end\n> keys\n(err) ERR wrong number of arguments for 'keys' command\n"),
        (24, "$ ./client\n> select 1\n(str) OK\n> quit\n(str) OK\n> get k\n"
             "the server has closed the connection: connecting again\n(nil)\n> select 99\n"
             "(err) ERR DB index is out of range\n$ PORT=1 ./client get k\nconnect 127.0.0.1:1: Connection refused\n"
             "[exit 1]\n"),
    ],
    ids=["status", "value", "resp", "keyspace"],
)
def test_what_is_typed_for_a_server_of_ones_own(chapter: int, text: str, programs: Path) -> None:
    """It goes through the codec, and is printed as our client does; nothing is compiled."""
    assert play_text(programs, text, f"{chapter:02}-x.session") == ""


def test_the_example_of_the_readme_is_true(programs: Path) -> None:
    check_session(str(TESTS / "README.md"), 9)
    steps = load(str(TESTS / "README.md"), 9).steps
    assert {step.kind for step in steps} == {"start", "run", "interrupt"}  # it shows the grammar


def test_every_changed_output_line_is_found(programs: Path) -> None:
    text = play_text(programs, RIGHT.replace("(str) v\n\n", "(str) w\n\n").replace("[exit 4]\n", ""))
    path = programs / "09-x.session"
    diff = "--- the session\n+++ what came\n@@ -1 +1 @@\n-(str) w\n+(str) v\n"
    assert f"{path}:4: $ ./client get k\n{diff}" in text
    assert f"{path}:15: $ echo" in text and "\n+[exit 4]\n" in text
    assert f"tests/tools/play.py --show {path}" in text


def test_a_session_that_differs_says_what_was_typed_and_what_came(programs: Path) -> None:
    path = programs / "09-x.session"
    path.write_text(RIGHT.replace("(str) v\n\n", "(str) w\n\n").replace("[exit 4]\n", ""))
    with pytest.raises(Failure) as caught:
        check_session(str(path))
    lines = caught.value.lesson(200)
    assert lines[:4] == [
        "typed     $ ./client get k", f"came      {path}:4 differs",
        "differs   expected     came", "          (str) w   |  (str) v",
    ]  # fmt: skip
    assert lines[4].startswith("again     ") and lines[4].endswith(f"tests/tools/play.py --show {path}")
    assert lines[5].startswith(f"also      {path}:15: $ echo")


def test_two_columns_begin_and_are_cut_where_they_differ() -> None:
    long = "x" * 40
    diff = ["@@ -1,5 +1,5 @@", " a", " b", " c", f"-{long}one", f"+{long}two", " d"]
    assert side_by_side(diff) == [
        f"expected{'':28}came", f"c{'':35}c", f"...{'x' * 25}one  |  ...{'x' * 25}two", f"d{'':35}d",
    ]  # fmt: skip
    assert side_by_side(["-0" + long, "+1" + long]) == [
        f"expected{'':28}came", f"0{'x' * 27}...  |  1{'x' * 27}...",
    ]  # fmt: skip


TYPED = """# A session.
$ ./client
> set k v
(nil)
> keys
(arr) len=1
(str) k
(arr) end
> climb k
(err) 1 ~
> get k
(str) v
"""


def test_what_is_typed_into_a_client(programs: Path) -> None:
    """The first command whose reply is another one is named, with its whole reply; a free text may be any."""
    assert [step.command for step in parse(TYPED)[0].typed] == ["set k v", "keys", "climb k", "get k"]
    assert play_text(programs, TYPED) == ""
    path = programs / "09-x.session"
    text = play_text(programs, TYPED.replace("(str) k", "(str) x").replace("(str) v", "(str) y"))
    assert text.startswith(f"{path}:5: > keys\n") and "\n (arr) len=1\n-(str) x\n+(str) k\n (arr) end\n" in text
    assert text.count("to see it again") == 1, "the rest follows from it"
    text = play_text(programs, TYPED.replace("(err) 1 ~", "(err) 2 ~"))
    assert text.startswith(f"{path}:9: > climb k\n") and "\n-(err) 2 ~\n+(err) 1 Unknown cmd\n" in text
    assert f"{path}:11: > get k" in play_text(programs, TYPED + "more\n")
    assert "line 2: this is no command" in play_text(programs, "# x\n> get k\n")


def test_a_missing_and_an_additional_line_are_found(programs: Path) -> None:
    assert "\n-more\n" in play_text(programs, "$ ./client get k\n(nil)\nmore\n")
    assert "\n+(nil)\n" in play_text(programs, "$ ./client get k\n")
    assert "+(no newline at the end)" in play_text(programs, "$ printf x\nx\n")
    assert "\n+[exit 127]\n" in play_text(programs, "$ ./nothing 2>/dev/null\n")


def test_state_lasts_from_block_to_block(programs: Path) -> None:
    text = """Text.
```console
server$ ./server
$ ./client set k v
(nil)
```
More text, `$ code`.
```console
$ ./client get k
(str) v
server$ ./server
$ ./client get k
(nil)
```
"""
    assert play_text(programs, text, "09-x.md") == ""
    text = text.replace("(nil)\n```", "(str) v\n```")
    assert ":12: $ ./client get k" in play_text(programs, text, "09-x.md")


TALK = """server$ GREETING=hi ./server
server| listening on 127.0.0.1:1234
server| greeting: hi
$ ./client get a
(nil)
server| client says: get a
$ ./client get b
(nil)
$ ./client get c
(nil)
server| client says: get b
server| client says: get c
server^C
[exit 0]
$ ./client get d 2>/dev/null
[exit 1]
"""


def test_the_server_s_terminal(talker: Path) -> None:
    assert play_text(talker, TALK) == ""
    assert play_text(talker, TALK.replace("server| listening on 127.0.0.1:1234\n", "")) == ""
    assert play_text(talker, "$ ./client get a\n(nil)\n") == ""  # none listed: none compared


@pytest.mark.parametrize(
    "before, after, difference",
    [
        ("server| greeting: hi", "server| greeting: ho", "-greeting: ho\n+greeting: hi"),
        ("server| client says: get a\n", "", "+client says: get a\n client says: get b\n-client says: get c"),
        ("server| client says: get c\n", "", "+client says: get c"),
        ("server| client says: get c\n", "server| client says: get c\nserver| more\n", "-more"),
        ("server^C\n[exit 0]", "server^C\n[exit 2]", "-[exit 2]"),
    ],
    ids=["another", "one missing", "the last missing", "one too many", "status"],
)
def test_server_lines_that_differ(
    talker: Path, before: str, after: str, difference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "PATIENCE", 1.5)
    assert before in TALK
    text = play_text(talker, TALK.replace(before, after))
    assert difference in text
    assert text.count("to see it again") == 1


def test_the_server_s_exit_status(talker: Path) -> None:
    text = "server$ STATUS=5 ./server\nserver^C\n[exit 5]\n"
    assert play_text(talker, text) == ""
    assert "server^C\n" in play_text(talker, text.replace("[exit 5]\n", ""))


def test_a_busy_port_in_the_second_terminal(talker: Path) -> None:
    text = "$ ./server 2>&1 | grep -o 'Address already in use'\nAddress already in use\n"
    assert play_text(talker, text) == ""


def test_a_server_that_crashes_is_a_difference(talker: Path) -> None:
    text = play_text(talker, "$ ./client get crash\n(nil)\n$ ./client get a 2>/dev/null\n[exit 1]\n")
    assert "ended in the middle of the test (killed by SIGKILL)" in text


def test_a_step_that_takes_too_long_says_what_the_server_does(talker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of the test ends the command: how the server has ended is said all the same, and what it printed."""
    communicate = session.bounded.communicate

    def late(process: "subprocess.Popen[bytes]", data: bytes, _: float) -> None:
        communicate(process, data, settings.limit(2))
        settings.fail("the test took longer than its limit")

    monkeypatch.setattr(session.bounded, "communicate", late)
    text = play_text(talker, "$ ./client get crash 2>&1; exec sleep 60\n")
    assert "$ ./client get crash" in text and "the test took longer than its limit\n" in text
    assert "ended in the middle of the test (killed by SIGKILL)" in text
    assert "printed   " in text and "greeting: none" in text and "the server has ended (killed by SIGKILL)" in text


def test_a_server_that_does_not_end_by_itself(talker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PATIENCE", 1.5)
    text = play_text(talker, "server$ ./server\nserver| greeting: none\nserver| [exit 0]\n")
    assert "the server has not ended by itself" in text and "printed   greeting: none" in text


@pytest.mark.time_limit(60)
def test_the_player_program(programs: Path) -> None:
    (programs / "09-right.session").write_text(RIGHT)
    (programs / "09-wrong.session").write_text(RIGHT.replace("(str) k", "(str) x"))

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, str(TESTS / "tools" / "play.py"), *words]
        return subprocess.run(command, cwd=programs, capture_output=True, text=True)

    shown = run("--show", "09-right.session")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert shown.stdout.startswith("Chapter 09. A session.\n$ ./client set k v\n(nil)\n$ ./client get k\n")
    assert "\033" not in shown.stdout
    wrong = run("09-wrong.session", "09-right.session")
    assert wrong.returncode == 1
    assert "\n-(str) x\n+(str) k\n" in wrong.stdout and "09-right.session: as it should be" in wrong.stdout
    missing = run("nothing")
    assert missing.returncode == 1 and "there is no session nothing" in missing.stderr


# ---- conftest ---------------------------------------------------------------------------------


def output(process: "subprocess.Popen[str]") -> str:
    """What it prints until it ends; one that hangs is ended."""
    try:
        return process.communicate(timeout=settings.limit(15))[0]
    finally:
        process.terminate()


def inner_pytest(folder: Path, source: str, **env: str) -> "subprocess.Popen[str]":
    """Starts pytest with our conftest on a test file of its own."""
    (folder / "test_inner.py").write_text("import os, time, pytest\nfrom harness import *\n" + source)
    command = [
        sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider",
        "-c", os.devnull, "--rootdir", str(folder), str(folder / "test_inner.py"),
    ]  # fmt: skip
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TESTS), kept.get("PYTHONPATH")]))
    return subprocess.Popen(
        command, cwd=folder, env={**kept, **env}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip


def test_a_test_that_hangs_is_ended(tmp_path: Path) -> None:
    source = """
@pytest.mark.time_limit(0.2)
def test_hangs(): time.sleep(60)
def test_after(): pass
"""
    start = time.monotonic()
    out = output(inner_pytest(tmp_path, source))
    assert "the test took longer than its limit of" in out
    assert "1 failed, 1 passed" in out
    assert time.monotonic() - start < settings.limit(10)


def test_no_server_means_failure(tmp_path: Path) -> None:
    source = "def test_it():\n    with Server(9): pass\n"
    env = {"SERVER": "", "WORKBOOK_BUILD": str(tmp_path), "WORKBOOK_PREBUILT": "1"}
    out = output(inner_pytest(tmp_path, source, **env))
    assert "there is no server of chapter 09" in out and "1 failed" in out


def test_inside_tests_are_left_out_for_other_programs(tmp_path: Path) -> None:
    source = "@pytest.mark.inside\ndef test_in(): assert 0\ndef test_out(): pass\n"
    out = output(inner_pytest(tmp_path, source, SERVER="x"))
    assert "SERVER= is set: 1 tests that look inside this project were left out" in out
    assert "1 passed, 1 deselected" in out and "failed" not in out


def test_a_failure_is_short_and_tells_how_to_repeat_it(tmp_path: Path) -> None:
    source = """
def test_it(seed):
    with Server(9) as server, server.connect() as conn:
        conn.ask("set", "k", "v")
        conn.ask("get", "k", expect=b"w")
"""
    out = output(inner_pytest(tmp_path, source, SERVER=MODEL_SERVER, TEST_SEED="77"))
    assert "the reply is wrong (chapter 09)" in out and "came      (str) v" in out
    assert "-- to repeat this test --" in out
    assert "TEST_SEED=77" in out and "-m pytest test_inner.py::test_it" in out
    assert "tests/harness/" not in out.replace("harness/model_server.py", "")  # no traceback through it
    assert len(out.splitlines()) < 50


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interrupted_run_leaves_no_server(sig: signal.Signals, tmp_path: Path) -> None:
    source = """
def test_it():
    with Server(9) as server:
        with open("pid.new", "w") as f: f.write(str(server.pid))
        os.rename("pid.new", "pid")
        time.sleep(60)
"""
    process = inner_pytest(tmp_path, source, SERVER=MODEL_SERVER)
    settings.wait_until((tmp_path / "pid").exists, "the inner test has started its server", 10)
    process.send_signal(sig)
    output(process)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_redis_gets_no_name_that_it_takes_for_another_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """It compares names as C strings, so one with a NUL is a command or none, as the buckets fall."""
    sent = {}
    for server in ("redis-server", "./server"):
        monkeypatch.setenv("SERVER", server)
        generator = RespGenerator(20, random.Random(1))
        sent[server] = {generator.command()[0] for _ in range(5000)}
    assert b"set\0x" in sent["./server"] and b"gets" in sent["redis-server"]
    assert not [name for name in sent["redis-server"] if b"\0" in name]


def test_two_that_ask_for_a_free_port_get_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where both draw the same numbers, and neither listens yet."""
    monkeypatch.setattr(random, "SystemRandom", lambda: random.Random(1))
    assert len({free_port() for _ in range(20)}) == 20
