"""``harness export``: from the pipeline, and from what ``harness run`` left."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Harness
from tests.make.toy import Toy

pytestmark = pytest.mark.slow


def test_the_pipeline_is_exported(project: Toy, harness: Harness) -> None:
    said = harness(
        "export", "--dataset", "toy", "--control", "fts5", "--out", "paper", "--figures", "pdf, png"
    )
    assert said.code == 0
    files = said.out.split()
    assert {"paper/table.tex", "paper/runs/tantivy.trec", "paper/forest.pdf"} <= set(files)
    assert all((project.root / file).stat().st_size for file in files)
    tex = (project.root / "paper" / "table.tex").read_text()
    assert "nDCG@10 & RR@10 & R@50 & Judged@10" in tex


def test_a_run_is_exported(project: Toy, harness: Harness) -> None:
    harness(
        "run", "--dataset", "toy", "--arms", "fts5,tantivy", "--control", "fts5", "--out", "out"
    )
    said = harness(
        "export", "--from", "out", "--control", "fts5", "--measures", "RR@10", "--out", "paper"
    )
    assert said.code == 0
    lines = (project.root / "paper" / "table.csv").read_text().splitlines()
    assert [line.split(",")[1] for line in lines] == ["measure", "RR@10", "RR@10"]


def test_bad_input_is_one_line(harness: Harness) -> None:
    words = ("export", "--control", "fts5", "--out", "paper")
    assert "evidence of none" in harness(*words, "--from", "absent").error
    assert "'gif'" in harness(*words, "--dataset", "toy", "--figures", "gif").error
