"""20-hunt-slow-line: a request means the same however it is cut, and is not parsed again and again."""
from __future__ import annotations

import time

from grading import Submission, points
from harness import Server
from lab import passes

TALK = [
    (b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$11\r\na long line\r\n", b"+OK\r\n"),
    (b"*2\r\n$3\r\nget\r\n$1\r\nk\r\n", b"$11\r\na long line\r\n"),
    (b"ttl k\r\n", b":-1\r\n"),
    (b"*4\r\n$4\r\nzadd\r\n$1\r\nz\r\n$1\r\n1\r\n$0\r\n\r\n", b":1\r\n"),
    (b"*0\r\n", b""),
    (b"*3\r\n$6\r\nzscore\r\n$1\r\nz\r\n$0\r\n\r\n", b"$1\r\n1\r\n"),
    (b"*2\r\n$3\r\ndel\r\n$1\r\nk\r\n", b":1\r\n"),
    (b"*2\r\n$3\r\ndel\r\n$1\r\nz\r\n", b":1\r\n"),
]


@points(3, "cut behind every byte")
def test_cut_behind_every_byte(work: Submission) -> None:
    """A conversation of arrays and lines as one stream, in two pieces: cut behind each of its bytes."""
    sent, came = (b"".join(parts) for parts in zip(*TALK))
    with Server(20) as server:
        for cut in range(1, len(sent)):
            with server.connect() as conn:
                conn.send(sent[:cut])
                time.sleep(0.001)
                conn.send(sent[cut:])
                conn.shutdown_write()
                got = conn.read_to_end()
            work.expect(
                got == came,
                came=f"the first piece ends in {sent[:cut][-30:]!r}, the second begins with {sent[cut:][:30]!r}."
                f" The replies: {got!r}",
                expected=f"{came!r}, as to the whole",
                cause="what does the parser remember of the first piece, and what becomes of it in the end?",
            )


@points(2, "pieces of every size")
def test_pieces(work: Submission) -> None:
    """Requests of a hundred strings each, in pieces of 1, 2, 3, 5, 8 ... bytes."""
    size, words = 1, [b"%d" % i for i in range(100)]
    request = b"*101\r\n$4\r\nping\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
    refused = b"-ERR wrong number of arguments for 'ping' command\r\n"
    with Server(20) as server, server.connect() as conn:
        while size < len(request):
            conn.send_pieces(request + b"ping\r\n", size)
            conn.expect_bytes(refused + b"+PONG\r\n")
            conn.unanswered.clear()
            size += (size + 1) // 2


LAB = r"""
static const char text[] = "*3\r\n$3\r\nset\r\n$2\r\nab\r\n$12\r\nhello, world\r\n";

int main(void) {
    size_t size = sizeof(text) - 1;
    for (size_t cut = 1; cut < size; cut++) {
        TRYING("the first %zu bytes of a request of %zu; then one byte more at a time", cut, size);
        struct resp_parser parser = {0};
        struct resp_args args = {0};
        char error[k_resp_error_size] = "";
        for (size_t n = cut; n < size; n++) {
            size_t known = parser.pos;
            uint8_t *data = malloc(n);
            memcpy(data, text, n);
            memset(data + (known > 0), '!', known > 0 ? known - 1 : 0);
            if (resp_parse(&parser, data, n, &args, error) != RESP_MORE) {
                CAME("with %zu bytes it says that the request is done, or bad: %s", n, error);
                EXPECTED("that there is more to come; the %zu bytes that it had understood were overwritten, so "
                         "it has looked again at them", known);
            }
            if (args.n > 0 || parser.pos > n || parser.pos < known) {
                CAME("with %zu bytes: %zu strings, and %zu bytes that are understood", n, args.n, parser.pos);
                EXPECTED("no strings before the request is whole, and no fewer bytes than before");
            }
            free(data);
        }
        size_t known = parser.pos;
        if (resp_parse(&parser, (const uint8_t *)text, size, &args, error) != RESP_DONE ||
            parser.pos != size) {
            CAME("with all bytes: it is not done, or takes %zu bytes", parser.pos);
            EXPECTED("a request of %zu bytes", size);
        }
        if (args.n != 3 || args.items[2].len != 12 || memcmp(args.items[0].data, "set", 3) != 0) {
            CAME("%zu strings", args.n);
            EXPECTED("3 strings: set, ab and a greeting");
        }
        if (known < 4 && cut > 4) {
            CAME("after %zu bytes it had understood %zu of them", size - 1, known);
            EXPECTED("all that is whole; so it has looked again at everything, for each byte that came");
        }
        resp_args_dispose(&args);
    }
    printf("all well\n");
}
"""


@points(3, "the parser alone")
def test_parser_alone(work: Submission) -> None:
    """A request grows byte by byte, and what the parser has understood of it is overwritten until it is whole."""
    passes(work, "parser", LAB, headers=["resp.h"])
