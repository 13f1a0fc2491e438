"""Forest plots: what lies on one side of the line looks otherwise than what reaches across."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree as ET

import pytest

from harness.core.scores import Estimate
from harness.report.page import forest
from harness.report.page.forest import Group
from harness.report.svg import BETTER, MUTED, PAPER, WORSE

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
def test_nothing_to_show_is_no_figure(groups: list[Group]) -> None:
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
