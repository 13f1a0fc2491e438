"""Figures and tables of the pages."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib.axes import Axes

from harness.core.engine import Hit
from harness.core.evidence import ArmResult
from harness.core.records import Qrels
from harness.core.run import Row, Run, Status
from harness.core.scores import Estimate, Paired
from harness.gates import equivalent
from harness.measures.quality import score
from harness.policy.load import load_policy
from harness.report.inputs import ReportInput, Trust
from harness.report.page import figures, forest, tables
from harness.report.page.cards import merged, paired
from harness.report.page.figures import distributions, latency_curves
from harness.report.page.forest import ForestGroup, of_means, of_ratios, of_slices
from harness.report.page.queries import furthest, instead_of, move, movers
from harness.report.page.tables import unjudged
from harness.report.rounding import MINUS
from harness.report.svg import BETTER, MUTED, PAPER, WORSE
from tests.make import report_inputs
from tests.make.report_inputs import report
from tests.source import ROOT

Draw = Callable[[ReportInput], str | None]


def pairs(report: ReportInput) -> str | None:
    found = paired(report.evidence["hybrid"], report.measure)
    assert found is not None
    return figures.paired_differences("x", found, report.differences["hybrid"][report.measure])


def curves(report: ReportInput) -> str | None:
    assert report.latency is not None
    return latency_curves("x", report.latency)


ALL: dict[str, Draw] = {
    "pairs": pairs,
    "curves": curves,
    "means": lambda report: figures.means("x", report.means, ("nDCG@10", "R@50")),
    "agreement": lambda report: figures.agreement("x", report.evidence["hybrid"], "Jaccard@10"),
}


@pytest.mark.slow
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


@pytest.fixture(params=sorted(ALL))
def draw(request: pytest.FixtureRequest) -> Draw:
    return ALL[request.param]


@pytest.mark.slow
def test_twice_the_same_bytes(draw: Draw) -> None:
    assert draw(report_inputs.report()) == draw(report_inputs.report())


@pytest.mark.slow
def test_a_figure_is_well_formed_and_alone(draw: Draw) -> None:
    svg = draw(report_inputs.report())
    assert svg is not None
    ET.fromstring(svg)  # noqa: S314  just drawn
    assert "http" not in svg
    assert "<script" not in svg
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert all(each.startswith("x-") for each in ids)
    used = re.findall(r'(?:href="|url\()#([^")]+)', svg)
    assert set(used) <= set(ids)
    assert 'aria-label="' in svg


@pytest.mark.slow
def test_colours_come_from_the_page(draw: Draw) -> None:
    svg = draw(report_inputs.report())
    assert svg is not None
    assert "var(--ink, #" in svg
    plain = re.sub(r"var\(--[\w-]+, #[0-9a-f]{6}\)", "", svg)
    assert re.findall(r"(?:fill|stroke): #[0-9a-f]{3,6}", plain) == []


@pytest.mark.slow
def test_nothing_to_show_is_no_figure() -> None:
    report = report_inputs.report()
    evidence = report.evidence["shadow"]
    unmoved = paired(evidence, "nDCG@10")
    assert unmoved is not None
    assert report.latency is not None
    nobody = replace(report.latency, race=replace(report.latency.race, verified={}))
    assert figures.paired_differences("x", unmoved, None) is None
    assert latency_curves("x", nobody) is None
    assert figures.means("x", {}, ("m",)) is None
    assert figures.agreement("x", evidence, "tau") is None
    assert figures.agreement("x", evidence, "unknown") is None


@pytest.mark.slow
def test_an_unverified_arm_has_no_curve() -> None:
    svg = curves(report_inputs.report())
    assert svg is not None
    assert "tantivy-default" in svg
    assert "hybrid-rrf" not in svg


@pytest.mark.slow
def test_infinite_ends_and_hostile_names_can_be_drawn() -> None:
    odd = Estimate(0.5, -float("inf"), float("inf"), 3)
    names = ["<script>$\\frac{x$", "\x00 \u202e שלום 漢字", "x" * 500]
    dots = figures.means("y", {name: {"m": odd} for name in names}, ("m",))
    assert dots is not None
    ET.fromstring(dots)  # noqa: S314  just drawn
    assert "<script" not in dots
    assert not re.search(r"\b(nan|inf)\b", dots)


@pytest.mark.slow
def test_a_large_query_set_stays_small() -> None:
    rng = np.random.default_rng(1)
    report = report_inputs.report()
    race = report_inputs.race(("a", "b"))
    big = replace(race, elapsed_ns={"a": rng.integers(1, 10**9, (4, 25_000))})
    assert report.latency is not None
    svg = latency_curves("x", replace(report.latency, race=big))
    assert svg is not None
    assert len(svg) < 40_000


@pytest.mark.slow
def test_distributions_need_times() -> None:
    none = np.array([], dtype=np.int64)
    assert distributions("c", {"control": none, "candidate": none}, {}, {}) is None
    times = np.array([10**6, 5 * 10**6, 10**9], dtype=np.int64)
    drawn = distributions("c", {"control": times, "candidate": none}, {}, {})
    assert drawn is not None
    assert "control" in drawn
    assert "candidate" not in drawn


@pytest.mark.slow
def test_titles_of_panels_beside_each_other_do_not_touch() -> None:
    """Letters of DejaVu Sans are 0.61 of their size wide on average."""
    parts = [f"form-natural-language-{at}" for at in "abcd"]
    found = {"arm": dict.fromkeys(parts, Estimate(0.5, 0.4, 0.6, 9))}
    svg = figures.means("x", found, parts)
    assert svg is not None
    titles = re.findall(r'font-size: ([\d.]+)px[^>]* x="([\d.]+)"[^>]*>(form[^<]*)<', svg)
    starts = [float(at) for _, at, _ in titles]
    assert len(starts) == 4
    for (size, at, said), then in zip(titles[:-1], starts[1:], strict=True):
        assert float(at) + 0.61 * float(size) * len(said) < then


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
    svg = drawn(forest.differences("x", "about", [ForestGroup("by slice", rows)]))
    assert marks(svg) == [(BETTER, BETTER), (PAPER, MUTED), (WORSE, WORSE)]
    assert "+0.2000" in svg
    assert "[0.1000, 0.3000]" in svg


def test_less_time_is_better() -> None:
    rows = {"faster": FASTER, "alike": ALIKE, "slower": SLOWER}
    svg = drawn(forest.ratios("x", "about", [ForestGroup("tantivy", rows)]))
    assert marks(svg) == [(BETTER, BETTER), (PAPER, MUTED), (WORSE, WORSE)]


def test_noise_is_never_a_finding() -> None:
    svg = drawn(forest.ratios("x", "about", [ForestGroup("A/A", {"p95": SLOWER}, noise=True)]))
    assert marks(svg) == [(PAPER, MUTED)]
    assert "stroke-dasharray" in svg


def test_the_row_that_counts_first_is_a_diamond() -> None:
    plain = drawn(forest.differences("x", "about", [ForestGroup("m", {"nDCG": ABOVE})]))
    first = drawn(forest.differences("x", "about", [ForestGroup("m", {"nDCG": ABOVE}, "nDCG")]))
    assert plain != first


@pytest.mark.parametrize(
    "groups", [[], [ForestGroup("m", {})], [ForestGroup("m", {"a": Estimate(math.nan, 0, 0, 1)})]]
)
def test_nothing_to_show_is_no_figure_in_forest(groups: list[ForestGroup]) -> None:
    assert forest.differences("x", "about", groups) is None
    assert forest.ratios("x", "about", groups) is None


def test_odd_numbers_and_hostile_names_can_be_drawn() -> None:
    rows = {
        "<script>$\\frac{x$": Estimate(0.5, -math.inf, math.inf, 3),
        "\x00 \u202e שלום": Estimate(0.0, 0.0, 0.0, 2),
        "x" * 500: Estimate(1e-9, 1e-9, 1e-9, 2),
    }
    for make in (forest.differences, forest.ratios):
        svg = drawn(make("x", "<script>", [ForestGroup("</script>", rows)]))
        assert "<script" not in svg
        assert not re.search(r"\b(nan|inf)\b", svg)
        assert svg == make("x", "<script>", [ForestGroup("</script>", rows)])


def test_ratios_far_apart_leave_room_for_their_labels() -> None:
    rows = {"a": Estimate(0.001, 0.0005, 0.002, 9), "b": Estimate(900.0, 500.0, 1500.0, 9)}
    labels = re.findall(
        r">([\d.]+)</text>", drawn(forest.ratios("x", "about", [ForestGroup("t", rows)]))
    )
    powers = [text for text in labels if float(text) in {0.001, 0.01, 0.1, 10, 100, 1000}]
    assert 4 <= len(powers) <= 7


STEP = "hybrid"
SMALL = Estimate(0.01, 0.0, 0.02, 100)


def shipped(step: str = STEP) -> ReportInput:
    """Give a report of a step of the policy that is shipped."""
    made = report()
    policy = load_policy(ROOT / "policy" / "migration.toml")
    evidence = {step: next(iter(made.evidence.values()))}
    return replace(made, trust=Trust(policy), evidence=evidence)


def test_every_gate_of_a_step_gives_its_row_a_bound() -> None:
    assert of_means(shipped(), STEP) == {"RR@10": (-0.02,)}
    assert of_slices(shipped(), STEP) == {"natural-language": (0.03,), "identifier": (-0.03,)}
    assert of_ratios(shipped("tantivy"), "tantivy") == {"p50": (2.0,), "p95": (3.0,)}


def test_what_no_gate_looks_at_has_no_bound() -> None:
    for of in (of_means, of_slices, of_ratios):
        assert of(shipped(), "another") == {}
        assert of(report(), STEP) == {}


def test_a_bound_on_both_sides_is_two() -> None:
    made = shipped()
    assert made.trust
    step = next(one for one in made.trust.policy.steps if one.name == STEP)
    gate = replace(
        step.gates[0],
        settings=equivalent.EquivalentSettings.model_validate({
            "measure": "RR@10",
            "margin": 0.05,
            "min_queries": 2,
        }),
    )
    policy = replace(made.trust.policy, steps=(replace(step, gates=(gate,)),))
    both = replace(made, trust=replace(made.trust, policy=policy))
    assert of_means(both, STEP) == {"RR@10": (-0.05, 0.05)}


def test_a_bound_beyond_every_interval_is_drawn_on_the_plot() -> None:
    bounds = MappingProxyType({"nDCG@10": (-0.3,)})
    plain = forest.differences("x", "about", [ForestGroup("m", {"nDCG@10": SMALL})])
    drawn = forest.differences("x", "about", [ForestGroup("m", {"nDCG@10": SMALL}, bounds=bounds)])
    assert plain
    assert drawn
    ticks = [re.findall(r">([^<>]*0\.2[^<>]*)</text>", svg) for svg in (drawn, plain)]
    assert any(tick.startswith(MINUS) for tick in ticks[0])
    assert not any(tick.startswith(MINUS) for tick in ticks[1])


def test_arms_are_ordered_by_the_first_measure() -> None:
    found = {
        "a": {"x": Estimate(0.1, 0, 1, 3)},
        "b": {"y": Estimate(0.9, 0, 1, 3)},
        "c": {"x": Estimate(0.2, 0, 1, 3)},
    }
    assert tables.best_first(found, "x") == ("c", "a", "b")
    assert tables.measures_of(found, "y") == ("y", "x")


def test_an_arm_without_scores_is_on_the_leaderboard() -> None:
    report = report_inputs.report()
    shown = tables.leaderboard(replace(report, means={"extra": {}, **report.means})).rows
    assert shown[-1][0].text == "extra"
    assert {cell.text for cell in shown[-1][1:]} == {"not measured"}
    silent = {arm: row for arm, row in report.means.items() if arm != "hybrid-rrf"}
    arms = [row[0].text for row in tables.leaderboard(replace(report, means=silent)).rows]
    assert arms[-1] == "hybrid-rrf"


def test_failures_are_counted_beside_the_mean() -> None:
    rows = {row[0].text: row for row in tables.leaderboard(report_inputs.report()).rows}
    assert "39 answered, 1 failed" in rows["hybrid-rrf"][-1].text
    assert "failed" not in rows["fts5-default"][-1].text


def test_undefined_agreement_is_words_and_counted() -> None:
    rows = {
        row[0].text: row
        for row in tables.agreement(report_inputs.report().evidence["tantivy"]).rows
    }
    assert rows["tau"][1].text == "not defined for any query"
    assert rows["tau"][1].note == "n 0, 40 undefined"


def test_classes_stand_beside_the_noise() -> None:
    evidence = report_inputs.report().evidence["hybrid"]
    rows = {row[0].text: (row[1].text, row[2].text) for row in tables.classes(evidence).rows}
    assert rows["error"] == ("1", "none")
    assert rows["exact"][1] == "40"


def test_times_of_an_unverified_arm_are_not_shown() -> None:
    report = report_inputs.report()
    assert report.latency is not None
    rows = {row[0].text: row for row in figures.percentiles(report.latency).rows}
    assert {cell.text for cell in rows["hybrid-rrf"][1:]} == {"not shown"}
    assert rows["fts5-default"][-1].note.endswith("unbounded]")
    ratios = {row[0].text: row for row in figures.ratios(report, report.latency).rows}
    assert {cell.text for cell in ratios["hybrid"][1:]} == {"not shown"}
    assert ratios["tantivy"][1].text == "1.823"
    assert ratios["fts5-default in other processes (A/A)"][2].text == "not measured"


def test_silence_about_verification_is_a_no() -> None:
    report = report_inputs.report()
    assert report.latency is not None
    silent = replace(report.latency, race=replace(report.latency.race, verified={}))
    assert report.trusted_ratios(silent) == {}
    assert not silent.is_verified("fts5-default")


def test_provenance_names_the_policy_and_its_absence() -> None:
    assert "mail-migration 2026-11" in dict(tables.provenance(report_inputs.report()))["policy"]
    assert dict(tables.provenance(report_inputs.compared_only()))["policy"] == "none"


def test_differences_by_slice_have_a_column_a_comparison() -> None:
    report = merged(report_inputs.report())
    found = tables.slice_differences(report)
    assert found.header[0] == "slice"
    assert len(found.header) == 1 + len(report.evidence)
    assert [row[0].text for row in found.rows] == ["identifier", "natural language", "phrase"]
    for row in found.rows:
        assert all("[" in cell.note and "n " in cell.note for cell in row[1:])


def pairs_tables(differences: list[float]) -> Paired:
    ids = tuple("abcdefgh"[: len(differences)])
    return Paired("m", ids, np.zeros(len(differences)), np.array(differences), ())


def test_losses_and_gains_largest_first_ties_by_id() -> None:
    worse, better = furthest(pairs_tables([0.0, -0.1, 0.3, -0.5, 0.3, -0.1]), 2)
    assert worse == ("d", "b")
    assert better == ("c", "e")


def test_what_did_not_move_is_not_listed() -> None:
    assert furthest(pairs_tables([0.0, 0.0]), 5) == ((), ())
    found = movers(report_inputs.report(), 10)["shadow"]
    assert (found.worse, found.better) == ((), ())
    assert found.instead == "No query moved in nDCG@10."


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


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (Status.ANSWERED, "found nothing"),
        (Status.FAILED, "failed: disk full"),
        (Status.TIMED_OUT, "timed out"),
        (Status.NOT_ASKED, "was not asked"),
    ],
)
def test_a_failure_is_not_an_empty_answer(status: Status, said: str) -> None:
    assert instead_of(status, "disk full") == said


def test_a_move_says_how_much_is_by_what_is_shown_and_how_much_by_its_order() -> None:
    """Candidate shows what the control shows, the other way round: all is by the order."""
    report = report_inputs.report()
    evidence = report.evidence["tantivy"]
    query_id = movers(report, 1)["tantivy"].worse[0].query.query_id
    grades = report.qrels.grades[query_id]
    good = next(doc_id for doc_id, grade in grades.items() if grade > 0)
    known = (f"d{at:03}" for at in range(1, 7))
    bad, worse = [doc_id for doc_id in known if grades.get(doc_id, 0) <= 0][:2]

    def showing(side: str, *ids: str) -> Run:
        hits = [Hit(doc_id, 1.0, 1.0) for doc_id in ids]
        return Run.of(side, [Row(q, Status.ANSWERED, hits) for q in report.queries])

    def parts(*shown: str) -> tuple[float, float]:
        control = replace(evidence.control, run=showing("fts5-default", good, bad))
        candidate = replace(evidence.candidate, run=showing("tantivy-default", *shown))
        changed = replace(evidence, control=control, candidate=candidate)
        (lost,) = movers(replace(report, evidence={"tantivy": changed}), 1)["tantivy"].worse
        return lost.shown, lost.order

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
    control, candidate = evidence.control, evidence.candidate
    changed = replace(
        evidence, control=side(control, "d001"), candidate=side(candidate, "d002", "d001")
    )
    return replace(report, measure=measure, qrels=qrels, evidence={"tantivy": changed})


def test_a_difference_stands_beside_what_could_become_of_it() -> None:
    (row,) = unjudged(judged("RR@10", "RR@10", "Judged@10")).rows
    assert [cell.text for cell in row] == [
        "tantivy", "1.000", "0.5000", f"{MINUS}0.5000", "0", f"{MINUS}0.5000 to 0",
    ]  # fmt: skip


def test_bounds_that_are_not_reached_say_so() -> None:
    for measure in ("AP@10", "Bpref"):
        (row,) = unjudged(judged(measure, measure)).rows
        assert row[1].text == "not measured"
        assert row[5].note == "outer bounds, not reached"


def test_a_measure_that_no_judgement_moves_says_so() -> None:
    (row,) = unjudged(judged("Judged@10", "Judged@10")).rows
    assert row[5].text == "Judged@10 has no bounds"


def test_complete_judgements_leave_nothing_and_say_why() -> None:
    report = judged("RR@10", "RR@10")
    said = replace(report.evidence["tantivy"], complete="known items")
    (row,) = unjudged(replace(report, evidence={"tantivy": said})).rows
    assert row[5].text == "nothing: its judgements are complete"
    assert row[5].note == "known items"


def test_where_no_query_has_a_value_there_is_no_row() -> None:
    assert unjudged(judged("RR@10", "nDCG@10")).rows == ()
