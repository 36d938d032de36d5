"""Tests of the harness itself."""
from __future__ import annotations

from harness import wire


def test_values_survive_a_round_trip() -> None:
    value = [b"a", 1.5, None, -3, wire.Err(1, "Unknown cmd"), [b""]]
    assert wire.same(value, wire.decode_value(wire.encode_value(value)))
