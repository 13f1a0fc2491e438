"""The history of decisions, and the page of its trends."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import BadFile, EvidenceError
from harness.core.gate import Verdict
from harness.report import trends
from harness.report.doc import Cell, Section, TableBlock
from harness.report.trends import (
    COLUMNS,
    TrendEntry,
    changed,
    comparable,
    document,
    headline,
    to_page,
)

FIRST = datetime(2026, 3, 1, 12, tzinfo=UTC)


def about(number: int = 0, **of: object) -> dict[str, Any]:
    """Give one data set of a ``decision.json``; ``of`` changes its provenance."""
    shift = number / 100
    interval = {"value": 0.5 + shift, "low": 0.4 + shift, "high": 0.6 + shift, "n": 9}
    gates = [{"gate": "Quality", "verdict": "pass"}, {"gate": "Speed <b>", "verdict": "fail"}]
    return {
        "dataset": "toy",
        "policy": {"name": "p", "version": "1", "sha256": "a" * 64},
        "steps": [
            {
                "step": "tantivy",
                "control": "fts5",
                "candidate": "tantivy",
                "verdict": "fail",
                "outcome": "hold",
                "findings": gates,
            }
        ],
        "latency": {"ratios": {"tantivy": {"p95": {**interval, "high": None}, "p50": None}}},
        "quality": {
            "measure": "nDCG@10",
            "means": {"fts5": {"nDCG@10": interval}, "tantivy": {"nDCG@10": interval}},
        },
        "provenance": {
            "decided_at": (FIRST + timedelta(days=number)).isoformat(),
            "code_version": "c" * 64,
            "python": "3.11.2",
            "packages": {"numpy": "2.1", "tantivy": "0.25"},
            "sha256": {"corpus": "1", "queries": "2", "qrels": "3"},
            "arms": {"fts5": {"fingerprint": "f1"}, "tantivy": {"fingerprint": "t1"}},
            "settings": {"score": {"seed": 1}, "compare": {"depths": [10]}},
            **of,
        },
    }


def entry(number: int, **of: object) -> TrendEntry:
    sha256 = f"{number:064x}"
    return trends.entry_of(about(number, **of), decision_sha256=sha256, commit=f"commit{number}")


def test_an_entry_keeps_ratios_and_no_time() -> None:
    found = entry(1)
    (step,) = found.steps
    ratio = step.ratios["p95"]
    assert ratio.low == pytest.approx(0.41)
    assert (ratio.value, ratio.high, ratio.n) == (0.51, None, 9)
    assert set(step.ratios) == {"p95"}
    assert step.gates == {"Quality": "pass", "Speed <b>": "fail"}
    bare = {**about(), "latency": None, "policy": None}
    without = trends.entry_of(bare, decision_sha256="0" * 64, commit="")
    assert without.steps[0].ratios == {}
    assert without.policy is None


def test_a_decision_is_added_once_and_read_back_by_time(tmp_path: Path) -> None:
    path = tmp_path / "history" / "toy.jsonl"
    assert trends.read(path) == ()
    for number in (3, 1, 2):
        assert trends.add(path, entry(number))
        assert not trends.add(path, entry(number))
    assert trends.read(path) == (entry(1), entry(2), entry(3))
    assert len(path.read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda lines: [lines[0], lines[1][:-9]], r"toy\.jsonl:2"),
        (lambda lines: [lines[0], lines[0]], "2: this decision already exists"),
        (lambda lines: [lines[0].replace('"format":1', '"format":2')], "1: of another format"),
        (lambda lines: [lines[0].replace('"dataset"', '"data set"')], "1: "),
        (lambda lines: [lines[0].replace('"hold"', '"maybe"')], "outcome"),
        (lambda lines: [*lines, "", "{"], "4: "),
    ],
)
def test_a_line_that_is_none_is_named(
    tmp_path: Path, spoil: Callable[[list[str]], list[str]], says: str
) -> None:
    path = tmp_path / "toy.jsonl"
    for number in (1, 2):
        trends.add(path, entry(number))
    path.write_text("\n".join(spoil(path.read_text().splitlines())) + "\n")
    with pytest.raises(BadFile, match=says):
        trends.read(path)


@pytest.mark.parametrize(
    ("of", "words", "alike"),
    [
        ({}, (), True),
        ({"packages": {"numpy": "2.2", "scipy": "1.0"}},
         ("numpy 2.1 → 2.2", "scipy absent → 1.0", "tantivy 0.25 → absent"), True),
        ({"python": "3.12.0"}, ("Python 3.11.2 → 3.12.0",), True),
        ({"code_version": "d" * 64}, ("the code",), True),
        ({"sha256": {"corpus": "9", "queries": "2", "qrels": "3"}}, ("other documents",), False),
        ({"sha256": {"corpus": "1", "queries": "2", "qrels": "9"}}, ("other judgements",), False),
    ],
)  # fmt: skip
def test_what_changed_is_told(of: dict[str, Any], words: tuple[str, ...], alike: bool) -> None:  # noqa: FBT001  a case
    before, after = entry(1), entry(2, **of)
    assert changed(before, after) == words
    assert comparable(before, after) is alike


def test_arms_and_policies_that_come_and_go_are_told() -> None:
    before = entry(1)
    after = before.model_copy(
        update={
            "means": {"fts5": before.means["fts5"], "hybrid": before.means["fts5"]},
            "policy": None,
        }
    )
    assert changed(before, after) == ("policy none", "new arm hybrid", "gone arm tantivy")
    assert before.policy is not None
    other = before.policy.model_copy(update={"sha256": "b" * 64})
    edited = before.model_copy(update={"policy": other})
    assert changed(before, edited) == ("the policy's text",)


def test_other_engines_and_settings_are_named() -> None:
    arms = {"fts5": {"fingerprint": "f1"}, "tantivy": {"fingerprint": "t2"}}
    settings = {"score": {"seed": 2}, "compare": {"depths": [10]}}
    found = changed(entry(1), entry(2, arms=arms, settings=settings))
    assert found == ("the engine tantivy", "the settings of score")


def test_an_older_entry_says_nothing_of_engines() -> None:
    older = entry(1).model_copy(update={"engines": {}, "settings": {}})
    assert changed(older, entry(2)) == ()


OTHER = {"sha256": {"corpus": "9", "queries": "2", "qrels": "3"}}


SIX = [entry(number, **(OTHER if number > 3 else {})) for number in range(1, 7)]


def lines(svg: str) -> int:
    """Count the lines that are drawn in the colour of the first arm."""
    return len(re.findall(r"stroke: var\(--arm-0, #0072b2\); stroke-width: 1\.6", svg))


@pytest.mark.slow
def test_a_line_breaks_where_the_data_became_others() -> None:
    whole = trends.measures("a", [entry(number) for number in range(1, 7)])
    broken = trends.measures("a", SIX)
    assert lines(broken) == lines(whole) + 1


@pytest.mark.slow
def test_a_line_breaks_where_a_decision_has_no_value() -> None:
    without = SIX[1].model_copy(update={"means": {}})
    gap = [SIX[0], without, SIX[2]]
    assert lines(trends.measures("a", gap)) == lines(trends.measures("a", SIX[:3])) + 1


@pytest.mark.slow
def test_without_a_race_there_is_no_picture_of_times() -> None:
    bare = [
        one.model_copy(update={"steps": (one.steps[0].model_copy(update={"ratios": {}}),)})
        for one in SIX
    ]
    assert trends.ratios("a", bare, "p95") == ""
    assert "No decision rests on a race." in to_page({"toy": bare})
    assert trends.ratios("a", SIX, "p95").startswith("<svg")


def tables(*entries: TrendEntry) -> dict[str, TableBlock]:
    """Give the tables of a history by how they begin."""
    (one,) = (block for block in document({"toy": entries}).blocks if isinstance(block, Section))
    found = (block for block in one.blocks if isinstance(block, TableBlock))
    return {table.caption.split()[0]: table for table in found}


@pytest.mark.slow
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


@pytest.mark.slow
def test_gates_are_named_once_where_a_step_stands_now() -> None:
    page = to_page({"toy": SIX})
    assert page.count("Speed &lt;b&gt;") == 1
    (step,) = SIX[5].steps
    gates = {**step.gates, "Speed <b>": Verdict.PASS}
    moved = SIX[5].model_copy(update={"steps": (step.model_copy(update={"gates": gates}),)})
    assert "Speed &lt;b&gt;: fail → pass" in to_page({"toy": [*SIX[:5], moved]})


@pytest.mark.slow
def test_the_latest_decisions_stand_side_by_side_the_very_latest_first() -> None:
    found = tables(*(entry(number) for number in range(1, 20)))
    _, *days = found["Steps"].header
    assert len(days) == COLUMNS
    assert days[0] == "2026-03-20 12:00"
    assert days == sorted(days, reverse=True)
    assert len(found["Decisions,"].rows) == 19


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_no_history_is_no_page() -> None:
    with pytest.raises(EvidenceError, match="harness history add"):
        to_page({})
    with pytest.raises(EvidenceError, match="is empty"):
        to_page({"toy": ()})
