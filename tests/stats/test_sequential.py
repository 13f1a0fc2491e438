"""Sequential tests, adversaries of them, and verdicts."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from benchmarks import verdicts
from benchmarks.simulate import GATES, GateCase, at_bound
from benchmarks.verdict_families import FAMILIES, Family
from benchmarks.verdict_questions import Mean, Sample
from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats import sequential
from harness.stats.bounded import ValueRange
from harness.stats.sequential import BLOCK_SHARES, BettingSequence, Blocks, Stakes, evalues_each
from tests.make.runs import Draws, chance


def after(values: list[float]) -> BettingSequence:
    found = BettingSequence(confidence=0.95, least=0, most=1)
    for value in values:
        found.update(value)
    return found


def capital(values: list[float], mean: float, side: int) -> float:
    """Capital of one gambler as the paper writes it, one value after the other."""
    wealth, total, squares = 1.0, 0.5, 0.25
    for at, value in enumerate(values, start=1):
        bet = math.sqrt(2 * math.log(2 / 0.05) / (squares / at * at * math.log(1 + at)))
        room = mean if side > 0 else 1 - mean
        bet = bet if room == 0 else min(bet, 0.75 / room)
        wealth *= 1 + side * bet * (value - mean)
        total += value
        squares += (value - total / (at + 1)) ** 2
    return wealth


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), min_size=1, max_size=40))
def test_an_end_is_where_a_gambler_gets_rich(values: list[float]) -> None:
    lows, highs = [0.0], [1.0]
    for count in range(1, len(values) + 1):
        seen, step = values[:count], 1 / 1_000
        found = after(seen).interval()
        lows.append(found.low)
        highs.append(found.high)
        if found.low > max(lows[:-1]):
            assert capital(seen, found.low, 1) >= 40 > capital(seen, found.low + step, 1)
        if found.high < min(highs[:-1]):
            assert capital(seen, found.high, -1) >= 40 > capital(seen, found.high - step, -1)
    assert lows == sorted(lows)
    assert highs == sorted(highs, reverse=True)


def test_only_failures_and_only_successes_reach_the_edge() -> None:
    none, every = after([0.0] * 400).interval(), after([1.0] * 400).interval()
    assert none.low == 0.0 < none.high < 0.03
    assert every.high == 1.0 > every.low > 0.97
    assert after([1.0, 0.0, 0.0, 0.0]).interval().value == 0.25


def test_looking_after_every_query_is_wrong_as_rarely_as_it_says() -> None:
    """The truth is left out at any of 1,000 looks by at most 5 % of 600 streams, chance aside."""
    rng = np.random.default_rng(5)
    for mean in (0.03, 0.5):
        stakes, out = Stakes(0.95, streams=600), np.zeros(600, dtype=bool)
        higher, lower = np.zeros(600), np.zeros(600)
        for _ in range(1_000):
            values = (rng.random(600) < mean).astype(np.float64)
            ahead, behind = sequential.gains(stakes.next(), values, np.array([mean]))
            higher, lower = higher + ahead, lower + behind
            out |= np.maximum(higher, lower) >= math.log(stakes.wealth)
            stakes.learn(values)
        assert out.mean() <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / 600)
        assert out.any()


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_value_out_of_range_is_refused(value: float) -> None:
    with pytest.raises(EvidenceError, match="outside"):
        after([0.5, value])


STREAM = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 9)), max_size=60)


def cut(values: np.ndarray, seconds: np.ndarray) -> Blocks:
    return sequential.blocks(values, sequential.NS_PER_S * seconds, block_s=3, period_s=20)


def of_means(rows: ArrayLike, sizes: ArrayLike = 1) -> Blocks:
    """Return blocks of these means, a row for each period."""
    means = np.array(rows, dtype=np.float64)
    count = np.broadcast_to(np.array(sizes, dtype=np.int64), means.shape)
    period, slot = np.indices(means.shape)
    return Blocks((means * count).ravel(), count.ravel(), period.ravel(), slot.ravel(), len(means))


@given(STREAM)
def test_blocks_are_those_cut_by_hand(stream: list[tuple[float, int]]) -> None:
    values = np.array([value for value, _ in stream])
    at = np.cumsum(np.array([gap for _, gap in stream], dtype=np.int64))
    found = cut(values, at)
    whole = (at[-1] - at[0]) // 20 if stream else 0
    by_hand: dict[tuple[int, int], list[float]] = {}
    for value, when in zip(values.tolist(), (at - at[0]).tolist() if stream else [], strict=True):
        if when < 20 * whole:
            by_hand.setdefault((when // 20, when % 20 // 3), []).append(value)
    assert found.periods == whole
    assert [*zip(found.period.tolist(), found.slot.tolist(), strict=True)] == [*by_hand]
    assert found.sums.tolist() == [sum(one) for one in by_hand.values()]
    assert found.sizes.tolist() == [len(one) for one in by_hand.values()]


@given(STREAM, st.integers(0, 60))
def test_what_comes_later_changes_no_period(stream: list[tuple[float, int]], kept: int) -> None:
    values = np.array([value for value, _ in stream])
    at = np.cumsum(np.array([gap for _, gap in stream], dtype=np.int64))
    part, whole = cut(values[:kept], at[:kept]), cut(values, at)
    assert whole.sums[: len(part.sums)].tolist() == part.sums.tolist()
    assert whole.sizes[: len(part.sums)].tolist() == part.sizes.tolist()


def test_the_capital_is_the_product_by_hand() -> None:
    found = of_means([[0.5, 1.0, 0.25]] * 2, 4)
    low, mean = 0.3, found.mean
    assert mean == pytest.approx(1.75 / 3)
    made = np.mean([
        np.prod([1 + share * (x / low - 1) for x in [0.5, 1.0, 0.25] * 2]) for share in BLOCK_SHARES
    ])
    at = 1 - 2 / made
    assert found.surely(low, above=True, confidence=at - 1e-9)
    assert not found.surely(low, above=True, confidence=at + 1e-9)
    assert found.interval(at).low == pytest.approx(low)


def test_a_larger_block_later_ends_who_stakes_too_much() -> None:
    """A stake beyond the capital would be a debt, and no bound."""
    means = np.ones((2, 31))
    late = of_means(means, np.reshape([1] * 60 + [9] * 2, (2, 31)))
    assert late.interval(0.95).low < of_means(means).interval(0.95).low


def test_who_would_stake_more_than_all_is_out() -> None:
    sizes = np.array([2] * 40 + [3] * 2)

    def made(mean: float) -> float:
        stakes = np.outer([share for share in BLOCK_SHARES if 1.5 * share <= 1], sizes / 2)
        return float((1 + stakes * (0.5 / mean - 1)).prod(axis=1).sum()) / len(BLOCK_SHARES)

    low = of_means(np.full((2, 21), 0.5), sizes.reshape(2, 21)).interval(0.95).low
    assert made(low * 1.001) < 40 <= made(low * 0.999)


def test_equal_blocks_without_a_fault() -> None:
    for room in (0.01, 0.05, 0.3):
        needed = sequential.blocks_needed(room, 0.95)
        assert of_means([[0.0] * needed]).surely(room, above=False, confidence=0.95)
        short = math.floor(math.log(0.025) / math.log1p(-room))
        assert not of_means([[0.0] * short]).surely(room, above=False, confidence=0.95)


def test_periods_that_are_needed_settle_it() -> None:
    course = [0.0] * 30 + [0.1] * 2
    needed = of_means([course] * 2).periods_needed(0.05, 0.95)
    assert needed is not None
    assert needed > 2
    assert of_means([course] * needed).surely(0.05, above=False, confidence=0.95)
    assert of_means([[0.05] * 10] * 2).periods_needed(0.05, 0.95) is None


def test_memory_is_of_bursts_and_not_of_the_course_of_a_day() -> None:
    rng = np.random.default_rng(2)
    alone = rng.random((10, 200))
    assert abs(of_means(alone).memory[1]) < 3
    course = alone / 2 + np.linspace(0, 0.5, 200)
    assert abs(of_means(course).memory[1]) < 3
    bursts = of_means(np.repeat(rng.random((10, 20)), 10, axis=1)).memory
    assert bursts[0] > 0.7
    assert bursts[1] > 3
    assert of_means(np.zeros((3, 4))).memory == (0.0, 0.0)


UNIT, DIFFERENCES = ValueRange(0.0, 1.0), ValueRange(-1.0, 1.0)
PAIRED: dict[str, Any] = {"span": DIFFERENCES, "confidence": 0.95, "clusters": None}
SHARES = (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125)
VALUES = st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), min_size=2, max_size=60)


def interval(
    values: list[float], span: ValueRange = UNIT, clusters: list[int] | None = None
) -> Estimate:
    column = np.array(values).reshape(-1, 1)
    codes = None if clusters is None else np.array(clusters)
    return evalues_each(column, span=span, confidence=0.95, clusters=codes)[0]


def mixed_capital(values: list[float], mean: float) -> float:
    """Make six gamblers bet a sixth of 1 each, on one query after the other."""
    each = [math.prod(1 - share + share * value / mean for value in values) for share in SHARES]
    return sum(each) / len(SHARES)


@given(VALUES)
def test_an_end_is_where_the_gamblers_get_rich(values: list[float]) -> None:
    estimate = interval(values)
    if estimate.low > 1e-6:
        assert mixed_capital(values, estimate.low * 0.999) >= 40
        at_mean = estimate.low >= np.mean(values) - 1e-9
        assert at_mean or mixed_capital(values, estimate.low * 1.001) < 40
    turned = [1 - value for value in values]
    if estimate.high < 1 - 1e-6:
        assert mixed_capital(turned, (1 - estimate.high) * 0.999) >= 40


def test_no_difference_at_all_leaves_room_for_what_was_not_seen() -> None:
    assert interval([0.0] * 260, DIFFERENCES).low < -0.02 < interval([0.0] * 280, DIFFERENCES).low


def test_a_cluster_counts_once() -> None:
    values = np.random.default_rng(2).uniform(-1, 1, 60).tolist()
    copies = [value for value in values for _ in range(4)]
    codes = [at for at in range(60) for _ in range(4)]
    one, four = interval(values, DIFFERENCES), interval(copies, DIFFERENCES, codes)
    assert (four.low, four.high) == pytest.approx((one.low, one.high))
    assert four.n == 240


def test_the_p_value_is_below_the_level_where_the_low_end_is_above_the_bound() -> None:
    values = np.random.default_rng(4).uniform(-0.2, 0.3, 150)
    low = interval(values.tolist(), DIFFERENCES).low
    for bound, rich in ((low - 1e-6, True), (low + 1e-6, False)):
        found = sequential.p_above(values, bound, span=DIFFERENCES, clusters=None)
        assert (found <= 0.025) is rich
    assert sequential.p_above(values, 0.5, span=DIFFERENCES, clusters=None) == 1


def test_as_many_queries_as_are_needed_are_enough_and_fewer_are_not() -> None:
    values = np.random.default_rng(5).choice([-0.3, 0.0, 0.3], 100, p=[0.1, 0.8, 0.1])
    for bound in (-0.1, 0.1):
        times = sequential.times_needed(values, bound, **PAIRED)
        assert times is not None
        above = math.ceil(times)
        enough = interval(values.tolist() * above, DIFFERENCES)
        assert enough.low > bound if bound < 0 else enough.high < bound
    same = np.array([0.1, -0.1] * 10)
    assert sequential.times_needed(same, 0.0, **PAIRED) is None


def test_large_clusters_that_lose_count_by_their_queries() -> None:
    """Half of the rare clusters of eight lose everything: the mean over queries is -0.02."""
    rng, passed, trials = np.random.default_rng(6), 0, 100
    for _ in range(trials):
        large = rng.random(1_000) < 0.04 / (8 * 0.96 + 0.04)
        codes = np.repeat(np.arange(1_000), np.where(large, 8, 1))[:1_000]
        values = np.where(large & (rng.random(1_000) < 0.5), -1.0, 0.0)[codes].reshape(-1, 1)
        (one,) = evalues_each(values, span=DIFFERENCES, confidence=0.95, clusters=codes)
        passed += one.low > -0.02
    assert passed <= 0.08 * trials


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.parametrize("asked", GATES, ids=lambda asked: f"{asked.rule} {asked.limit:g}")
def test_no_family_passes_or_fails_a_gate_at_its_bound_too_often(
    asked: GateCase, draws: Draws
) -> None:
    trials = draws(400, 2_000)
    for queries in (20, 100):
        for found in at_bound(asked, queries, trials):
            assert found.passed.value <= chance(0.025, trials), found
            assert found.failed.value <= chance(0.025, trials), found


RARE = next(one for one in FAMILIES if one.name == "rare total losses")


def test_a_family_that_keeps_its_level_is_not_above_and_a_lie_is() -> None:
    kept = verdicts.cell(RARE, 400, 400, "test")
    assert not kept.broken
    assert 0 < kept.power < 1
    lie = Family("T", "a gain", Mean(), lambda _, of: Sample(np.full((of.n, of.trials), 0.1)))
    assert verdicts.cell(lie, 200, 12, "test").broken
