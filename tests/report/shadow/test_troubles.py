"""What a report says of queries and times that were not compared (troubles, json_file)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.shadow import words as shadow_words
from harness.shadow.divergences import Judged, Suppressions
from harness.shadow.record import Degradation, Kind
from harness.shadow.summary import Summary
from harness.shadow.words import Shadowed, to_json, troubles
from tests.make.shadow.attempts import START, attempt, bounds, seen
from tests.report.shadow.test_page import TODAY

pytestmark = pytest.mark.slow
WHY = "a request cannot be read: it has a length and a transfer encoding"
NOT_TAKEN = Degradation(0, "w1", START, "shadow", Kind.NOT_TAKEN, WHY)


def shown(summary: Summary) -> Shadowed:
    return Shadowed(summary, Judged(()), Suppressions())


def test_each_query_that_was_not_taken_is_counted() -> None:
    summary = Summary(bounds())
    summary.see(attempt(1))
    for times in (1, 1, 2, 16):
        summary.note(replace(NOT_TAKEN, times=times))
    assert "; 20 served queries could not be compared" in shadow_words.headline(shown(summary))
    assert shadow_words.tally(summary).rows[0][-1].text == "20"
    (row,) = troubles(summary).rows
    assert [cell.text for cell in row] == ["not taken", "20", "no attempt"]
    assert row[0].note == WHY
    told = to_json(shown(summary), today=TODAY, percentiles={})
    assert told["not_taken"] == [{"cause": WHY, "times": 20}]
    assert told["degradations"] == []


def test_a_time_that_is_not_known_is_not_compared_and_counted() -> None:
    summary = Summary(bounds())
    one = attempt(1, control=seen(elapsed_ns=None))
    for attempted in (one, attempt(2)):
        summary.see(attempted)
    assert summary.tally.compared == 2
    assert {name: track.now and track.now.n for name, track in summary.tracks.items()} == {
        "overlap": 2, "failures": 2, "slow": 1, "ratio": 1,
    }  # fmt: skip
    (row,) = troubles(summary).rows
    assert [cell.text for cell in row] == ["time", "1", "no time compared"]
    assert to_json(shown(summary), today=TODAY, percentiles={})["untimed"] == 1


def test_what_was_seen_lies_within_its_interval_or_there_is_none() -> None:
    """The slow share of 12 pairs and then 88 others lay outside its own interval."""
    summary = Summary(bounds())
    for number in range(1, 101):
        taken = 1_000 if number > 12 else 1_000_000
        summary.see(attempt(number, control=seen(elapsed_ns=taken)))
        for estimate in to_json(shown(summary), today=TODAY, percentiles={})["estimates"].values():
            low, high = estimate["low"], estimate["high"]
            assert low is None or low <= estimate["value"]
            assert high is None or estimate["value"] <= high
    slow = summary.tracks["slow"].now
    assert slow is not None
    assert not slow.low <= slow.value <= slow.high
    assert shadow_words.estimates(summary).rows[2][2].text == "no one value: it moved"
