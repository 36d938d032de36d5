"""The test harness: programs (process), connections (conn), the protocol (wire), a model of the
server (model), transcripts (session). tests/README.md shows how to use it."""
from .conn import ANY, Conn, exchange
from .model import Model, run_model_test
from .process import Result, Server, run_client, run_program
from .session import check_session
from .settings import fail, limit, repeat_line, seed, wait_until
from .wire import AnyOrder, Between, Err, OneOf, Status

__all__ = [
    "ANY", "AnyOrder", "Between", "Conn", "Err", "Model", "OneOf", "Result", "Server", "Status",
    "check_session", "exchange", "fail", "limit", "repeat_line", "run_client", "run_model_test",
    "run_program", "seed", "wait_until",
]  # fmt: skip
