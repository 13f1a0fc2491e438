"""Bootstrap intervals and bounded means."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import gammaln
from scipy.stats import beta, binom

from benchmarks.simulate import overstated, steps
from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats import bootstrap
from harness.stats.bootstrap import Purpose, bca, bca_each, picks, slab_bytes
from harness.stats.bounded import Codes, Ends, Floats, ValueRange, bounded_each, chance_above


def as_theirs(units: int) -> float:
    """Return the confidence at which our reach for few queries is scipy's at 95 %."""
    reach = stats.norm.ppf(0.975) * np.sqrt((units - 1) / units)
    return float(2 * stats.t.cdf(reach, units - 1) - 1)


def ours(
    values: Floats | list[float],
    clusters: Codes | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 20_000,
    seed: int = 1,
) -> Estimate:
    return bca(
        np.array(values), confidence=confidence, resamples=resamples, seed=seed, clusters=clusters
    )


def by_scipy(values: Floats) -> tuple[float, float]:
    found = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(9)
    ).confidence_interval
    return float(found.low), float(found.high)


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(1).uniform(size=40) ** 2,
        -np.random.default_rng(2).beta(1, 2, size=60),
        np.array([0.0] * 25 + [1 / 3] * 6 + [0.5] * 5 + [1.0] * 14),
        np.concatenate([np.linspace(0, 0.1, 18), np.linspace(0.8, 1, 6)]),
    ],
)
def test_is_scipys_on_skewed_and_tied_values_with_light_tails(values: Floats) -> None:
    assert float(stats.kurtosis(values, fisher=False)) < 3
    assert abs(float(stats.skew(values))) > 0.4
    low, high = by_scipy(values)
    estimate = ours(values, confidence=as_theirs(len(values)), seed=5)
    assert estimate.value == pytest.approx(values.mean(), abs=1e-15)
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=0.004)


def test_a_spread_that_rests_on_few_queries_is_trusted_less() -> None:
    few = np.array([0.0] * 44 + [1.0, -1.0, 0.5, -0.5, 0.2, -0.2])
    low, high = by_scipy(few)
    estimate = ours(few, confidence=as_theirs(50), seed=5)
    freedom = 2 * 50 / (stats.kurtosis(few, fisher=False) - 1)
    assert freedom < 8
    wider = stats.t.ppf(0.975, freedom) / stats.norm.ppf(0.975)
    assert 1.1 < (estimate.high - estimate.low) / (high - low) < wider + 0.05


def test_a_skewness_that_rests_on_few_queries_hardly_counts() -> None:
    few = np.array([0.0] * 45 + [1.0, 0.4, 0.3, -0.1, 0.2])
    estimate = ours(few, seed=5)
    means = bootstrap.drawn_sums(few.reshape(-1, 1), resamples=20_000, seed=5)[:, 0] / 50
    freedom = 2 * 50 / (stats.kurtosis(few, fisher=False) - 1)
    reach = np.sqrt(50 / 49) * stats.t.ppf(0.975, freedom)
    ends = [float(np.quantile(means, stats.norm.cdf(side))) for side in (-reach, reach)]
    assert (estimate.low, estimate.high) == pytest.approx((ends[0], ends[1]), abs=0.001)


@pytest.mark.slow
def test_intervals_hold_the_mean_as_often_as_they_say() -> None:
    rng = np.random.default_rng(2)
    moved = steps(rng, (50, 500), 0.016, moved=0.2)
    assert moved is not None
    for mean, values in ((0.016, moved), (0.0, 0.1 - 0.1 * rng.exponential(size=(50, 500)))):
        found = bca_each(values, confidence=0.95, resamples=2_000, seed=1, clusters=None)
        above = np.mean([one.low > mean + 1e-9 for one in found])
        below = np.mean([one.high < mean - 1e-9 for one in found])
        assert 0.93 - 0.02 <= 1 - above - below <= 0.97 + 0.02
        assert max(above, below) < 0.07


