"""``params.yaml`` is read strictly, and an error names the key and the hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadPolicy
from harness.pipeline.params import read
from tests.make.toy import PARAMS


def changed(folder: Path, old: str, new: str) -> Path:
    assert old in PARAMS
    path = folder / "params.yaml"
    path.write_text(PARAMS.replace(old, new))
    return path


def test_the_projects_own_file_is_read() -> None:
    own = read(Path(__file__).resolve().parents[2] / "params.yaml")
    assert own.replay.k >= own.race.k
    assert own.score.resamples >= 1_000


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("k: 50,", "", r"replay\.k: Field required"),
        ("k: 50,", "k: 0,", r"replay\.k: .*greater than or equal to 1"),
        ("k: 50,", "k: '50',", r"replay\.k: .*integer"),
        ("rbo_p: 0.9", "rbo_p: 1", r"compare\.rbo_p"),
        ("rbo_p: 0.9", "rbo_p: 0.9, p: 1", r"compare\.p: Extra inputs"),
        ("datasets: [toy]", "datasets: []", "datasets: "),
        ("confidence: 0.95", "confidence: 95", r"score\.confidence"),
        ("resamples: 1000", "resamples: 10", r"score\.resamples"),
        ("depths: [10, 50]", "depths: [60]", r"compare\.depths 60 looks deeper than the 50 hits"),
        ("R@50", "R@51", r"score\.measures R@51 looks deeper"),
        ("k: 20,", "k: 51,", r"race\.k looks deeper"),
        ("policy:", "selftest: {trials: 0}\npolicy:", "selftest: Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(BadPolicy, match=rf"params\.yaml: .*{says}"):
        read(changed(tmp_path, old, new))


def test_bad_syntax_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(BadPolicy, match=r"params\.yaml:[34]: not YAML"):
        read(changed(tmp_path, "policy: policy/toy.toml", "policy: [policy"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadPolicy, match=r"params\.yaml: no such file"):
        read(tmp_path / "params.yaml")


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("just words")
    with pytest.raises(BadPolicy, match=r"params\.yaml: the file: "):
        read(tmp_path / "params.yaml")
