"""Arrivals, histograms, rounds and the highest rate."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import BadFile, UnknownName
from harness.core.gate import Verdict
from harness.load.rates import Highest, highest_rate, median_of, noise
from harness.load.trial import DIGITS, HIGHEST_NS, LOWEST_NS, Histogram, Record, Trial
from harness.load.workers import NS_PER_S, Mix, poisson, recorded
from tests.load.test_trials import PLAN, part, summary
from tests.load.virtual import MS, questions, serve, steady

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


def test_a_mix_names_what_there_is() -> None:
    with pytest.raises(UnknownName, match="no slice named 'shrot'; there is long, short"):
        Mix(QUERIES, {"shrot": 1})


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
        ('{"at_s": 2, "query_id": "q001"}\n{"at_s": 1, "query_id": "q001"}\n', ":2: 1 s comes"),
        ('{"at_s": 1, "query_id": "q999"}\n', "'q999' is not a query"),
        ('{"at_s": 1, "query_id": "q001"}\n', "have no rate"),
    ],
)
def test_a_recording_that_is_none_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "day.jsonl"
    path.write_text(text)
    with pytest.raises(BadFile, match=problem):
        recorded(path, QUERIES)


def found(probe: Callable[[float], bool | None], **changed: Any) -> Highest:  # noqa: ANN401
    usual: dict[str, Any] = {
        "capacity": 100.0,
        "floor": 0.04,
        "resolution": 1.1,
        "confidence": 0.95,
        "retries": 2,
    }
    return highest_rate(probe, **usual | changed)


@pytest.mark.parametrize("true", [0.05, 40.0, 99.0, 101.0, 900.0])
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


def test_the_interval_holds_the_even_chance_as_often_as_it_says() -> None:
    rng = random.Random(5)
    results = [found(noisy(70.0, 0.06, rng)) for _ in range(400)]
    intervals = [one.estimate for one in results if one.estimate]
    held = sum(one.low <= 70 <= one.high for one in intervals)
    assert len(intervals) > 200
    assert held / len(intervals) >= 0.95


CHANCE = random.Random(1)


@pytest.mark.parametrize(
    ("probe", "floor", "verdict", "reason"),
    [
        (lambda r: CHANCE.random() < 0.5 if 1 < r < 1000 else r < 1, 0.04,
         Verdict.INCONCLUSIVE, "do not agree"),
        (lambda _: False, 0.04, Verdict.FAIL, "even 0.04 queries"),
        (lambda _: True, 51.0, Verdict.INCONCLUSIVE, "Make them longer"),
        (lambda _: True, 0.04, Verdict.INCONCLUSIVE, "keep the budget"),
        (lambda _: None, 0.04, Verdict.INCONCLUSIVE, "3 trials in a row at 50 a second"),
    ],
)  # fmt: skip
def test_where_no_end_is_found_there_is_no_rate(
    probe: Callable[[float], bool | None], floor: float, verdict: Verdict, reason: str
) -> None:
    highest = found(probe, floor=floor)
    assert (highest.verdict, highest.estimate) == (verdict, None)
    assert reason in highest.reason


def test_a_trial_that_says_nothing_is_tried_again() -> None:
    said: list[bool | None] = [None, None, True]
    highest = found(lambda rate: said.pop(0) if said else rate < 70)
    assert highest.verdict is Verdict.PASS
    assert [each for _, each in highest.tried[:3]] == [None, None, True]


TIMES = st.lists(st.integers(1, HIGHEST_NS) | st.integers(1, 10_000_000), max_size=40)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(TIMES, max_size=5))
def test_shards_merge_to_the_histogram_of_all(shards: list[list[int]]) -> None:
    everything = Histogram.of([time for shard in shards for time in shard])
    merged = Histogram.merged(Histogram.of(shard) for shard in shards)
    assert merged.encoded() == everything.encoded()
    assert merged.count == everything.count == sum(map(len, shards))
    read = Histogram.decoded(merged.encoded())
    for percent in (0, 50, 99, 100):
        assert read.percentile(percent) == everything.percentile(percent)


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


@pytest.mark.parametrize(
    ("second", "verdict", "factor"),
    [
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


def test_the_median_has_the_interval_of_the_binomial() -> None:
    estimate = median_of([5.0, 1.0, 2.0, 4.0, 3.0, 6.0], confidence=0.95)
    assert estimate is not None
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (3.5, 1.0, 6.0, 6)
    nine = median_of([float(at) for at in range(9)], confidence=0.95)
    assert nine is not None
    assert (nine.low, nine.high) == (1.0, 7.0)
    assert median_of([1.0] * 5, confidence=0.95) is None


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


def test_a_late_generator_and_strange_answers_are_objected_to() -> None:
    assert record().objection(0.1) == ""
    assert "6.00 ms late (p99), more than 0.1" in record(late_ns=6 * MS).objection(0.1)
    assert record(late_ns=6 * MS, rate=None).objection(0.1) == ""
    told = json.loads(record().line()) | {"strays": 2}
    assert "2 answers were not" in Record.of_line(json.dumps(told)).objection(0.1)
