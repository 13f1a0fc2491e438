"""``harness reproduce`` says first whether anything moved."""

from __future__ import annotations

import json

from harness.pipeline.dvc import RECORD
from tests.cli.conftest import Harness
from tests.make.toy import NAME, Toy


def test_what_was_recorded_is_reproduced(project: Toy, harness: Harness) -> None:
    project.decide()
    (project.root / "dvc.lock").write_text("stages: {}")
    assert harness("reproduce", "--record").code == 0
    assert (project.root / RECORD / NAME / "findings.json").is_file()
    said = harness("reproduce")
    assert said.code == 0
    assert f"{NAME}: all 0 recorded outputs are byte-identical" in said.out


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


def test_without_a_record_the_message_says_how_to_make_one(project: Toy, harness: Harness) -> None:
    project.decide()
    assert "harness reproduce --record" in harness("reproduce").error
