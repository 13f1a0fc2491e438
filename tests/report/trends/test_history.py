"""The rolling history: added once, read strictly, and told apart by what changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import BadFile
from harness.report import trends
from harness.report.trends import Entry, changed, comparable

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


def entry(number: int, **of: object) -> Entry:
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
        (lambda lines: [lines[0], lines[0]], "2: this decision is there already"),
        (lambda lines: [lines[0].replace('"format":1', '"format":2')], "1: format"),
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
