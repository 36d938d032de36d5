"""Chapter 18: the key space as Redis keeps it."""
from __future__ import annotations

import pytest

from cases import (
    Case, abuse, basics, batches, beside_redis, cases, client_errors, clients, clock, crowd, expiry, framing, idle,
    keyspace, leaks, logs, memory, merges, processes, readme, real_clients, replies, resp, scan, strings, trouble, ttl,
    zsets,
)  # fmt: skip
from cases.labs import lab_passes, lab_sees
from harness.vectors import Vector, VectorServers, vector_cases, vector_servers

assert vector_servers  # a fixture


@pytest.mark.parametrize("case", cases(18, basics))
def test_first(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, keyspace))
def test_keyspace(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, expiry))
def test_expiry(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, scan))
def test_scan(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, resp))
def test_resp(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, framing))
def test_framing(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, abuse))
def test_abuse(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, clock))
def test_clock(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, memory))
def test_memory(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, trouble))
def test_trouble(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, readme, processes))
def test_shared(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, client_errors))
def test_client_errors(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, leaks, merges))
def test_leaks(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, logs))
def test_logs(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, strings))
def test_strings(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, replies))
def test_replies(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, clients))
def test_clients(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, zsets))
def test_zsets(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, idle))
def test_idle(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, ttl))
def test_ttl(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("case", cases(18, batches, crowd))
def test_batches(case: Case) -> None:
    case(18)


@pytest.mark.parametrize("vector", vector_cases(18))
def test_vector(vector: Vector, vector_servers: VectorServers) -> None:
    vector_servers.play(vector, 18)


@pytest.mark.parametrize("case", cases(18, real_clients, beside_redis))
def test_real_clients(case: Case) -> None:
    case(18)


@pytest.mark.inside
@pytest.mark.time_limit(60)
def test_cursor() -> None:
    """Walks through tables that stand still, grow and shrink, with nodes that come and go between the steps."""
    lab_passes(18, "test_cursor")


@pytest.mark.inside
@pytest.mark.parametrize(
    "right, wrong",
    [
        ("return reverse_bits(reverse_bits(cursor | ~(uint64_t)mask) + 1);", "return (cursor + 1) & mask;"),
        ("        h_scan_bucket(large, cursor, f, arg);\n", ""),
        ("    if (small->mask > large->mask) {", "    if (false) {"),
        ("    k_shrink_at = 16,", "    k_shrink_at = 4,"),
    ],
    ids=["counts up", "one table of two", "tables only grow", "shrinks too soon"],
)
def test_cursor_sees(right: str, wrong: str) -> None:
    lab_sees(18, "test_cursor", "hashtable_cursor.h", right, wrong)
