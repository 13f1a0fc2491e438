"""``harness run`` with a run of another engine whose scores tie."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Harness
from tests.toy import Toy


@pytest.mark.parametrize("second", ["1.5", "1.4"])
def test_a_page_says_how_much_is_tied(project: Toy, harness: Harness, second: str) -> None:
    """The warning comes before the scores: float32 would have tied what differs in float64."""
    lines = f"q00 Q0 d00 1 1.5 x\nq00 Q0 d01 2 {second} x\nq01 Q0 d00 1 1.50000000001 x\n"
    (project.root / "x.trec").write_text(f"{lines}q01 Q0 d01 2 1.5 x\n")
    words = ("--dataset", "toy", "--arms", "fts5", "--trec-run", "x=x.trec", "--out", "out")
    said = harness("run", *words)
    tied = 2 if second == "1.5" else 0
    assert f"x: {tied} of 4 hits tie with another; in float32" in " ".join(said.err.split())
    assert "2 more would" in " ".join(said.err.split())
    assert json.loads((project.root / "out" / "ties.json").read_text())["x"]["tied"] == tied
    page = (project.root / "out" / "index.html").read_text()
    assert ("50.0 % of its hits tie with another" in page) is (tied == 2)
