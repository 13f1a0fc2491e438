"""Figures are the same to the byte, take their colours from the page and load nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.core.gate import OF_VERDICT, Cause, Finding, Verdict
from harness.core.scores import Estimate, Paired
from harness.gates.base.rules import Where
from harness.report.inputs import ReportInput
from harness.report.page import figures
from harness.report.page.cards import paired
from harness.report.page.figures import latency_curves
from tests.make import report_inputs

pytestmark = pytest.mark.slow
Draw = Callable[[ReportInput], str | None]


def pairs(report: ReportInput) -> str | None:
    found = paired(report.evidence["hybrid"], report.measure)
    assert found is not None
    return figures.paired_differences("x", found, report.differences["hybrid"][report.measure])


def curves(report: ReportInput) -> str | None:
    assert report.latency is not None
    return latency_curves("x", report.latency)


ALL: dict[str, Draw] = {
    "gates": lambda report: figures.gates("x", report.decisions[2].findings, {}),
    "pairs": pairs,
    "curves": curves,
    "means": lambda report: figures.means("x", report.means, ("nDCG@10", "R@50")),
    "slices": lambda report: figures.slice_means(
        "x", report.slice_means, "nDCG@10", tuple(report.arms)
    ),
    "agreement": lambda report: figures.agreement("x", report.evidence["hybrid"], "Jaccard@10"),
}


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


def test_twice_the_same_bytes(draw: Draw) -> None:
    assert draw(report_inputs.report()) == draw(report_inputs.report())


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


def test_colours_come_from_the_page(draw: Draw) -> None:
    svg = draw(report_inputs.report())
    assert svg is not None
    assert "var(--ink, #" in svg
    plain = re.sub(r"var\(--[\w-]+, #[0-9a-f]{6}\)", "", svg)
    assert re.findall(r"(?:fill|stroke): #[0-9a-f]{3,6}", plain) == []


def test_nothing_to_show_is_no_figure() -> None:
    report = report_inputs.report()
    evidence = report.evidence["shadow"]
    unmoved = paired(evidence, "nDCG@10")
    assert unmoved is not None
    assert report.latency is not None
    nobody = replace(report.latency, race=replace(report.latency.race, verified={}))
    assert figures.gates("x", (), {}) is None
    assert figures.paired_differences("x", unmoved, None) is None
    assert latency_curves("x", nobody) is None
    assert figures.means("x", {}, ("m",)) is None
    assert figures.slice_means("x", {}, "m", ("a",)) is None
    assert figures.agreement("x", evidence, "tau") is None
    assert figures.agreement("x", evidence, "unknown") is None


def test_an_unverified_arm_has_no_curve() -> None:
    svg = curves(report_inputs.report())
    assert svg is not None
    assert "tantivy-default" in svg
    assert "hybrid-rrf" not in svg


def test_infinite_ends_and_hostile_names_can_be_drawn() -> None:
    odd = Estimate(0.5, -float("inf"), float("inf"), 3)
    names = ["<script>$\\frac{x$", "\x00 \u202e שלום 漢字", "x" * 500]
    gates = [Finding(n, "r", Verdict.FAIL, Cause.BROKEN, "why", "b", odd, 0.1, "u") for n in names]
    svg = figures.gates("x", gates, {})
    dots = figures.means("y", {name: {"m": odd} for name in names}, ("m",))
    for found in (svg, dots):
        assert found is not None
        ET.fromstring(found)  # noqa: S314  just drawn
        assert "<script" not in found
        assert not re.search(r"\b(nan|inf)\b", found)


@pytest.mark.parametrize("unit", ["ns", "ms", "ratio", "share", "nDCG@10"])
def test_the_value_of_a_gate_ends_before_its_verdict_and_that_on_the_picture(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    painted = Figure()

    def paint(_: str, __: str, size: tuple[float, float], by: Callable[[Figure], None]) -> str:
        painted.set_size_inches(size)
        by(painted)
        return ""

    monkeypatch.setattr(figures, "draw", paint)
    odd = Estimate(-0.098765 if unit == "nDCG@10" else 0.098765, -1.0, 1.0, 9)
    gate = Finding("g" * 99, "r", Verdict.INCONCLUSIVE, Cause.OPEN, "w", "b", odd, 0.1, unit)
    figures.gates("x", [gate], {})
    value, *_, word = (text.get_window_extent() for text in painted.axes[0].texts)
    assert value.x1 < word.x0 < word.x1 < painted.bbox.x1


def test_a_gate_without_a_number_is_words() -> None:
    none = Finding(
        "g", "r", Verdict.INCONCLUSIVE, Cause.OPEN, "why", "b", None, None, "u", remedy="s"
    )
    svg = figures.gates("x", [none, replace(none, estimate=Estimate(1.0, 1.0, 1.0, 1))], {})
    assert svg is not None
    assert "nothing to measure" in svg
    assert "no bound to draw" in svg


def test_each_verdict_has_its_own_colour() -> None:
    found = {}
    for verdict in Verdict:
        gate = Finding(
            "g", "r", verdict, OF_VERDICT[verdict], "why", "b", Estimate(1.0, 0.5, 1.5, 9), 0.0, "u"
        )
        svg = figures.gates("x", [gate], {})
        assert svg is not None
        found[verdict] = {v for v in Verdict if f"var(--{v.value}," in svg}
    assert found == {verdict: {verdict} for verdict in Verdict}


@pytest.mark.parametrize(
    ("passes", "shaded"), [("above", 1), ("below", 1), ("within", 1), (None, 0)]
)
def test_the_side_that_passes_is_shaded_in_the_colour_of_a_pass(
    passes: Where | None, shaded: int
) -> None:
    found = Estimate(1.0, 0.5, 1.5, 9)
    gate = Finding("g", "r", Verdict.FAIL, Cause.BROKEN, "why", "b", found, 0.2, "u")
    svg = figures.gates("x", [gate], {"g": passes})
    assert svg is not None
    assert svg.count("fill: var(--pass, #1b7f4d)") == shaded
    assert svg.count("opacity: 0.16") == shaded


def test_a_large_query_set_stays_small() -> None:
    rng = np.random.default_rng(1)
    report = report_inputs.report()
    race = report_inputs.race(("a", "b"))
    big = replace(race, elapsed_ns={"a": rng.integers(1, 10**9, (4, 25_000))})
    assert report.latency is not None
    svg = latency_curves("x", replace(report.latency, race=big))
    assert svg is not None
    assert len(svg) < 40_000


def test_titles_of_panels_beside_each_other_do_not_touch() -> None:
    """Letters of DejaVu Sans are 0.61 of their size wide on average."""
    parts = {
        f"form-natural-language-{at}": {"arm": {"m": Estimate(0.5, 0.4, 0.6, 9)}} for at in "abcd"
    }
    svg = figures.slice_means("x", parts, "m", ("arm",))
    assert svg is not None
    titles = re.findall(r'font-size: ([\d.]+)px[^>]* x="([\d.]+)"[^>]*>(form[^<]*)<', svg)
    starts = [float(at) for _, at, _ in titles]
    assert len(starts) == 4
    for (size, at, said), then in zip(titles[:-1], starts[1:], strict=True):
        assert float(at) + 0.61 * float(size) * len(said) < then
