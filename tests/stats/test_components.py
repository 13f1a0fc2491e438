"""Components of variance: worked by hand, found in simulations, and honest in their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.errors import EvidenceError
from harness.stats.components import (
    Components,
    Floats,
    assessor_deviation,
    of_assessors,
    of_corpora,
)


def variances(found: Components) -> dict[str, float]:
    return {part.source: part.variance for part in found.parts}


def test_one_way_worked_by_hand() -> None:
    """Two corpora of two and three: mean squares 5 / 3 within, 10.8 between, 2.4 each."""
    found = of_corpora([np.array([1.0, 3.0]), np.array([4.0, 5.0, 6.0])], confidence=0.95)
    within = (2.0 + 2.0) / 3
    overall = 19 / 5
    between = 2 * (2 - overall) ** 2 + 3 * (5 - overall) ** 2
    assert variances(found) == pytest.approx({"corpus": (between - within) / 2.4, "query": within})
    assert found.anew.value == found.queries_alone.value == 3.5
    assert [part.df for part in found.parts] == [1, 3]


def test_a_crossed_table_worked_by_hand() -> None:
    table = np.array([[1.0, 2.0], [3.0, 5.0], [5.0, 5.0]])
    found = of_assessors(table, confidence=0.95)
    # means by query 1.5, 4, 5 and by assessor 3, 4; what is left is 0, .5, -.5 each way
    query, assessor, rest = 2 * (4 + 0.25 + 2.25) / 2, 3 * 0.5, 1.0 / 2
    assert variances(found) == pytest.approx({
        "query": (query - rest) / 2,
        "assessor": (assessor - rest) / 3,
        "query by assessor, and error": rest,
    })
    assert assessor_deviation(found, 3) == pytest.approx(np.sqrt((assessor - rest) / 3 + rest / 3))


def corpora(rng: np.random.Generator, count: int, deviation: float) -> list[Floats]:
    sizes = rng.integers(30, 90, count)
    return [rng.normal(rng.normal(0, deviation), 0.2, size) for size in sizes]


def assessed(rng: np.random.Generator, queries: int, assessors: int, deviation: float) -> Floats:
    made: Floats = (
        rng.normal(0, 0.1, (queries, 1))
        + rng.normal(0, deviation, (1, assessors))
        + rng.normal(0, 0.15, (queries, assessors))
    )
    return made


def test_planted_components_are_found_on_average() -> None:
    rng = np.random.default_rng(1)
    every = [variances(of_corpora(corpora(rng, 6, 0.1), confidence=0.95)) for _ in range(200)]
    assert np.mean([one["corpus"] for one in every]) == pytest.approx(0.01, rel=0.2)
    assert np.mean([one["query"] for one in every]) == pytest.approx(0.04, rel=0.05)
    crossed = [
        variances(of_assessors(assessed(rng, 60, 5, 0.05), confidence=0.95)) for _ in range(200)
    ]
    assert np.mean([one["query"] for one in crossed]) == pytest.approx(0.01, rel=0.1)
    assert np.mean([one["assessor"] for one in crossed]) == pytest.approx(0.0025, rel=0.25)


@pytest.mark.parametrize("kind", ["corpora", "assessors"])
def test_the_wider_interval_holds_the_mean_and_the_narrow_one_does_not(kind: str) -> None:
    """The true mean is 0 over all corpora or assessors; queries alone know of those at hand."""
    rng = np.random.default_rng(2)
    found = [
        of_corpora(corpora(rng, 5, 0.1), confidence=0.95)
        if kind == "corpora"
        else of_assessors(assessed(rng, 60, 3, 0.1), confidence=0.95)
        for _ in range(400)
    ]
    held = [
        np.mean([one.low <= 0 <= one.high for one in column])
        for column in zip(*((one.anew, one.queries_alone) for one in found), strict=True)
    ]
    assert held[0] > 0.92
    assert held[1] < 0.7


def test_what_differs_by_nothing_is_0_and_says_so() -> None:
    rng = np.random.default_rng(3)
    found = [of_corpora(corpora(rng, 4, 0.0), confidence=0.95) for _ in range(40)]
    below = [one for one in found if one.parts[0].below_zero]
    assert 10 < len(below) < 40
    assert all(one.parts[0].variance == 0 for one in below)
    same = of_assessors(np.repeat(rng.normal(size=(20, 1)), 2, axis=1), confidence=0.95)
    assert assessor_deviation(same, 20) == pytest.approx(0, abs=1e-12)
    ends = (same.queries_alone.low, same.queries_alone.high)
    assert (same.anew.low, same.anew.high) == pytest.approx(ends)


@pytest.mark.parametrize("groups", [[], [np.ones(5)], [np.ones(5), np.ones(1)]])
def test_too_few_are_refused(groups: list[Floats]) -> None:
    with pytest.raises(EvidenceError, match="need 2 corpora or more with 2 queries each"):
        of_corpora(groups, confidence=0.95)


def test_one_assessor_is_refused() -> None:
    with pytest.raises(EvidenceError, match=r"need 2 assessors or more .*; there are 1"):
        of_assessors(np.ones((5, 1)), confidence=0.95)
