"""The vectors: their form, and the examples of book/protocol.md. The test file of each chapter plays those that hold.
"""
from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

import pytest

from harness import wire
from harness.codec import codec, requests, split_replies
from harness.fake import FakeServer, replies
from harness.settings import ROOT
from harness.vectors import (
    CHAPTERS, Step, Turn, Vector, VectorServers, in_one_write, load_vectors, pieces, play, play_client,
    vector_servers,
)  # fmt: skip

assert vector_servers  # a fixture
PROTOCOL = ROOT / "book" / "protocol.md"
VECTORS = load_vectors()
EACH_VECTOR = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)


# ---- every chapter ----------------------------------------------------------------------------


@pytest.mark.inside
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_chapters_file_plays_them(chapter: int) -> None:
    path = Path(__file__).parents[1] / f"test_{chapter:02}.py"
    assert f"vector_cases({chapter})" in path.read_text()


# ---- the form ---------------------------------------------------------------------------------


@pytest.mark.inside
def test_names_are_unique() -> None:
    names = [vector.name for vector in VECTORS]
    assert [name for name in names if not re.fullmatch(r"[a-z0-9-]+", name)] == []
    assert sorted(set(names)) == sorted(names)


@pytest.mark.inside
@EACH_VECTOR
def test_form(vector: Vector) -> None:
    """Replies are as the chapters write them, and notes say what is there."""
    open_end = f'{vector.name} holds for the last chapter: write "chapters": [{vector.first}]'
    assert vector.first in CHAPTERS and vector.first <= vector.last and vector.last != CHAPTERS[-1], open_end
    for chapter in filter(vector.holds_for, CHAPTERS):
        for step in vector.steps:
            check_step(step, chapter, vector.version)
        for reply, text in vector.prints:
            (body,), rest = split_replies(codec(chapter), reply)
            assert chapter >= wire.RESP_FROM or codec(chapter).reply(codec(chapter).decode(body)) == reply
            assert not rest
            assert text.endswith("\n")


def check_step(step: Step, chapter: int, version: int) -> None:
    if chapter == 5:
        assert not step.free
        return
    assert not step.free or (list(step.free) == ["status"]) == (chapter < 9), "a reply of another chapter"
    want = step.replies(chapter, version)
    language = codec(chapter)
    bodies, rest = split_replies(language, step.reply)
    if chapter < wire.RESP_FROM:  # a number may be written in several ways there
        assert [wire.encode_reply(chapter, language.decode(body)) for body in bodies] == bodies
    assert not rest
    if " -> " in step.note:
        (asked,), (value,) = requests(language, step.send), want
        assert step.note == f"{wire.show_args(language.words(asked))} -> {language.show(value)}" and asked == step.send


@pytest.mark.inside
def test_no_two_vectors_share_a_key() -> None:
    owner: Dict[Tuple[int, bytes], str] = {}
    for vector in VECTORS:
        keys = set() if vector.empty or vector.env else vector.keys()
        for chapter in filter(vector.holds_for, CHAPTERS):
            for key in keys:
                other = owner.setdefault((chapter, key), vector.name)
                assert other == vector.name, f"{vector.name} and {other} both use the key {key!r}"


@pytest.mark.inside
def test_readme_of_the_vectors_has_true_examples(vector_servers: VectorServers, tmp_path: Path) -> None:
    """Its JSON loads, and chapter 09 agrees."""
    examples = re.findall(r"```json\n(.*?)```", (ROOT / "tests/vectors/README.md").read_text(), re.S)
    assert len(examples) == 2
    (tmp_path / "readme.json").write_text(f"[{','.join(examples)}]")
    for vector in load_vectors(tmp_path):
        test_form(vector)
        vector_servers.play(vector, 9)


# ---- the examples of the text -----------------------------------------------------------------


class Line(NamedTuple):
    """A line of an example: sign > < or =, bytes (of a printed text, too), the fields that they are said to be."""

    sign: str
    data: bytes
    fields: str
    text: str


