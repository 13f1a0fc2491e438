"""``harness regress`` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Harness
from tests.make.toy import HEAD, STEP, Toy
from tests.pipeline.regress.test_stage import GATES, LOST, spoil


@pytest.fixture
def before(measured: Toy, project: Toy, tmp_path: Path) -> Path:
    """Copy the release before, and write the policy of the one now."""
    (project.root / "policy" / "regress.toml").write_text(HEAD + STEP + GATES)
    return measured.copied(tmp_path / "before").root


def test_no_worse_is_exit_code_zero(harness: Harness, before: Path) -> None:
    said = harness("regress", "--baseline", before)
    assert said.code == 0, said
    assert f"toy, each arm compared with itself in {before}" in said.out
    assert "the same answers, hit for hit: fts5, hash-hybrid, tantivy" in said.out


def test_worse_is_exit_code_one_and_the_queries_are_printed(
    harness: Harness, project: Toy, before: Path
) -> None:
    spoil(project, "tantivy", LOST)
    said = harness("regress", "--baseline", before, "--arms", "tantivy", "--top", "2")
    assert said.code == 1, said
    assert "WORSE     tantivy\n            FAIL: Quality" in said.out
    assert f"{LOST} answers got worse; the worst of them:" in said.out
    lines = [line for line in said.out.splitlines() if "-> 0.000  tantivy  q0" in line]
    assert len(lines) == 2
    assert "tantivy  nDCG@10" in said.out


def test_what_cannot_be_compared_is_exit_code_two(
    harness: Harness, project: Toy, before: Path
) -> None:
    path = project.layout.data / "manifest.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps({**about, "qrels_sha256": "0" * 64}))
    assert "has other judgements" in harness("regress", "--baseline", before).error
    assert "Name a revision of" in harness("regress", "--baseline", "no-such").error


def test_too_few_queries_are_exit_code_three(harness: Harness, project: Toy, before: Path) -> None:
    path = project.root / "policy" / "regress.toml"
    path.write_text((HEAD + STEP + GATES).replace("min_queries = 20", "min_queries = 2000"))
    assert harness("regress", "--baseline", before).code == 3
