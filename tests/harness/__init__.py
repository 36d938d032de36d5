"""The test harness: programs (process), connections (conn), the protocol (wire), a model of the
server (model), transcripts (session). tests/README.md shows how to use it."""
from .conn import ANY, Conn, exchange
from .process import Result, Server, run_client, run_program
from .settings import fail, limit, repeat_line, seed, wait_until
from .wire import AnyOrder, Between, Err, OneOf, Status

__all__ = [
    "ANY", "AnyOrder", "Between", "Conn", "Err", "OneOf", "Result", "Server", "Status",
    "exchange", "fail", "limit", "repeat_line", "run_client", "run_program", "seed", "wait_until",
]  # fmt: skip
