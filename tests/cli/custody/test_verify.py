"""``harness verify``: one byte of anything that a decision rests on is missed, by its name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from harness.core.errors import BadFile, EvidenceError
from harness.corpus.runs import read_run, write_run
from harness.pipeline.dvc import check_recorded
from harness.pipeline.layout import left_by_run
from harness.pipeline.receipts import read_manifest
from harness.pipeline.verify import _answers, verify
from tests.cli.conftest import Harness
from tests.make.toy import ARMS, CANDIDATE, NAME, Toy

pytestmark = pytest.mark.slow
OTHERS = ("harness-run.txt", "ci.md")
DATA = ("corpus.jsonl", "queries.jsonl", "qrels.trec", "manifest.json", "clusters.json")


@pytest.fixture(scope="module")
def decided(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Decide once; a test that spoils a file mends it again."""
    made = measured.copied(tmp_path_factory.mktemp("verified") / "project")
    made.decide()
    return made


def rests_on(project: Toy) -> Iterator[Path]:
    layout = project.layout
    yield from (layout.data / name for name in DATA)
    for arm in ARMS:
        yield from (layout.manifest(arm), layout.run(arm), layout.again(arm))
        yield layout.run_receipt(arm)
    yield from (layout.per_query, layout.scores, layout.slices, layout.score_receipt)
    yield from (layout.agreement, layout.classes, layout.differences, layout.compare_receipt)
    yield from (layout.race_receipt, layout.times, layout.findings)
    yield from (layout.decision, layout.junit)
    yield project.root / "policy" / "toy.toml"


def flipped(path: Path, at: int) -> bytes:
    """Flip the lowest bit of one byte, and give what was there."""
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    return whole


def test_what_was_verified_is_printed(decided: Toy, harness: Harness, project: Toy) -> None:
    project.decide()
    said = harness("verify")
    assert said.code == 0, said
    assert said.out.startswith("\ntoy is as it was decided")
    for what in ("qrels sha256", "corpus sha256", "arm tantivy", "race", "policy", "dvc.lock"):
        assert f"  {what} " in said.out
    assert "246, each by its own arm's fingerprint" in said.out
    assert said.err == ""
    assert len(verify(decided.layout)) > 10


def test_one_byte_of_any_file_is_missed_and_named(decided: Toy) -> None:
    for path in rests_on(decided):
        for at in (0, path.stat().st_size // 2, path.stat().st_size - 2):
            whole = flipped(path, at)
            with pytest.raises(Exception, match=path.name) as told:
                verify(decided.layout)
            assert type(told.value).__name__ in {"BadFile", "EvidenceError"}, path
            path.write_bytes(whole)
    verify(decided.layout)


def test_a_byte_of_the_judgements_is_exit_code_two(project: Toy, harness: Harness) -> None:
    project.decide()
    flipped(project.layout.data / "qrels.trec", 20)
    assert "qrels.trec: was changed since" in harness("verify", "--dataset", NAME).error


def test_the_projects_own_judgements_are_held(project: Toy, harness: Harness) -> None:
    project.decide()
    (path,) = (project.root / "qrels" / NAME).glob("*.qrels")
    path.write_text(path.read_text().replace("d00 0", "d00 1", 1))
    assert f"{path.name}: are not the judgements" in harness("verify").error
    card = project.root / "datasets" / NAME / "card.toml"
    said = json.loads((project.layout.data / "manifest.json").read_text())["qrels_sha256"]
    card.write_text(card.read_text().replace(said, "0" * 64))
    assert "card.toml: names other qrels" in harness("verify").error


def test_nothing_decided_is_nothing_to_verify(harness: Harness) -> None:
    assert "nothing was decided yet" in harness("verify").error


def test_a_receipt_that_says_less_is_refused(project: Toy, harness: Harness) -> None:
    """Whoever changes a file and takes it out of the receipt is told."""
    project.decide()
    path = project.layout.decision_receipt
    noted = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in noted.items() if "qrels.trec" not in k}))
    assert "does not speak of" in harness("verify").error


def test_one_answer_of_another_engine_is_missed(project: Toy) -> None:
    layout = project.layout
    manifest = read_manifest(layout, CANDIDATE)
    said = {
        "arms": {CANDIDATE: {"fingerprint": manifest.fingerprint}},
        "sha256": {"corpus": manifest.corpus_sha256},
    }
    run = read_run(layout.run(CANDIDATE))
    assert _answers(layout, CANDIDATE, said, "") == 2 * len(run)
    served = [*run.served_by]
    served[3] = "somebody else"
    write_run(replace(run, served_by=tuple(served)), layout.run(CANDIDATE))
    with pytest.raises(EvidenceError, match="answers of another engine than tantivy"):
        _answers(layout, CANDIDATE, said, "")


