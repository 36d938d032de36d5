"""What a server is doing right now, read from /proc, and what that says about a connection that waits for it (Linux).

Nothing here fails: where the system does not tell, there is less to say.
"""
from __future__ import annotations

import errno
import os
import platform
import signal
import socket
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from . import hints, settings, wire
from .codec import codec, requests, split_replies
from .failure import LISTENING, NO_CAUSE, Cause, cause, signal_name, status_text
from .settings import limit

if TYPE_CHECKING:
    from .conn import Conn
    from .process import Server

LOOK = 0.1  # seconds in which a server that is busy uses processor time
BUSY = 0.5  # of that time
SOON = 0.4  # seconds in which a server that is alive and well has answered
SHOWN = 1 << 18  # bytes of what was sent that a failure looks at
SPINS = "an endless loop"
OF_CLIENTS = (errno.ECONNRESET, errno.EPIPE, errno.ETIMEDOUT)
ERRORS = {
    errno.EINTR: "A signal came in the middle of the call, and that says nothing about the client: call it again.",
    errno.EAGAIN: "On a nonblocking socket EAGAIN says no more than \"not now\": wait until the socket is ready, and "
    "call again.",
}
LISTEN, ESTABLISHED, CLOSE_WAIT, TIME_WAIT = "0A", "01", "08", "06"

# System calls in which a server may wait, by number.
CALLS: Dict[str, Dict[int, str]] = {
    "x86_64": {
        0: "read", 1: "write", 7: "poll", 19: "readv", 20: "writev", 23: "select", 34: "pause", 35: "sleep",
        43: "accept", 44: "send", 45: "recv", 46: "send", 47: "recv", 61: "wait", 202: "futex", 230: "sleep",
        232: "epoll_wait",
        270: "select", 271: "poll", 281: "epoll_wait", 288: "accept",
    },
    "aarch64": {
        22: "epoll_wait", 63: "read", 64: "write", 65: "readv", 66: "writev", 72: "select", 73: "poll", 98: "futex",
        101: "sleep", 115: "sleep", 202: "accept", 206: "send", 207: "recv", 211: "send", 212: "recv", 242: "accept",
        260: "wait",
    },
}  # fmt: skip
READS, WRITES = ("read", "readv", "recv"), ("write", "writev", "send")
WITH_TIMEOUT = (7, 22, 232, 281)  # in milliseconds as an argument: poll, epoll_wait; of ppoll it is behind a pointer


class Call(NamedTuple):
    """A system call in which a thread waits: its name, its first argument, its third, its fourth."""

    name: str
    fd: int
    count: int
    fourth: int = 0
    number: int = -1

    @property
    def for_how_long(self) -> str:
        """The timeout of poll() and epoll_wait(), in words; "" for other calls."""
        if self.number not in WITH_TIMEOUT:
            return ""
        ms = (self.count if self.name == "poll" else self.fourth) & 0xFFFFFFFF
        return "without a timeout (-1)" if ms >= 1 << 31 else f"for {ms:,} ms"


class Tcp(NamedTuple):
    """A socket as /proc/net/tcp has it."""

    address: str
    port: int
    peer_port: int
    state: str
    unread: int
    inode: str  # "0" before accept()
    uid: int = -1


# ---- looking ----


def waits_in(pid: int) -> List[Call]:
    """The calls in which the threads of a process wait, the first thread's first."""
    names, calls = CALLS.get(platform.machine(), {}), []
    with suppress(OSError, ValueError):
        for task in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
            with open(f"/proc/{pid}/task/{task}/syscall") as f:
                words = f.read().split()
            if len(words) > 4 and int(words[0]) in names:
                numbers = [int(word, 16) for word in words[1:5]]
                calls.append(Call(names[int(words[0])], numbers[0] & 0xFFFFFFFF, *numbers[2:], int(words[0])))
    return calls


