"""20-hunt-enter: a line has its reply as soon as its end is there, however it came, and is searched once."""
from __future__ import annotations

from typing import Sequence

from grading import Submission, points
from harness import Conn, Server
from lab import passes

LINES = [
    (b"set door open\n", b"+OK\r\n"),
    (b"get door\r\n", b"$4\r\nopen\r\n"),
    (b"set note 'two words'\r\n", b"+OK\r\n"),
    (b'get "note"\n', b"$9\r\ntwo words\r\n"),
    (b"  ttl\tdoor \n", b":-1\r\n"),
    (b"ping\n", b"+PONG\r\n"),
]
TALK = [
    *LINES,
    (b"\n", b""),
    (b"*2\r\n$4\r\necho\r\n$7\r\na\r\nb\n\nc\r\n", b"$7\r\na\r\nb\n\nc\r\n"),
    (b"\r\n", b""),
    (b"echo " + b"long" * 20 + b"\n", b"$80\r\n" + b"long" * 20 + b"\r\n"),
    (b"get door\n", b"$4\r\nopen\r\n"),
    (b"*2\r\n$3\r\nget\r\n$4\r\nnote\r\n", b"$9\r\ntwo words\r\n"),
    (b"del note\n", b":1\r\n"),
]


def typed(server: Server, beside: Conn, pieces: Sequence[bytes]) -> bytes:
    """What comes back for these pieces. After each another connection has two replies: so the server has read it."""
    with server.connect() as conn:
        for piece in pieces:
            conn.send(piece)
            beside.ask("echo", "1", expect="1")
            beside.ask("echo", "2", expect="2")
        conn.shutdown_write()
        return conn.read_to_end()


@points(3, "one Enter")
def test_one_enter(work: Submission) -> None:
    """Lines as they are typed: one byte at a time, and in two pieces, cut behind each byte."""
    with Server(20) as server, server.connect() as beside:
        for line, reply in LINES:
            cuts = [[line[:cut], line[cut:]] for cut in range(1, len(line))]
            for pieces in [[line], *cuts, [bytes([byte]) for byte in line]]:
                came = typed(server, beside, pieces)
                work.expect(
                    came == reply,
                    came=f"in the pieces {pieces!r}: {repr(came) if came else 'no reply'}",
                    expected=f"{reply!r}, as to the whole line",
                    cause="what does the parser remember of the first piece, and where does it go on?",
                )


@points(2, "a conversation")
def test_conversation(work: Submission) -> None:
    """Lines and arrays on one connection, in pieces of 1, 2, 3, 5, 8 ... bytes."""
    sent, expected = (b"".join(parts) for parts in zip(*TALK))
    size = 1
    with Server(20) as server, server.connect() as beside:
        while size < len(sent):
            came = typed(server, beside, [sent[i : i + size] for i in range(0, len(sent), size)])
            work.expect(
                came == expected,
                came=f"in pieces of {size} bytes: {came!r}",
                expected=f"{expected!r}, as to the whole",
                cause="which pieces begin with the end of a line?",
            )
            size += (size + 1) // 2


LAB = r"""
static const char *const texts[] = {"ping\n", "set door open\r\n", "echo 'two words'\n", "\n"};

static void try(const char *text, size_t size, size_t cut) {
    TRYING("a line of %zu bytes, the last of which is its end: first %zu bytes, then one more at a time", size, cut);
    struct resp_parser parser = {0};
    struct resp_args args = {0};
    char error[k_resp_error_size] = "";
    for (size_t n = cut; n < size; n++) {
        size_t known = parser.pos;
        uint8_t *data = malloc(n);
        memcpy(data, text, n);
        memset(data + (known > 0), '\n', known > 0 ? known - 1 : 0);
        if (resp_parse(&parser, data, n, &args, error) != RESP_MORE || args.n > 0) {
            CAME("with %zu bytes it says that the line is over, or bad: %s", n, error);
            EXPECTED("that there is more to come; the %zu bytes that needed no second look were overwritten, so it "
                     "has looked again at them", known);
        }
        if (parser.pos > n) {
            CAME("%zu bytes have come, and it says that %zu need no second look: if the next one is the line end, "
                 "it is not seen", n, parser.pos);
            EXPECTED("no more than have come");
        }
        if (parser.pos + 1 < n) {
            CAME("of %zu bytes, none of which is a line end, only %zu need no second look: the others will be looked "
                 "again at, whenever a byte comes", n, parser.pos);
            EXPECTED("that each byte is searched once");
        }
        free(data);
    }
    if (resp_parse(&parser, (const uint8_t *)text, size, &args, error) != RESP_DONE || parser.pos != size) {
        CAME("with all bytes: it is not over, or takes %zu bytes", parser.pos);
        EXPECTED("a line of %zu bytes", size);
    }
    size_t words = size == 1 ? 0 : text[0] == 'p' ? 1 : text[0] == 's' ? 3 : 2;
    if (args.n != words || (words > 0 && memcmp(args.items[0].data, text, 4 - (words == 3)) != 0)) {
        CAME("%zu words", args.n);
        EXPECTED("%zu words, as they stand in the line", words);
    }
    resp_args_dispose(&args);
}

int main(void) {
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        size_t size = strlen(texts[i]);
        for (size_t cut = 1; cut <= size; cut++) {
            try(texts[i], size, cut);
        }
    }
    printf("all well\n");
}
"""


@points(3, "the parser alone")
def test_parser_alone(work: Submission) -> None:
    """A line grows byte by byte, and what needs no second look is overwritten with line ends until the line is over."""
    passes(work, "parser", LAB, headers=["resp.h"])
