"""Arrivals, histograms, rounds and the highest rate."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import BadFile, EvidenceError, HarnessError, UnknownName
from harness.core.gate import Verdict
from harness.core.reading import Malformed
from harness.core.records import Query
from harness.load.rates import Highest, highest_rate, median_of, noise, ratios, trials_an_end
from harness.load.trial import DIGITS, HIGHEST_NS, LOWEST_NS, Histogram, Record, Trial
from harness.load.workers import NS_PER_S, Mix, poisson, recorded
from tests.load.test_trials import PLAN, part, summary
from tests.make.virtual import MS, questions, serve, steady

QUERIES = questions(30)


def test_gaps_are_those_of_a_poisson_process() -> None:
    arrivals = poisson(Mix(QUERIES, {}), 1000.0, 60.0, (1,))
    gaps = np.diff(arrivals.offsets_ns) / NS_PER_S
    assert len(arrivals) == pytest.approx(60_000, rel=0.02)
    assert gaps.mean() == pytest.approx(1e-3, rel=0.02)
    assert gaps.std() == pytest.approx(1e-3, rel=0.03)
    assert (gaps > 1e-3).mean() == pytest.approx(np.exp(-1), rel=0.03)
    assert (np.diff(arrivals.offsets_ns) >= 0).all()
    assert arrivals.offsets_ns[-1] < 60 * NS_PER_S


def test_the_schedule_is_seeded() -> None:
    mix = Mix(QUERIES, {"short": 1, "long": 2})
    one, same, other = (poisson(mix, 50.0, 5.0, seed) for seed in ((1, 2), (1, 2), (1, 3)))
    assert one.offsets_ns.tolist() == same.offsets_ns.tolist()
    assert one.picks.tolist() == same.picks.tolist()
    assert one.offsets_ns.tolist() != other.offsets_ns.tolist()


def test_classes_are_drawn_by_their_weight_and_queries_within_alike() -> None:
    arrivals = poisson(Mix(QUERIES, {"short": 3, "long": 1}), 500.0, 60.0, (1,))
    counts = Counter(arrivals.classes)
    assert set(counts) == {"short", "long"}
    assert counts["short"] / len(arrivals) == pytest.approx(0.75, abs=0.02)
    for row, name in zip(arrivals.picks.tolist(), arrivals.classes, strict=True):
        assert name in QUERIES[row].slices
    of_short = Counter(row for row in arrivals.picks.tolist() if "short" in QUERIES[row].slices)
    assert len(of_short) == 10
    assert min(of_short.values()) > 0.8 * max(of_short.values())


def test_without_weights_every_query_is_alike() -> None:
    arrivals = poisson(Mix(QUERIES, {}), 500.0, 60.0, (1,))
    assert set(arrivals.picks.tolist()) == set(range(30))
    shares = Counter(arrivals.classes)
    assert set(shares) == {"short", "long", "all"}
    assert all(share / len(arrivals) == pytest.approx(1 / 3, abs=0.02) for share in shares.values())


def test_a_query_of_two_classes_is_asked_for_either() -> None:
    both = [Query("a", "a", ("one", "two")), Query("b", "b", ("two",))]
    arrivals = poisson(Mix(both, {"two": 1}), 100.0, 10.0, (1,))
    assert set(arrivals.picks.tolist()) == {0, 1}
    assert set(arrivals.classes) == {"two"}


@pytest.mark.parametrize(("rate", "seconds"), [(0.0, 1.0), (1.0, 0.0), (float("inf"), 1.0)])
def test_a_rate_is_above_0(rate: float, seconds: float) -> None:
    with pytest.raises(HarnessError, match="above 0"):
        poisson(Mix(QUERIES, {}), rate, seconds, (1,))


def test_a_trial_in_which_nothing_arrives_is_refused() -> None:
    with pytest.raises(HarnessError, match="nothing arrives"):
        poisson(Mix(QUERIES, {}), 1e-6, 1.0, (1,))


def test_a_mix_names_what_there_is() -> None:
    with pytest.raises(UnknownName, match="no slice named 'shrot'; there is long, short"):
        Mix(QUERIES, {"shrot": 1})
    with pytest.raises(HarnessError, match="weight of short is 0"):
        Mix(QUERIES, {"short": 0})
    with pytest.raises(HarnessError, match="the data set is empty"):
        Mix([], {})


def test_recorded_arrivals_begin_at_0(tmp_path: Path) -> None:
    path = tmp_path / "day.jsonl"
    path.write_text(
        '{"at_s": 100.5, "query_id": "q003"}\n'
        '{"at_s": 100.5, "query_id": "q004", "who": 3}\n'
        '{"at_s": 102.5, "query_id": "q003"}\n'
    )
    arrivals = recorded(path, QUERIES)
    assert arrivals.offsets_ns.tolist() == [0, 0, 2 * NS_PER_S]
    assert arrivals.picks.tolist() == [3, 4, 3]
    assert arrivals.classes == ("short", "long", "short")
    assert arrivals.rate == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"at_s": 1, "query_id": "q001"}\nnonsense\n', r"day.jsonl:2: no arrival"),
        ('{"at_s": 1}\n', r"day.jsonl:1: no arrival \('query_id'\)"),
        ("[1]\n", r"day.jsonl:1: no arrival"),
        ('{"at_s": 2, "query_id": "q001"}\n{"at_s": 1, "query_id": "q001"}\n', ":2: 1 s comes"),
        ('{"at_s": NaN, "query_id": "q001"}\n', "NaN is not JSON"),
        ('{"at_s": 1, "query_id": "q999"}\n', "'q999' is not a query"),
        ('{"at_s": 1, "query_id": ["q001"]}\n', r"\['q001'\] is not a query"),
        ('{"at_s": 1, "query_id": "q001"}\n', "have no rate"),
        ("", "have no rate"),
    ],
)
def test_a_recording_that_is_none_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "day.jsonl"
    path.write_text(text)
    with pytest.raises(BadFile, match=problem):
        recorded(path, QUERIES)
    with pytest.raises(BadFile, match="missing file"):
        recorded(tmp_path / "absent.jsonl", QUERIES)


def found(probe: Callable[[float], bool | None], **changed: Any) -> Highest:  # noqa: ANN401
    usual: dict[str, Any] = {
        "capacity": 100.0,
        "floor": 0.04,
        "resolution": 1.1,
        "confidence": 0.95,
        "retries": 2,
    }
    return highest_rate(probe, **usual | changed)


@pytest.mark.parametrize("true", [0.05, 3.0, 40.0, 51.0, 99.0, 101.0, 900.0])
def test_a_sharp_edge_is_found(true: float) -> None:
    highest = found(lambda rate: rate <= true)
    assert highest.verdict is Verdict.PASS
    assert highest.estimate is not None
    assert highest.estimate.low <= true < highest.estimate.high
    assert highest.estimate.high / highest.estimate.low <= 1.1
    assert highest.estimate.low < highest.estimate.value < highest.estimate.high
    assert highest.estimate.n == len(highest.tried)


def noisy(true: float, width: float, rng: random.Random) -> Callable[[float], bool]:
    """Keep the budget with a chance that falls with the logarithm of the rate."""
    return lambda rate: rng.random() < 1 / (1 + math.exp(math.log(rate / true) / width))


@pytest.mark.parametrize("width", [0.02, 0.06])
def test_the_interval_holds_the_even_chance_as_often_as_it_says(width: float) -> None:
    rng = random.Random(5)
    results = [found(noisy(70.0, width, rng)) for _ in range(400)]
    intervals = [one.estimate for one in results if one.estimate]
    held = sum(one.low <= 70 <= one.high for one in intervals)
    assert len(intervals) > 200
    assert held / len(intervals) >= 0.95


def test_the_ends_were_confirmed_by_trials_of_their_own() -> None:
    agree = trials_an_end(0.95)
    assert agree == 8
    assert 2 * 4 * 0.5**agree <= 1 - 0.95 < 2 * 4 * 0.5 ** (agree - 1)
    highest = found(noisy(70.0, 0.05, random.Random(3)))
    assert highest.estimate is not None
    for end, kept in ((highest.estimate.low, True), (highest.estimate.high, False)):
        assert sum(rate == end and said is kept for rate, said in highest.tried) >= agree


def test_a_machine_that_decides_by_chance_is_inconclusive() -> None:
    rng = random.Random(1)
    highest = found(lambda rate: rng.random() < 0.5 if 1 < rate < 1000 else rate < 1)
    assert highest.verdict is Verdict.INCONCLUSIVE
    assert highest.estimate is None
    assert "do not agree" in highest.reason


def test_an_end_never_moves_to_where_a_trial_is_too_short_to_say_anything() -> None:
    asked: dict[float, int] = {}

    def first_time_only(rate: float) -> bool:
        asked[rate] = asked.get(rate, 0) + 1
        return asked[rate] == 1 and rate < 60

    highest = found(first_time_only, floor=45.0)
    assert highest.verdict is Verdict.INCONCLUSIVE
    assert "do not agree" in highest.reason
    assert min(asked) >= 45


def test_a_budget_that_nothing_keeps_fails() -> None:
    highest = found(lambda _: False)
    assert highest.verdict is Verdict.FAIL
    assert highest.estimate is None
    assert [rate for rate, _ in highest.tried] == pytest.approx([
        50,
        12.5,
        3.125,
        0.78125,
        0.1953125,
        0.048828125,
        0.04,
    ])
    assert "even 0.04 queries" in highest.reason


def test_trials_that_are_too_short_for_the_engine_say_nothing() -> None:
    highest = found(lambda _: True, floor=51.0)
    assert highest.verdict is Verdict.INCONCLUSIVE
    assert highest.tried == ()
    assert "Make them longer" in highest.reason


def test_a_budget_that_everything_keeps_is_no_end() -> None:
    highest = found(lambda _: True)
    assert highest.verdict is Verdict.INCONCLUSIVE
    assert highest.estimate is None
    assert "keep the budget" in highest.reason


def test_a_trial_that_says_nothing_is_tried_again_and_then_given_up() -> None:
    said: list[bool | None] = [None, None, True]
    highest = found(lambda rate: said.pop(0) if said else rate < 70)
    assert highest.verdict is Verdict.PASS
    assert [each for _, each in highest.tried[:3]] == [None, None, True]
    silent = found(lambda _: None)
    assert silent.verdict is Verdict.INCONCLUSIVE
    assert len(silent.tried) == 3
    assert "3 trials in a row at 50 a second said nothing" in silent.reason


@pytest.mark.parametrize(
    "wrong", [{"capacity": 0.0}, {"resolution": 1.0}, {"confidence": 1.0}, {"confidence": 0.0}]
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(EvidenceError):
        found(lambda _: True, **wrong)


TIMES = st.lists(st.integers(1, HIGHEST_NS) | st.integers(1, 10_000_000), max_size=40)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(TIMES, max_size=5))
def test_shards_merge_to_the_histogram_of_all(shards: list[list[int]]) -> None:
    everything = Histogram.of([time for shard in shards for time in shard])
    merged = Histogram.merged(Histogram.of(shard) for shard in shards)
    assert merged.encoded() == everything.encoded()
    assert merged.count == everything.count == sum(map(len, shards))
    for percent in (0, 50, 99, 100):
        assert merged.percentile(percent) == everything.percentile(percent)
    assert merged.encoded() == everything.encoded()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(TIMES)
def test_what_is_encoded_is_read_back(times: list[int]) -> None:
    made = Histogram.of(times)
    read = Histogram.decoded(made.encoded())
    assert read.encoded() == made.encoded()
    assert read.count == len(times)
    assert [read.percentile(p) for p in (1, 50, 99.9)] == [
        made.percentile(p) for p in (1, 50, 99.9)
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, HIGHEST_NS), min_size=1, max_size=60), st.integers(1, 100))
def test_a_percentile_is_off_by_a_thousandth_at_most(times: list[int], percent: int) -> None:
    found = Histogram.of(times).percentile(percent)
    assert found is not None
    ordered = np.sort(times)
    rank = max(1, int(percent / 100 * len(times) + 0.5))
    assert found == pytest.approx(int(ordered[rank - 1]), rel=1e-3, abs=1)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(TIMES, st.lists(st.floats(0, 100) | st.sampled_from([0, 50, 99.9, 100]), max_size=6))
def test_percentiles_are_those_of_hdr_histogram(times: list[int], percents: list[float]) -> None:
    counted = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
    for time in times:
        counted.record_value(time)
    found = Histogram.of(times)
    theirs = [counted.get_value_at_percentile(percent) for percent in percents] if times else []
    assert list(found.curve(percents)) == theirs
    assert [found.percentile(percent) for percent in percents if times] == theirs


def test_one_more_time_makes_another_histogram() -> None:
    assert Histogram.of([5, 7]).encoded() != Histogram.of([5, 7, 7]).encoded()
    assert Histogram.of([5, 7]).encoded() != Histogram.of([5, 8]).encoded()


def test_where_nothing_was_counted_there_is_no_percentile() -> None:
    empty = Histogram.of([])
    assert empty.percentile(50) is None
    assert empty.curve((1, 50)) == ()
    assert Histogram.merged([]).encoded() == empty.encoded()


def test_a_curve_rises() -> None:
    curve = Histogram.of(np.arange(1, 1001) * 1000).curve((0, 50, 90, 100))
    assert list(curve) == sorted(curve)
    assert curve[1] == pytest.approx(500_000, rel=1e-3)


@pytest.mark.parametrize("time_ns", [0, -1, HIGHEST_NS + 1])
def test_a_time_that_does_not_fit_is_refused(time_ns: int) -> None:
    with pytest.raises(EvidenceError, match="outside what a histogram holds"):
        Histogram.of([5, time_ns])


@pytest.mark.parametrize("text", ["", "HISTF", "x" * 40, "é"])
def test_what_is_no_histogram_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="not a histogram"):
        Histogram.decoded(text)


@pytest.mark.parametrize(
    ("second", "verdict", "factor"),
    [
        ([100, 100, 100], Verdict.PASS, "1 times"),
        ([100, 149, 70], Verdict.PASS, "1.49 times"),
        ([100, 151, 100], Verdict.INCONCLUSIVE, "1.51 times"),
        ([100, 60, 100], Verdict.INCONCLUSIVE, "1.67 times"),
    ],
)
def test_one_loud_round_is_noise(second: list[int], verdict: Verdict, factor: str) -> None:
    found = noise([100, 100, 100], second, max_noise=1.5)
    assert found.verdict is verdict
    assert factor in found.reason
    assert found.ratios == tuple(one / 100 for one in second)


def test_ratios_are_taken_round_by_round() -> None:
    assert ratios([2, 9], [1, 3]) == (2.0, 3.0)


@pytest.mark.parametrize(("above", "below"), [([1], [1, 2]), ([], []), ([1, 0], [1, 1])])
def test_rounds_that_do_not_match_are_refused(above: list[int], below: list[int]) -> None:
    with pytest.raises(EvidenceError):
        ratios(above, below)


def test_the_median_has_the_interval_of_the_binomial() -> None:
    estimate = median_of([5.0, 1.0, 2.0, 4.0, 3.0, 6.0], confidence=0.95)
    assert estimate is not None
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (3.5, 1.0, 6.0, 6)
    nine = median_of([float(at) for at in range(9)], confidence=0.95)
    assert nine is not None
    assert (nine.low, nine.high) == (1.0, 7.0)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_too_few_rounds_have_no_interval(count: int) -> None:
    assert median_of([1.0] * count, confidence=0.95) is None


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    rng = random.Random(2)
    held = []
    for _ in range(1500):
        estimate = median_of([rng.expovariate(1) for _ in range(12)], confidence=0.95)
        assert estimate is not None
        held.append(estimate.low <= 0.6931 <= estimate.high)
    assert statistics.fmean(held) >= 0.95


def record(late_ns: int = 0, rate: float | None = 100.0) -> Record:
    trial: Trial = summary(part(serve(PLAN, steady(4 * MS), late_ns=late_ns)))
    about = {"machine": "here", "busy": 0.5}
    return Record("old", twin=False, rate=rate, number=3, purpose="curve", trial=trial, about=about)


def test_what_is_written_is_read() -> None:
    made = record()
    read = Record.of_line(made.line())
    assert read.line() == made.line()
    assert "\n" not in made.line()
    assert read.trial.overall.encoded() == made.trial.overall.encoded()
    assert (read.arm, read.twin, read.rate, read.number) == ("old", False, 100.0, 3)
    assert read.trial.ends == made.trial.ends
    assert read.trial.within == made.trial.within
    assert read.trial.percentiles == made.trial.percentiles


def test_a_late_generator_and_strange_answers_are_objected_to() -> None:
    assert record().objection(0.1) == ""
    assert "6.00 ms late (p99), more than 0.1" in record(late_ns=6 * MS).objection(0.1)
    assert record(late_ns=6 * MS, rate=None).objection(0.1) == ""
    told = json.loads(record().line()) | {"strays": 2}
    assert "2 answers were not" in Record.of_line(json.dumps(told)).objection(0.1)


@pytest.mark.parametrize(
    "change", [{"format": 2}, {"service": {"all": "x"}}, {"ends": {"GONE": 1}}, {"seconds": None}]
)
def test_a_line_that_is_no_trial_is_refused(change: dict[str, object]) -> None:
    line = json.dumps(json.loads(record().line()) | change)
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        Record.of_line(line)
