"""Which folder a command works in, in a clone and outside of one."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from harness.cli.project import PACKAGED, Project
from harness.core.errors import HarnessError
from tests.source import ROOT


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let the code lie in a folder that is no clone, and stand in an empty one."""
    code = tmp_path / "site" / "harness"
    monkeypatch.setattr(harness, "__path__", [str(code)])
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return code


def test_a_folder_above_is_the_project(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    above = installed.parent.parent
    (above / "params.yaml").write_text("")
    assert Project.here() == Project.own() == Project(above)
    (Path.cwd() / "params.yaml").write_text("")
    assert Project.here().root == Path.cwd()
    monkeypatch.setattr(harness, "__path__", [str(ROOT / "harness")])
    assert Project.own().place == Path.cwd()


def test_in_a_clone_the_clone_is_the_project(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Project.here() == Project(ROOT)


def test_outside_of_one_the_package_is_read_and_the_folder_written_to(installed: Path) -> None:
    found = Project.here()
    assert found == Project(installed / PACKAGED, packaged=True)
    assert found.place == Path.cwd()
    assert found.cache == Path.cwd() / ".cache"
    assert found.kept_log("x").is_relative_to(Path.cwd())
    with pytest.raises(HarnessError, match=r"no project: .* Make one with: harness init FOLDER"):
        Project.own()