def processor_time(pid: int) -> float:
    """The seconds that all threads of a process have used the processor, or waited for it."""
    total = 0
    with suppress(OSError, ValueError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat") as f:
                used, waited, _ = f.read().split()
                total += int(used) + int(waited)
    return total / 1e9


def is_busy(pid: int) -> bool:
    """Does it use the processor, although it ought to wait?"""
    before = processor_time(pid)
    time.sleep(LOOK)
    return processor_time(pid) - before > LOOK * BUSY


def sockets() -> Iterator[Tcp]:
    """All TCP sockets over IPv4, and those over IPv6."""
    for table in ("tcp", "tcp6"):
        with suppress(OSError, ValueError, IndexError):
            with open(f"/proc/net/{table}") as f:
                lines = f.readlines()[1:]
            for line in lines:
                words = line.split()
                (address, port), (_, peer) = words[1].split(":"), words[2].split(":")
                shown = "another address"
                if len(address) == 8:
                    shown = ".".join(str(byte) for byte in struct.pack("=I", int(address, 16)))
                yield Tcp(shown, int(port, 16), int(peer, 16), words[3], int(words[4].split(":")[1], 16), words[9],
                          int(words[7]))  # fmt: skip


def own_sockets(pid: int) -> Dict[str, int]:
    """The inodes of a process's sockets, and their descriptors."""
    found = {}
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                kind, _, inode = os.readlink(f"/proc/{pid}/fd/{fd}").partition(":")
                if kind == "socket":
                    found[inode.strip("[]")] = int(fd)
    return found


def listens_on(pid: int) -> List[Tuple[str, int]]:
    """The addresses and ports on which a process listens."""
    own = own_sockets(pid)
    return [(row.address, row.port) for row in sockets() if row.state == LISTEN and row.inode in own]


def may_look(pid: int) -> bool:
    """May we see what the descriptors of a process are? Root may not in a container without CAP_SYS_PTRACE, where the
    process is another user's; what rests on that is left out there."""
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):
                os.readlink(f"/proc/{pid}/fd/{fd}")
    except PermissionError:
        return False
    except OSError:
        pass  # it has ended
    return True


def ports_of_its_user(pid: int) -> List[int]:
    """The ports on which any process of its user listens."""
    with suppress(OSError):
        uid = os.stat(f"/proc/{pid}").st_uid
        return [row.port for row in sockets() if row.state == LISTEN and row.uid == uid]
    return []


def places(pid: int) -> str:
    """The same in words."""
    return " and ".join(f"{address}:{port}" for address, port in listens_on(pid))


# ---- a server ----


def ended(server: "Server", seconds: float = 0.3) -> bool:
    """Has it ended, or is it about to?"""
    end = time.monotonic() + seconds
    while server.alive() and time.monotonic() < end:
        time.sleep(0.01)
    return not server.alive()


def how_it_ended(server: "Server") -> Cause:
    """For one that has ended by itself."""
    status = server.exit_status()
    if status is None:
        return NO_CAUSE
    more = "it returned from main(), or called exit(): it should go on with the next client, whatever this one did"
    if status == -signal.SIGPIPE:
        more = (
            "it wrote to a client that was gone, and a program that does not ignore SIGPIPE ends there. After "
            "signal(SIGPIPE, SIG_IGN) the write fails with EPIPE instead: close that connection."
        )
    elif status < 0:
        more = "build it with -g -fsanitize=address,undefined, and it says in which line"
        if not settings.foreign("server") and server.chapter:
            more = f"make test-{server.chapter:02} SAN=address,undefined says in which line"
    elif any("Traceback" in line for line in server.lines):
        more = f"of an exception that nothing catches: {server.lines[-1].strip()}"
    elif status:
        more = "what it printed says why; a bad client must never end it"
    return cause(f"the server has ended ({status_text(status)}): {more}")


def what_it_does(server: "Server") -> Cause:
    """What is out of order with a server, whatever the test was about. None where it simply waits."""
    if ended(server, 0.05):
        return how_it_ended(server)
    if is_busy(server.pid):
        return spins(server)
    return NO_CAUSE


def spins(server: "Server") -> Cause:
    """For a server that is busy."""
    left = any(row.port == server.port and row.state == CLOSE_WAIT for row in sockets())
    if left:
        return cause(
            f"{SPINS}, at the end of a client's input: it uses all of a processor, and a connection whose client has "
            "left is still open. There read() returns 0, each time it is called: close the connection then."
        )
    return cause(
        f"{SPINS}: it uses all of a processor, and does not come back to wait for its clients. gdb -p shows where it "
        "is."
    )


# ---- a connection that waits ----


