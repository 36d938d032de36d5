"""Chapter 10: the AVL tree. The pair is that of chapter 09, unchanged.."""
from __future__ import annotations

import pytest

from cases import Case, abuse, cases, clients, framing, processes, replies, strings


@pytest.mark.parametrize("case", cases(10, framing))
def test_framing(case: Case) -> None:
    case(10)


@pytest.mark.parametrize("case", cases(10, abuse))
def test_abuse(case: Case) -> None:
    case(10)


@pytest.mark.parametrize("case", cases(10, strings))
def test_strings(case: Case) -> None:
    case(10)


@pytest.mark.parametrize("case", cases(10, replies))
def test_replies(case: Case) -> None:
    case(10)


@pytest.mark.parametrize("case", cases(10, clients))
def test_clients(case: Case) -> None:
    case(10)
