"""The written ``ci.sh`` finds the harness: by HARNESS, on PATH, in a ``.venv`` here or above."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.pipeline.init import Begun, begin_project

FAKE = "#!/bin/sh\necho {name}: $1\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    begin_project(Begun(tmp_path / "ours" / "mine", "fts5"))
    return tmp_path / "ours" / "mine"


def fake(path: Path, name: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FAKE.format(name=name))
    path.chmod(0o755)
    return path


def said(project: Path, **env: str) -> tuple[int, str]:
    env.setdefault("PATH", "/usr/bin:/bin")
    done = subprocess.run(
        [project / "ci.sh"], env=env, capture_output=True, text=True, check=False, cwd="/"
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("above", [0, 1])
def test_an_environment_here_or_above_is_found(project: Path, above: int) -> None:
    fake([project, *project.parents][above] / ".venv" / "bin" / "harness", "venv")
    assert said(project) == (0, "venv: run\nvenv: ci\n")


def test_the_path_comes_before_it_and_the_variable_before_both(
    project: Path, tmp_path: Path
) -> None:
    fake(project / ".venv" / "bin" / "harness", "venv")
    path = f"{fake(tmp_path / 'bin' / 'harness', 'path').parent}:/usr/bin:/bin"
    assert said(project, PATH=path) == (0, "path: run\npath: ci\n")
    own = fake(tmp_path / "a folder" / "own", "own")
    assert said(project, PATH=path, HARNESS=f"sh '{own}'") == (0, "own: run\nown: ci\n")


def test_without_one_it_says_what_to_do(project: Path) -> None:
    code, text = said(project)
    assert code == 2
    assert "harness is neither on PATH nor in a .venv" in text