def silence(conn: "Conn") -> Cause:
    """Why nothing comes on a connection that is still open."""
    server = conn.server()
    if server is None:
        unknown = "does the server wait for more input, or has it not written its reply yet?"
        return cause(by_what_was_sent(conn) or unknown)
    if ended(server, 0.05):
        return how_it_ended(server)
    if is_busy(server.pid):
        return spins(server)
    calls, rows, own = waits_in(server.pid), list(sockets()), own_sockets(server.pid)
    by_fd = {own[row.inode]: row for row in rows if row.inode in own}
    mine = next((row for row in rows if row.port == conn.port and row.peer_port == conn.own_port()), None)
    others = [row for row in by_fd.values() if row.port == conn.port and row.state in (ESTABLISHED, CLOSE_WAIT)
              and row.peer_port != conn.own_port()]  # fmt: skip
    here = [call for call in calls if call.name in READS + WRITES and by_fd.get(call.fd) in [mine]]
    there = [call for call in calls if call.name in READS + WRITES and by_fd.get(call.fd) in others]
    if (there and not here) or (mine and mine.inode == "0"):
        return not_its_turn(conn, there, others, calls)
    if mine and mine.unread:
        waits = f", while it waits in {calls[0].name}()" if calls else ""
        edge = " With EPOLLET it is told once: read until EAGAIN, or do without."
        return cause(
            f"the server does not read what came: {mine.unread} bytes lie unread{waits}. Does it watch this connection "
            "for input?" + edge * (bool(calls) and calls[0].name == "epoll_wait")
        )
    if here and here[0].name in WRITES:
        return cause(
            f"the server waits in {here[0].name}() until this client reads, and serves nobody meanwhile. Only "
            "nonblocking writes let it go on."
        )
    return read_it_all(conn, here, calls)


def not_its_turn(conn: "Conn", there: List[Call], others: List[Tcp], calls: List[Call]) -> Cause:
    """The server does not look at this connection, but at another one, or it has not accepted it."""
    server = conn.server()
    if server is not None and server.nofile and not there:
        return cause(
            f"the server has not accepted this connection: it may have {server.nofile} descriptors, and had run out of "
            "them. Does it come back to accept() once some are closed?"
        )
    if there and there[0].name in WRITES:
        return cause(
            f"another client does not read: the server waits in {there[0].name}() for it alone. Only nonblocking "
            "writes let the others go on: is each accepted socket set to O_NONBLOCK?"
        )
    if others and conn.codec.has_poll:
        where = f"it waits in {there[0].name}() on that one" if there else "it has not accepted this one"
        return cause(
            f"another connection is open: does it wait for that one? The server serves one client at a time ({where}). "
            "Wait for all connections at once, with poll(), and read only from those that are ready."
        )
    waits = f": it waits in {calls[0].name}()" if calls else ""
    return cause(
        f"the server does not accept this connection{waits}. Does it come back to accept() when a client has left?"
    )


def read_it_all(conn: "Conn", here: List[Call], calls: List[Call]) -> Cause:
    """The server has read all there is, and waits."""
    first = conn._first_unanswered()
    (n,) = struct.unpack_from("<I", first) if conn.codec.head and len(first) >= 4 else (0,)
    if n and here and here[0].count >= 1 << 24 > n:
        return cause(
            f"the length is little-endian: the server waits for {here[0].count:,} bytes more. {first[:4].hex(' ')} is "
            f"{n}, and {struct.unpack('>I', first[:4])[0]:,} only in big-endian order."
        )
    known = by_what_was_sent(conn)
    if known:
        return cause(known)
    waits = f", and waits in {(here or calls)[0].name}()" if here or calls else ""
    room = ", also where the socket has no room at first (POLLOUT)" if conn.codec.has_loop else ""
    if not conn.unanswered:
        return cause(f"the server has nothing left to read{waits}. Is there a reply that it has not written yet?")
    return cause(
        f"the server has read all of this request{waits}. Is it finished with it: does it write the reply, all of it, "
        f"and flush it{room}? Or does it still wait for more than the length says?"
    )


def in_pieces(pieces: int) -> str:
    """For a request that did not come at once."""
    return (
        f"does the server handle a request that arrives in {pieces} pieces? One read() may bring half a request: keep "
        "the bytes, and go on reading, until the whole of it is there."
    )


