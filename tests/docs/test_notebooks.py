"""Notebooks are stripped, and run on what ``harness run`` wrote."""

from __future__ import annotations

import ast
import json
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


@pytest.mark.parametrize(
    ("name", "shows"),
    [
        ("02-why-did-this-query-get-worse", (
            "{'documents': 64, 'queries': 128}", "hash-hybrid: HOLD (fts5 → hash-hybrid)",
            "chatty    fused", "lexical by order", "return-voucher <--",
        )),
        ("03-your-own-corpus-and-engine", (
            "own: HOLD (fts5 → own)", "own: PROMOTE (fts5 → own)", "elsewhere: nDCG@10 0.0031‡",
            "whole: nDCG@10 0.6136‡",
        )),
        ("05-reading-a-shadow-log", (
            "candidate: ValueError: no vouchers yet", "lowest Jaccard 0.6667",
            f"'failures in each 32 attempts': '{' '.join(4 * ['0 3 7 6'])}'",
            "failures of the candidate 0.1250 no single value: it drifted",
            "INCONCLUSIVE: Unanswered live queries",
        )),
    ],
)  # fmt: skip
def test_a_notebook_shows_what_its_text_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, shows: tuple[str, ...]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    shown = printed(executed(f"{name}.ipynb"))
    assert [one for one in shows if one not in shown] == []


def test_a_budget_is_planned_and_the_plan_holds() -> None:
    first = printed(executed("04-plan-a-judgement-budget.ipynb"))
    assert "'if equal': 510" in first
    (said,) = [line for line in first.splitlines() if "passes of an equal" in line]
    counts: dict[str, int] = ast.literal_eval(said)
    assert 70 <= counts["passes of an equal candidate"] <= 90
    assert counts["passes of one that loses the margin"] <= 8
