"""Servers that are wrong the way a beginner's are, to see what the tests say to them.

Each is a right server with a few words changed: the C of a chapter, or one of the small servers in Python below, which
are written from book/protocol.md. test_messages.py says to each what the tests say, and looks for its cause on the
screen.
"""
from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

ROOT = Path(__file__).resolve().parents[1]

START = r'''
import os, selectors, signal, socket, struct, sys
CHAPTER = int(sys.argv[1])
LIMIT = 4096 if CHAPTER < 9 else 32 << 20
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
signal.signal(signal.SIGINT, lambda *_: os._exit(0))
keys = {}
'''

BINARY = r'''
def status(n, data=b""):
    return struct.pack("<I", n) + data

def text(data):
    return b"\x02" + struct.pack("<I", len(data)) + data

def error(code, words):
    return struct.pack("<BiI", 1, code, len(words)) + words

def answer(body):
    if CHAPTER == 4:
        return b"world"
    if CHAPTER == 6:
        return body
    (count,), at, words = struct.unpack_from("<I", body), 4, []
    for _ in range(count):
        (n,) = struct.unpack_from("<I", body, at)
        if n > len(body) - at - 4:
            raise ValueError("string")
        words.append(body[at + 4 : at + 4 + n])
        at += 4 + n
    if at != len(body) or not 1 <= count <= 1024:
        raise ValueError("request")
    name, args, old = words[0].lower(), words[1:], CHAPTER < 9
    if name == b"get" and len(args) == 1:
        if args[0] not in keys:
            return status(2) if old else b"\0"
        return status(0, keys[args[0]]) if old else text(keys[args[0]])
    if name == b"set" and len(args) == 2:
        keys[args[0]] = args[1]
        return status(0) if old else b"\0"
    if name == b"del" and len(args) == 1:
        gone = keys.pop(args[0], None) is not None
        return status(0) if old else b"\x03" + struct.pack("<q", gone)
    if name == b"keys" and not args and not old:
        return b"\x04" + struct.pack("<I", len(keys)) + b"".join(map(text, keys))
    known = {b"get": 1, b"set": 2, b"del": 1, b"keys": 0}
    wrong = name in known and (name != b"keys" or not old)
    return status(1, b"no") if old else error(4 if wrong else 1, b"no")

def serve(data):
    """The replies to the whole messages in data."""
    replies = []
    while len(data) >= 4:
        (n,) = struct.unpack_from("<I", data)
        if n > LIMIT:
            raise ValueError("too long")
        if len(data) < 4 + n:
            break
        reply = answer(bytes(data[4 : 4 + n]))
        del data[: 4 + n]
        replies.append(struct.pack("<I", len(reply)) + reply)
    return replies
'''

RESP = r'''
def text(data):
    return b"$%d\r\n%s\r\n" % (len(data), data)

def answer(words):
    name, args = words[0].lower(), words[1:]
    if name == b"ping" and len(args) < 2:
        return text(args[0]) if args else b"+PONG\r\n"
    if name == b"get" and len(args) == 1:
        return text(keys[args[0]]) if args[0] in keys else b"$-1\r\n"
    if name == b"set" and len(args) == 2:
        keys[args[0]] = args[1]
        return b"+OK\r\n"
    if name == b"del" and args:
        return b":%d\r\n" % sum(keys.pop(key, None) is not None for key in args)
    return b"-ERR unknown command '%s'\r\n" % name

def line(data, at):
    """The line that begins there, and where the next one does; None where it is not whole."""
    end = data.find(b"\r\n", at)
    return (bytes(data[at:end]), end + 2) if end >= 0 else (None, at)

def request(data):
    """The words of the first request, and its size; None where it is not whole."""
    head, at = line(data, 0)
    if head is None:
        return None, 0
    if head[:1] != b"*":
        return head.split(), at
    words = []
    while len(words) < int(head[1:]):
        length, at = line(data, at)
        if length is None:
            return None, 0
        if length[:1] != b"$":
            raise ValueError("string")
        end = at + int(length[1:])
        if len(data) < end + 2:
            return None, 0
        words.append(bytes(data[at:end]))
        at = end + 2
    return words, at

def serve(data):
    """The replies to the whole requests in data."""
    replies = []
    while True:
        words, size = request(data)
        if words is None:
            return replies
        del data[:size]
        if words:
            replies.append(answer(words))
'''

