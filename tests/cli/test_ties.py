"""``harness run`` with a run of another engine whose scores tie."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.corpus.runs import read_run
from tests.cli.conftest import Harness
from tests.make.decisions import of_gate
from tests.make.toy import Toy

pytestmark = pytest.mark.slow


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


def tied(project: Toy, at: float) -> list[str]:
    """Let ``x`` show what fts5 shows, with all scores of a query equal."""
    run = read_run(project.layout.run("fts5"))
    lines = [
        f"{row.query_id} Q0 {hit.doc_id} {rank} {at:g} x\n"
        for row in run.rows()
        for rank, hit in enumerate(row.hits, start=1)
    ]
    (project.root / "x.trec").write_text("".join(lines))
    words = ("--dataset", "toy", "--arms", "fts5", "--trec-run", "x=x.trec", "--out", "out")
    return ["run", *words, "--control", "fts5"]


def quality(project: Toy) -> Any:  # noqa: ANN401  what json gives back
    return of_gate(project.root / "out" / "decision.json", "Quality")


def test_a_gate_holds_for_every_order_of_ties(project: Toy, harness: Harness) -> None:
    said = harness(*tied(project, 1.0))
    assert said.code == 0, said
    assert "x: " in said.err
    over = quality(project)
    assert over["verdict"] == "inconclusive"
    assert "at the ends of what ties leave open -" in over["reason"]
    spread = json.loads((project.root / "out" / "ties.json").read_text())["x"]["measures"]
    means = json.loads((project.root / "out" / "scores.json").read_text())["fts5"]
    low, high = (spread["nDCG@10"][end] - means["nDCG@10"]["mean"] for end in ("least", "most"))
    assert over["estimate"]["low"] < low < over["estimate"]["value"] < high
    left = ("--from", "out", "--policy", "policy/pairwise.toml", "--control", "fts5")
    assert "INCONCLUSIVE: Quality" in harness("gate", *left).out


def test_a_control_whose_scores_are_constant_is_not_beaten_by_the_order_of_its_ids(
    project: Toy, harness: Harness
) -> None:
    """Its rank column is right, so that it is as good as fts5; the order of the ids is not."""
    words = [*tied(project, 1.0)[:-1], "x"]
    assert harness(*words).code == 0
    found = quality(project)
    assert found["estimate"]["value"] > 0
    assert found["estimate"]["low"] < 0, found["reason"]


def test_a_measure_without_bounds_cannot_be_judged_over_ties(
    project: Toy, harness: Harness
) -> None:
    params = project.root / "params.yaml"
    params.write_text(params.read_text().replace("Judged@10]", "Judged@10, ERR@10]"))
    policy = project.root / "policy" / "pairwise.toml"
    policy.write_text(policy.read_text().replace('"nDCG@10"', '"ERR@10"'))
    said = harness(*tied(project, 1.0))
    assert "x: its scores tie, and ERR@10 has no bounds under ties" in said.error
