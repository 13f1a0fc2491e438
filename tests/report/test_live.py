"""The pages of a live comparison and of a load."""

import random
from dataclasses import replace
from datetime import date

import pytest

from harness.agreement import Class
from harness.core.gate import Verdict
from harness.core.run import Status
from harness.core.scores import Estimate
from harness.load.page import notes, tables
from harness.load.rates import Highest, RepeatNoise
from harness.load.results import LoadReport, RatePoint
from harness.load.trial import Histogram, Record, Trial
from harness.report import html
from harness.report.doc import Section, TableBlock
from harness.shadow import page as shadow_page
from harness.shadow.divergences import AcceptedDivergence, Suppressions
from harness.shadow.record import Degradation, Divergence, ProblemKind
from harness.shadow.summary import LogState, Summary
from tests.make.shadow_records import START, accepted, attempt, bounds, divergence, seen, shed
from tests.report.test_page import Reader

pytestmark = pytest.mark.slow
TODAY = date(2026, 11, 22)
HOSTILE = "<script>alert(1)</script>\u202e&amp;"
TIES = accepted(TODAY, reason=f"known {HOSTILE}", **{"class": "tie_order"})


def found(suppressions: tuple[AcceptedDivergence, ...] = (TIES,), twice: int = 1) -> LogState:
    """Fold a log with one of each, whose candidate shows ``twice`` documents in every answer."""
    summary, rng = Summary(bounds()), random.Random(1)
    for number in range(1, 101):
        quick = seen(elapsed_ns=rng.randint(500_000, 900_000), duplicates=twice)
        summary.see(attempt(number, text=f"q{number}", slices=("id",), candidate=quick))
    summary.see(attempt(101, text="ties", outcome=Class.TIE_ORDER, slices=("words",)))
    summary.see(attempt(102, text=HOSTILE, outcome=Class.DISJOINT, jaccard=0.0))
    summary.see(shed(103, reason=HOSTILE))
    for one in divergences().values():
        summary.tell(one)
    summary.note(Degradation(0, "w1", START, "candidate", ProblemKind.CRASH, HOSTILE))
    register = Suppressions(accepted=suppressions)
    return LogState(summary, register, summary.traces(register, TODAY))


def divergences() -> dict[tuple[str, int], Divergence]:
    ties = divergence(101, Class.TIE_ORDER, ["a", "b"], ["b", "a"], text="ties")
    lost = divergence(102, Class.DISJOINT, ["a", HOSTILE], ["c", "a2"], text=HOSTILE)
    lost = replace(lost, params={HOSTILE: HOSTILE})
    return {(one.writer, one.number): one for one in (ties, lost)}


def page(shown: LogState) -> str:
    times = {"control": {"p50": Estimate(1e6, 0.9e6, 1.1e6, 102), "p99": None}}
    sides = shadow_page.side_by_side(shown.traces, divergences().values())
    return html.to_page(shadow_page.document(shown, sides, times, TODAY, (HOSTILE,)))


def shown(summary: Summary) -> LogState:
    return LogState(summary, Suppressions())


def test_an_alarm_is_told_before_answers_that_differ() -> None:
    quiet = found(twice=0)
    assert quiet.blocking
    assert shadow_page.headline(quiet).startswith("Mean Jaccard of the first hits")
    calm = replace(quiet, traces=())
    assert shadow_page.headline(calm).endswith("; every divergence is accepted.")
    assert shadow_page.headline(shown(Summary(bounds()))).startswith(
        "Not yet decided: alarms have too little"
    )


def test_an_entry_of_the_register_counts_through_its_day() -> None:
    over = accepted(date(2026, 11, 21), **{"class": "reorder"})
    *_, section, _ = shadow_page.document(found((TIES, over)), (), {}, TODAY, ("typed",)).blocks
    assert isinstance(section, Section)
    (register,) = section.blocks
    assert isinstance(register, TableBlock)
    assert [row[-1].text for row in register.rows] == ["counts", "expired"]


def test_noise_of_the_control_is_told_beside_what_differs_without_it() -> None:
    summary = Summary(bounds())
    again = {1: Class.EXACT, 2: Class.REORDER, 3: Class.EXACT}
    for number, second in again.items():
        outcome = Class.OVERLAP if number > 1 else Class.EXACT
        summary.see(replace(attempt(number, outcome=outcome), again=second))
    text = Reader(page(shown(summary))).text
    assert "answered differently; 1 pair of them differ where it did not 0.3333" in text


WHY = "a request cannot be read: it has a length and a transfer encoding"
NOT_TAKEN = Degradation(0, "w1", START, "shadow", ProblemKind.NOT_TAKEN, WHY)