LOOP = r'''
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((os.environ.get("BIND", "127.0.0.1"), int(os.environ["PORT"])))
listener.listen(1000)
print("listening on %s:%d" % listener.getsockname(), file=sys.stderr, flush=True)
selector = selectors.DefaultSelector()
selector.register(listener, selectors.EVENT_READ, None)
while True:
    for key, _ in selector.select():
        conn = key.fileobj
        if conn is listener:
            conn, _ = listener.accept()
            selector.register(conn, selectors.EVENT_READ, bytearray())
            continue
        try:
            more = conn.recv(65536)
            key.data.extend(more)
            for reply in serve(key.data):
                conn.sendall(reply)
            if more:
                continue
        except (OSError, ValueError, struct.error):
            pass
        selector.unregister(conn)
        conn.close()
'''

Edits = Tuple[Tuple[str, str, str], ...]


class Beginner(NamedTuple):
    """A wrong server: the chapter whose tests are run; the one whose C it is made of, 0 for the Python, which speaks
    the language of the chapter; the case that must fail first, and words of what is said then; the changes (file, old,
    new). FREE in a change is a free port."""

    chapter: int
    base: int
    case: str
    says: str
    edits: Edits


SINGLE = (  # one client after another, in the tests of a chapter that serves all of them at a time
    ("server.py", "for key, _ in selector.select():", "for key, _ in turn():"),
    ("server.py", "while True:\n    for key", '''
def turn():
    """One connection, until it ends."""
    ready = selector.select()
    serving = [key for key, _ in ready if key.fileobj is not listener]
    others = [key for key in selector.get_map().values() if key.fileobj is not listener]
    if others:
        others[0].fileobj.setblocking(True)
        return [(others[0], 0)]
    return ready

while True:
    for key'''),
)  # fmt: skip

