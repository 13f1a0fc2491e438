"""``harness run`` with a run that leaves queries out."""

from __future__ import annotations

from typing import Any

import pytest

from harness.corpus.runs import read_run
from tests.cli.conftest import Harness
from tests.make.decisions import of_gate
from tests.make.toy import Toy

pytestmark = pytest.mark.slow
GONE = 4


def leaving_out(project: Toy, count: int) -> list[str]:
    """Let ``x`` be the control and show what fts5 shows, less its first queries.

    One more has no line, for fts5 finds nothing for it.
    """
    rows = [*read_run(project.layout.run("fts5")).rows()]
    lines = [
        f"{row.query_id} Q0 {hit.doc_id} {rank} {-rank} x\n"
        for row in rows[count:]
        for rank, hit in enumerate(row.hits, start=1)
    ]
    (project.root / "x.trec").write_text("".join(lines))
    words = ("--dataset", "toy", "--arms", "fts5", "--trec-run", "x=x.trec", "--out", "out")
    return ["run", *words, "--control", "x"]


def quality(project: Toy) -> Any:  # noqa: ANN401  what json gives back
    return of_gate(project.root / "out" / "decision.json", "Quality")


def test_what_the_control_leaves_out_is_no_gain(project: Toy, harness: Harness) -> None:
    words = leaving_out(project, GONE)
    said = harness(*words)
    assert said.code == 0, said
    assert f"x: {GONE + 1} of 41 queries have no line: they are lost" in " ".join(said.err.split())
    lost = quality(project)
    assert lost["estimate"]["value"] == 0
    assert f"x has no value for {GONE + 1} queries that the other has one for" in lost["reason"]
    assert lost["verdict"] != "pass"
    assert f"x left {GONE + 1} unanswered" in (project.root / "out" / "index.html").read_text()
    assert harness(*words, "--missing", "empty").code == 0
    empty = quality(project)
    assert empty["estimate"]["value"] > 0
    assert "has no value" not in empty["reason"]


def test_a_rule_for_missing_lines_that_is_none_is_named(project: Toy, harness: Harness) -> None:
    said = harness(*leaving_out(project, GONE), "--missing", "maybe")
    assert "no rule for queries without a line named 'maybe'; there is lost, empty" in said.error
