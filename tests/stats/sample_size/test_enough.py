"""How many queries the bound takes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import EvidenceError
from harness.stats.bounded import Span, bounded_each
from harness.stats.sample_size import min_queries, unseen_loss

ROOT = Path(__file__).resolve().parents[3]
DIFFERENCES, SHARES = Span(-1.0, 1.0), Span(0.0, 1.0)


@pytest.mark.parametrize(
    ("margin", "queries"), [(0.01, 377), (0.02, 188), (0.03, 125), (0.05, 74), (0.1, 36), (0.2, 17)]
)
def test_the_fewest_that_can_pass_follow_from_the_margin(margin: float, queries: int) -> None:
    assert min_queries(0.0, -margin, span=DIFFERENCES, level=0.025) == queries
    for count, clears in ((queries, True), (queries - 1, False)):
        zeros = np.zeros((count, 1))
        low = bounded_each(zeros, span=DIFFERENCES, level=0.025, clusters=None).low[0]
        assert (low > -margin) is np.bool_(clears)


def test_large_clusters_take_more_queries_or_hide_the_bound() -> None:
    one, level = np.zeros((1, 1)), 0.025
    assert min_queries(0.0, -0.02, span=DIFFERENCES, level=level, largest=0.001) < 190
    for share in (0.005, 0.01):
        ends = bounded_each(
            one, span=DIFFERENCES, level=level, clusters=None, largest=share, times=10_000
        )
        assert float(ends.low[0]) == pytest.approx(-unseen_loss(share, level), rel=0.05)
    with pytest.raises(EvidenceError, match=r"clusters of 1\.00% .* lower largest_cluster"):
        min_queries(0.0, -0.02, span=DIFFERENCES, level=level, largest=0.01)


def test_a_floor_is_shown_by_perfect_agreement() -> None:
    assert min_queries(1.0, 0.8, span=SHARES, level=0.025) == 17


def test_a_bound_that_nothing_shows_is_refused() -> None:
    with pytest.raises(EvidenceError, match="no number of queries"):
        min_queries(0.0, 0.0, span=DIFFERENCES, level=0.025)


def test_what_the_page_says_of_it_is_so() -> None:
    page = (ROOT / "docs" / "statistics.md").read_text("utf-8")
    margins, counts = (
        re.findall(r"[\d.]+", row)
        for row in re.findall(r"^\| (?:margin|queries) \|(?: [\d.]+ \|)+$", page, re.MULTILINE)
    )
    assert len(margins) > 5
    for margin, count in zip(margins, counts, strict=True):
        assert int(count) == min_queries(0.0, -float(margin), span=DIFFERENCES, level=0.025)
