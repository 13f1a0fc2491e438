"""``engine_contract``: the checks of an engine as tests of somebody's own suite."""

from __future__ import annotations

import gc
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import harness
from harness.api.contract import EngineCheck, engine_contract
from harness.check.checks import CONTRACT_CHECKS
from harness.core.engine import Answer
from harness.core.errors import BadPolicy
from harness.core.files import place
from harness.core.records import Document
from tests.docs.pages import ROOT
from tests.make.toy_engine import Toy, ToySearcher, keeps

OWN = ROOT / "examples" / "own_engine" / "own.toml"
SUITE = f"""
import pytest
from harness import engine_contract

@pytest.mark.parametrize("check", engine_contract({str(OWN)!r}), ids=str)
def test_own_engine(check):
    check()
"""


def served_by_another(searcher: ToySearcher, text: str, k: int) -> Answer:
    return replace(keeps(searcher, text, k), served_by="x")


@pytest.mark.parametrize("check", engine_contract(OWN), ids=str)
def test_the_example_keeps_the_contract(check: EngineCheck) -> None:
    check()


def test_it_is_a_name_of_the_package() -> None:
    assert harness.engine_contract is engine_contract
    assert [str(check) for check in engine_contract(OWN)] == [
        check.name for check in CONTRACT_CHECKS
    ]


def test_a_broken_promise_fails_with_what_to_do() -> None:
    checks = {str(check): check for check in engine_contract(Toy(served_by_another))}
    checks["ties"]()
    with pytest.raises(AssertionError, match=r"(?s)identity: broken.*To fix: Give self\.manifest"):
        checks["identity"]()


def test_what_cannot_be_checked_is_no_pass() -> None:
    def fails(*_: object) -> Answer:
        raise ValueError

    checks = {str(check): check for check in engine_contract(Toy(fails))}
    with pytest.raises(AssertionError, match="ties: not checked"):
        checks["ties"]()


def test_documents_of_ones_own() -> None:
    mine = (Document("a", "Ships", "A ship at sea."), Document("b", "Cars", "A car on a road."))
    checks = engine_contract(Toy(), documents=mine, queries=["ship", "a road"])
    left = {"processes", *(check.name for check in CONTRACT_CHECKS if check.own_documents)}
    assert {str(check) for check in checks} == {check.name for check in CONTRACT_CHECKS} - left
    for check in checks:
        check()


def test_a_wrong_file_is_named_when_it_is_needed(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("stack = 3\n")
    first, *_ = engine_contract(tmp_path / "own.toml")
    with pytest.raises(BadPolicy, match=r"own\.toml"):
        first()


def test_an_index_is_built_once_and_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    checks = engine_contract(Toy())
    assert list(place().iterdir()) == []
    checks[0]()
    checks[1]()
    assert len(list(place().iterdir())) == 1
    del checks
    gc.collect()
    assert list(place().iterdir()) == []


@pytest.mark.slow
def test_a_suite_elsewhere_runs_it(tmp_path: Path) -> None:
    suite = tmp_path / "test_own.py"
    suite.write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(suite)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"{len(CONTRACT_CHECKS)} passed" in done.stdout, done.stdout
