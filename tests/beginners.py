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
import bisect, math, os, re, selectors, signal, socket, struct, sys, time
CHAPTER = int(sys.argv[1])
LIMIT = 4096 if CHAPTER < 9 else 32 << 20
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
signal.signal(signal.SIGINT, lambda *_: os._exit(0))
IDLE_MS = int(os.environ.get("IDLE_TIMEOUT_MS") or 5000) if CHAPTER >= 12 else 0
keys = {}
deadlines = {}

def now():
    return time.monotonic() * 1000

def look(key):
    """The value of a key, None where there is none."""
    if key in deadlines and now() > deadlines[key]:
        del keys[key], deadlines[key]
    return keys.get(key)

def remove(key):
    """Takes a key out; was it there?"""
    there = look(key) is not None
    keys.pop(key, None)
    deadlines.pop(key, None)
    return there
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
    counts = {name: count for since, name, count in COMMANDS if since <= CHAPTER}
    if name not in counts:
        return status(1, b"Unknown cmd") if old else error(1, b"Unknown cmd")
    if len(args) != counts[name]:
        return status(1, b"arguments") if old else error(4, b"arguments")
    if name == b"get":
        value = look(args[0])
        if isinstance(value, dict):
            return error(3, b"a set")
        if value is None:
            return status(2) if old else b"\0"
        return status(0, value) if old else text(value)
    if name == b"set":
        remove(args[0])
        keys[args[0]] = args[1]
        return status(0) if old else b"\0"
    if name == b"del":
        there = remove(args[0])
        return status(0) if old else integer(there)
    if name == b"keys":
        names = [key for key in list(keys) if look(key) is not None]
        return array(list(map(text, names)))
    try:
        return sorted_set(name, args) if name[:1] == b"z" else life(name, args)
    except ValueError:
        return error(4, b"no number")

COMMANDS = [(7, b"get", 1), (7, b"set", 2), (7, b"del", 1), (9, b"keys", 0), (11, b"zadd", 3), (11, b"zrem", 2),
            (11, b"zscore", 2), (11, b"zquery", 5), (13, b"expire", 2), (13, b"pexpire", 2), (13, b"ttl", 1),
            (13, b"pttl", 1), (13, b"persist", 1)]

def integer(n):
    return b"\x03" + struct.pack("<q", n)

def double(x):
    return b"\x05" + struct.pack("<d", x)

def array(items):
    return b"\x04" + struct.pack("<I", len(items)) + b"".join(items)

def whole(text):
    """An integer of 64 bits."""
    if not re.fullmatch(rb"-?[0-9]+", text) or not -2**63 <= int(text) < 2**63:
        raise ValueError(text)
    return int(text)

def number(text):
    """A double."""
    if not re.fullmatch(rb"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[iI][nN][fF])", text):
        raise ValueError(text)
    x = float(text) + 0.0
    if math.isinf(x) and b"n" not in text.lower():
        raise ValueError(text)
    return x

def sorted_set(name, args):
    score = number(args[1]) if name in (b"zadd", b"zquery") else 0
    offset, limit = map(whole, args[3:]) if name == b"zquery" else (0, 0)
    value = look(args[0])
    if isinstance(value, bytes):
        return error(3, b"a string")
    pairs = {} if value is None else value
    if name == b"zadd":
        keys[args[0]] = pairs
        new = args[2] not in pairs
        pairs[args[2]] = score
        return integer(new)
    if name == b"zrem":
        there = pairs.pop(args[1], None) is not None
        if there and not pairs:
            remove(args[0])
        return integer(there)
    if name == b"zscore":
        return double(pairs[args[1]]) if args[1] in pairs else b"\0"
    order = sorted((score, name) for name, score in pairs.items())
    at = bisect.bisect_left(order, (score, args[2])) + offset
    found = order[at : at + min(max(limit, 0), len(order))] if at >= 0 else []
    return array([part for score, name in found for part in (text(name), double(score))])

