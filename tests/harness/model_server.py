"""A server of the chapters from 04 on in Python, around the model: an example of "any language", and
what the harness tests itself with. From 20 on it speaks RESP.

    python3 tests/harness/model_server.py 09
"""
from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys
import threading
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import resp, wire  # noqa: E402
from harness.codec import codec  # noqa: E402
from harness.model import Model  # noqa: E402
from harness.resp_model import RespModel  # noqa: E402


def serve(sock: socket.socket, chapter: int, model: Model, lock: threading.Lock) -> None:
    """Answers one connection until it ends or sends something malformed."""
    data = b""
    with sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            bodies, data = wire.split_frames(data)
            try:
                for body in bodies:
                    if len(body) > wire.max_msg(chapter):
                        raise wire.WireError("too long")
                    with lock:
                        reply = wire.frame(answer(chapter, model, body))
                    sock.sendall(reply)
                if len(data) >= 4 and struct.unpack_from("<I", data)[0] > wire.max_msg(chapter):
                    raise wire.WireError("too long")
            except wire.WireError:
                hang_up(sock)
                return
            more = sock.recv(1 << 16)
            if not more:
                return
            data += more


def serve_resp(sock: socket.socket, model: RespModel, lock: threading.Lock) -> None:
    """The same from chapter 20 on: as many requests as are whole are answered, in either version."""
    data, version, client = b"", 2, sock.fileno()
    model.leaves(client)  # who had this number before
    with sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            more = sock.recv(1 << 16)
            if not more:
                return
            data += more
            requests, wrong, used = resp.understood(data)
            data = data[used:]
            out = b""
            for words in filter(None, requests):
                name = words[0].lower()
                if name == b"hello":
                    version = 3 if words[1:2] == [b"3"] else version
                    reply: object = resp.Map([(b"server", b"model"), (b"proto", version)])
                elif name == b"quit":
                    reply = resp.OK
                else:
                    with lock:
                        model.client = client
                        reply = resp.plain(model.do(*words))
                out += resp.encode(reply, version)
                if name == b"quit":
                    wrong = "quit"
                    break
            if wrong and wrong != "quit":
                out += resp.encode(wire.Err(4, resp.PROTOCOL + wrong))
            sock.sendall(out)
            if wrong:
                hang_up(sock)
                return


def hang_up(sock: socket.socket) -> None:
    """Ends the replies and waits for the client to leave: closing with input unread would be a reset."""
    sock.shutdown(socket.SHUT_WR)
    left = 4 << 20  # who sends more is cut off
    while left > 0 and (data := sock.recv(1 << 16)):
        left -= len(data)


def answer(chapter: int, model: Model, body: bytes) -> bytes:
    """The body of the reply to a request body."""
    if codec(chapter).is_text:
        return codec(chapter).said(body)
    request = wire.decode_request(body)
    reply = model.do(*request)
    plain = wire.nearest(reply, None)
    if isinstance(plain, wire.Err) and not plain.text:
        plain = wire.Err(plain.code, "wrong type" if plain.code == 3 else "bad argument")
    if isinstance(plain, wire.Status) and plain.status == wire.RES_ERR and not plain.data:
        plain = wire.Status(wire.RES_ERR, b"bad argument")
    return wire.encode_reply(chapter, plain)


def main() -> None:
    chapter = int(sys.argv[1])
    listener = socket.create_server((os.environ.get("BIND", "127.0.0.1"), int(os.environ.get("PORT", "1234"))))
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, lambda *_: os._exit(0))
    print("listening on %s:%d" % listener.getsockname(), file=sys.stderr, flush=True)
    lock = threading.Lock()
    model = RespModel(chapter) if codec(chapter).is_resp else Model(chapter)
    while True:
        # A signal that comes right before the call is seen only when the call is over: none waits for ever.
        if not select.select([listener], [], [], 0.5)[0]:
            continue
        sock, _ = listener.accept()
        threading.Thread(target=_serve, args=(sock, chapter, model, lock), daemon=True).start()


def _serve(sock: socket.socket, chapter: int, model: Model, lock: threading.Lock) -> None:
    try:
        if isinstance(model, RespModel):
            serve_resp(sock, model, lock)
        else:
            serve(sock, chapter, model, lock)
    except OSError:
        pass  # that connection ended


if __name__ == "__main__":
    main()
