"""The page of trends, and its pictures (``trends_figures``)."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from harness.core.errors import EvidenceError
from harness.core.gate import Verdict
from harness.report import trends
from harness.report.trends import COLUMNS, to_page, view
from tests.report.trends.test_history import entry

pytestmark = pytest.mark.slow

OTHER = {"sha256": {"corpus": "9", "queries": "2", "qrels": "3"}}
SIX = [entry(number, **(OTHER if number > 3 else {})) for number in range(1, 7)]


def lines(svg: str) -> int:
    """Count the lines that are drawn in the colour of the first arm."""
    return len(re.findall(r"stroke: var\(--arm-0, #0072b2\); stroke-width: 1\.6", svg))


def test_a_line_breaks_where_the_data_became_others() -> None:
    whole = trends.measures("a", [entry(number) for number in range(1, 7)])
    broken = trends.measures("a", SIX)
    assert lines(broken) == lines(whole) + 1


def test_a_line_breaks_where_a_decision_has_no_value() -> None:
    without = SIX[1].model_copy(update={"means": {}})
    gap = [SIX[0], without, SIX[2]]
    assert lines(trends.measures("a", gap)) == lines(trends.measures("a", SIX[:3])) + 1


def test_without_a_race_there_is_no_picture_of_times() -> None:
    bare = [
        one.model_copy(update={"steps": (one.steps[0].model_copy(update={"ratios": {}}),)})
        for one in SIX
    ]
    assert trends.ratios("a", bare, "p95") == ""
    assert "No decision rests on a race." in to_page({"toy": bare})
    assert trends.ratios("a", SIX, "p95").startswith("<svg")


def test_the_view_says_what_is_latest_and_what_changed() -> None:
    found = view("t", SIX)
    assert [row.comparable for row in found.rows] == [True, True, False, True, True, True]
    assert found.rows[2].changed == ("other documents",)
    assert [one.now for one in found.latest] == ["0.5600", "0.5600"]
    assert {one.before for one in found.latest} == {"0.5500"}
    assert {one.before for one in view("t", SIX[:4]).latest} == {"not comparable"}
    (said, *_), *_ = found.steps.values()
    assert said is not None
    assert (said.word, said.tone, said.against) == ("HOLD", "hold", ("FAIL: Speed <b>",))


def test_the_latest_decisions_stand_side_by_side_the_very_latest_first() -> None:
    many = [entry(number) for number in range(1, 20)]
    found = view("t", many)
    assert len(found.columns) == COLUMNS
    assert found.columns[0] == "2026-03-20 12:00"
    assert found.columns == tuple(sorted(found.columns, reverse=True))
    assert len(found.rows) == 19


def test_the_headline_says_where_each_step_stands_and_since_when() -> None:
    assert view("t", SIX).headline == "tantivy: HOLD since 2026-03-02 12:00"
    assert view("t", SIX[:2]).headline == "tantivy: HOLD since 2026-03-02 12:00"
    assert view("t", SIX[:1]).headline == "tantivy: HOLD"
    (step,) = SIX[5].steps
    open_ = step.model_copy(update={"verdict": Verdict.INCONCLUSIVE})
    moved = [*SIX[:5], SIX[5].model_copy(update={"steps": (open_,)})]
    assert view("t", moved).headline == "tantivy: HOLD (inconclusive)"
    assert view("t", [*moved, *SIX[4:]]).headline == "tantivy: HOLD since 2026-03-06 12:00"
    assert '<p class="headline"><bdi>tantivy: HOLD (inconc' in to_page({"t": moved})
    none = [SIX[0].model_copy(update={"steps": ()})]
    assert view("t", none).headline == ""
    assert '<p class="headline">' not in to_page({"t": none})


class Tags(HTMLParser):
    """Collects what could load anything."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        strange = [value for key, value in attrs if key in {"src", "href"} and value]
        self.loads += [value for value in strange if not value.startswith("#")]
        self.loads += [tag] if tag in {"script", "link", "iframe", "object"} else []


def test_the_page_is_whole_loads_nothing_and_is_the_same_twice() -> None:
    page = to_page({"toy": SIX, "another": SIX[:1]})
    assert page == to_page({"another": SIX[:1], "toy": SIX})
    tags = Tags()
    tags.feed(page)
    assert tags.loads == []
    assert "http:" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    assert "Speed &lt;b&gt;" in page
    assert "Speed <b>" not in page
    assert "1 decision," in page
    assert "6 decisions," in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_no_history_is_no_page() -> None:
    with pytest.raises(EvidenceError, match="harness history add"):
        to_page({})
    with pytest.raises(EvidenceError, match="is empty"):
        to_page({"toy": ()})


def test_the_first_decision_has_none_before_it() -> None:
    assert {one.before for one in view("t", SIX[:1]).latest} == {"none"}