def life(name, args):
    amount = whole(args[1]) if len(args) > 1 else 0
    there = look(args[0]) is not None
    if name in (b"expire", b"pexpire"):
        if there and amount <= 0:
            remove(args[0])
        elif there:
            deadlines[args[0]] = now() + amount * (1000 if name == b"expire" else 1)
        return integer(there)
    if name == b"persist":
        return integer(there and deadlines.pop(args[0], None) is not None)
    if not there or args[0] not in deadlines:
        return integer(-1 if there else -2)
    left = int(deadlines[args[0]] - now())
    return integer((left + 500) // 1000 if name == b"ttl" else left)

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
        return b":%d\r\n" % sum(remove(key) for key in args)
    if name == b"incr" and len(args) == 1:
        try:
            keys[args[0]] = b"%d" % (int(keys.get(args[0], b"0")) + 1)
        except ValueError:
            return b"-ERR value is not an integer or out of range\r\n"
        return b":%s\r\n" % keys[args[0]]
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
moved = {}
print("listening on %s:%d" % listener.getsockname(), file=sys.stderr, flush=True)
selector = selectors.DefaultSelector()
selector.register(listener, selectors.EVENT_READ, None)

def leave(conn):
    selector.unregister(conn)
    del moved[conn]
    conn.close()

def patience():
    """The seconds until a connection has been idle for too long."""
    return max(0, (min(moved.values()) + IDLE_MS - now()) / 1000 + 0.001) if moved and IDLE_MS else None

while True:
    for key, _ in selector.select(patience()):
        conn = key.fileobj
        if conn is listener:
            conn, _ = listener.accept()
            selector.register(conn, selectors.EVENT_READ, bytearray())
            moved[conn] = now()
            continue
        try:
            more = conn.recv(65536)
            moved[conn] = now()
            key.data.extend(more)
            for reply in serve(key.data):
                conn.sendall(reply)
            if more:
                continue
        except (OSError, ValueError, struct.error):
            pass
        leave(conn)
    for conn in [conn for conn, then in moved.items() if IDLE_MS and now() > then + IDLE_MS]:
        leave(conn)
'''


class Beginner(NamedTuple):
    """A wrong server: the chapter whose tests are run; the one whose C it is made of, 0 for the Python, which speaks
    the language of the chapter; the case that must fail first, and words of what is said then; the changes (file, old,
    new). FREE in a change is a free port."""

    chapter: int
    base: int
    case: str
    says: str
    edits: Tuple[Tuple[str, str, str], ...]


def wrong(chapter: int, base: int, case: str, says: str, *edits: Tuple[str, str, str]) -> Beginner:
    return Beginner(chapter, base, case, says, edits)


SINGLE = (  # one client after another, in the tests of a chapter that serves all of them at a time
    ("server.py", "for key, _ in selector.select(patience()):", "for key, _ in turn():"),
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

READ_ENDS_WITH_EINTR = ("io.h", "read(fd, cur, left);\n        if (rv < 0 && errno == EINTR)",
                        "read(fd, cur, left);\n        if (rv < 0 && errno == 0)")  # fmt: skip

BEGINNERS: Dict[str, Beginner] = {
    # ---- C: starting ----
    "no-reuseaddr": wrong(3, 3, "same_port_again_at_once", "SO_REUSEADDR",
        ("server.c", '    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0) {\n'
         '        die("setsockopt SO_REUSEADDR");\n    }\n',
         "    (void)one;\n")),
    "port-ignored": wrong(4, 4, "starts_where_it_is_told", "PORT",
        ("base.h", 'env_long("PORT", 1234, 0, 65535)', "FREE")),
    "port-not-in-network-order": wrong(4, 4, "starts_where_it_is_told", "htons", ("net.h", "htons(port)", "port")),
    "bind-ignored": wrong(4, 4, "listens_on_loopback_alone", "BIND",
        ("server.c", 'env_ip("BIND")', "(struct in_addr){htonl(INADDR_LOOPBACK)}")),
    "every-address": wrong(4, 4, "listens_on_loopback_alone", "INADDR_ANY",
        ("net.h", ".sin_addr = ip", ".sin_addr = {0 * ip.s_addr}")),
    "never-listens": wrong(4, 4, "starts_where_it_is_told", "listen()",
        ("net.h", "listen(fd, SOMAXCONN) < 0", "fd < 0")),
    # ---- C: one connection ----
    "sends-the-nul": wrong(3, 3, "the_client_leaves", "the NUL that ends a string",
        ("server.c", "strlen(wbuf)", "sizeof(wbuf)")),
    "answers-twice": wrong(3, 3, "the_client_leaves", "sent once",
        ("server.c", "write(connfd, wbuf, strlen(wbuf))", 'write(connfd, "worldworld", 10)')),
    "ends-after-the-first": wrong(4, 4, "one_client_after_another", "has ended (exit status 0)",
        ("server.c", "        close(connfd);\n", "        close(connfd);\n        return 0;\n")),
    "one-request-a-connection": wrong(4, 4, "a_second_request", "one request",
        ("server.c", "while (one_request(connfd)) {\n        }", "one_request(connfd);")),
    "never-replies": wrong(4, 4, "one_request", "does it write",
        ("server.c", "write_all(connfd, wbuf, 4 + len) < 0", "len == 0")),
    "one-read-a-message": wrong(4, 4, "a_request_in_two_pieces", "arrives in 2 pieces?",
        ("io.h", "        left -= (size_t)rv;\n    }\n    return (ssize_t)(n",
         "        left -= (size_t)rv;\n        break;\n    }\n    return (ssize_t)(n")),
    "a-signal-ends-a-read": wrong(4, 4, "interrupted_calls_and_small_parts", "call it again", READ_ENDS_WITH_EINTR),
    "a-signal-ends-a-read-in-silence": wrong(4, 4, "interrupted_calls_and_small_parts", "call again after EINTR",
        READ_ENDS_WITH_EINTR, ("server.c", 'msg("read: %s", strerror(errno));', "")),
    "spins-at-the-end": wrong(4, 4, "one_client_after_another", "endless loop",
        ("io.h", "        if (rv == 0) {\n            break;\n        }\n", "")),
    "takes-4097": wrong(4, 4, "length_above_the_limit", "4,096",
        ("server.c", "len > k_max_msg", "len > k_max_msg + 1"),
        ("server.c", "rbuf[4 + k_max_msg]", "rbuf[5 + k_max_msg]")),
    "big-endian": wrong(4, 4, "one_request", "little-endian",
        ("wire.h", "p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24",
         "p[3] | (uint32_t)p[2] << 8 | (uint32_t)p[1] << 16 | (uint32_t)p[0] << 24")),
    "never-closes": wrong(4, 4, "the_client_leaves", "call close()", ("server.c", "        close(connfd);\n", "")),
    # ---- C: many connections ----
    "one-at-a-time": wrong(6, 4, "two_clients_at_once", "another connection is open",
        ("server.c", 'const char reply[] = "world";\n    uint8_t wbuf[4 + sizeof(reply)];\n'
         '    len = (uint32_t)strlen(reply);',
         "const uint8_t *reply = &rbuf[4];\n    uint8_t wbuf[4 + k_max_msg];")),
    "crashes-at-the-second": wrong(6, 6, "one_client_after_another", "SIGSEGV",
        ("server.c", "    watch(connfd, POLLIN);\n",
         "    watch(connfd, POLLIN);\n    static int n;\n"
         "    if (n++) {\n        *(volatile int *)16 = 1;\n    }\n")),
    "no-sigterm": wrong(6, 6, "ends_on_sigterm", "SIGTERM",
        ("server.c", "    sigaction(SIGTERM, &action, NULL);\n", "")),
    "short-writes": wrong(6, 6, "requests_behind_a_blocked_write", "write",
        ("server.c", "    if (conn->wbuf_sent < conn->wbuf_size) {\n        return false;\n    }\n", "")),
    # ---- C: requests ----
    "strlen": wrong(7, 7, "length_at_the_limit", "NUL",
        ("server.c", "ent->val_len = val->len;", "ent->val_len = strlen((char *)ent->val);"),
        ("server.c", "    memcpy(copy, slice->data, slice->len);",
         "    memcpy(copy, slice->data, slice->len);\n    copy[slice->len] = 0;")),
    "stale-values": wrong(7, 7, "one_byte_at_a_time", "older value",
        ("server.c", "    free(ent->val);\n    ent->val =",
         "    if (ent->val) {\n        return;\n    }\n    ent->val =")),
    # ---- Python ----
    "py-one-at-a-time": wrong(7, 0, "two_clients_at_once", "another connection is open", *SINGLE),
    "py-no-length": wrong(4, 0, "one_request", "where is the length",
        ("server.py", 'struct.pack("<I", len(reply)) + reply', "reply")),
    "py-counts-the-header": wrong(7, 0, "one_request", "four bytes",
        ("server.py", 'struct.pack("<I", len(reply))', 'struct.pack("<I", len(reply) + 4)')),
    "py-big-endian": wrong(7, 0, "one_request", "little-endian", ("server.py", '"<I"', '"!I"')),
    "py-one-recv-a-message": wrong(9, 0, "a_request_in_two_pieces", "arrives in 2 pieces?",
        ("server.py", "for reply in serve(key.data):",
         "key.data[:-len(more)] = b''\n            for reply in serve(key.data):")),
    "py-one-reply-a-read": wrong(9, 0, "two_requests_in_one_write", "every request",
        ("server.py", "        replies.append(struct",
         "        if replies:\n            continue\n        replies.append(struct")),
    "py-out-of-order": wrong(9, 0, "two_requests_in_one_write", "order",
        ("server.py", "in serve(key.data)", "in reversed(serve(key.data))")),
    "py-no-sigterm": wrong(9, 0, "ends_on_sigterm", "SIGTERM",
        ("server.py", "signal.signal(signal.SIGTERM, lambda *_: os._exit(0))",
         "signal.signal(signal.SIGTERM, signal.SIG_IGN)")),
    "py-text-is-a-string": wrong(9, 0, "a_second_request", "tag", ("server.py", 'return b"\\x02"', 'return b"\\x03"')),
    "py-dies-of-a-bad-request": wrong(7, 0, "length_above_the_limit", "ended",
        ("server.py", "except (OSError, ValueError, struct.error)", "except OSError")),
    "py-nothing-yet": wrong(4, 0, "starts_where_it_is_told", "NotImplementedError",
        ("server.py", "listener.listen(1000)", "raise NotImplementedError")),
    # ---- 06 and 08 to 16: C ----
    "forgets-what-it-has-used": wrong(6, 6, "two_requests_in_one_write", "taken out of the buffer",
        ("server.c", "    memmove(conn->rbuf, &conn->rbuf[4 + len], conn->rbuf_size);\n", "")),
    "no-room-is-an-error": wrong(6, 6, "interrupted_calls_and_small_parts", "wait after EAGAIN",
        ("server.c", "if (errno != EAGAIN && errno != EINTR) {\n            conn->state = STATE_END;\n        }\n"
         "        return false;\n    }\n    conn->wbuf_sent",
         "conn->state = STATE_END;\n        return false;\n    }\n    conn->wbuf_sent")),
    "moves-one-byte-too-far": wrong(6, 6, "two_requests_in_one_write", "right after it was moved",
        ("server.c", "memmove(conn->rbuf, &conn->rbuf[4 + len]", "memmove(conn->rbuf, &conn->rbuf[5 + len]")),
    "length-without-the-status": wrong(7, 7, "a_key_comes_and_goes", "the four bytes of the status, too?",
        ("server.c", "store_u32(conn->wbuf, (uint32_t)(4 + len));", "store_u32(conn->wbuf, (uint32_t)len);")),
    "an-integer-with-the-tag-of-a-string": wrong(9, 9, "a_key_comes_and_goes", "an integer is expected, and that has",
        ("serial.h", "SER_INT = 3", "SER_INT = 2")),
    "keys-of-one-table": wrong(9, 9, "keys_at_every_size", "are missing",
        ("hashtable.h", "    if (h_scan(&hmap->newer, f, arg)) {\n        h_scan(&hmap->older, f, arg);\n    }\n",
         "    h_scan(&hmap->newer, f, arg);\n")),
    "never-wakes-up": wrong(12, 12, "idle_connections_are_closed", "without a timeout (-1)",
        ("server.c", "poll(g_data.poll_set, g_data.nfds, wait_ms)", "poll(g_data.poll_set, g_data.nfds, -1)")),
    "idle-since-accept": wrong(12, 12, "requests_renew", "taken for idle",
        ("server.c", "static void renew_idle(struct conn *conn) {\n",
         "static void renew_idle(struct conn *conn) {\n    if (conn->idle_start) {\n        return;\n    }\n")),
    "milliseconds-for-seconds": wrong(13, 13, "a_key_without_and_with_a_ttl", "`expire` takes seconds",
        ("server.c", "__builtin_mul_overflow(ttl_s, 1000, &ttl_ms)", "__builtin_mul_overflow(ttl_s, 1, &ttl_ms)")),
    # ---- 11 to 13: Python ----
    "py-score-stays": wrong(11, 0, "pairs_come_change_and_go", "changes its score",
        ("server.py", "pairs[args[2]] = score", "pairs.setdefault(args[2], score)")),
    "py-order-of-scores-alone": wrong(11, 0, "equal_scores_go_by_name", "there the names decide",
        ("server.py", "sorted((score, name) for name, score in pairs.items())",
         "sorted(((score, name) for name, score in pairs.items()), key=lambda pair: pair[0])")),
    "py-limit-of-elements": wrong(11, 0, "limits_count_pairs", "counts pairs",
        ("server.py", "return array([part for score, name in found for part in (text(name), double(score))])",
         "return array([part for score, name in found for part in (text(name), double(score))][:max(0, limit)])")),
    "py-scores-are-text": wrong(11, 0, "pairs_come_change_and_go", "tag 5",
        ("server.py", 'return b"\\x05" + struct.pack("<d", x)', 'return text(b"%g" % x)')),
    "py-never-idle": wrong(12, 0, "idle_connections_are_closed", "without a timeout (-1)",
        ("server.py", "if CHAPTER >= 12 else 0", "* 0")),
    "py-expires-by-timer-alone": wrong(13, 0, "not_a_millisecond_early", "whenever a key is looked up",
        ("server.py", "if key in deadlines and now() > deadlines[key]:", "if key in deadlines and False:")),
    "py-the-deadline-itself": wrong(13, 0, "a_key_without_and_with_a_ttl", "the deadline itself",
        ("server.py", "left = int(deadlines[args[0]] - now())", "left = int(deadlines[args[0]])")),
    "py-one-and-two-exchanged": wrong(13, 0, "a_key_without_and_with_a_ttl", "-2 says that there is no such key",
        ("server.py", "integer(-1 if there else -2)", "integer(-2 if there else -1)")),
    # ---- RESP: Python ----
    "resp-incr-is-a-string": wrong(17, 0, "counting", "a colon",
        ("server.py", 'return b":%s\\r\\n" % keys[args[0]]', "return text(keys[args[0]])")),
    "resp-no-type": wrong(17, 0, "ping", "begins with its type", ("server.py", '"+PONG', '"PONG')),
    "resp-newline-alone": wrong(17, 0, "ping", "there is \\n alone", ("server.py", 'PONG\\r\\n', 'PONG\\n')),
    "resp-no-line-end-behind-a-string": wrong(17, 0, "set_and_get", "behind the bytes of a string",
        ("server.py", '%s\\r\\n" % (len(data)', '%s" % (len(data)')),
    "resp-length-with-the-line-end": wrong(17, 0, "set_and_get", "does not count them",
        ("server.py", "% (len(data), data)", "% (len(data) + 2, data)")),
    "resp-a-string-ends-at-a-line-end": wrong(17, 0, "set_and_get", "is the length right?",
        ("server.py",
         "        end = at + int(length[1:])\n        if len(data) < end + 2:\n            return None, 0\n",
         '        end = data.find(b"\\r\\n", at)\n        if end < 0:\n            return None, 0\n')),
    "resp-nil-is-empty": wrong(17, 0, "set_and_get", "nil and a string of no bytes",
        ("server.py", 'b"$-1\\r\\n"', 'text(b"")')),
    "resp-names-in-small-letters": wrong(17, 0, "ping", "letters of any case",
        ("server.py", "words[0].lower()", "words[0]")),
    "resp-one-recv-a-request": wrong(17, 0, "a_request_in_two_pieces", "arrives in 2 pieces?",
        ("server.py", "for reply in serve(key.data):",
         "key.data[:-len(more)] = b''\n            for reply in serve(key.data):")),
    "resp-one-reply-a-read": wrong(17, 0, "two_requests_in_one_write", "every request",
        ("server.py", "            replies.append(answer(words))\n", "            return [answer(words)]\n")),
    "resp-out-of-order": wrong(17, 0, "two_requests_in_one_write", "order",
        ("server.py", "in serve(key.data)", "in reversed(serve(key.data))")),
    "resp-lengths-in-bytes": wrong(17, 0, "ping", "begins with its type",
        ("server.py", 'b"+PONG\\r\\n"', 'struct.pack("<I", 5) + b"+PONG"')),
    # ---- RESP: C ----
    "resp-select-is-forgotten": wrong(18, 18, "sixteen_databases", "each database has a table of its own",
        ("server.c", "        req->conn->db = db;\n        reply_status", "        reply_status")),
    "epoll-edges": wrong(16, 16, "ten_thousand_in_one_write", "With EPOLLET it is told once",
        ("server.c", "? EPOLLOUT : EPOLLIN);", "? EPOLLOUT : EPOLLIN | EPOLLET);")),
    "resp-no-line-end": wrong(17, 17, "one_request", "here there is no end",
        ("reply.h", '    reply_raw(out, text);\n    reply_raw(out, "\\r\\n");\n', "    reply_raw(out, text);\n")),
    "resp-line-end-of-a-string-stays": wrong(17, 17, "a_second_request", "for malformed that is not",
        ("resp.h", "parser->pos += used + len + 2;", "parser->pos += used + len;")),
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
