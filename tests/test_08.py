"""Chapter 08: the hashtable."""
from __future__ import annotations

import pytest

from cases import Case, abuse, cases, framing, strings


@pytest.mark.parametrize("case", cases(8, framing))
def test_framing(case: Case) -> None:
    case(8)


@pytest.mark.parametrize("case", cases(8, abuse))
def test_abuse(case: Case) -> None:
    case(8)


@pytest.mark.parametrize("case", cases(8, strings))
def test_strings(case: Case) -> None:
    case(8)
