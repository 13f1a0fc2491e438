"""Verify, reproduce, selftest, arm check and doctor; and every remedy, executed."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from harness.core.errors import EvidenceError
from harness.corpus.runs import read_run, write_run
from harness.pipeline.layout import left_by_run
from harness.pipeline.receipts import RECORD, check_recorded
from harness.pipeline.verify import _answers, verify
from tests.cli.conftest import Harness
from tests.docs.pages import ROOT
from tests.make.damage import flip
from tests.make.forging import replace_in
from tests.make.search_server import collection
from tests.make.toy import CANDIDATE, NAME, Toy

pytestmark = pytest.mark.slow


def test_what_was_verified_is_printed(project: Toy, harness: Harness) -> None:
    project.decide()
    said = harness("verify")
    assert said.code == 0, said
    assert said.out.startswith("\ntoy is as it was decided")
    for what in ("qrels sha256", "corpus sha256", "arm tantivy", "race", "policy", "dvc.lock"):
        assert f"  {what} " in said.out
    assert "246, each by its own arm's fingerprint" in said.out
    assert said.err == ""
    assert len(verify(project.layout)) > 10


def test_one_answer_of_another_engine_is_missed(project: Toy) -> None:
    layout = project.layout
    run = read_run(layout.run(CANDIDATE))
    assert _answers(layout, CANDIDATE, "") == 2 * len(run)
    served = [*run.served_by]
    served[3] = "somebody else"
    write_run(replace(run, served_by=tuple(served)), layout.run(CANDIDATE))
    with pytest.raises(EvidenceError, match="answers of another engine than tantivy"):
        _answers(layout, CANDIDATE, "")


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
    assert "2 paths" in harness("verify").out
    text = name.read_text()
    name.write_text(text.replace(" 0 d", " 1 d", 1))
    assert f"qrels/{NAME}: is not what" in harness("verify").error
    name.write_text(text)
    lock.write_text(lock.read_text().replace(entry["md5"], "0" * 32))
    assert "fts5.parquet: is not what" in harness("verify").error


def test_what_harness_run_left_is_verified_too(project: Toy, harness: Harness) -> None:
    left, few = project.root / "left", collection(project.root / "few")
    words = ("run", "--dataset", few, "--arms", "fts5,tantivy", "--control", "fts5")
    assert harness(*words, "--out", "left").code == 0
    verified = ("verify", "--from", "left")
    said = harness(*verified)
    assert said.code == 0, said
    assert "12 files in left, rebuilt and compared" in said.out
    assert "  not checked          nothing" in said.out
    assert harness(*verified, "--dataset", "few").code == 0
    assert "there is few" in harness(*verified, "--dataset", "other").error
    (left / "ci.md").write_text("**PROMOTE**")
    assert "  not checked          ci.md" in harness(*verified).out
    files = {*left.glob("*.*"), *left.glob("runs/*")} - {left / "harness-run.txt", left / "ci.md"}
    assert len(files) == 12
    for path in (left_by_run(left).data / "qrels.trec", *files):
        whole = path.read_bytes()
        flip(path, len(whole) // 2)
        assert path.name in harness(*verified).error
        path.write_bytes(whole)


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


def test_a_verdict_that_moved_is_an_exit_code(project: Toy, harness: Harness) -> None:
    project.decide()
    run = f"build/{NAME}/runs/fts5.parquet"
    lock = {"stages": {f"replay@{NAME}-fts5": {"deps": [], "outs": [{"path": run, "md5": "x"}]}}}
    (project.root / "dvc.lock").write_text(json.dumps(lock))
    harness("reproduce", "--record")
    path = project.root / RECORD / NAME / "findings.json"
    path.write_text(path.read_text().replace('"verdict": "pass"', '"verdict": "fail"'))
    said = harness("reproduce")
    assert said.code == 2
    assert "1 of 1 recorded outputs differ; a verdict moved" in said.out
    assert f"replay@{NAME}-fts5: {run}" in said.out
    assert "gate Quality: fail when recorded, pass here" in said.out
    assert "no feature, package or SQLite differs: the cause is elsewhere" in said.out
    about = project.root / RECORD / NAME / "about.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "sqlite": "0.0"}))
    said = harness("reproduce")
    assert "SQLite 0.0 when recorded" in said.out
    assert "the cause is elsewhere" not in said.out


FEW = ("--trials", "40")


def test_the_worst_rate_is_said_first_with_what_it_rests_on(project: Toy, harness: Harness) -> None:
    before = {path for path in project.root.rglob("*") if path.is_file()}
    said = harness("selftest", "--dataset", NAME, *FEW)
    assert said.code == 0, said
    assert "Worst false promotion: " in said.out
    assert "2.50% allowed" in said.out
    assert "tantivy: Quality" in said.out
    assert "no difference" in said.out
    assert "Computed twice: 492 values, the second time by ir-measures." in said.out
    assert harness("selftest", *FEW).out == said.out
    alone = ("--control", "dense", "--policy", "policy/pairwise.toml")
    assert "no arm is compared with dense" in harness("selftest", "--dataset", NAME, *alone).error
    assert {path for path in project.root.rglob("*") if path.is_file()} == before


def test_an_engine_that_breaks_it_and_how_to_fix_it(project: Toy, harness: Harness) -> None:
    for name in ("own.toml", "own.py"):
        shutil.copy(ROOT / "examples" / "own_engine" / name, project.root)
    best = "Answer(by_best(named, k), self.manifest.fingerprint)"
    replace_in(project.root / "own.py", best, best.replace("k),", "k)[::-1],"))
    said = harness("arm", "check", "own.toml")
    assert said.code == 2
    assert said.out.startswith("own: BREAKS THE CONTRACT.")
    assert "order: broken. The highest score comes first." in said.out
    assert "To fix: Order by (-score, doc_id)" in said.out
    assert said.err == ""
