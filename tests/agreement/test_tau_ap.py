"""The AP correlation."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from harness.agreement import Discordance, tau_ap
from tests.agreement.strategies import depths, pair_of, rankings


def one_way(a: Sequence[str], b: Sequence[str]) -> float:
    """2 / (N - 1) sum of C(i) / (i - 1), less 1, as the paper writes it."""
    total = 0.0
    for i in range(1, len(a)):
        total += sum(b.index(above) < b.index(a[i]) for above in a[:i]) / i
    return 2 / (len(a) - 1) * total - 1


@settings(deadline=None)
@given(a=rankings, b=rankings, depth=depths)
def test_is_the_formula_both_ways_and_symmetric(a: list[str], b: list[str], depth: int) -> None:
    ours, swapped = tau_ap(pair_of(a, b), depth), tau_ap(pair_of(b, a), depth)
    here = [d for d in a[:depth] if d in b[:depth]]
    there = [d for d in b[:depth] if d in a[:depth]]
    if len(here) < 2:
        assert ours.defined.tolist() == [False]
        return
    wanted = (one_way(here, there) + one_way(there, here)) / 2
    assert ours.values[0] == pytest.approx(wanted, abs=1e-12)
    assert swapped.values[0] == pytest.approx(wanted, abs=1e-12)
    assert -1 - 1e-12 <= ours.values[0] <= 1


def test_the_top_weighs_more() -> None:
    def value(b: str) -> float:
        return float(tau_ap(pair_of(list("abcdefgh"), list(b)), 10).values[0])

    assert value("abcdefgh") == 1.0
    assert value("hgfedcba") == pytest.approx(-1.0)
    assert value("bacdefgh") < value("abcdefhg") < 1


def test_counts_are_of_shared_documents_alone() -> None:
    found = Discordance.of(pair_of(list("axbc"), list("cyba")), 10)
    assert found.shared.tolist() == [[True, False, True, True]]
    assert found.before.tolist() == [[0, 0, 1, 2]]
    assert found.after.tolist() == [[2, 0, 1, 0]]


def test_many_queries_are_what_each_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness import agreement
    from harness.agreement import Pair
    from tests.make.runs import random_case

    control, candidate = random_case(1)[0], random_case(2)[0]
    whole = tau_ap(Pair.of(control, candidate), 20).values.tolist()
    monkeypatch.setattr(agreement, "BLOCK", 50)
    assert tau_ap(Pair.of(control, candidate), 20).values.tolist() == whole
