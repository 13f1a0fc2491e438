"""The history of decisions, and the page of its trends."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import BadFile
from harness.core.gate import Verdict
from harness.report import trends
from harness.report.doc import Cell, Section, TableBlock
from harness.report.trends import TrendEntry, changed, comparable, document, headline

FIRST = datetime(2026, 3, 1, 12, tzinfo=UTC)


def about(number: int = 0, **of: object) -> dict[str, Any]:
    """Return one data set of a ``decision.json``; ``of`` changes its provenance."""
    shift = number / 100
    interval = {"value": 0.5 + shift, "low": 0.4 + shift, "high": 0.6 + shift, "n": 9}
    gates = [{"gate": "Quality", "verdict": "pass"}, {"gate": "Speed <b>", "verdict": "fail"}]
    step = {"step": "tantivy", "control": "fts5", "candidate": "tantivy"}
    means = {"P@1": {**interval, "value": 0.9}, "nDCG@10": interval}
    return {
        "dataset": "toy",
        "policy": {"name": "p", "version": "1", "sha256": "a" * 64},
        "steps": [{**step, "verdict": "fail", "outcome": "hold", "findings": gates}],
        "latency": {"ratios": {"tantivy": {"p95": {**interval, "high": None}}}},
        "comparisons": [{"name": "tantivy", "differences": {"nDCG@10": {**interval, "low": -0.1}}}],
        "quality": {"measure": "nDCG@10", "means": {"fts5": means, "tantivy": means}},
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
    assert step.gain
    assert (step.gain.value, step.gain.low) == (0.51, -0.1)
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
        ({"arms": {"fts5": {"fingerprint": "f1"}, "tantivy": {"fingerprint": "t2"}},
          "settings": {"score": {"seed": 2}, "compare": {"depths": [10]}}},
         ("the engine tantivy", "the settings of score"), True),
    ],
)  # fmt: skip
def test_what_changed_is_told(of: dict[str, Any], words: tuple[str, ...], alike: bool) -> None:  # noqa: FBT001  a case
    before, after = entry(1), entry(2, **of)
    assert changed(before, after) == words
    assert comparable(before, after) is alike


OTHER = {"sha256": {"corpus": "9", "queries": "2", "qrels": "3"}}
SIX = [entry(number, **(OTHER if number > 3 else {})) for number in range(1, 7)]


def lines(svg: str) -> int:
    """Count the lines that are drawn in the colour of the first arm."""
    return len(re.findall(r"stroke: var\(--arm-0, #0072b2\); stroke-width: 1\.6", svg))


def test_a_line_breaks_where_the_data_became_others() -> None:
    whole = trends.measures("a", [entry(number) for number in range(1, 7)])
    broken = trends.measures("a", SIX)
    assert lines(broken) == lines(whole) + 1


def tables(*entries: TrendEntry) -> dict[str, TableBlock]:
    """Return the tables of a history by how they begin."""
    (one,) = (block for block in document({"toy": entries}).blocks if isinstance(block, Section))
    found = (block for block in one.blocks if isinstance(block, TableBlock))
    return {table.caption.split()[0]: table for table in found}


def test_the_page_says_what_is_latest_and_what_changed() -> None:
    found = tables(*SIX)
    said = [row[-1].text for row in found["Decisions,"].rows]
    assert said[2] == "not comparable with the one before: other documents"
    assert said[-1] == "the first"
    latest = found["nDCG@10"].rows
    assert [row[1].text for row in latest] == ["0.5600", "0.5600"]
    assert {row[2].text for row in latest} == {"0.5500"}
    assert {row[2].text for row in tables(*SIX[:4])["nDCG@10"].rows} == {"not comparable"}
    assert {row[2].text for row in tables(SIX[0])["nDCG@10"].rows} == {"none"}
    assert found["Decisions,"].rows[0][1] == Cell("HOLD", "1 fail, p95 0.560 times", "hold")


def test_the_headline_says_where_each_step_stands_and_since_when() -> None:
    assert headline(SIX) == "tantivy: HOLD since 2026-03-02 12:00"
    assert headline(SIX[:1]) == "tantivy: HOLD"
    (step,) = SIX[5].steps
    open_ = step.model_copy(update={"verdict": Verdict.INCONCLUSIVE})
    moved = [*SIX[:5], SIX[5].model_copy(update={"steps": (open_,)})]
    assert headline(moved) == "tantivy: HOLD (inconclusive)"
    waits = step.model_copy(update={"verdict": Verdict.PASS})
    assert (waits.tone, waits.word) == ("waits", "HOLD (waits)")
    assert headline([*moved, *SIX[4:]]) == "tantivy: HOLD since 2026-03-06 12:00"