def test_each_query_that_was_not_taken_is_counted() -> None:
    summary = Summary(bounds())
    summary.see(attempt(1))
    for times in (1, 1, 2, 16):
        summary.note(replace(NOT_TAKEN, times=times))
    assert "; 20 served queries could not be compared" in shadow_page.headline(shown(summary))
    assert shadow_page.tally(summary).rows[0][-1].text == "20"
    (row,) = shadow_page.troubles(summary).rows
    assert [cell.text for cell in row] == ["not taken", "20", "no attempt"]
    assert row[0].note == WHY
    told = shadow_page.to_json(shown(summary), today=TODAY, times={})
    assert told["not_taken"] == [{"cause": WHY, "times": 20}]
    assert told["degradations"] == []


def test_what_was_seen_lies_within_its_interval_or_there_is_none() -> None:
    """The slow share of 12 pairs and then 88 others lay outside its own interval."""
    summary = Summary(bounds())
    for number in range(1, 101):
        taken = 1_000 if number > 12 else 1_000_000
        summary.see(attempt(number, control=seen(elapsed_ns=taken)))
        for estimate in shadow_page.to_json(shown(summary), today=TODAY, times={})[
            "estimates"
        ].values():
            low, high = estimate["low"], estimate["high"]
            assert low is None or low <= estimate["value"]
            assert high is None or estimate["value"] <= high
    slow = summary.estimates["slow"]
    assert slow is not None
    assert not slow.low <= slow.value <= slow.high
    assert shadow_page.estimates(summary).rows[2][2].text == "no single value: it drifted"


MS = 1_000_000
SERVICE = Histogram.of([MS, 2 * MS])


def trial(scale: int) -> Trial:
    times = Histogram.of([scale * MS * at // 100 for at in range(100, 400)])
    ends = {Status.ANSWERED: 300, Status.FAILED: 1, Status.TIMED_OUT: 0, Status.NOT_ASKED: 0}
    return Trial(
        arrivals=301, seconds=3.0, ends=ends, strays=0, response=times, service=SERVICE,
        lag_ns=100_000, within={}, cpu_ns=600 * MS,
        opened_bytes=2 << 20, resident_bytes=64 << 20, peak_bytes=65 << 20,
    )  # fmt: skip


def point(arm: str, rate: float | None, scale: int, *, twin: bool = False) -> RatePoint:
    records = tuple(Record(arm, twin, rate, n, "curve", trial(scale), {}) for n in range(2))
    p99 = Estimate(scale * 3.9 * MS, scale * 3.0 * MS, scale * 4.0 * MS, 6)
    response = Histogram.merged(one.trial.response for one in records)
    return RatePoint(
        arm=arm, twin=twin, rate=rate, records=records, objections=(), response=response,
        service=SERVICE, p50=None, p99=p99, ratio=Estimate(2.0, 1.5, 2.5, 6),
    )  # fmt: skip


def noise(verdict: Verdict) -> RepeatNoise:
    return RepeatNoise(verdict, "against itself the control is alike")


def load_report() -> LoadReport:
    """Two arms in a closed loop and at two rates; the name of one is markup."""
    points = [
        point(arm, rate, scale, twin=twin)
        for rate in (None, 50.0, 100.0)
        for arm, twin, scale in (("old", False, 1), ("old", True, 1), ("<b>new</b>", False, 2))
    ]
    highest = {
        "old": Highest(Verdict.PASS, "8 of 8", Estimate(70.0, 66.0, 74.0, 30), ()),
        "<b>new</b>": Highest(Verdict.FAIL, "even 20 miss the budget", None, ()),
    }
    return LoadReport(
        dataset="toy", machine="a machine", loaded_at="2026-01-01T00:00:00+00:00", busy=0.25,
        arms=("old", "<b>new</b>"), workers="processes: 2, workers in each: 1",
        about={"trial": "3 s"}, points=tuple(points), highest=highest, budget_ns=5 * MS,
        noise={50.0: noise(Verdict.PASS), 100.0: noise(Verdict.INCONCLUSIVE)},
        index_bytes={"old": 3 << 20, "<b>new</b>": 1 << 20}, command="harness load",
    )  # fmt: skip


def words(report: LoadReport) -> str:
    return "\n".join(
        " | ".join(f"{cell.text} {cell.note}".strip() for cell in row)
        for table in tables(report)
        for row in (*table.rows,)
    )


def test_a_ratio_beside_a_loud_control_says_so() -> None:
    report = load_report()
    rows = [line for line in words(report).splitlines() if line.startswith(("50 ", "100 "))]
    loud = [line for line in rows if "too noisy to conclude" in line]
    assert loud
    assert all(line.startswith("100 /s") for line in loud)
    assert "nothing is concluded" in " ".join(notes(report))
    quiet = replace(report, noise={50.0: noise(Verdict.PASS)})
    assert "nothing is concluded" not in " ".join(notes(quiet))


def test_what_does_not_count_shows_no_number() -> None:
    report = load_report()
    late = ("the generator was late",)
    spoilt = replace(report.points[-1], records=(), response=Histogram.of([]), objections=late)
    said = words(replace(report, points=(*report.points[:-1], spoilt)))
    (line,) = [each for each in said.splitlines() if "1 of 1 rounds do not count" in each]
    assert line.count("not shown") == 8
    assert "1 of 1 rounds do not count: the generator was late" in line