@pytest.mark.parametrize("confidence", [0.995, 0.999, 0.999_999])
def test_an_end_beyond_infinity_is_an_extreme_and_not_the_other_end(confidence: float) -> None:
    """Of three queries, one of which lost all, it said that none is lost: from 0 to 0."""
    for values in ([-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [-1.0, *[0.0] * 3], [-1.0, *[0.05] * 4]):
        found = ours(values, confidence=confidence, resamples=2_000)
        assert found.low < found.value < found.high, values


def test_copies_of_a_query_in_one_cluster_add_no_certainty() -> None:
    values = np.random.default_rng(4).normal(size=60)
    copies, intents = np.repeat(values, 4), np.repeat(np.arange(60), 4)
    alone, together, blind = ours(values), ours(copies, intents), ours(copies)
    assert (together.low, together.high) == pytest.approx((alone.low, alone.high), abs=0.01)
    assert blind.high - blind.low < 0.6 * (alone.high - alone.low)
    assert together.n == 240


def test_mean_over_uneven_clusters_is_the_mean_over_queries() -> None:
    values = np.array([1.0, 1.0, 1.0, 0.0, 0.5, 0.2])
    estimate = ours(values, np.array([7, 7, 7, 1, 2, 2]), confidence=0.9, resamples=2_000)
    assert estimate.value == pytest.approx(values.mean())
    assert 0.0 <= estimate.low < estimate.value < estimate.high <= 1.0
    ones, clusters = np.array([1.0] * 7 + [0.0]), np.array([0, 0, 1, 1, 1, 2, 3, 4])
    estimate = ours(ones, clusters, confidence=0.9, resamples=2_000)
    assert estimate.high == 1.0, "a third of the draws leave the 0 out, and divide by their sizes"


def test_no_spread_is_an_interval_without_width() -> None:
    estimate = ours(np.full(9, 0.1), resamples=100)
    assert (estimate.value, estimate.low, estimate.high) == (0.1, 0.1, 0.1)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([], "0 independent queries "),
        ([0.3], "1 independent query "),
        ([0.1, np.nan, 0.2], "NaN"),
        ([0.1, np.inf, 0.2], "NaN"),
    ],
)
def test_nothing_to_learn_from_is_refused(values: list[float], says: str) -> None:
    with pytest.raises(EvidenceError, match=says):
        ours(values, resamples=100)


