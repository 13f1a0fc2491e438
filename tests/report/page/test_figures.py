"""Figures are the same to the byte, take their colours from the page and load nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib.axes import Axes

from harness.core.scores import Estimate, Paired
from harness.report.inputs import ReportInput
from harness.report.page import figures
from harness.report.page.cards import paired
from harness.report.page.figures import distributions, latency_curves
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
    "pairs": pairs,
    "curves": curves,
    "means": lambda report: figures.means("x", report.means, ("nDCG@10", "R@50")),
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
    assert figures.paired_differences("x", unmoved, None) is None
    assert latency_curves("x", nobody) is None
    assert figures.means("x", {}, ("m",)) is None
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
    dots = figures.means("y", {name: {"m": odd} for name in names}, ("m",))
    assert dots is not None
    ET.fromstring(dots)  # noqa: S314  just drawn
    assert "<script" not in dots
    assert not re.search(r"\b(nan|inf)\b", dots)


def test_a_large_query_set_stays_small() -> None:
    rng = np.random.default_rng(1)
    report = report_inputs.report()
    race = report_inputs.race(("a", "b"))
    big = replace(race, elapsed_ns={"a": rng.integers(1, 10**9, (4, 25_000))})
    assert report.latency is not None
    svg = latency_curves("x", replace(report.latency, race=big))
    assert svg is not None
    assert len(svg) < 40_000


def test_distributions_need_times() -> None:
    none = np.array([], dtype=np.int64)
    assert distributions("c", {"control": none, "candidate": none}, {}, {}) is None
    times = np.array([10**6, 5 * 10**6, 10**9], dtype=np.int64)
    drawn = distributions("c", {"control": times, "candidate": none}, {}, {})
    assert drawn is not None
    assert "control" in drawn
    assert "candidate" not in drawn


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
