"""The lab programs of a chapter pass."""
from __future__ import annotations

from harness import fail, run_program, settings

__tracebackhide__ = settings.__tracebackhide__


def lab_passes(chapter: int, name: str) -> None:
    """It ends with status 0 and `all tests passed`."""
    out, err, status = run_program(chapter, name, seconds=50)
    if status != 0 or err or not out.endswith("\nall tests passed\n"):
        fail(f"{name} ends with exit status {status} and prints\n{out}{err}", expected="exit status 0, and the last "
             "line is `all tests passed`")  # fmt: skip
