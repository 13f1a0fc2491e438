"""Notebooks are stripped, and run on what ``harness run`` wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from tests.docs.pages import ROOT

FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LONGEST_S = 120


def read(path: Path) -> Any:  # noqa: ANN401  nbformat has no types
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def printed(notebook: Any) -> str:  # noqa: ANN401  nbformat has no types
    """Everything that the cells show as text."""
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(output.get("data", {}).get("text/plain", "") for output in shown)


def test_there_is_a_notebook() -> None:
    assert [path.name for path in NOTEBOOKS] == ["01-compare-two-engines.ipynb"]


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
    notebook = read(FOLDER / "01-compare-two-engines.ipynb")
    where = {"metadata": {"path": str(FOLDER)}}
    nbclient.NotebookClient(notebook, timeout=LONGEST_S, resources=where).execute()
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
