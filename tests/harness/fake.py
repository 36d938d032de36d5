"""A server for testing clients (and this harness): it answers with whatever bytes a test wants."""
from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Callable, List, Optional

from . import settings
from .codec import codec

__tracebackhide__ = settings.__tracebackhide__


class FakeServer:
    """Runs handler(socket) in a thread for each connection: `with FakeServer(replies(b"..")) as s:`.

    s.port goes to run_client or Conn. The socket is closed when the handler returns; an OSError in
    it ends that connection only.
    """

    def __init__(self, handler: Callable[[socket.socket], None]) -> None:
        self.handler = handler
        self.connections: List[socket.socket] = []

    def __enter__(self) -> "FakeServer":
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # accept() fails from now on
        self._accepting.join()  # else it may accept for the next one, whose descriptor has the same number
        self.listener.close()
        for sock in self.connections:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                self.connections.append(sock)
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            self.handler(sock)


def read_frame(sock: socket.socket) -> Optional[bytes]:
    """The body of the next message, or None at the end."""
    head = _read(sock, 4)
    return None if head is None else _read(sock, struct.unpack("<I", head)[0])


def read_request(sock: socket.socket, chapter: int) -> Optional[bytes]:
    """The body of the next message, or in RESP the next request; None at the end. A greeting is answered."""
    language = codec(chapter)
    if language.head:
        return read_frame(sock)
    data = b""
    while True:
        end = language.request_end(data)
        if end >= 0 and data[:end] == language.greeting:
            sock.sendall(language.welcome)
            data, end = data[end:], language.request_end(data, end) - end
        if end > 0:
            return data
        more = sock.recv(1 << 20)  # a client waits for each reply, so nothing comes behind a request
        if not more:
            return None
        data += more


def replies(*raw: bytes, requests: Optional[List[bytes]] = None, chapter: int = 9) -> Callable[[socket.socket], None]:
    """A handler: reads a message, answers with these bytes as they are, and so on; then closes.

    The bodies of what came are appended to requests.
    """

    def handler(sock: socket.socket) -> None:
        for answer in raw:
            request = read_request(sock, chapter)
            if request is None:
                return
            if requests is not None:
                requests.append(request)
            sock.sendall(answer)

    return handler


def _read(sock: socket.socket, n: int) -> Optional[bytes]:
    data = b""
    while len(data) < n:
        more = sock.recv(n - len(data))
        if not more:
            return None
        data += more
    return data