def by_what_was_sent(conn: "Conn") -> str:
    """A cause that the way of sending tells, or "" ."""
    pieces = len(conn._pieces())
    if pieces > 1 and conn._first_unanswered_is_whole():
        return in_pieces(pieces)
    together = bool(conn.answered and conn.cuts and conn.answered not in conn.cuts)  # sent with the one before
    if together or len(requests(conn.codec, bytes(conn.unanswered[: SHOWN]), 2)) > 1:
        return (
            "does the server answer every request that lies in its buffer before it waits again? One read() may bring "
            "several."
        )
    return ""


# ---- a connection that ended, or should ----


def hung_up(conn: "Conn", how: str) -> Cause:
    """Why the server may have closed a connection that still waits for a reply."""
    server = conn.server()
    if server is not None and ended(server):
        return how_it_ended(server)
    if server is not None:
        known = complained(server) or disturbed(server)
        if known:
            return known
    first = conn._first_unanswered()
    (n,) = struct.unpack_from("<I", first) if conn.codec.head and len(first) >= 4 else (0,)
    most = wire.max_msg(conn.chapter)
    if len(conn._pieces()) > 1 and conn._first_unanswered_is_whole():
        return cause(by_what_was_sent(conn))
    if server is not None and idle_ms(server) and how != "reset":
        return taken_for_idle(server)
    if conn.answered and conn.codec.has_loop:
        return cause(
            "the server hung up on a connection that it had served well: does it take this request for malformed (is "
            "the buffer right after it was moved, or has grown?), or a short read for the end? Only read() == 0 is "
            "that."
        )
    if conn.answered and conn.codec.has_messages:
        return cause(
            "one request a connection, is that all that it answers? This was not the first: go on, until read() "
            "returns 0. A read that brings less than there was room for is not the end."
        )
    if n == most:
        return cause(
            f"a message of exactly {most:,} bytes is valid: does the limit count the four bytes of the length too?"
        )
    other_order = struct.unpack(">I", first[:4])[0] if n else 0
    if server is not None and 0 < n <= most < other_order and not answers_another(conn):
        return cause(
            f"is the length read as little-endian? {first[:4].hex(' ')} is {n}; in the other order it is "
            f"{other_order:,}, which is too long. Or is something else in the request taken for malformed?"
        )
    if how == "reset":
        return cause("did the server crash, or close with a request unread?")
    return cause("did the server crash, or take the request for malformed?")


def answers_another(conn: "Conn") -> bool:
    """Does the server answer a short message, so that it reads lengths as they are?"""
    with suppress(OSError), socket.create_connection(("127.0.0.1", conn.port), limit(SOON)) as sock:
        sock.sendall(conn.codec.request("get", "k"))
        return bool(sock.recv(1))
    return False


def complained(server: "Server") -> Cause:
    """What its last line says, where that names an error of a system call which the client has not caused."""
    line = server.log[-1].strip() if server.log else ""
    number = next((number for number in errno.errorcode if line.endswith(os.strerror(number))), 0)
    if not number or number in OF_CLIENTS:
        return NO_CAUSE
    more = ERRORS.get(number, "look for that call: may the program go on after this error, and try again?")
    return Cause(f"errno {number}", f'it printed "{line}", and hung up. {more}')


def disturbed(server: "Server") -> Cause:
    """For a server without a word whose calls are interrupted on purpose (cases/interrupt.c)."""
    if "interrupt" not in server.env.get("LD_PRELOAD", ""):
        return NO_CAUSE
    return cause(
        "in this test calls end with EINTR, find no room (EAGAIN), or move fewer bytes than were asked for: call again "
        "after EINTR, wait after EAGAIN, and go on with the rest after a short read or write."
    )


def idle_ms(server: "Server") -> int:
    """The idle timeout that the test has set, in milliseconds; 0 for none."""
    text = server.env.get("IDLE_TIMEOUT_MS", "0")
    return int(text) if codec(server.chapter).has_idle_timeout and text.isdigit() else 0