def examples() -> Dict[str, List[Line]]:
    """The hex blocks of the text, by name."""
    found: Dict[str, List[Line]] = {}
    for name, block in re.findall(r"^```hex(.*?)\n(.*?)^```", PROTOCOL.read_text(), re.S | re.M):
        assert name.strip() not in found
        found[name.strip()] = [read_line(line) for line in block.splitlines()]
    return found


def read_line(text: str) -> Line:
    if text in ("> end", "< closed") or re.fullmatch(r"connection \d+", text):
        return Line(text, b"", "", text)
    if text.startswith("= "):
        return Line("=", text[2:].encode() + b"\n", "", text)
    match = re.fullmatch(r"([<>]) ((?:[0-9a-f]{2} )*[0-9a-f]{2})  +(\S.*)", text)
    assert match, f"not a line of an example: {text}"
    return Line(match[1], bytes.fromhex(match[2]), match[3], text)


EXAMPLES = examples()


def joined(lines: List[Line]) -> List[Tuple[str, bytes]]:
    """The example as signs and bytes, neighbours of one sign in one."""
    out: List[Tuple[str, bytes]] = []
    for line in lines:
        if out and out[-1][0] == line.sign and line.sign in "<>=":
            out[-1] = (line.sign, out[-1][1] + line.data)
        else:
            out.append((line.sign, line.data))
    return out


def as_example(vector: Vector, shown: List[Tuple[str, bytes]]) -> List[Tuple[str, bytes]]:
    """The vector as joined() has it. Where a reply is free, the one that is shown, if it is allowed."""
    lines: List[Line] = []
    connection = 1
    for step in vector.steps:
        if step.connection != connection:
            connection = step.connection
            lines.append(Line(f"connection {connection}", b"", "", ""))
        lines += [Line(">", step.send, "", "")] * bool(step.send)
        lines += [Line("> end", b"", "", "")] * step.end
        reply = step.reply
        if step.free:
            at = len(joined(lines))
            reply = shown[at][1] if at < len(shown) else b""
            (body,), rest = wire.split_frames(reply)
            (want,) = step.replies(vector.first)
            assert wire.same(want, wire.decode_reply(vector.first, body)) and not rest, "not an allowed reply"
        lines += [Line("<", reply, "", "")] * bool(reply)
        lines += [Line("< closed", b"", "", "")] * step.closed
    for reply, text in vector.prints:
        lines += [Line("<", reply, "", ""), Line("=", text.encode(), "", "")]
    return joined(lines)


@pytest.mark.inside
def test_the_text_shows_the_vectors_that_say_so() -> None:
    assert sorted(EXAMPLES) == sorted(vector.name for vector in VECTORS if vector.shown)


@pytest.mark.inside
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_is_its_vector(name: str) -> None:
    shown = joined(EXAMPLES[name])
    (vector,) = [vector for vector in VECTORS if vector.name == name]
    assert as_example(vector, shown) == shown


@pytest.mark.inside
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_is_explained_byte_by_byte(name: str) -> None:
    """The fields at the right of each line are the bytes at its left."""
    for line in EXAMPLES[name]:
        if line.sign in ("<", ">"):
            assert encode_fields(line.fields) == line.data, line.text


def encode_fields(text: str) -> bytes:
    """The bytes of fields such as `u32 3, "get"`; two blanks begin a remark."""
    out, rest = b"", text
    formats = {"u8": "<B", "u32": "<I", "i32": "<i", "i64": "<q", "f64": "<d"}
    while rest:
        match = re.match(r'(?:(\w+) (\S+?)|"(.*?)")(?:, |  +|$)', rest)
        assert match, f"not a list of fields: {text}"
        if match[1]:
            number = float(match[2]) if match[1] == "f64" else int(match[2])
            out += struct.pack(formats[match[1]], number)
        else:
            out += match[3].encode().decode("unicode_escape").encode("latin-1")
        rest = rest[match.end() :] if match[0].endswith(", ") else ""
    return out


