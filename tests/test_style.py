"""Taste is executable: ruff and mypy over everything, as strict as pyproject.toml says."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from typing import Any

import pytest

from tests.source import ROOT, parsed

VAGUE = ("Give ", "Say ", "Tell ", "Let ", "Put ")
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
    assert set(SETTINGS["mypy"]["files"]) >= {
        "harness",
        "engines/harness_engines",
        "tests",
        "run.py",
    }
    assert SETTINGS["pytest"]["ini_options"]["filterwarnings"] == ["error"]


def test_no_rule_is_left_out_for_our_packages() -> None:
    ignored = SETTINGS["ruff"]["lint"]["per-file-ignores"]
    assert not [pattern for pattern in ignored if pattern.startswith("harness")]
    assert ignored["engines/harness_engines/stacks/*"] == ["D101"]


def test_docstrings_of_functions_begin_with_a_verb_of_the_field() -> None:
    """Return, Compute, Read, Write, Check, Raise and their like: never "Give" or "Say"."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {said.splitlines()[0]}"
        for room in ("harness", "engines")
        for path in sorted((ROOT / room).rglob("*.py"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (said := ast.get_docstring(node) or "").startswith(VAGUE)
    ]
    assert not found, found[:5]
