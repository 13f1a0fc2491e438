"""Figures."""

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

from harness.core.scores import Estimate, Paired
from harness.gates import equivalent
from harness.policy.load import load_policy
from harness.report.inputs import ReportInput, Trust
from harness.report.page import figures, forest
from harness.report.page.cards import paired
from harness.report.page.figures import distributions, latency_curves
from harness.report.page.forest import Group, of_means, of_ratios, of_slices
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
    svg = drawn(forest.differences("x", "about", [Group("by slice", rows)]))
    assert marks(svg) == [(BETTER, BETTER), (PAPER, MUTED), (WORSE, WORSE)]
    assert "+0.2000" in svg
    assert "[0.1000, 0.3000]" in svg


def test_less_time_is_better() -> None:
    rows = {"faster": FASTER, "alike": ALIKE, "slower": SLOWER}
    svg = drawn(forest.ratios("x", "about", [Group("tantivy", rows)]))
    assert marks(svg) == [(BETTER, BETTER), (PAPER, MUTED), (WORSE, WORSE)]


def test_noise_is_never_a_finding() -> None:
    svg = drawn(forest.ratios("x", "about", [Group("A/A", {"p95": SLOWER}, noise=True)]))
    assert marks(svg) == [(PAPER, MUTED)]
    assert "stroke-dasharray" in svg


def test_the_row_that_counts_first_is_a_diamond() -> None:
    plain = drawn(forest.differences("x", "about", [Group("m", {"nDCG": ABOVE})]))
    first = drawn(forest.differences("x", "about", [Group("m", {"nDCG": ABOVE}, "nDCG")]))
    assert plain != first


@pytest.mark.parametrize(
    "groups", [[], [Group("m", {})], [Group("m", {"a": Estimate(math.nan, 0, 0, 1)})]]
)
def test_nothing_to_show_is_no_figure_in_forest(groups: list[Group]) -> None:
    assert forest.differences("x", "about", groups) is None
    assert forest.ratios("x", "about", groups) is None


def test_odd_numbers_and_hostile_names_can_be_drawn() -> None:
    rows = {
        "<script>$\\frac{x$": Estimate(0.5, -math.inf, math.inf, 3),
        "\x00 \u202e שלום": Estimate(0.0, 0.0, 0.0, 2),
        "x" * 500: Estimate(1e-9, 1e-9, 1e-9, 2),
    }
    for make in (forest.differences, forest.ratios):
        svg = drawn(make("x", "<script>", [Group("</script>", rows)]))
        assert "<script" not in svg
        assert not re.search(r"\b(nan|inf)\b", svg)
        assert svg == make("x", "<script>", [Group("</script>", rows)])


def test_ratios_far_apart_leave_room_for_their_labels() -> None:
    rows = {"a": Estimate(0.001, 0.0005, 0.002, 9), "b": Estimate(900.0, 500.0, 1500.0, 9)}
    labels = re.findall(r">([\d.]+)</text>", drawn(forest.ratios("x", "about", [Group("t", rows)])))
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
        settings=equivalent.Settings.model_validate({
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
    plain = forest.differences("x", "about", [Group("m", {"nDCG@10": SMALL})])
    drawn = forest.differences("x", "about", [Group("m", {"nDCG@10": SMALL}, bounds=bounds)])
    assert plain
    assert drawn
    ticks = [re.findall(r">([^<>]*0\.2[^<>]*)</text>", svg) for svg in (drawn, plain)]
    assert any(tick.startswith(MINUS) for tick in ticks[0])
    assert not any(tick.startswith(MINUS) for tick in ticks[1])
