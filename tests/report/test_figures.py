"""Figures and tables of the pages."""

import math
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib.axes import Axes

from harness.core.engine import Hit
from harness.core.evidence import ArmResult
from harness.core.records import Qrels
from harness.core.run import Row, Run, Status
from harness.core.scores import Estimate, Paired
from harness.gates import quality
from harness.measures.quality import score
from harness.policy.load import load_policy
from harness.report.doc import TableBlock
from harness.report.inputs import ReportInput
from harness.report.page import figures
from harness.report.page.figures import ForestGroup, bounds, forest, latency_curves
from harness.report.page.tables import furthest, instead_of, move, movers, unjudged
from harness.report.rounding import MINUS
from harness.report.svg import BETTER, MUTED, PAPER, WORSE
from tests.make import report_inputs
from tests.make.report_inputs import report
from tests.source import ROOT


def test_neighbours_share_a_step_where_queries_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.linspace(-0.3, 0.7, 12)
    moved = Paired("m", tuple(map(str, range(12))), np.zeros(12), values, ())
    shapes: list[list[float]] = []
    monkeypatch.setattr(
        Axes, "stairs", lambda _, side, edges, **__: shapes.append([*side, *edges.tolist()])
    )
    monkeypatch.setattr(figures, "STEPS", 3)
    figures.paired_differences("x", moved, None)
    worse, better = (shape[:3] for shape in shapes)
    steps = [values[at : at + 4].mean() for at in (0, 4, 8)]
    assert [low + high for low, high in zip(worse, better, strict=True)] == pytest.approx(steps)
    assert shapes[0][3:] == [0, 4, 8, 12]


def test_an_unverified_arm_has_no_curve() -> None:
    found = report_inputs.report().latency
    assert found is not None
    svg = latency_curves("x", found)
    assert svg is not None
    assert "tantivy-default" in svg
    assert "hybrid-rrf" not in svg


BELOW, ACROSS, ABOVE = (Estimate(at, at - 0.1, at + 0.1, 40) for at in (-0.2, 0.02, 0.2))
FASTER, ALIKE, SLOWER = (Estimate(at, 0.9 * at, 1.1 * at, 40) for at in (0.5, 1.02, 3.0))


def drawn(svg: str | None) -> str:
    assert svg is not None
    ET.fromstring(svg)  # noqa: S314  just drawn
    return svg


def marks(svg: str) -> list[tuple[str, str]]:
    """Fill and stroke of every mark of a value."""
    found = re.findall(
        r'<use [^>]*style="fill: var\(--[\w-]+, (#\w+)\); stroke: var\(--[\w-]+, (#\w+)\)', svg
    )
    return [(fill, stroke) for fill, stroke in found if stroke in {BETTER, WORSE, MUTED}]


def test_more_quality_is_better_and_across_is_hollow() -> None:
    rows = {"better": ABOVE, "across": ACROSS, "worse": BELOW}
    svg = drawn(forest("x", "about", [ForestGroup("by slice", rows)], ratio=False))
    assert marks(svg) == [(BETTER, BETTER), (PAPER, MUTED), (WORSE, WORSE)]
    assert "+0.2000" in svg
    assert "[0.1000, 0.3000]" in svg


def test_less_time_is_better() -> None:
    rows = {"faster": FASTER, "alike": ALIKE, "slower": SLOWER}
    svg = drawn(forest("x", "about", [ForestGroup("tantivy", rows)], ratio=True))
    assert marks(svg) == [(BETTER, BETTER), (PAPER, MUTED), (WORSE, WORSE)]


def test_odd_numbers_and_hostile_names_can_be_drawn() -> None:
    rows = {
        "<script>$\\frac{x$": Estimate(0.5, -math.inf, math.inf, 3),
        "\x00 \u202e שלום": Estimate(0.0, 0.0, 0.0, 2),
        "x" * 500: Estimate(1e-9, 1e-9, 1e-9, 2),
    }
    for ratio in (False, True):
        svg = drawn(forest("x", "<script>", [ForestGroup("</script>", rows)], ratio=ratio))
        assert "<script" not in svg
        assert not re.search(r"\b(nan|inf)\b", svg)
        assert svg == forest("x", "<script>", [ForestGroup("</script>", rows)], ratio=ratio)


STEP = "hybrid"


def shipped(step: str = STEP) -> ReportInput:
    """Return a report of a step of the policy that is shipped."""
    made = report()
    policy = load_policy(ROOT / "policy" / "migration.toml")
    evidence = {step: next(iter(made.evidence.values()))}
    return replace(made, judged_by=policy, evidence=evidence)