def never_timed_out(server: "Server") -> Cause:
    """For a server that does not close a connection that is idle."""
    ms = idle_ms(server)
    call = next((call for call in waits_in(server.pid) if call.for_how_long), None)
    known = f"nothing closes a connection that is idle, and IDLE_TIMEOUT_MS={ms} was set."
    if call and call.for_how_long.startswith("without"):
        return cause(
            f"{known} The server waits in {call.name}() {call.for_how_long}, so it never wakes up for that: give it "
            "the time until the first connection has been idle for so long, and close that one then."
        )
    if call:
        return cause(
            f"{known} The server waits in {call.name}() {call.for_how_long}: does it read IDLE_TIMEOUT_MS, in "
            "milliseconds, and look at its timers each time that it wakes up?"
        )
    return cause(
        f"{known} The server has to wake up when the first of its connections has been silent for so long, and close "
        "it."
    )


def taken_for_idle(server: "Server") -> Cause:
    """For a server that closes a connection that may have been idle in its eyes."""
    return cause(
        f"was this connection taken for idle? IDLE_TIMEOUT_MS={idle_ms(server)} was set: each byte that moves, in "
        "either direction, begins the time anew, and it is counted in milliseconds."
    )


def accepts_too_much(conn: "Conn") -> Cause:
    """For a server that was sent what it must refuse. None where it was not."""
    data = bytes(conn.unanswered[: SHOWN])
    most = wire.max_msg(conn.chapter)
    framed = conn.codec.has_messages and conn.codec.head > 0
    if framed and len(data) >= 4 and struct.unpack_from("<I", data)[0] > most:
        return cause(
            f"the server accepts too much: a length above the limit, which is {most:,}. Compare it as soon as its four "
            f"bytes are there: {most:,} is allowed, {most + 1:,} is not."
        )
    body = wire.split_frames(data)[0][:1] if framed and conn.codec.has_commands else []
    if body:
        try:
            wire.decode_request(body[0])
        except wire.WireError as e:
            return cause(f"the server accepts a malformed request: {e}. It must hang up instead.")
    return NO_CAUSE


def talks_on(conn: "Conn") -> Cause:
    """Why bytes come on a connection that should be closed."""
    server = conn.server()
    wrong = accepts_too_much(conn) or (what_it_does(server) if server else NO_CAUSE)
    if wrong:
        return wrong
    if conn.unanswered:
        return cause("the server answers what it must not: is each request whole and sound before it is answered?")
    if bytes(conn.buffer) == b"\0":
        return cause(
            "the answer is too long by one byte, a 0: is it the NUL that ends a string in C? sizeof counts it, "
            "strlen() does not."
        )
    return cause("more came than the answer: is each answer sent once, and is its length counted right?")


def still_open(conn: "Conn") -> Cause:
    """Why a connection that should be closed is not."""
    server = conn.server()
    wrong = accepts_too_much(conn) or (what_it_does(server) if server else NO_CAUSE)
    if wrong:
        return wrong
    if server and not conn.half_closed and idle_ms(server):
        return never_timed_out(server)
    if conn.half_closed:
        waits = ""
        calls = waits_in(server.pid) if server else []
        if calls:
            waits = f" It waits in {calls[0].name}()."
        return cause(
            f"the client has ended its input: there read() returns 0. Does the server call close() then?{waits}"
        )
    return cause("does the server call close() when it is done with a connection?")


def form_of_resp(data: bytes) -> str:
    """What is wrong with the form of the reply that data begins with, or ""."""
    head, end, rest = data.partition(b"\r\n")
    if data[:1] not in (b"", b"+", b"-", b":", b"$", b"*", b"_", b"#", b",", b"%", b"~", b"="):
        return (
            "a reply begins with its type: + a short text, - an error, : an integer, $ a string, * an array. This one "
            f"begins with {wire.show_bytes(data[:1])}."
        )
    if b"\n" in head or head and not end and data.endswith(b"\n"):
        return "each line of a reply ends with \\r\\n, and here there is \\n alone"
    if head and not end:
        return "each line of a reply ends with \\r\\n, and here there is no end"
    if head[:1] == b"$" and head[1:].isdigit() and 0 < len(rest) == int(head[1:]):
        return "is there \\r\\n behind the bytes of a string, too? Its length does not count them."
    return ""


