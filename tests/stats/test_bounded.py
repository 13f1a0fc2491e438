"""The bound for bounded means: exact where an exact one is known, and never below its level."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln
from scipy.stats import beta, binom

from benchmarks.simulate import exact_tail, overstated
from harness.core.errors import EvidenceError
from harness.stats.bounded import SHORT, Codes, Floats, Span, bounded_each, chance_above

DIFFERENCES = Span(-1.0, 1.0)
LEVEL = 0.025


def ends(
    values: Floats, clusters: Codes | None = None, span: Span = DIFFERENCES
) -> tuple[float, ...]:
    found = bounded_each(values.reshape(-1, 1), span=span, level=LEVEL, clusters=clusters)
    return float(found.low[0]), float(found.high[0])


@pytest.mark.parametrize("queries", [2, 10, 50, 400])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_two_kinds_of_values_have_the_exact_interval(queries: int, share: float) -> None:
    """Clopper and Pearson (1934), outwards by a twenty-fifth of its width at most."""
    bad = round(share * queries)
    low, high = ends(np.r_[-np.ones(bad), np.ones(queries - bad)])
    fine = queries - bad
    exact_low = 2 * beta.ppf(LEVEL, fine, bad + 1) - 1 if fine else -1.0
    exact_high = 2 * beta.ppf(1 - LEVEL, fine + 1, bad) - 1 if bad else 1.0
    room = 0.04 * (exact_high - exact_low)
    assert exact_low - room <= low <= exact_low
    assert exact_high <= high <= exact_high + room


@pytest.mark.parametrize("queries", [50, 100, 188])
def test_no_difference_leaves_room_for_what_was_not_seen(queries: int) -> None:
    low, high = ends(np.zeros(queries))
    assert low == pytest.approx(-(1 - LEVEL ** (1 / queries)), rel=0.03)
    assert high == -low


@pytest.mark.parametrize("level", [0.025, 0.005, 0.0025])
@pytest.mark.parametrize("queries", [2, 10, 50, 200, 1_600])
def test_two_kinds_of_values_never_have_more_than_the_level(queries: int, level: float) -> None:
    """The chance of a false low end at every true share, beside that of Clopper and Pearson."""
    fine = np.unique(np.geomspace(1, queries, 40).round().astype(int))
    fine = np.union1d(fine, np.maximum(1, queries - fine))
    values = (np.arange(queries)[:, None] < fine).astype(float)
    low = bounded_each(values, span=Span(0.0, 1.0), level=level, clusters=None).low
    assert (low <= beta.ppf(level, fine, queries - fine + 1)).all()
    for share, least in zip(low, fine, strict=True):
        assert binom.sf(least - 1, queries, share) <= level


@pytest.mark.parametrize("level", [0.25, 0.025, 0.005, 0.0025, 5e-7])
def test_no_sample_has_more_than_the_level(level: float) -> None:
    """Beside the exact tail, where r* falls short most: few far values beside many alike."""
    levels = []
    for queries in (5, 50, 400, 1_600):
        for far in (0, 1, 3, 8, 20):
            for kind in (0.005, 0.05, 0.3, 0.5, 0.8, 0.99):
                if far < queries:
                    kinds, counts = np.array([kind, 1.0]), np.array([queries - far, far])
                    levels.append(overstated(kinds, counts, level))
    assert 0.85 < max(levels) <= 1


def test_an_end_is_found_where_the_tail_turns_sharply() -> None:
    """Newton's method alone gave an end of a tail of 19 % where 0.1 % was asked for."""
    assert overstated(np.array([0.005, 1.0]), np.array([399, 1]), 0.001) <= 1


def test_the_exact_tail_is_exact() -> None:
    for queries, fine in ((2, 1), (10, 10), (50, 3), (400, 390)):
        for bound in (0.05, 0.5, 0.97):
            wanted = beta.cdf(bound, fine, queries - fine + 1)
            counts = np.array([fine, queries - fine + 1.0])
            assert exact_tail(np.array([1.0, 0.0]), counts, bound) == pytest.approx(wanted)


def test_a_cluster_may_be_as_large_as_was_seen_or_as_is_stated() -> None:
    """A lone cluster of five among 240 queries; none, where one may have 2 % of them."""
    values, codes = np.zeros((240, 1)), np.r_[np.zeros(5, dtype=np.int64), np.arange(1, 236)]
    for clusters, largest, size in ((None, 0.0, 1.0), (codes, 0.0, 5.0), (None, 0.02, 4.8)):
        ends = bounded_each(
            values, span=DIFFERENCES, level=LEVEL, clusters=clusters, largest=largest
        )
        odds = -np.log(LEVEL) * size / 240
        assert float(ends.low[0]) == pytest.approx(-odds / (1 + odds), rel=0.05)
    four = bounded_each(
        values[:60], span=DIFFERENCES, level=LEVEL, clusters=None, largest=0.02, times=4
    )
    assert four.low[0] == pytest.approx(ends.low[0])


