"""``means.csv``: what ``dvc plots show`` draws, drawn."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.core.scores import Estimate
from harness.pipeline.score import as_csv
from tests.make.toy import ARMS, Toy
from tests.source import ROOT

pytestmark = pytest.mark.slow


def test_a_row_an_arm_and_a_column_a_measure(measured: Toy) -> None:
    means = json.loads(measured.layout.scores.read_text())
    with measured.layout.means_plot.open(encoding="utf-8", newline="") as lines:
        rows = {row["arm"]: row for row in csv.DictReader(lines)}
    assert tuple(rows) == ARMS
    for arm, row in rows.items():
        assert list(row)[1:] == list(measured.params.score.measures)
        assert float(row["nDCG@10"]) == means[arm]["nDCG@10"]["mean"]


def test_what_was_not_measured_is_empty_and_no_number() -> None:
    means = {"a, b": {"RR@10": Estimate(0.5, 0.4, 0.6, 10)}, "c": {}}
    assert as_csv(means, ["RR@10", "P@1"]) == 'arm,RR@10,P@1\n"a, b",0.5,\nc,,\n'


def test_an_arm_that_is_a_formula_is_not_run() -> None:
    assert as_csv({"=cmd|' /C calc'!A0": {}}, ["P@1"]) == "arm,P@1\n'=cmd|' /C calc'!A0,\n"


def test_dvc_shows_its_metrics_and_plots(measured: Toy, tmp_path: Path) -> None:
    """The stage ``score`` of our own pipeline, in a folder of its own with what the stage wrote."""
    stage: dict[str, Any] = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]["score"]
    kept = {key: stage[key] for key in ("matrix", "metrics", "plots")} | {"cmd": "true"}
    (tmp_path / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"score": kept}}))
    shutil.copy(measured.root / "params.yaml", tmp_path / "params.yaml")
    shutil.copytree(measured.layout.per_query.parent, tmp_path / "build" / "toy" / "scores")
    dvc(tmp_path, "init", "--no-scm", "--quiet")
    metrics = json.loads(dvc(tmp_path, "metrics", "show", "--json"))[""]["data"]
    shown = metrics["build/toy/scores/scores.json"]["data"]["tantivy"]["nDCG@10"]["mean"]
    assert shown == json.loads(measured.layout.scores.read_text())["tantivy"]["nDCG@10"]["mean"]
    dvc(tmp_path, "plots", "show", "--out", "plots")
    page = (tmp_path / "plots" / "index.html").read_text()
    assert "nDCG@10 by arm, toy" in page
    assert "hash-hybrid" in page


def dvc(folder: Path, *words: str) -> str:
    command = [str(Path(sys.executable).parent / "dvc"), *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