@pytest.mark.inside
def test_all_hex_of_the_text_is_in_examples() -> None:
    """No bytes stand as code outside of the blocks that are compared."""
    rest = re.sub(r"^```hex.*?^```", "", PROTOCOL.read_text(), flags=re.S | re.M)
    code = re.findall(r"^```.*?^```|`[^`]+`", rest, re.S | re.M)
    assert [text for text in code if re.search(r"\b[0-9a-f]{2}(?: [0-9a-f]{2})+\b", text)] == []


# ---- the players themselves -------------------------------------------------------------------


def test_pieces_are_the_whole() -> None:
    for size in (0, 1, 600, 601, 4100, 100_000):
        data = bytes(i % 251 for i in range(size))
        assert b"".join(pieces(data)) == data
        assert size > 600 or all(len(piece) == 1 for piece in pieces(data))


def turn(send: bytes = b"", *want: object, connection: int = 1, end: bool = False, closed: bool = False) -> Turn:
    return Turn(connection, send, want, b"", end, closed, 0)


def test_in_one_write() -> None:
    a, b = turn(b"a", 1), turn(b"b", 2, closed=True)
    other = turn(b"c", 3, connection=2)
    assert in_one_write([a, a, b, a]) == [turn(b"aab", 1, 1, 2, closed=True), a]
    assert in_one_write([a, other, a]) == [a, other, a]
    assert in_one_write([turn(b"a", end=True), a]) == [turn(b"a", end=True), a]


NIL, ONE = wire.frame(b"\0"), wire.frame(wire.encode_value(1))
GET = wire.request("get", "k")


@pytest.mark.parametrize("byte_by_byte", [False, True])
@pytest.mark.parametrize(
    "answers, script, complaint",
    [
        ([NIL], [turn(GET, None, closed=True)], ""),
        ([NIL, ONE], [turn(GET + GET, None, 1, closed=True)], ""),
        ([ONE], [turn(GET, None)], "the reply is wrong"),
        ([NIL, ONE], [turn(GET + GET, None, None)], "reply 2 of 2: the reply is wrong"),
        ([wire.frame(b"\x09")], [turn(GET, None)], "the reply is malformed"),
        ([NIL + NIL], [turn(GET, None)], "bytes came where the connection should be closed"),
        ([NIL], [turn(GET, closed=True)], "bytes came where the connection should be closed"),
        ([NIL[:-1]], [turn(GET, None)], "the connection was closed after 4 of 5 bytes"),
        ([], [turn(GET, None)], "without a reply"),
        ([ONE], [turn(GET, wire.Err(4))], "the reply is wrong"),
        ([ONE], [turn(GET, wire.Between(2, 3))], "the reply is wrong"),
    ],
)  # fmt: skip
def test_play_notices(answers: List[bytes], script: List[Turn], complaint: str, byte_by_byte: bool) -> None:
    with FakeServer(replies(*answers)) as server:
        if not complaint:
            play(server, 9, script, byte_by_byte)
            return
        with pytest.raises(AssertionError, match=complaint):
            play(server, 9, script, byte_by_byte)


@pytest.mark.inside
def test_play_client_notices() -> None:
    right = Vector("x.json", "right", 9, 9, prints=[(NIL, "(nil)\n")])
    play_client(right, 9)
    for text in ("(nil)", "(int) 1\n", ""):
        with pytest.raises(AssertionError, match="the client prints something else"):
            play_client(Vector("x.json", "wrong", 9, 9, prints=[(NIL, text)]), 9)


@pytest.mark.inside
@pytest.mark.parametrize(
    "text",
    [
        '{"name": "a", "chapters": [9]}',
        '{"name": "a", "chapters": [9], "steps": [{"sent": "00"}]}',
        '{"name": "a", "chapters": [9], "steps": [{"send": "0"}]}',
        '{"name": "a", "chapters": [9], "steps": [{"reply": "00", "error": 4}]}',
        '{"name": "a", "chapters": [9], "steps": [{"end": true}], "shows": true}',
    ],
)
def test_a_vector_of_another_form_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(f"[{text}]")
    with pytest.raises(ValueError, match="vectors/README.md has the form"):
        load_vectors(tmp_path)
