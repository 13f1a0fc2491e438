"""Rounds are put together by number, and only those in which both arms count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.gate import Verdict
from harness.load.trial import Histogram, Record
from harness.load.trials import noises, points
from tests.report.test_load import MS, trial

SIX = (1, 2, 3, 4, 5, 6)


def record(arm: str, number: int, time_ms: int, *, twin: bool = False, strays: int = 0) -> Record:
    times = {"short": Histogram.of([time_ms * MS] * 20)}
    told = replace(trial(1), response=times, lag_ns=0, strays=strays)
    return Record(arm, twin=twin, rate=50.0, number=number, purpose="curve", trial=told, about={})


def test_a_ratio_is_of_the_same_round() -> None:
    old = [record("old", number, 10 * number) for number in SIX]
    new = [record("new", number, 30 * number) for number in reversed(SIX)]
    new_point, old_point = points([*old, *new], "old", max_lag=0.5, confidence=0.95)
    assert (new_point.arm, old_point.arm) == ("new", "old")
    assert new_point.ratio is not None
    assert (new_point.ratio.low, new_point.ratio.high) == pytest.approx((3, 3), rel=0.01)
    assert new_point.p99 is not None
    assert new_point.p99.value == pytest.approx(105 * MS, rel=0.01)
    assert new_point.overall.count == 120


def test_a_round_that_does_not_count_is_in_no_number() -> None:
    seven = (*SIX, 7)
    old = [record("old", number, 10) for number in seven]
    new = [record("new", number, 30 if number < 7 else 900, strays=number // 7) for number in seven]
    point = points([*old, *new], "old", max_lag=0.5, confidence=0.95)[0]
    assert len(point.records) == 6
    assert point.objections == ("1 answer was not those of the arm's run",)
    assert point.ratio is not None
    assert point.ratio.n == 6
    assert point.ratio.high == pytest.approx(3, rel=0.01)
    assert point.overall.percentile(100) == pytest.approx(30 * MS, rel=0.01)


def test_noise_is_that_of_the_first_arm_against_itself() -> None:
    first = [record("old", number, 10) for number in SIX]
    second = [record("old", number, 10 + number, twin=True) for number in SIX]
    other = [record("new", number, 99) for number in SIX]
    found = noises([*first, *second, *other], "old", max_lag=0.5, max_noise=1.5)
    assert set(found) == {50.0}
    assert found[50.0].verdict is Verdict.INCONCLUSIVE
    assert max(found[50.0].ratios) == pytest.approx(1.6, rel=0.01)
    assert noises([*first, *other], "old", max_lag=0.5, max_noise=1.5) == {}