def test_what_dvc_recorded_is_held(project: Toy, harness: Harness) -> None:
    project.decide()
    run = project.layout.run("fts5")
    entry = {
        "path": run.relative_to(project.root).as_posix(),
        "md5": hashlib.md5(run.read_bytes(), usedforsecurity=False).hexdigest(),
    }
    name = project.root / "qrels" / NAME / "test.qrels"
    row = {"md5": hashlib.md5(name.read_bytes(), usedforsecurity=False).hexdigest()}
    rows = json.dumps([{**row, "relpath": "test.qrels"}], sort_keys=True).encode()
    folder = hashlib.md5(rows, usedforsecurity=False).hexdigest() + ".dir"
    deps = [{"path": f"qrels/{NAME}", "md5": folder}, {"path": "harness/core", "md5": "other"}]
    lock = project.root / "dvc.lock"
    stages = {f"replay@{NAME}-fts5": {"deps": deps, "outs": [entry]}}
    lock.write_text(yaml.safe_dump({"stages": stages}))
    assert check_recorded(project.root, NAME) == (name.parent, run)
    assert check_recorded(project.root, "to") == ()
    assert "2 paths" in harness("verify").out
    text = name.read_text()
    name.write_text(text.replace(" 0 d", " 1 d", 1))
    assert f"qrels/{NAME}: is not what" in harness("verify").error
    name.write_text(text)
    lock.write_text(lock.read_text().replace(entry["md5"], "0" * 32))
    assert "fts5.parquet: is not what" in harness("verify").error
    lock.write_text("stages: [")
    assert "is not what DVC writes" in harness("verify").error


def test_what_harness_run_left_is_verified_too(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    words = ("run", "--dataset", NAME, "--arms", "fts5,tantivy", "--control", "fts5")
    assert harness(*words, "--out", left).code == 0
    said = harness("verify", "--from", left)
    assert said.code == 0, said
    assert f"12 files in {left}, rebuilt and compared" in said.out
    assert "  not checked          nothing" in said.out
    assert harness("verify", "--from", left, "--dataset", NAME).code == 0
    assert "there is toy" in harness("verify", "--from", left, "--dataset", "other").error
    qrels = left_by_run(left).data / "qrels.trec"
    whole = flipped(qrels, 20)
    assert "qrels.trec" in harness("verify", "--from", left).error
    qrels.write_bytes(whole)
    (left / "ci.md").write_text("**PROMOTE**")
    assert "  not checked          ci.md" in harness("verify", "--from", left).out
    files = [path for path in (*left.glob("*.*"), *left.glob("runs/*")) if path.name not in OTHERS]
    assert len(files) == 12
    for path in files:
        whole = flipped(path, path.stat().st_size // 2)
        assert path.name in harness("verify", "--from", left).error
        path.write_bytes(whole)
    assert project.root.is_dir()


def test_counts_of_ties_are_made_again(project: Toy, harness: Harness, tmp_path: Path) -> None:
    run = read_run(project.layout.run(CANDIDATE))
    hits, left = tmp_path / "tied.trec", tmp_path / "left"
    lines = [f"{q} Q0 {d} 1 1.0 tied" for q in run.query_ids for d in run.ranking(q, 3)]
    hits.write_text("\n".join(lines) + "\n")
    words = ("run", "--dataset", NAME, "--arms", "fts5", "--trec-run", f"tied={hits}")
    assert harness(*words, "--control", "fts5", "--out", left).code == 0
    assert f"13 files in {left}" in harness("verify", "--from", left).out
    counts = json.loads((left / "ties.json").read_text())
    counts["tied"]["tied"] = 0
    (left / "ties.json").write_text(json.dumps(counts))
    assert "ties.json: is not what its evidence gives" in harness("verify", "--from", left).error


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="holds the evidence of none"):
        left_by_run(tmp_path)


def test_a_sample_of_queries_is_run_again(project: Toy, harness: Harness, tmp_path: Path) -> None:
    project.decide()
    said = harness("verify", "--requery", "5", "--seed", "7")
    assert said.code == 0, said
    assert "queried tantivy      5 of 5, seed 7: the same hits" in said.out
    run = read_run(project.layout.run(CANDIDATE))
    hits = tmp_path / "mine.trec"
    lines = [f"{q} Q0 {d} 1 1.0 mine" for q in run.query_ids for d in run.ranking(q, 1)]
    hits.write_text("\n".join(lines) + "\n")
    left = tmp_path / "left"
    words = ("run", "--dataset", NAME, "--arms", "fts5", "--trec-run", f"mine={hits}")
    assert harness(*words, "--control", "fts5", "--out", left).code == 0
    said = harness("verify", "--from", left, "--requery", "3")
    assert said.code == 0, said
    assert "queried mine         no: its run came as a file" in said.out
    assert "queried fts5         3 of 3, seed " in said.out