def test_every_gate_of_a_step_gives_its_row_a_bound_or_two() -> None:
    made = shipped()
    by_measure, by_slice, _ = bounds(made, STEP)
    assert by_measure == {"RR@10": (-0.02,)}
    assert by_slice == {"natural-language": (0.03,), "identifier": (-0.03,)}
    assert bounds(shipped("tantivy"), "tantivy")[2] == {"p50": (2.0,), "p95": (3.0,)}
    assert made.judged_by
    step = next(one for one in made.judged_by.steps if one.name == STEP)
    said = {"measure": "RR@10", "margin": 0.05, "min_queries": 2}
    gate = replace(step.gates[0], settings=quality.EquivalentSettings.model_validate(said))
    policy = replace(made.judged_by, steps=(replace(step, gates=(gate,)),))
    assert bounds(replace(made, judged_by=policy), STEP)[0] == {"RR@10": (-0.05, 0.05)}


def pairs_tables(differences: list[float]) -> Paired:
    ids = tuple("abcdefgh"[: len(differences)])
    return Paired("m", ids, np.zeros(len(differences)), np.array(differences), ())


def test_losses_and_gains_largest_first_ties_by_id() -> None:
    worse, better = furthest(pairs_tables([0.0, -0.1, 0.3, -0.5, 0.3, -0.1]), 2)
    assert worse == ("d", "b")
    assert better == ("c", "e")


@pytest.mark.parametrize(
    ("rank", "other", "in_control", "in_candidate"),
    [(1, None, "gone", "new"), (2, 2, "same", "same"), (3, 1, "up 2", "down 2"),
     (1, 3, "down 2", "up 2")],
)  # fmt: skip
def test_moves_are_told_from_control_to_candidate(
    rank: int, other: int | None, in_control: str, in_candidate: str
) -> None:
    assert move(rank, other, candidate=False) == in_control
    assert move(rank, other, candidate=True) == in_candidate


def test_a_failure_is_not_an_empty_answer() -> None:
    assert {status: instead_of(status, "disk full") for status in Status} == {
        Status.ANSWERED: "found nothing",
        Status.FAILED: "failed: disk full",
        Status.TIMED_OUT: "timed out",
        Status.NOT_ASKED: "was not asked",
    }


def lost(report: ReportInput) -> tuple[Any, ...]:
    """Return the cells of the query that lost most."""
    worst, *_ = movers(report, "tantivy", 1)
    assert isinstance(worst, TableBlock)
    return worst.rows[0]


def test_a_move_says_how_much_is_by_what_is_shown_and_how_much_by_its_order() -> None:
    """Candidate shows what the control shows, the other way round: all is by the order."""
    report = report_inputs.report()
    evidence = report.evidence["tantivy"]
    query_id = lost(report)[0].note
    grades = report.qrels.grades[query_id]
    good = next(doc_id for doc_id, grade in grades.items() if grade > 0)
    known = (f"d{at:03}" for at in range(1, 7))
    bad, worse = [doc_id for doc_id in known if grades.get(doc_id, 0) <= 0][:2]

    def showing(side: str, *ids: str) -> Run:
        hits = [Hit(doc_id, 1.0, 1.0) for doc_id in ids]
        return Run.of(side, [Row(q, Status.ANSWERED, hits) for q in report.queries])

    def parts(*shown: str) -> tuple[float, ...]:
        control = replace(evidence.control, run=showing("fts5-default", good, bad))
        candidate = replace(evidence.candidate, run=showing("tantivy-default", *shown))
        changed = replace(evidence, control=control, candidate=candidate)
        cells = lost(replace(report, evidence={"tantivy": changed}))
        return tuple(cell.value for cell in cells[-2:])

    shown, order = parts(bad, good)
    assert shown == 0 > order
    shown, order = parts(worse, bad)
    assert shown < 0 == order


def judged(measure: str, *measures: str) -> ReportInput:
    """Control shows what is good first, the candidate what nobody judged and then what is good."""
    report = report_inputs.report()
    qrels = Qrels({query_id: {"d001": 1} for query_id in report.queries})

    def side(of: ArmResult, *ids: str) -> ArmResult:
        hits = [Hit(doc_id, 1.0, 1.0) for doc_id in ids]
        run = Run.of(of.arm, [Row(q, Status.ANSWERED, hits) for q in report.queries])
        return replace(of, run=run, scores=score(run, qrels, measures, tuple(report.queries)))

    evidence = report.evidence["tantivy"]
    control = side(evidence.control, "d001")
    candidate = side(evidence.candidate, "d002", "d001")
    changed = replace(evidence, control=control, candidate=candidate)
    return replace(report, measure=measure, qrels=qrels, evidence={"tantivy": changed})


def test_a_difference_stands_beside_what_could_become_of_it() -> None:
    (row,) = unjudged(judged("RR@10", "RR@10", "Judged@10")).rows
    assert [cell.text for cell in row] == [
        "tantivy", "1.000", "0.5000", f"{MINUS}0.5000", f"{MINUS}0.5000 to 0",
    ]  # fmt: skip


def test_bounds_that_are_not_reached_say_so() -> None:
    for measure in ("AP@10", "Bpref"):
        (row,) = unjudged(judged(measure, measure)).rows
        assert row[1].text == "not measured"
        assert row[4].note == "outer bounds, not reached"
