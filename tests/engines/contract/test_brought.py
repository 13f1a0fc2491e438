"""Code that an arm brings: named when it fails, refused where none is allowed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from engines import contract
from engines import registry as arms
from harness.core.errors import (
    BadPolicy,
    HarnessError,
    InvalidArm,
    ModelNotReady,
    NotInstalled,
)
from tests.docs.pages import ROOT

OWN = ROOT / "examples" / "own_engine" / "own.toml"
REMOTE = ROOT / "examples" / "remote_mcp" / "over-stdio.toml"


@pytest.fixture
def none_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(contract.NO_CODE, "1")


@pytest.mark.usefixtures("none_allowed")
@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/**/*.toml")), ids=lambda p: p.stem)
def test_every_example_that_brings_code_is_refused_by_name(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if "stack =" not in text:
        return
    brings = re.search(r'stack = ".*\.py"|command = \[.+\]', text)
    if not brings:
        with suppress(NotInstalled, ModelNotReady):
            arms.load(str(path), tmp_path)
        return
    with pytest.raises(InvalidArm, match=f"the arm {path.stem} brings code"):
        arms.load(str(path), tmp_path)


@pytest.mark.usefixtures("none_allowed")
def test_nothing_of_it_is_run(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (tmp_path / "own.toml").write_text('summary = "s"\nstack = "own.py"\n')
    with pytest.raises(InvalidArm):
        arms.load(str(tmp_path / "own.toml"), tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.usefixtures("none_allowed")
@pytest.mark.parametrize("name", arms.names())
def test_the_arms_of_the_program_bring_none(name: str, tmp_path: Path) -> None:
    assert arms.load(name, tmp_path).name == name


@pytest.mark.parametrize("value", ["", "0"])
def test_it_is_allowed_where_nobody_forbids_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str
) -> None:
    monkeypatch.setenv(contract.NO_CODE, value)
    assert arms.load(str(OWN), tmp_path).name == "own"
    assert arms.load(str(REMOTE), tmp_path).name == "over-stdio"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("--no-code", "stage", "index"), ("stage", "index", "--no-code")]
)
def test_the_option_counts_before_the_command_and_after_it(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    command = [sys.executable, "-m", "harness", *words, "--dataset", "python-docs"]
    done = subprocess.run(
        [*command, "--arm", str(OWN)], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 2
    assert "the arm own brings code" in done.stderr


@pytest.mark.parametrize("before", [None, "0", "1"])
def test_what_is_forbidden_for_a_while_is_forbidden_to_processes_too(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.delenv(contract.NO_CODE, raising=False)
    if before is not None:
        monkeypatch.setenv(contract.NO_CODE, before)
    with contract.forbidden():
        assert not contract.allowed()
        asked = "from engines import contract as brought; print(brought.allowed())"
        done = subprocess.run([sys.executable, "-c", asked], capture_output=True, check=True)
        assert done.stdout == b"False\n"
    assert os.environ.get(contract.NO_CODE) == before


def test_an_error_that_says_enough_is_left_alone() -> None:
    for raised in (BadPolicy("a.toml", "no key", "Mend it"), KeyboardInterrupt()):
        with pytest.raises(type(raised)), contract.named("own", "fails"):
            raise raised
    with pytest.raises(ZeroDivisionError), contract.named("own", "fails", but=ZeroDivisionError):
        raise ZeroDivisionError
    says = "own: fails: ZeroDivisionError: by nothing"
    with pytest.raises(HarnessError, match=says), contract.named("own", "fails"):
        raise ZeroDivisionError("by nothing")


def test_an_error_of_whoever_uses_an_engine_is_not_the_engines(tmp_path: Path) -> None:
    arm = arms.load("fts5", tmp_path)
    arm.build([], tmp_path)
    with pytest.raises(ZeroDivisionError), arm.open(tmp_path):
        raise ZeroDivisionError