def partial(conn: "Conn") -> Cause:
    """Why a reply may be incomplete, or its length impossible."""
    got, data = len(conn.buffer), bytes(conn.buffer[:16])
    if not conn.codec.head:
        known = form_of_resp(bytes(conn.buffer))
        if known:
            return cause(known)
    elif got >= 4:
        n, swapped = struct.unpack_from("<I", data)[0], struct.unpack_from(">I", data)[0]
        most = wire.max_msg(conn.chapter)
        if n > most and all(32 <= byte < 127 for byte in data[:4]):
            return cause(
                'where is the length? A reply begins with four bytes that say how long it is, and this one with '
                f'"{data[:4].decode()}".'
            )
        if n > most >= swapped:
            return cause("the length is big-endian; all numbers of the protocol are little-endian")
        if n > most:
            return cause(
                f"a reply may have {most:,} bytes. Where one becomes larger, take back what there is of it, and then "
                "write the error in its place."
            )
        if n == got:
            return cause("does the length count its own four bytes? it must count only what follows")
    elif conn.codec.has_messages and conn.codec.said(b"") == b"world" and got and b"world".startswith(data):
        return cause("where is the length? A reply begins with four bytes that say how long it is.")
    if conn.server() is not None and ended(conn.server()):  # type: ignore[arg-type]
        return how_it_ended(conn.server())  # type: ignore[arg-type]
    if conn.ended == "reset":
        return cause(
            "close() while input lies unread sends a reset, and that destroys replies on their way: shut down the "
            "sending side, read on until the client hangs up, then close. Or did the server crash?"
        )
    if conn.ended:
        return cause("the connection ended inside a reply: was all of it written before the close?")
    waits = f", each time that the socket has room ({'EPOLLOUT' if conn.codec.has_epoll else 'POLLOUT'})"
    return cause(
        "the server stopped inside a reply: does it go on where a write took only a "
        f"part{waits if conn.codec.has_loop else ''}?"
    )


# ---- a reply that does not come, or is another one ----


def no_reply(conn: "Conn") -> Cause:
    """A likely cause of a reply that does not come, or not whole."""
    if conn.buffer:
        why = partial(conn)
        pieces = by_what_was_sent(conn) if len(conn._pieces()) > 1 and "length" not in why.words else ""
        return cause(pieces) if pieces else why
    return hung_up(conn, conn.ended) if conn.ended else silence(conn)


def other_bytes(conn: "Conn", expected: bytes, got: bytes) -> Cause:
    """Why other bytes came than these, or fewer."""
    if expected.startswith(got):
        return NO_CAUSE
    if not conn.codec.has_messages:
        return cause("are all bytes sent back, each once, in their order?" if conn.codec.is_echo else "")
    if conn.codec.head and len(got) >= 4:
        known = partial(conn)
        if "length" in known.words:
            return known
    came = got if conn.codec.head else bytes(conn.buffer)
    frames, others = (split_replies(conn.codec, data)[0] for data in (came, expected))
    good = 0
    while good < min(len(frames), len(others)) and frames[good] == others[good]:
        good += 1
    wrong, right = frames[good : good + 1], others[good : good + 1]
    if wrong and wrong[0] in others:
        return cause(
            "this is the reply to another request: is each reply sent once, in the order of the requests, and are the "
            "bytes of a request that has its reply taken out of the buffer?"
        )
    if right == [b"_\r\n"] and wrong and wrong[0] in (b"$-1\r\n", b"*-1\r\n"):
        return cause("this is the nil of version 2. From the reply to HELLO 3 on, nil is _ and a line end")
    known = "" if conn.codec.head else form_of_resp(came[sum(map(len, frames[:good])) :])
    if wrong and right and conn.codec.has_commands and not known:
        with suppress(wire.WireError):
            values = [conn.codec.decode(body, conn.version) for body in (right[0], wrong[0])]
            asked = conn.words_of(requests(conn.codec, bytes(conn.unanswered[:SHOWN]), good + 1)[good:])
            past = conn.words_of(list(conn.past))
            known = hints.why_wrong(conn.codec, asked[0] if asked else [], values[0], values[1], past)
    if known:
        return cause(known)
    return cause("is each reply sent once, whole, and where a write took only a part, from that place on?")


def too_early(conn: "Conn") -> Cause:
    """Why something came before the request was whole."""
    if conn.ended:
        return hung_up(conn, conn.ended)
    return cause(
        "does the server answer before the request is whole? First all the bytes that the length announces, then the "
        "answer."
    )


