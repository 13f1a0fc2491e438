"""``harness judge --machine``: what is typed, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.corpus import judgements
from tests.cli.conftest import Harness
from tests.make.desk import ENDPOINT, OVERLAP, desk, write_pool
from tests.make.judge_server import completion, graded
from tests.make.toy import Toy
from tests.source import ROOT

pytestmark = pytest.mark.slow
WORDS = ("judge", "pool.qrels", "--machine", "judge.toml")


def test_a_rule_labels_a_pool(project: Toy, harness: Harness) -> None:
    write_pool(project.root)
    said = harness(
        *WORDS[:2], "--machine", ROOT / "examples/judge/overlap.toml", "--out", "m.jsonl"
    )
    assert said.code == 0, said
    assert "overlap: 4 labels in m.jsonl, 4 pairs judged now for 0.0000 with 0 retries" in said.out
    assert "  grade 0: 2\n  grade 1: 2\n" in said.out
    assert len(judgements.read_labels(project.root / "m.jsonl")) == 4
    assert (project.root / ".cache" / "judges" / "overlap").is_dir()


def test_a_dry_run_says_the_cost(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(project.root, monkeypatch, completion("prose")) as at:
        at.file.write_text((ROOT / "examples/judge/endpoint.toml").read_text())
        said = harness(*WORDS, "--dry-run")
        assert at.server is not None
        assert not at.server.seen
    assert said.code == 0, said
    assert "4 pairs, 0 answered before. The others send about" in said.out
    assert "without retries. Nothing was sent." in said.out
    assert not (project.root / ".cache" / "judges").exists()


def test_pairs_without_a_label_are_listed(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    prose = [completion("prose")] * 5
    with desk(project.root, monkeypatch, *prose, graded(1, 0, 0)) as at:
        at.file.write_text(ENDPOINT.replace("retries = 2", "retries = 4"))
        said = harness(*WORDS, "--out", "m.jsonl")
    assert "grader: 3 labels in m.jsonl" in said.out
    assert "no label: d0 for query q0: the judge grader: the answer is not JSON: prose" in said.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--out", "m.jsonl"), "--out and --dry-run belong to --machine FILE"),
        (("--machine", "judge.toml"), "name the file of labels: --out FILE"),
        (("--machine", "judge.toml", "--merge", "toy"), "--merge and --by are for judgements of"),
        (("--machine", "none.toml", "--out", "m.jsonl"), "none.toml: no such file"),
        (("--machine", "judge.toml", "--out", "pool.qrels"), "which is read"),
    ],
)
def test_what_does_not_fit_is_named(
    project: Toy, harness: Harness, words: tuple[str, ...], says: str
) -> None:
    before = write_pool(project.root).read_bytes()
    (project.root / "judge.toml").write_text(OVERLAP)
    assert says in harness("judge", "pool.qrels", *words).error
    assert Path(project.root / "pool.qrels").read_bytes() == before
