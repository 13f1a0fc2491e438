"""Notebooks are stripped, and run on what ``harness run`` wrote."""

import ast
import json
import subprocess
from collections.abc import Sequence
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest

from tests import once_a_process
from tests.docs.pages import ROOT, Shell

pytestmark = pytest.mark.slow
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LONGEST_S = 120


def read(path: Path) -> Any:  # noqa: ANN401  nbformat has no types
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def typed(words: Sequence[str], cwd: Path = FOLDER, **_: object) -> None:
    """Type what a cell starts in a process of its own, which would import for seconds."""
    with once_a_process.pictures(painted=False):
        Shell(cwd).harness(*words[words.index("harness") + 1 :])


def shown(name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the cells of a notebook in its folder; return what the last line of each shows."""
    from IPython.lib.pretty import pretty

    monkeypatch.setattr(subprocess, "run", typed)
    known: dict[str, object] = {"__name__": name}
    found = []
    with chdir(FOLDER), pd.option_context("display.width", 200, "display.max_columns", 20):
        for cell in read(FOLDER / f"{name}.ipynb").cells:
            if cell.cell_type == "code":
                *lines, last = ast.parse(cell.source).body
                run = partial(compile, filename=name, dont_inherit=True)
                exec(run(ast.Module(lines, []), mode="exec"), known)  # noqa: S102  our own cells
                if isinstance(last, ast.Expr):
                    found.append(eval(run(ast.Expression(last.value), mode="eval"), known))  # noqa: S307
                else:
                    exec(run(ast.Module([last], []), mode="exec"), known)  # noqa: S102
    return "\n".join(map(pretty, found))


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
    """As Jupyter runs it, in a kernel."""
    import nbclient

    monkeypatch.setenv("RUN", str(run))
    notebook = read(FOLDER / "01-compare-two-engines.ipynb")
    where = {"metadata": {"path": str(FOLDER)}}
    nbclient.NotebookClient(notebook, timeout=LONGEST_S, resources=where).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    texts = "\n".join(one.get("data", {}).get("text/plain", "") for one in outputs)
    scores = json.loads((run / "scores.json").read_text("utf-8"))
    apart = scores["own"]["nDCG@10"]["mean"] - scores["fts5"]["nDCG@10"]["mean"]
    assert apart < 0
    wanted = (f"'mean difference': {round(apart, 4)}", "'queries': 40", "'worse': 8")
    assert [one for one in (*wanted, "first of own") if one not in texts] == []
    assert sum("image/png" in one.get("data", {}) for one in outputs) == 1


@pytest.mark.parametrize(
    ("name", "shows"),
    [
        ("02-why-did-this-query-get-worse", (
            "{'documents': 64, 'queries': 128}", "hash-hybrid: HOLD (fts5 → hash-hybrid)",
            "chatty    fused", "lexical by order", "return-voucher <--",
        )),
        ("03-your-own-corpus-and-engine", (
            "own: HOLD (fts5 → own)", "own: PROMOTE (fts5 → own)",
            "| elsewhere | 0.0031‡ |", "| whole | 0.6136‡ |",
        )),
        ("05-reading-a-shadow-log", (
            "candidate: ValueError: no vouchers yet", "lowest Jaccard 0.6667",
            f"'failures in each 32 attempts': '{' '.join(4 * ['0 3 7 6'])}'",
            "INCONCLUSIVE: Unanswered live queries",
        )),
    ],
)  # fmt: skip
def test_a_notebook_shows_what_its_text_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, shows: tuple[str, ...]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    texts = shown(name, monkeypatch)
    assert [one for one in shows if one not in texts] == []


def test_a_budget_is_planned_and_the_plan_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    first = shown("04-plan-a-judgement-budget", monkeypatch)
    assert "'if equal': 510" in first
    (said,) = [line for line in first.splitlines() if "passes of an equal" in line]
    (more,) = [line for line in first.splitlines() if "passes of one" in line]
    counts: dict[str, int] = ast.literal_eval(said if said == more else said + more)
    assert 70 <= counts["passes of an equal candidate"] <= 90
    assert counts["passes of one that loses the margin"] <= 8
