"""Intervals from samples: raters and selection."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.simulate import traffic_means
from harness.core.errors import EvidenceError
from harness.core.records import Drawn
from harness.core.scores import Estimate
from harness.stats import interval as stats_interval
from harness.stats.bootstrap import bca
from harness.stats.bounded import ValueRange, bounded_each
from harness.stats.inference import Inference
from harness.stats.interval import TrafficMean, interval, interval_each, share, traffic_mean_each
from harness.stats.raters import alpha, jackknifed, kappa
from harness.stats.selection import Floats, Ints, Rows, Search, Selection, Values, select
from tests.make.runs import Draws

DIFFERENCES, SHARE = ValueRange(-1.0, 1.0), ValueRange(0.0, 1.0)
DRAWN: dict[str, Any] = {"confidence": 0.95, "resamples": 2_000, "seed": 7}
SURE: dict[str, Any] = {"inference": Inference(**DRAWN), "clusters": None}


def test_within_a_span_it_is_the_bound_alone() -> None:
    rng = np.random.default_rng(1)
    columns = np.column_stack([
        np.zeros(60),
        np.where(rng.random(60) < 0.05, -1.0, 0.0),
        rng.uniform(-0.9, 0.9, 60),
        np.r_[-1.0, np.zeros(59)],
    ])
    estimates = interval_each(columns, span=DIFFERENCES, **SURE)
    ends = bounded_each(columns, span=DIFFERENCES, level=(1 - 0.95) / 2, clusters=None)
    for at, one in enumerate(estimates):
        assert one.value == pytest.approx(columns[:, at].mean())
        assert one == Estimate(one.value, ends.low[at], ends.high[at], 60)
        assert one == interval(columns[:, at], span=DIFFERENCES, **SURE)
    assert estimates[0].low == pytest.approx(-0.061, abs=0.001)
    few = np.array([3.0, 8.0, 12.0, 100.0])
    assert interval(few, span=None, **SURE) == bca(few, **DRAWN, clusters=None), "without a span"


def test_one_cluster_has_the_widest_interval_instead_of_none() -> None:
    values = np.full(12, 0.1)
    found = interval(values, span=DIFFERENCES, **SURE | {"clusters": np.zeros(12, dtype=np.int64)})
    assert found.value == pytest.approx(0.1)
    assert found.low < -0.9
    assert found.high > 0.9


@given(st.integers(1, 400), st.data())
def test_agrees_with_scipy(of: int, data: st.DataObject) -> None:
    assert share(of, of, confidence=0.95).high == 1.0
    assert share(0, of, confidence=0.95).low == 0.0
    count = data.draw(st.integers(0, of))
    theirs = stats.binomtest(count, of).proportion_ci(0.95, method="exact")
    ours = share(count, of, confidence=0.95)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert (ours.value, ours.n) == (count / of, of)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_size_for_is_the_fewest(count: int) -> None:
    enough = stats_interval.size_for(count, ceiling=0.02, confidence=0.95)
    assert share(count, enough, confidence=0.95).high < 0.02
    assert share(count, enough - 1, confidence=0.95).high >= 0.02


def of(
    values: list[float], drawn: list[Drawn], span: ValueRange | None = SHARE
) -> TrafficMean | None:
    column = np.array(values).reshape(-1, 1)
    (found,) = traffic_mean_each(column, drawn, spans=[span], inference=SURE["inference"])
    return found


def test_a_query_counts_by_its_requests_over_its_inclusion_probability() -> None:
    drawn = [Drawn("head", 1.0, 70), Drawn("tail", 0.1, 1), Drawn("tail", 0.1, 2)]
    found = of([1.0, 0.0, 1.0], drawn)
    assert found is not None
    mean = found.estimate
    assert mean.value == pytest.approx((70 + 0 * 10 + 20) / 100)
    assert mean.low < mean.value < mean.high
    assert (mean.n, found.share) == (3, 1.0)
    assert of([np.nan, 1.0, np.nan], drawn) is None
    assert of([1.0, 0.0, 1.0], drawn, None) is None


def test_a_query_without_a_value_is_not_counted_and_its_requests_are_told() -> None:
    drawn = [Drawn("s", 0.5, 1)] * 3 + [Drawn("t", 0.5, 9)]
    found = of([0.2, 0.4, 0.6, np.nan], drawn)
    assert found is not None
    assert found.estimate.value == pytest.approx(0.4)
    assert found.estimate.n == 3
    assert found.share == pytest.approx(3 / 12)


def test_a_log_that_was_taken_whole_leaves_nothing_open() -> None:
    found = of(np.linspace(0, 1, 10).tolist(), [Drawn("s", 1.0, at + 1) for at in range(10)])
    assert found is not None
    assert found.estimate.low == found.estimate.value == found.estimate.high


def test_a_sample_without_a_difference_says_nothing_of_what_was_not_sampled() -> None:
    head = [Drawn("head", 1.0, 50)]
    for inclusion in (0.01, 0.5, 0.9):
        found = of([0.0] * 101, head + [Drawn("tail", inclusion, 1)] * 100, DIFFERENCES)
        assert found is not None
        low, high = found.estimate.low, found.estimate.high
        tail = 100 / inclusion / (100 / inclusion + 50)
        assert -low == pytest.approx(high)
        assert low == pytest.approx(-0.0362 * tail * (1 - inclusion) ** 0.5, rel=0.03)


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.parametrize("moved", [None, 0.03])
def test_intervals_contain_the_mean_of_the_whole_log(moved: float | None, draws: Draws) -> None:
    trials = draws(150, 2_000)
    covered = traffic_means(60, trials, moved=moved)
    assert 0.95 - 3.1 * (0.05 * 0.95 / trials) ** 0.5 <= covered.traffic
    assert covered.width < 0.5
    if moved is None:
        assert abs(covered.plain_bias) > 0.02, "the fault that weights are against is not there"


def test_kappa_by_hand() -> None:
    one = np.array([1.0] * 20 + [1] * 5 + [0] * 10 + [0] * 15)
    other = np.array([1.0] * 20 + [0] * 5 + [1] * 10 + [0] * 15)
    estimate = kappa(one, other, np.arange(50), confidence=0.95)
    assert estimate.value == pytest.approx(0.4)
    assert estimate.low < 0.4 < estimate.high
    assert estimate.n == 50
    same = kappa(np.ones(5), np.ones(5), np.arange(5), confidence=0.95)
    assert (same.value, same.low, same.high) == (0.0, 0.0, 1.0)
    with pytest.raises(EvidenceError, match="2 queries were judged twice"):
        kappa(one[:2], other[:2], np.arange(2), confidence=0.95)


def test_the_jackknife_of_a_mean_is_students_interval() -> None:
    values = np.array([0.1, 0.4, 0.35, 0.8])
    tables = np.column_stack([values, np.ones(4)])
    found = jackknifed(tables, lambda sums: float(sums[0] / sums[1]), confidence=0.95, n=4)
    assert found is not None
    reach = stats.t.ppf(0.975, 3) * values.std(ddof=1) / 2
    assert (found.low, found.high) == pytest.approx((values.mean() - reach, values.mean() + reach))


def test_a_disagreement_weighs_by_the_square_of_its_distance() -> None:
    """Two of four agree; 2 for 1 and 0 for 2 weigh 1 + 4; by chance 6."""
    one, other = np.array([0, 1, 2, 2]), np.array([0, 1, 1, 0])
    found = kappa(one, other, np.arange(4), confidence=0.95)
    assert found.value == pytest.approx(1 / 6)
    assert found.n == 4


ROWS = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
    (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
)
"""Four observers of twelve units (Krippendorff, Computing Krippendorff's Alpha, 2011, part C)."""


def test_alpha_is_that_of_the_published_example() -> None:
    units = [[g for g in column if g is not None] for column in zip(*ROWS, strict=True)]
    units = [unit for unit in units if len(unit) > 1]
    found = alpha(units, np.arange(len(units)), confidence=0.95)
    assert found is not None
    assert found.value == pytest.approx(0.815, abs=5e-4)
    assert found.low < found.value < found.high
    assert found.n == 11
    assert alpha([[1, 1]] * 5, np.arange(5), confidence=0.95) is None, "one grade parts nobody"


QUERIES, CANDIDATES, FOLDS = 60, 20, 5


def rows_of(*sizes: int, each: int = 1) -> Rows:
    """Make collections of so many queries, ``each`` of them a cluster."""
    names = [f"c{at}" for at, size in enumerate(sizes) for _ in range(size)]
    clusters = [f"k{query // each}" for size in sizes for query in range(size)]
    return Rows.of(names, clusters, 7)


def table(values: Floats) -> Values:
    """Look values up, shape (queries, candidates)."""
    return lambda candidate, rows: values[rows, candidate]


def chosen(values: Floats, rows: Rows, first: int = QUERIES) -> Selection:
    return select(table(values), rows, Search(values.shape[1], first, 0.5), FOLDS)


def test_the_highest_mean_over_collections_wins_and_a_tie_goes_to_the_earlier() -> None:
    rows = rows_of(30, 10)
    values = np.zeros((40, 4))
    values[:30, 1], values[30:, 2], values[30:, 3] = 0.9, 1.0, 1.0
    assert chosen(values, rows).best == 2
    assert chosen(values, rows).apparent == pytest.approx(0.5)


def test_a_fold_has_no_part_in_its_own_choice() -> None:
    rows = rows_of(10)
    values = np.zeros((10, 2))
    values[:, 0] = 0.1
    values[rows.order % FOLDS == 3, 1] = 1.0
    found = chosen(values, rows)
    assert found.best == 1
    assert found.held_out.tolist() == [0.1 if at % FOLDS == 3 else 0.0 for at in rows.order]


def test_a_cluster_is_never_split_between_folds() -> None:
    rows = rows_of(40, 20, each=4)
    for code in np.unique(rows.cluster):
        assert len(set((rows.order % FOLDS)[rows.cluster == code].tolist())) == 1


def test_halving_looks_at_few_queries_first_and_finds_what_is_plainly_best() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0, 0.1, (QUERIES, CANDIDATES))
    values[:, 13] += 0.5
    looked = np.zeros(CANDIDATES, dtype=int)

    def counted(candidate: int, asked: Ints) -> Floats:
        looked[candidate] = max(looked[candidate], len(asked))
        found: Floats = values[asked, candidate]
        return found

    rows = rows_of(QUERIES)
    assert Search(CANDIDATES, 8, 0.5).best(counted, rows, rows.everything) == 13
    later = rows.everything[rows.order % FOLDS != 0]
    assert Search(CANDIDATES, 1, 0.9).best(table(values), rows, later) == 13
    assert looked.sum() < QUERIES * CANDIDATES / 2
    assert looked.min() == 8


@pytest.mark.slow
def test_what_is_expected_is_near_the_truth_where_the_best_looks_too_good() -> None:
    """All candidates are equally good in truth, so what the best shows above that is optimism."""
    rng, truth, seen, expected = np.random.default_rng(11), 0.4, [], []
    for _ in range(150):
        found = chosen(truth + rng.normal(0, 0.3, (QUERIES, CANDIDATES)), rows_of(QUERIES), 15)
        seen.append(found.apparent)
        expected.append(found.expected)
    error = np.std(expected) / len(expected) ** 0.5
    assert np.mean(seen) - truth > 0.04
    assert abs(np.mean(expected) - truth) < 4 * error < 0.02
