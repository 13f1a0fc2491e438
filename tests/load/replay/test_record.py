"""A trial on a line is the trial, and says why it does not count."""

from __future__ import annotations

import json

import pytest

from harness.load.trial import Record, Trial
from tests.load.replay.test_trial import PLAN, part, summary
from tests.make.virtual import MS, serve, steady


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