# ---- a server that is not reached ----


def unreachable(host: str, port: int, server: Optional["Server"]) -> Cause:
    """Why nobody answers at an address."""
    if server is None:
        return cause("nobody listens there: is the server still running?")
    if ended(server):
        return how_it_ended(server)
    elsewhere = places(server.pid)
    if not elsewhere:
        doing = what_it_does(server)
        more = f" {doing.words[0].upper()}{doing.words[1:]}" if doing else ""
        return cause(f"the server runs, and listens nowhere: does it call listen(), and did that succeed?{more}")
    if any(there == port for _, there in listens_on(server.pid)):
        return cause(f"BIND is ignored: the server was started with BIND={host}, and listens on {elsewhere}.")
    return cause(f"the server listens on {elsewhere}, not on port {port}: is the port in network byte order, htons()?")


def not_listening(server: "Server") -> Cause:
    """Why a server that was started cannot be reached."""
    text = "\n".join(server.lines)
    left = (row for row in sockets() if row.state == TIME_WAIT)
    if "in use" in text and any(row.port == server.asked_port for row in left):
        return cause(
            "is SO_REUSEADDR set, before bind()? The server before has closed its connections first: they stay in "
            "TIME_WAIT for a minute, and without SO_REUSEADDR their port stays taken."
        )
    if "in use" in text and server.asked_port == 0:
        return cause(
            "another program has this port: a server that was left running, or somebody else's. ss -ltnp shows whose "
            "it is."
        )
    if "in use" in text:
        return cause(
            f"PORT is ignored, or not understood: the server was started with PORT={server.asked_port}, which was "
            "free. Does bind() get it through htons()?"
        )
    if ended(server, 0.05):
        status = server.exit_status()
        if status and status > 0 and not text:
            return cause("it gave up without a word: print what failed, and strerror(errno), before exit(1)")
        return how_it_ended(server)
    ports = [port for _, port in listens_on(server.pid)]
    said = [int(match.group(2)) for match in map(LISTENING.match, server.lines) if match]
    if server.asked_port in ports or (server.asked_port == 0 and set(said) & set(ports)):
        return cause(
            "it came up after all, too late for the test: is the machine very busy? If not, what does the server do "
            "before listen()?"
        )
    if ports:
        return port_ignored(server)
    return what_it_does(server) or waits_without_listening(server)


def port_ignored(server: "Server") -> Cause:
    """For a server that listens elsewhere."""
    (_, port), *_ = [*listens_on(server.pid), ("", server.port)]
    here = f"started with PORT={server.asked_port}, and listens on {places(server.pid) or server.port}"
    if swapped(port) == server.asked_port:
        return cause(f"the two bytes of the port are in the wrong order: the server was {here}. It lacks htons().")
    return cause(f"PORT is ignored, or not understood: the server was {here}. getenv() has it.")


def swapped(port: int) -> int:
    """A port in the other byte order."""
    return (port & 255) << 8 | port >> 8


def waits_without_listening(server: "Server") -> Cause:
    calls = waits_in(server.pid)
    waits = f" It waits in {calls[0].name}()." if calls else ""
    return cause(f"it runs, and listens nowhere: does it come as far as bind() and listen()?{waits}")


# ---- a program that does not end ----

NO_SIGTERM = cause(
    "SIGTERM does not end the server: set a handler with sigaction(), have the loop see that it came (a byte in a pipe "
    "that poll() watches), and return from main()."
)
NO_STATUS = cause(
    "SIGTERM must end the server with exit status 0: without a handler it kills the program at once, and nothing is "
    "closed or freed."
)


def stays(server: "Server", sig: int) -> Cause:
    """Why a server does not end on a signal."""
    busy = what_it_does(server)
    return busy or cause(NO_SIGTERM.words.replace("SIGTERM", signal_name(sig)))


def runs_on(name: str, env: Mapping[str, str]) -> Cause:
    """Why a program may not have ended."""
    if name != "server":
        return cause("does the client wait for something that never comes, more input or another reply?")
    given = " ".join(f"{key}={value}" for key, value in env.items() if value != "0")
    return cause(
        f"{' and '.join(sorted({key for key in env if env[key] != '0'}))} ignored? {given} cannot be used: a server "
        "says so in one line, and ends with status 1."
    )
