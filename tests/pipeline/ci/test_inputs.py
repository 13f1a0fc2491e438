"""What is recorded around a run, and what of it changed."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.engine import Manifest
from harness.core.errors import BadFile
from harness.pipeline.inputs import INPUTS, RunInputs, index_changes

WHO = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "a"), ("EMAIL", "a@b"))
}
FILES = {
    "shop/rank.py": "K = 1\n", "shop/style.css": "a", "params.yaml": "k: 1", "README.md": "x",
    "requirements.txt": "numpy", "eval/data/queries.jsonl": "{}", "eval/.gitignore": "out/\n",
}  # fmt: skip


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, env={**os.environ, **WHO}, check=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "eval" / "out").mkdir()
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "begin")
    return tmp_path


def around(repository: Path) -> RunInputs:
    (repository / "eval" / "out" / "ci.md").write_text(str(os.urandom(3)))
    return RunInputs.around(repository / "eval" / "out")


def since(before: RunInputs, repository: Path) -> tuple[str, ...]:
    return around(repository).since(before, "eval/data")


def test_every_kind_of_change_is_named(repository: Path) -> None:
    before = around(repository)
    assert before.files.keys() == FILES.keys()
    assert len(before.commit) == 40
    assert since(before, repository) == ()
    for name in ("shop/rank.py", "params.yaml", "README.md", "requirements.txt"):
        (repository / name).write_text("other")
    (repository / "eval" / "data" / "queries.jsonl").write_text("[]")
    (repository / "shop" / "words.py").write_text("")
    (repository / "shop" / "style.css").unlink()
    changed = (
        "code: shop/rank.py, shop/style.css, shop/words.py",
        "settings: params.yaml, requirements.txt",
        "data: eval/data/queries.jsonl",
        "other files: README.md",
    )
    assert since(before, repository) == changed
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "other")
    assert since(before, repository) == changed


def test_what_was_not_committed_is_the_same_when_it_is(repository: Path) -> None:
    (repository / "shop" / "rank.py").write_text("K = 2\n")
    dirty = around(repository)
    git(repository, "commit", "-qam", "two")
    assert since(dirty, repository) == ()


def test_bytecode_that_git_does_not_ignore_is_no_change(repository: Path) -> None:
    before = around(repository)
    (repository / "shop" / "__pycache__").mkdir(parents=True)
    (repository / "shop" / "__pycache__" / "search.cpython-311.pyc").write_bytes(b"made")
    assert since(before, repository) == ()


def test_packages_and_python_are_named_and_many_are_cut(repository: Path) -> None:
    now = around(repository)
    others = {**now.packages, **dict.fromkeys("abcdef", "1"), "numpy": "0.1"}
    before = now.model_copy(update={"packages": others, "python": "3.9"})
    numpy = now.packages["numpy"]
    found = now.since(before, "")
    assert found == (
        "packages: a 1 → absent, b 1 → absent, c 1 → absent, d 1 → absent and 3 more",
        f"Python 3.9 → {now.python}",
    )
    only = now.model_copy(update={"packages": {**now.packages, "numpy": "0.1"}})
    assert now.since(only, "") == (f"packages: numpy 0.1 → {numpy}",)


def test_without_git_no_file_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    found = RunInputs.around(tmp_path)
    assert (found.files, found.commit) == ({}, "")
    assert "numpy" in found.packages


def test_a_record_is_read_back_and_anything_else_refused(tmp_path: Path) -> None:
    found = RunInputs(commit="", files={"a": "1"}, packages={}, python="3.12")
    INPUTS.write(tmp_path / "inputs.json", found)
    assert INPUTS.read(tmp_path / "inputs.json") == found
    (tmp_path / "inputs.json").write_text("{}")
    with pytest.raises(BadFile, match="Run harness ci there again"):
        INPUTS.read(tmp_path / "inputs.json")


def test_an_index_differs_by_what_it_was_made_of() -> None:
    made = Manifest("function", "1", 5, "corpus", "settings")
    assert index_changes(made, made) == ""
    assert index_changes(made, replace(made, version="2")) == "code of the engine"
    other = replace(made, corpus_sha256="x", settings_sha256="y")
    assert index_changes(made, other) == "settings, documents"
