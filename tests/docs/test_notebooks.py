"""Notebooks are stripped, and run on what ``harness run`` wrote."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.slow
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LONGEST_S = 120


def read(path: Path) -> Any:  # noqa: ANN401  nbformat has no types
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def printed(notebook: Any) -> str:  # noqa: ANN401  nbformat has no types
    """Everything that the cells show as text."""
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(output.get("data", {}).get("text/plain", "") for output in shown)


def executed(name: str) -> Any:  # noqa: ANN401  nbformat has no types
    """Run a notebook as it lies in its folder."""
    notebook = read(FOLDER / name)
    where = {"metadata": {"path": str(FOLDER)}}
    nbclient.NotebookClient(notebook, timeout=LONGEST_S, resources=where).execute()
    return notebook


def test_the_notebooks_are_these() -> None:
    assert [path.name for path in NOTEBOOKS] == [
        "01-compare-two-engines.ipynb",
        "02-why-did-this-query-get-worse.ipynb",
        "03-your-own-corpus-and-engine.ipynb",
        "04-plan-a-judgement-budget.ipynb",
        "05-reading-a-shadow-log.ipynb",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_and_stripped(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}
    for at, cell in enumerate(notebook.cells):
        assert cell.id == f"c{at}"
        assert not cell.metadata
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_the_comparison_runs_and_agrees_with_the_scores(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUN", str(run))
    notebook = executed("01-compare-two-engines.ipynb")
    scores = json.loads((run / "scores.json").read_text("utf-8"))
    apart = scores["own"]["nDCG@10"]["mean"] - scores["fts5"]["nDCG@10"]["mean"]
    shown = printed(notebook)
    assert apart < 0
    assert f"'mean difference': {round(apart, 4)}" in shown
    assert "'queries': 40" in shown
    assert "'worse': 8" in shown
    assert "first of own" in shown
    images = [o for c in notebook.cells for o in c.get("outputs", []) if "image/png" in o.data]
    assert len(images) == 1


def test_a_loss_is_taken_apart_down_to_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = executed("02-why-did-this-query-get-worse.ipynb")
    shown = printed(notebook)
    assert "{'documents': 64, 'queries': 128}" in shown
    assert "hash-hybrid: HOLD (fts5 → hash-hybrid)" in shown
    assert "chatty    fused" in shown
    assert "lexical by order" in shown
    assert "return-voucher <--" in shown
    images = [o for c in notebook.cells for o in c.get("outputs", []) if "image/svg+xml" in o.data]
    assert len(images) == 1
    shares = dict(line.split() for line in shown.splitlines()[-6:])
    rare = [word for word, share in shares.items() if float(share) < 0.5]
    assert rare == ["share"]  # the others are what the last page says of them


def test_an_engine_of_ones_own_is_held_mended_and_promoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    shown = printed(executed("03-your-own-corpus-and-engine.ipynb"))
    held, _, mended = shown.partition("own: PROMOTE (fts5 → own)")
    assert "own: HOLD (fts5 → own)" in held
    for gate in ("Quality of the first ten", "First relevant hit"):
        assert f"FAIL: {gate}" in held
        assert f"PASS: {gate}" in mended
    assert "INCONCLUSIVE" not in shown
    assert "elsewhere: nDCG@10 0.0031‡" in shown
    assert "whole: nDCG@10 0.6136‡" in shown


def test_a_budget_is_planned_and_the_plan_holds() -> None:
    first, second = (printed(executed("04-plan-a-judgement-budget.ipynb")) for _ in range(2))
    assert first == second
    assert "'if equal': 510" in first
    (said,) = [line for line in first.splitlines() if "passes of an equal" in line]
    counts: dict[str, int] = ast.literal_eval(said)
    assert 70 <= counts["passes of an equal candidate"] <= 90
    assert counts["passes of one that loses the margin"] <= 8


def test_a_shadow_log_is_read_from_its_denominators_to_a_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = executed("05-reading-a-shadow-log.ipynb")
    shown = printed(notebook)
    rows = [line.split() for line in shown.splitlines() if line]
    said = {words[0]: words[1:] for words in reversed(rows)}  # the first of each name
    counts = {name: int(said[name][0]) for name in ("attempted", "compared", "errored", "shed")}
    assert counts == {"attempted": 552, "compared": 448, "errored": 64, "shed": 40}
    assert said["skipped"] == said["lost"] == ["0"]
    assert "candidate: ValueError: no vouchers yet" in shown
    overlap, low, high, pairs = map(float, said["overlap"])
    assert low < overlap < high
    assert pairs == 448
    assert ["chatty", "32", "148", "76", "20"] in rows  # error, overlap, reorder, shed
    assert "lowest Jaccard 0.6667" in shown
    assert f"'failures in each 32 attempts': '{' '.join(4 * ['0 3 7 6'])}'" in shown
    assert "failures of the candidate 0.1250 no single value: it drifted" in shown
    for gate in ("Unanswered live queries", "Agreement of the results", "Slower live answers"):
        assert f"INCONCLUSIVE: {gate}" in shown
        assert re.search(rf"{gate} +inconclusive +2 more days of traffic", shown)
    images = [o for c in notebook.cells for o in c.get("outputs", []) if "image/svg+xml" in o.data]
    assert len(images) == 1
