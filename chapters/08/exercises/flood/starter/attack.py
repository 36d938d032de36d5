#!/usr/bin/env python3
"""Prints keys that meet in one bucket of a table whose hash function is FNV-1a."""
import sys

START = 2166136261
PRIME = 16777619


def hash_from(state: int, data: bytes) -> int:
    """FNV-1a, going on from a state: hash_from(START, key) is the hash code of the key."""
    for byte in data:
        state = (state ^ byte) * PRIME & 0xFFFFFFFF
    return state


def main() -> None:
    n = int(sys.argv[1])
    for i in range(n):
        print(f"key{i}")


main()
