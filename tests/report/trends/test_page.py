"""The page of trends, and its pictures (``trends_figures``)."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from harness.core.errors import EvidenceError
from harness.core.gate import Verdict
from harness.report import trends
from harness.report.doc import Cell, Section, Table
from harness.report.trends import COLUMNS, Entry, document, headline, to_page
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


def tables(*entries: Entry) -> dict[str, Table]:
    """Give the tables of a history by how they begin."""
    (one,) = (block for block in document({"toy": entries}).blocks if isinstance(block, Section))
    found = (block for block in one.blocks if isinstance(block, Table))
    return {table.caption.split()[0]: table for table in found}


def test_the_page_says_what_is_latest_and_what_changed() -> None:
    found = tables(*SIX)
    said = [row[-1].text for row in found["Decisions,"].rows]
    assert said[2] == "not comparable with the one before: other documents"
    assert [text.startswith("not comparable") for text in said] == [False] * 2 + [True] + [
        False
    ] * 3
    assert said[-1] == "the first"
    latest = found["nDCG@10"].rows
    assert [row[1].text for row in latest] == ["0.5600", "0.5600"]
    assert {row[2].text for row in latest} == {"0.5500"}
    assert {row[2].text for row in tables(*SIX[:4])["nDCG@10"].rows} == {"not comparable"}
    assert {row[2].text for row in tables(SIX[0])["nDCG@10"].rows} == {"none"}
    assert found["Steps"].rows[0][1] == Cell("HOLD", "1 fail", "hold")


def test_gates_are_named_once_where_a_step_stands_now() -> None:
    page = to_page({"toy": SIX})
    assert page.count("Speed &lt;b&gt;") == 1
    (step,) = SIX[5].steps
    gates = {**step.gates, "Speed <b>": Verdict.PASS}
    moved = SIX[5].model_copy(update={"steps": (step.model_copy(update={"gates": gates}),)})
    assert "Speed &lt;b&gt;: fail → pass" in to_page({"toy": [*SIX[:5], moved]})


def test_the_latest_decisions_stand_side_by_side_the_very_latest_first() -> None:
    found = tables(*(entry(number) for number in range(1, 20)))
    _, *days = found["Steps"].header
    assert len(days) == COLUMNS
    assert days[0] == "2026-03-20 12:00"
    assert days == sorted(days, reverse=True)
    assert len(found["Decisions,"].rows) == 19


def test_the_headline_says_where_each_step_stands_and_since_when() -> None:
    assert headline(SIX) == "tantivy: HOLD since 2026-03-02 12:00"
    assert headline(SIX[:2]) == "tantivy: HOLD since 2026-03-02 12:00"
    assert headline(SIX[:1]) == "tantivy: HOLD"
    (step,) = SIX[5].steps
    open_ = step.model_copy(update={"verdict": Verdict.INCONCLUSIVE})
    moved = [*SIX[:5], SIX[5].model_copy(update={"steps": (open_,)})]
    assert headline(moved) == "tantivy: HOLD (inconclusive)"
    assert headline([*moved, *SIX[4:]]) == "tantivy: HOLD since 2026-03-06 12:00"
    assert '<p class="headline">tantivy: HOLD (inconc' in to_page({"t": moved})
    none = [SIX[0].model_copy(update={"steps": ()})]
    assert headline(none) == ""
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
