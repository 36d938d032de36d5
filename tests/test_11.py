"""Chapter 11: the sorted set."""
from __future__ import annotations

import pytest

from cases import Case, abuse, cases, clients, framing, processes, replies, strings, zsets


@pytest.mark.parametrize("case", cases(11, framing))
def test_framing(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, abuse))
def test_abuse(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, strings))
def test_strings(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, replies))
def test_replies(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, zsets))
def test_zsets(case: Case) -> None:
    case(11)


@pytest.mark.parametrize("case", cases(11, clients))
def test_clients(case: Case) -> None:
    case(11)
