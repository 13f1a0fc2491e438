"""The page of a load."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.gate import Verdict
from harness.core.run import Status
from harness.core.scores import Estimate
from harness.load.evidence import highest_shared
from harness.load.page import headline, notes, tables, to_page
from harness.load.rates import Highest, RepeatNoise
from harness.load.results import LoadReport, RatePoint
from harness.load.trial import Histogram, Record, Trial

MS = 1_000_000


def trial(scale: int) -> Trial:
    times = Histogram.of([scale * MS * at // 100 for at in range(100, 400)])
    return Trial(
        arrivals=301,
        seconds=3.0,
        ends={Status.ANSWERED: 300, Status.FAILED: 1, Status.TIMED_OUT: 0, Status.NOT_ASKED: 0},
        strays=0,
        response={"short": times},
        service={"short": Histogram.of([MS, 2 * MS])},
        cold={},
        lag_ns=100_000,
        within={},
        cpu_ns=600 * MS,
        opened_bytes=2 << 20,
        resident_bytes=64 << 20,
        peak_bytes=65 << 20,
    )


def point(arm: str, rate: float | None, scale: int, *, twin: bool = False) -> RatePoint:
    records = tuple(Record(arm, twin, rate, n, "curve", trial(scale), {}) for n in range(2))
    return RatePoint(
        arm=arm,
        twin=twin,
        rate=rate,
        records=records,
        objections=(),
        response={"short": Histogram.merged(one.trial.overall for one in records)},
        service=Histogram.of([MS, 2 * MS]),
        cold=Histogram.of([]),
        p50=None,
        p99=Estimate(scale * 3.9 * MS, scale * 3.0 * MS, scale * 4.0 * MS, 6),
        ratio=Estimate(2.0, 1.5, 2.5, 6),
    )


def noise(verdict: Verdict) -> RepeatNoise:
    return RepeatNoise(verdict, (1.1,), "against itself the control is alike")


def load_report() -> LoadReport:
    """Two arms in a closed loop and at two rates; the name of one is markup."""
    points = [
        point(arm, rate, scale, twin=twin)
        for rate in (None, 50.0, 100.0)
        for arm, twin, scale in (("old", False, 1), ("old", True, 1), ("<b>new</b>", False, 2))
    ]
    return LoadReport(
        dataset="toy",
        machine="a machine",
        loaded_at="2026-01-01T00:00:00+00:00",
        busy=0.25,
        arms=("old", "<b>new</b>"),
        workers="processes: 2, workers in each: 1",
        about={"trial": "3 s"},
        points=tuple(points),
        noise={50.0: noise(Verdict.PASS), 100.0: noise(Verdict.INCONCLUSIVE)},
        highest={
            "old": Highest(Verdict.PASS, "8 of 8", Estimate(70.0, 66.0, 74.0, 30), ()),
            "<b>new</b>": Highest(Verdict.FAIL, "even 20 miss the budget", None, ()),
        },
        budget_ns=5 * MS,
        index_bytes={"old": 3 << 20, "<b>new</b>": 1 << 20},
        command="harness load",
    )


@pytest.fixture
def report() -> LoadReport:
    return load_report()


def words(report: LoadReport) -> str:
    return "\n".join(
        " | ".join(f"{cell.text} {cell.note}".strip() for cell in row)
        for table in tables(report)
        for row in (*table.rows,)
    )


@pytest.mark.slow
def test_a_ratio_beside_a_loud_control_says_so(report: LoadReport) -> None:
    rows = [line for line in words(report).splitlines() if line.startswith(("50 ", "100 "))]
    loud = [line for line in rows if "too noisy to conclude" in line]
    assert loud
    assert all(line.startswith("100 /s") for line in loud)
    assert "nothing is concluded" in " ".join(notes(report))
    quiet = replace(report, noise={50.0: noise(Verdict.PASS)})
    assert "nothing is concluded" not in " ".join(notes(quiet))


@pytest.mark.slow
def test_what_does_not_count_shows_no_number(report: LoadReport) -> None:
    spoilt = replace(
        report.points[-1], records=(), response={}, objections=("the generator was late",)
    )
    said = words(replace(report, points=(*report.points[:-1], spoilt)))
    (line,) = [each for each in said.splitlines() if "1 of 1 rounds do not count" in each]
    assert line.count("not shown") == 8
    assert "1 of 1 rounds do not count: the generator was late" in line


@pytest.mark.slow
def test_in_short_only_the_highest_rate_that_all_bore_is_shown(report: LoadReport) -> None:
    assert {row[0].text for row in highest_shared(report).rows} == {"100 /s"}
    spoilt = replace(report.points[-1], records=(), response={}, objections=("late",))
    short = highest_shared(replace(report, points=(*report.points[:-1], spoilt)))
    assert {row[0].text for row in short.rows} == {"50 /s"}
    closed = replace(report, points=tuple(p for p in report.points if p.rate is None))
    assert highest_shared(closed).rows == ()


@pytest.mark.slow
def test_the_page_leads_with_the_highest_sustained_rates(report: LoadReport) -> None:
    bears = Highest(Verdict.PASS, "", Estimate(229.0, 210.0, 240.0, 9), ())
    lost = Highest(Verdict.INCONCLUSIVE, "too noisy", None, ())
    both = replace(report, budget_ns=20 * MS, highest={"old": bears, "new": lost})
    assert headline(both) == (
        "With 99 of 100 answers within 20.0 ms, old sustains 229 queries a second,"
        " the highest rate of new was not found."
    )
    assert headline(both) in to_page(both)
