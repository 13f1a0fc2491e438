"""Attempts are counted once, and the memory for that grows with what is missing only."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import EvidenceError
from harness.shadow.log import Once
from tests.make.shadow.attempts import attempt


@given(st.lists(st.integers(1, 40)))
def test_a_number_is_taken_once_in_whatever_order(numbers: list[int]) -> None:
    once, known = Once(), set[int]()
    for number in numbers:
        with pytest.raises(EvidenceError) if number in known else nullcontext():
            once.take(attempt(number))
        known.add(number)


def test_an_attempt_twice_is_refused_however_far_apart() -> None:
    once = Once()
    for number in (1, 2, 4, 3, 9):
        once.take(attempt(number))
    with pytest.raises(EvidenceError, match=r"attempt 2 .* twice"):
        once.take(attempt(2))