@pytest.mark.slow
@pytest.mark.parametrize("units", [31, 40])
def test_it_is_the_quantile_of_the_weighted_mean(units: int) -> None:
    """What the saddlepoint approximates, by draws: uniform Dirichlet weights, one value unseen."""
    rng = np.random.default_rng(5)
    values = rng.choice([-0.3, 0.0, 0.0, 0.2, 1.0], 40)
    codes = np.minimum(np.arange(40), units - 1)
    sizes = np.bincount(codes).astype(float)
    unseen = float(sizes.max())
    weights = rng.exponential(size=(200_000, len(sizes) + 1))
    size = weights @ np.append(sizes, unseen)
    drawn = [
        np.quantile(weights @ np.append(np.bincount(codes, values), worst * unseen) / size, level)
        for worst, level in ((-1, LEVEL / SHORT), (1, 1 - LEVEL / SHORT))
    ]
    assert ends(values, codes) == pytest.approx(drawn, abs=0.004)


def test_the_p_value_and_the_end_agree() -> None:
    values = np.random.default_rng(2).choice([-0.4, 0.0, 0.1, 0.5], (60, 3))
    low = bounded_each(values, span=DIFFERENCES, level=LEVEL, clusters=None).low
    for at, bound in enumerate(low):
        found = chance_above(values, bound, span=DIFFERENCES, clusters=None)
        assert found[at] == pytest.approx(LEVEL, rel=1e-6)
    far = [
        chance_above(values, bound, span=DIFFERENCES, clusters=None)
        for bound in (-1.0, -0.5, 0.0, 0.4, 0.5, 1.0)
    ]
    assert (np.diff(far, axis=0) >= 0).all()
    assert far[0].max() < 1e-6
    assert far[-1].min() == 1.0


def test_a_column_is_the_same_beside_any_others() -> None:
    values = np.random.default_rng(3).uniform(-1, 1, (33, 2_500))
    values[:, 7] = 0.0
    values[:, 8] = -1.0
    beside = bounded_each(values, span=DIFFERENCES, level=LEVEL, clusters=None)
    for at in (0, 7, 8, 2_400):
        alone = bounded_each(values[:, [at]], span=DIFFERENCES, level=LEVEL, clusters=None)
        assert (beside.low[at], beside.high[at]) == (alone.low[0], alone.high[0])
    assert beside.low[8] == -1.0


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([-1.0, -0.999, -0.3, 0.0, 1e-9, 0.2, 1.0]), min_size=1, max_size=60),
    st.none() | st.lists(st.integers(0, 9), min_size=60, max_size=60),
)
def test_any_values_have_ends_around_their_mean(
    values: list[float], codes: list[int] | None
) -> None:
    given_ = np.array(values)
    groups = None if codes is None else np.array(codes[: len(values)])
    low, high = ends(given_, groups)
    assert -1 <= low <= given_.mean() + 1e-9
    assert given_.mean() - 1e-9 <= high <= 1
    turned = ends(-given_, groups)
    assert turned == pytest.approx((-high, -low), abs=1e-8)
    if groups is None:
        moved = ends((given_ + 1) / 2, span=Span(0, 1))
        assert moved == pytest.approx(((low + 1) / 2, (high + 1) / 2), abs=1e-8)


def test_so_many_like_queries_are_so_many_queries() -> None:
    values = np.random.default_rng(4).choice([-0.5, 0.0, 0.3], 25)
    many = bounded_each(
        values.reshape(-1, 1), span=DIFFERENCES, level=LEVEL, clusters=None, times=4
    )
    assert ends(np.tile(values, 4)) == pytest.approx((many.low[0], many.high[0]), abs=1e-9)


def test_a_value_outside_its_span_is_refused() -> None:
    with pytest.raises(EvidenceError, match=r"from 0 to 1.5 are not all within 0 and 1"):
        ends(np.array([0.0, 1.5]), span=Span(0.0, 1.0))
    with pytest.raises(EvidenceError, match="no value"):
        ends(np.empty(0))


@pytest.mark.parametrize(
    ("queries", "kinds", "chances", "at_least"),
    [
        (30, (-1.0, 0.0, 0.1), (0.05, 0.9, 0.05), 0.0),
        (40, (-1.0, -0.1, 0.5), (0.02, 0.78, 0.2), 0.0),
        (10, (-1.0, -0.0951, -0.1011), (0.9333, 0.002, 0.0647), 0.002),
        (40, (-1.0, -0.3, 0.9), (0.1, 0.3, 0.6), 0.008),
        (40, (-1.0, -0.2963, -0.3), (0.38, 0.3, 0.32), 0.01),
    ],
)
def test_its_level_holds_exactly(
    queries: int, kinds: tuple[float, ...], chances: tuple[float, ...], at_least: float
) -> None:
    """Over every sample of three kinds of values, with its chance: no draw, no noise."""
    every = range(queries + 1)
    counts = np.array([(a, b, queries - a - b) for a in every for b in range(queries - a + 1)])
    samples = np.array([np.repeat(kinds, count) for count in counts]).T
    low = bounded_each(samples, span=DIFFERENCES, level=LEVEL, clusters=None).low
    logs = np.log(chances) * counts - gammaln(counts + 1)
    chance = np.exp(gammaln(queries + 1) + logs.sum(axis=1))
    assert chance.sum() == pytest.approx(1.0)
    wrong = chance[low > np.dot(kinds, chances) + 1e-9].sum()
    assert at_least <= wrong <= LEVEL
