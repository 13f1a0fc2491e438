"""The project of the demo outside of a clone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from harness.pipeline import init
from harness.pipeline.init import INSTALLED, begin_packaged, other_versions
from tests.source import ROOT

BROUGHT = ("params.yaml", "dvc.yaml", "datasets/python-docs/card.toml", "policy/migration.toml")


@pytest.fixture
def brought(tmp_path: Path) -> Path:
    """Copy what the package brings, as far as it matters here."""
    folder = tmp_path / "packaged"
    for name in BROUGHT:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def test_no_stage_depends_on_code_that_is_not_there(brought: Path, tmp_path: Path) -> None:
    begin_packaged(brought, tmp_path / "demo")
    stages = yaml.safe_load((tmp_path / "demo" / "dvc.yaml").read_text())["stages"]
    clone = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    assert list(stages) == list(clone)
    for name, stage in stages.items():
        kept = {dep for dep in clone[name]["deps"] if dep.split("/")[0] not in init.CODE}
        assert stage["deps"].count(INSTALLED) == 1
        assert set(stage["deps"]) == {*kept, INSTALLED}
        assert stage["cmd"] == clone[name]["cmd"]
    assert "no_scm = true" in (tmp_path / "demo" / ".dvc" / "config").read_text()


def test_what_is_installed_is_noted_again_and_the_rest_is_kept(
    brought: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "demo"
    begin_packaged(brought, folder)
    about = json.loads((folder / INSTALLED).read_text())
    assert "numpy" in about["packages"]
    (folder / "policy" / "migration.toml").write_text("mine")
    monkeypatch.setattr(init, "versions", lambda: {"numpy": "9"})
    begin_packaged(brought, folder)
    assert (folder / "policy" / "migration.toml").read_text() == "mine"
    assert json.loads((folder / INSTALLED).read_text())["packages"] == {"numpy": "9"}


def test_versions_that_the_data_are_not_read_from_are_named(
    brought: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert other_versions(brought, ["python-docs", "a folder of one's own"]) == ()
    versions = {"matplotlib": "3.11.2", "pandas": "3.1.1", "scipy": "1.99"}
    monkeypatch.setattr("harness.corpus.card.installed", lambda _: versions)
    assert other_versions(brought, ["python-docs"]) == (
        "numpy none (not 2.4.6)",
        "scipy 1.99 (not 1.17.1)",
    )
