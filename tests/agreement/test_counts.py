"""Documents of one arm only, and lengths."""

from __future__ import annotations

from hypothesis import given, settings

from harness.agreement import length_difference, serving_only, shadow_only
from tests.agreement.strategies import depths, pair_of, rankings


def test_worked_example_of_counts() -> None:
    pair = pair_of(list("abcde"), list("bcx"))
    assert serving_only(pair, 10).tolist() == [3]
    assert shadow_only(pair, 10).tolist() == [1]
    assert serving_only(pair, 2).tolist() == [1]
    assert length_difference(pair).tolist() == [-2]


@settings(deadline=None)
@given(a=rankings, b=rankings, depth=depths)
def test_counts_are_those_of_the_sets_and_swap_with_the_arms(
    a: list[str], b: list[str], depth: int
) -> None:
    pair, swapped = pair_of(a, b), pair_of(b, a)
    assert serving_only(pair, depth).tolist() == [len(set(a[:depth]) - set(b[:depth]))]
    assert shadow_only(pair, depth).tolist() == serving_only(swapped, depth).tolist()
    assert length_difference(pair).tolist() == [len(b) - len(a)]