BEGINNERS: Dict[str, Beginner] = {
    # ---- C: starting ----
    "no-reuseaddr": Beginner(
        3, 3, "same_port_again_at_once", "SO_REUSEADDR",
        (
            (
                "server.c",
                '    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0) {\n'
                '        die("setsockopt SO_REUSEADDR");\n    }\n',
                "    (void)one;\n",
            ),
        ),
    ),
    "port-ignored": Beginner(
        4, 4, "starts_where_it_is_told", "PORT",
        (
            ("base.h", 'env_long("PORT", 1234, 0, 65535)', "FREE"),
        ),
    ),
    "port-not-in-network-order": Beginner(
        4, 4, "starts_where_it_is_told", "htons",
        (
            ("net.h", "htons(port)", "port"),
        ),
    ),
    "bind-ignored": Beginner(
        4, 4, "listens_on_loopback_alone", "BIND",
        (
            ("server.c", 'env_ip("BIND")', "(struct in_addr){htonl(INADDR_LOOPBACK)}"),
        ),
    ),
    "every-address": Beginner(
        4, 4, "listens_on_loopback_alone", "INADDR_ANY",
        (
            ("net.h", ".sin_addr = ip", ".sin_addr = {0 * ip.s_addr}"),
        ),
    ),
    "never-listens": Beginner(
        4, 4, "starts_where_it_is_told", "listen()",
        (
            ("net.h", "listen(fd, SOMAXCONN) < 0", "fd < 0"),
        ),
    ),
    # ---- C: one connection ----
    "ends-after-the-first": Beginner(
        4, 4, "one_client_after_another", "has ended (exit status 0)",
        (
            ("server.c", "        close(connfd);\n", "        close(connfd);\n        return 0;\n"),
        ),
    ),
    "one-request-a-connection": Beginner(
        4, 4, "a_second_request", "one request",
        (
            ("server.c", "while (one_request(connfd)) {\n        }", "one_request(connfd);"),
        ),
    ),
    "never-replies": Beginner(
        4, 4, "one_request", "does it write",
        (
            ("server.c", "write_all(connfd, wbuf, 4 + len) < 0", "len == 0"),
        ),
    ),
    "one-read-a-message": Beginner(
        4, 4, "a_request_in_two_pieces", "arrives in 2 pieces?",
        (
            (
                "io.h",
                "        left -= (size_t)rv;\n    }\n    return (ssize_t)(n",
                "        left -= (size_t)rv;\n        break;\n    }\n    return (ssize_t)(n",
            ),
        ),
    ),
    "spins-at-the-end": Beginner(
        4, 4, "one_client_after_another", "endless loop",
        (
            ("io.h", "        if (rv == 0) {\n            break;\n        }\n", ""),
        ),
    ),
    "takes-4097": Beginner(
        4, 4, "length_above_the_limit", "4,096",
        (
            ("server.c", "len > k_max_msg", "len > k_max_msg + 1"),
            ("server.c", "rbuf[4 + k_max_msg]", "rbuf[5 + k_max_msg]"),
        ),
    ),
    "big-endian": Beginner(
        4, 4, "one_request", "little-endian",
        (
            (
                "wire.h",
                "p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24",
                "p[3] | (uint32_t)p[2] << 8 | (uint32_t)p[1] << 16 | (uint32_t)p[0] << 24",
            ),
        ),
    ),
    "never-closes": Beginner(
        4, 4, "the_client_leaves", "call close()",
        (
            ("server.c", "        close(connfd);\n", ""),
        ),
    ),
    # ---- C: many connections ----
    "one-at-a-time": Beginner(
        6, 4, "two_clients_at_once", "another connection is open",
        (
            (
                "server.c",
                'const char reply[] = "world";\n    uint8_t wbuf[4 + sizeof(reply)];\n'
                '    len = (uint32_t)strlen(reply);',
                "const uint8_t *reply = &rbuf[4];\n    uint8_t wbuf[4 + k_max_msg];",
            ),
        ),
    ),
    "crashes-at-the-second": Beginner(
        6, 6, "one_client_after_another", "SIGSEGV",
        (
            (
                "server.c",
                "    watch(connfd, POLLIN);\n",
                "    watch(connfd, POLLIN);\n    static int n;\n"
                "    if (n++) {\n        *(volatile int *)16 = 1;\n    }\n",
            ),
        ),
    ),
    "no-sigterm": Beginner(
        6, 6, "ends_on_sigterm", "SIGTERM",
        (
            ("server.c", "    sigaction(SIGTERM, &action, NULL);\n", ""),
        ),
    ),
    "short-writes": Beginner(
        6, 6, "requests_behind_a_blocked_write", "write",
        (
            ("server.c", "    if (conn->wbuf_sent < conn->wbuf_size) {\n        return false;\n    }\n", ""),
        ),
    ),
    # ---- C: requests ----
    "strlen": Beginner(
        7, 7, "length_at_the_limit", "NUL",
        (
            ("server.c", "ent->val_len = val->len;", "ent->val_len = strlen((char *)ent->val);"),
            (
                "server.c",
                "    memcpy(copy, slice->data, slice->len);",
                "    memcpy(copy, slice->data, slice->len);\n    copy[slice->len] = 0;",
            ),
        ),
    ),
    "stale-values": Beginner(
        7, 7, "one_byte_at_a_time", "older value",
        (
            (
                "server.c",
                "    free(ent->val);\n    ent->val =",
                "    if (ent->val) {\n        return;\n    }\n    ent->val =",
            ),
        ),
    ),
    # ---- Python ----
    "py-one-at-a-time": Beginner(
        7, 0, "two_clients_at_once", "another connection is open",
        SINGLE,
    ),
    "py-no-length": Beginner(
        4, 0, "one_request", "where is the length",
        (
            ("server.py", 'struct.pack("<I", len(reply)) + reply', "reply"),
        ),
    ),
    "py-counts-the-header": Beginner(
        7, 0, "one_request", "four bytes",
        (
            ("server.py", 'struct.pack("<I", len(reply))', 'struct.pack("<I", len(reply) + 4)'),
        ),
    ),
    "py-big-endian": Beginner(
        7, 0, "one_request", "little-endian",
        (
            ("server.py", '"<I"', '"!I"'),
        ),
    ),
    "py-one-recv-a-message": Beginner(
        9, 0, "a_request_in_two_pieces", "arrives in 2 pieces?",
        (
            (
                "server.py",
                "for reply in serve(key.data):",
                "key.data[:-len(more)] = b''\n            for reply in serve(key.data):",
            ),
        ),
    ),
    "py-one-reply-a-read": Beginner(
        9, 0, "two_requests_in_one_write", "every request",
        (
            (
                "server.py",
                "        replies.append(struct",
                "        if replies:\n            continue\n        replies.append(struct",
            ),
        ),
    ),
    "py-out-of-order": Beginner(
        9, 0, "two_requests_in_one_write", "order",
        (
            ("server.py", "in serve(key.data)", "in reversed(serve(key.data))"),
        ),
    ),
    "py-no-sigterm": Beginner(
        9, 0, "ends_on_sigterm", "SIGTERM",
        (
            (
                "server.py",
                "signal.signal(signal.SIGTERM, lambda *_: os._exit(0))",
                "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
            ),
        ),
    ),
    "py-text-is-a-string": Beginner(
        9, 0, "a_second_request", "tag",
        (
            ("server.py", 'return b"\\x02"', 'return b"\\x03"'),
        ),
    ),
    "py-dies-of-a-bad-request": Beginner(
        7, 0, "length_above_the_limit", "ended",
        (
            ("server.py", "except (OSError, ValueError, struct.error)", "except OSError"),
        ),
    ),
    "py-nothing-yet": Beginner(
        4, 0, "starts_where_it_is_told", "NotImplementedError",
        (
            ("server.py", "listener.listen(1000)", "raise NotImplementedError"),
        ),
    ),
    # ---- RESP: Python ----
    "resp-no-type": Beginner(
        17, 0, "ping", "begins with its type",
        (
            ("server.py", '"+PONG', '"PONG'),
        ),
    ),
    "resp-newline-alone": Beginner(
        17, 0, "ping", "there is \\n alone",
        (
            ("server.py", 'PONG\\r\\n', 'PONG\\n'),
        ),
    ),
    "resp-no-line-end-behind-a-string": Beginner(
        17, 0, "set_and_get", "behind the bytes of a string",
        (
            ("server.py", '%s\\r\\n" % (len(data)', '%s" % (len(data)'),
        ),
    ),
    "resp-length-with-the-line-end": Beginner(
        17, 0, "set_and_get", "does not count them",
        (
            ("server.py", "% (len(data), data)", "% (len(data) + 2, data)"),
        ),
    ),
    "resp-a-string-ends-at-a-line-end": Beginner(
        17, 0, "set_and_get", "is the length right?",
        (
            (
                "server.py",
                "        end = at + int(length[1:])\n        if len(data) < end + 2:\n            return None, 0\n",
                '        end = data.find(b"\\r\\n", at)\n        if end < 0:\n            return None, 0\n',
            ),
        ),
    ),
    "resp-nil-is-empty": Beginner(
        17, 0, "set_and_get", "nil and a string of no bytes",
        (
            ("server.py", 'b"$-1\\r\\n"', 'text(b"")'),
        ),
    ),
    "resp-names-in-small-letters": Beginner(
        17, 0, "ping", "letters of any case",
        (
            ("server.py", "words[0].lower()", "words[0]"),
        ),
    ),
    "resp-one-recv-a-request": Beginner(
        17, 0, "a_request_in_two_pieces", "arrives in 2 pieces?",
        (
            (
                "server.py",
                "for reply in serve(key.data):",
                "key.data[:-len(more)] = b''\n            for reply in serve(key.data):",
            ),
        ),
    ),
    "resp-one-reply-a-read": Beginner(
        17, 0, "two_requests_in_one_write", "every request",
        (
            ("server.py", "            replies.append(answer(words))\n", "            return [answer(words)]\n"),
        ),
    ),
    "resp-out-of-order": Beginner(
        17, 0, "two_requests_in_one_write", "order",
        (
            ("server.py", "in serve(key.data)", "in reversed(serve(key.data))"),
        ),
    ),
    "resp-lengths-in-bytes": Beginner(
        17, 0, "ping", "begins with its type",
        (
            ("server.py", 'b"+PONG\\r\\n"', 'struct.pack("<I", 5) + b"+PONG"'),
        ),
    ),
    # ---- RESP: C ----
    "resp-no-line-end": Beginner(
        17, 17, "one_request", "here there is no end",
        (
            ("reply.h", '    reply_raw(out, text);\n    reply_raw(out, "\\r\\n");\n', "    reply_raw(out, text);\n"),
        ),
    ),
    "resp-line-end-of-a-string-stays": Beginner(
        17, 17, "a_second_request", "for malformed that is not",
        (
            ("resp.h", "parser->pos += used + len + 2;", "parser->pos += used + len;"),
        ),
    ),
}  # fmt: skip


def make(name: str, folder: Path, free_port: int) -> str:
    """Builds the server in the folder; returns the command line for SERVER=."""
    beginner = BEGINNERS[name]
    folder.mkdir(parents=True, exist_ok=True)
    chapter = ROOT / "chapters" / f"{beginner.base:02}"
    texts = {"server.py": START + (BINARY if beginner.chapter < 17 else RESP) + LOOP}
    if beginner.base:
        texts = {path.name: path.read_text() for path in [chapter / "server.c", *(ROOT / "common").glob("*.h")]}
    for file, old, new in beginner.edits:
        assert old in texts[file], f"{name}: {file} has no {old!r}"
        texts[file] = texts[file].replace(old, new.replace("FREE", str(free_port)))
    for file, text in texts.items():
        (folder / file).write_text(text)
    if not beginner.base:
        return shlex.join([sys.executable, str(folder / "server.py"), str(beginner.chapter)])
    words: List[str] = ["cc", "-std=gnu11", "-O1", "-w", "-pthread", f"-I{folder}"]
    words += [str(folder / "server.c"), "-o", str(folder / "server")]
    subprocess.run(words, check=True)
    return str(folder / "server")
