"""What CI shows of a run: what changed around it, and which queries lost."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.core.engine import Manifest
from harness.core.records import Query
from harness.pipeline.ci import RunInputs, index_changes, lost, seen_from_root
from tests.make.runs import scores_of

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
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a repository, and let one package be installed: to look for all takes a second."""
    installed = SimpleNamespace(metadata={"Name": "numpy"}, version="2")
    monkeypatch.setattr("harness.pipeline.ci.distributions", lambda: [installed])
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


def test_an_index_differs_by_what_it_was_made_of() -> None:
    made = Manifest("function", "1", 5, "corpus", "settings")
    assert index_changes(made, made) == ""
    assert index_changes(made, replace(made, version="2")) == "code of the engine"
    other = replace(made, corpus_sha256="x", settings_sha256="y")
    assert index_changes(made, other) == "settings, documents"


TEXTS = {name: Query(name, f"text of {name}") for name in "abcdef"}


def test_the_largest_loss_comes_first_and_no_gain_at_all() -> None:
    before = scores_of({"a": 0.5, "b": 1.0, "c": 0.2, "d": 1.0})
    now = scores_of({"a": 0.4, "b": 0.2, "c": 0.3, "d": 1.0})
    found = lost(before, now, TEXTS)
    assert [(loss.query_id, loss.before, loss.now) for loss in found] == [
        ("b", 1.0, 0.2),
        ("a", 0.5, 0.4),
    ]
    assert found[0].text == "text of b"


def test_no_answer_is_worse_than_any_number_and_is_none() -> None:
    before = scores_of({"a": 1.0, "b": 0.0, "c": 0.5}, failed="d")
    now = scores_of({"a": 0.0}, timed_out="bc", failed="d")
    found = lost(before, now, TEXTS)
    assert [(loss.query_id, loss.now, loss.instead) for loss in found] == [
        ("b", None, "timed_out"),
        ("c", None, "timed_out"),
        ("a", 0.0, ""),
    ]


def test_a_file_is_called_as_its_repository_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep" / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep")
    assert seen_from_root(Path("data/q.jsonl")) == "data/q.jsonl"
    (tmp_path / ".git").write_text("gitdir: elsewhere")
    assert seen_from_root(Path("data/q.jsonl")) == "deep/data/q.jsonl"
