"""Chapter 06: the event loop, whole."""
from __future__ import annotations

import pytest

from cases import Case, abuse, cases, framing


@pytest.mark.parametrize("case", cases(6, framing))
def test_framing(case: Case) -> None:
    case(6)


@pytest.mark.parametrize("case", cases(6, abuse))
def test_abuse(case: Case) -> None:
    case(6)
