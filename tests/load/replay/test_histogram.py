"""Histograms of shards are the histogram of all, and no time is off by more than a thousandth."""

from __future__ import annotations

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import EvidenceError
from harness.core.reading import Malformed
from harness.load.trial import DIGITS, HIGHEST_NS, LOWEST_NS, Histogram

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
