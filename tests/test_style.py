"""Taste is executable: ruff and mypy over everything, as strict as pyproject.toml says."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from typing import Any

import pytest

from tests.source import ROOT

SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]


@pytest.mark.parametrize(
    "command",
    [
        "ruff check",
        "ruff format --check --exclude *.md",
        pytest.param("mypy", marks=pytest.mark.slow),
    ],
)
def test_is_clean(command: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{command}:\n{result.stdout}{result.stderr}"


def test_the_settings_are_strict() -> None:
    assert SETTINGS["ruff"]["lint"]["select"] == ["ALL"]
    assert SETTINGS["mypy"]["strict"] is True
    assert set(SETTINGS["mypy"]["files"]) >= {"harness", "engines", "tests", "run.py"}
    assert SETTINGS["pytest"]["ini_options"]["filterwarnings"] == ["error"]


def test_no_rule_is_left_out_for_our_packages() -> None:
    ignored = SETTINGS["ruff"]["lint"]["per-file-ignores"]
    assert not [pattern for pattern in ignored if pattern.startswith("harness")]
    assert ignored["engines/stacks/*"] == ["D101"]