@pytest.mark.slow
def test_weights_and_counts_give_the_same_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apart by less than the draws of another seed move them."""
    rng = np.random.default_rng(3)
    values = np.column_stack([rng.exponential(size=1_200), rng.choice([0, 0, 0, 0.5, -0.2], 1_200)])
    sizes = np.repeat(np.arange(1_100), rng.permutation([2] * 100 + [1] * 1_000))
    for clusters in (None, sizes):
        rules: Any = {"confidence": 0.95, "resamples": 20_000, "seed": 1, "clusters": clusters}
        weighed = bca_each(values, **rules)
        with monkeypatch.context() as patched:
            patched.setattr(bootstrap, "WEIGHTED_FROM", 10**9)
            counted = bca_each(values, **rules)
        for one, other in zip(weighed, counted, strict=True):
            near = 0.02 * (other.high - other.low)
            assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=near)
            assert one != other


def few_columns(count: int = 90) -> Floats:
    rng = np.random.default_rng(12)
    return np.column_stack([
        rng.normal(size=count),
        rng.exponential(size=count),
        rng.choice([0, 0, 0.5], count),
    ])


@pytest.mark.parametrize(
    "clusters", [None, np.arange(90) // 4, np.arange(90) // 3, np.arange(4_010) // 4]
)
def test_a_column_is_the_same_alone_and_beside_others(clusters: NDArray[np.int64] | None) -> None:
    columns = few_columns(90 if clusters is None else len(clusters))
    rules: Any = {"confidence": 0.95, "resamples": 800, "seed": 3, "clusters": clusters}
    together = bca_each(columns, **rules)
    assert together == tuple(bca(column, **rules) for column in columns.T)
    assert len({each.low for each in together}) == 3


@pytest.mark.slow
@pytest.mark.parametrize("count", [90, 1_100])
def test_no_block_changes_a_bit_of_the_interval(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = few_columns(count)
    rules: Any = {"confidence": 0.95, "resamples": 900, "seed": 3, "clusters": None}
    whole = bca_each(columns, **rules)
    for block in (97, 1_000, 90 * 333):
        monkeypatch.setattr(bootstrap, "PICKS_AT_ONCE", block)
        assert bca_each(columns, **rules) == whole


def columns(units: int) -> Floats:
    return np.random.default_rng(units).normal(size=(units, 3))


@pytest.mark.parametrize("units", [1, 5, 64, 700])
def test_drawn_sums_are_sums_of_what_was_drawn(units: int) -> None:
    drawn = picks(9, Purpose.QUERIES, first=0, rows=200, units=units)
    found = bootstrap.drawn_sums(columns(units), resamples=200, seed=9)
    assert found == pytest.approx(columns(units)[drawn].sum(axis=1), abs=1e-11)


def drawn_bytes(purpose: Purpose, slabs: int) -> NDArray[np.uint8]:
    each = [slab_bytes(9, purpose, slab=at, first=0, rows=200) for at in range(slabs)]
    return np.concatenate(each, axis=1)


@pytest.mark.parametrize("units", [1, 5, 8, 256, 257, 700])
def test_flipped_sums_are_sums_under_the_signs_drawn(units: int) -> None:
    drawn = drawn_bytes(Purpose.SIGNS, -(-units // 256))
    bits = np.unpackbits(drawn, axis=1, bitorder="little")[:, :units]
    found = bootstrap.flipped_sums(columns(units), resamples=200, seed=9)
    assert found == pytest.approx((2.0 * bits - 1) @ columns(units), abs=1e-11)


@pytest.mark.parametrize("units", [1, 4, 127, 128, 500])
def test_reweighted_sums_are_sums_under_the_weights_drawn(units: int) -> None:
    drawn = drawn_bytes(Purpose.WEIGHTS, -(-units // 128))
    pairs = np.stack([(drawn >> shift) & 3 for shift in (0, 2, 4, 6)], axis=2)
    weights = np.array(bootstrap.WEIGHTS)[pairs.reshape(200, -1)[:, :units]]
    found = bootstrap.reweighted_sums(columns(units), resamples=200, seed=9)
    assert found == pytest.approx(weights @ columns(units), abs=1e-11)


def test_the_words_are_those_of_today() -> None:
    """A change here moves every interval and p-value on record."""
    drawn = picks(5, Purpose.TIMES, first=2, rows=1, units=100)[0, :6]
    signs = slab_bytes(5, Purpose.SIGNS, slab=1, first=3, rows=1)[0, :6]
    assert drawn.tolist() == [80, 45, 44, 77, 12, 15]
    assert signs.tolist() == [104, 244, 107, 21, 116, 231]


DIFFERENCES = ValueRange(-1.0, 1.0)
LEVEL = 0.025


def bounds(columns: Floats, **changed: Any) -> Ends:  # noqa: ANN401  what bounded_each takes
    rules: dict[str, Any] = {"span": DIFFERENCES, "level": LEVEL, "clusters": None}
    return bounded_each(columns, **rules | changed)


def ends(values: Floats, **changed: Any) -> tuple[float, float]:  # noqa: ANN401  as above
    found = bounds(values.reshape(-1, 1), **changed)
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
    low = bounds(values, span=ValueRange(0.0, 1.0), level=level).low
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


def test_a_cluster_may_be_as_large_as_was_seen_or_as_is_stated() -> None:
    """A lone cluster of five among 240 queries; none, where one may have 2 % of them."""
    values, codes = np.zeros((240, 1)), np.r_[np.zeros(5, dtype=np.int64), np.arange(1, 236)]
    for clusters, largest, size in ((None, 0.0, 1.0), (codes, 0.0, 5.0), (None, 0.02, 4.8)):
        low, _ = ends(values, clusters=clusters, largest=largest)
        odds = -np.log(LEVEL) * size / 240
        assert low == pytest.approx(-odds / (1 + odds), rel=0.05)
    assert ends(values[:60], largest=0.02, times=4)[0] == pytest.approx(low)


def test_the_p_value_and_the_end_agree() -> None:
    values = np.random.default_rng(2).choice([-0.4, 0.0, 0.1, 0.5], (60, 3))
    low = bounds(values).low
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
    beside = bounds(values)
    for at in (0, 7, 8, 2_400):
        assert (beside.low[at], beside.high[at]) == ends(values[:, at])
    assert beside.low[8] == -1.0


def test_so_many_like_queries_are_so_many_queries() -> None:
    values = np.random.default_rng(4).choice([-0.5, 0.0, 0.3], 25)
    assert ends(np.tile(values, 4)) == pytest.approx(ends(values, times=4), abs=1e-9)


def test_a_value_outside_its_span_is_refused() -> None:
    with pytest.raises(EvidenceError, match=r"from 0 to 1.5 are not all within 0 and 1"):
        ends(np.array([0.0, 1.5]), span=ValueRange(0.0, 1.0))
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
    low = bounds(samples).low
    logs = np.log(chances) * counts - gammaln(counts + 1)
    chance = np.exp(gammaln(queries + 1) + logs.sum(axis=1))
    assert chance.sum() == pytest.approx(1.0)
    wrong = chance[low > np.dot(kinds, chances) + 1e-9].sum()
    assert at_least <= wrong <= LEVEL
