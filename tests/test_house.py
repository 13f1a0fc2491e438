"""The house: who may import whom (``[tool.importlinter]``), and how large it is."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests import budget
from tests.source import ROOT, known

pytestmark = pytest.mark.slow
MODULE_LINES, TEST_LINES = 600, 800
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def test_imports_keep_their_contracts() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([tool], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout


def test_nothing_is_larger_than_its_budget() -> None:
    assert budget.over() == []


def test_a_file_is_not_endless() -> None:
    most = {module.path: MODULE_LINES for module in known().values()}
    most |= dict.fromkeys(TESTS, TEST_LINES)
    long = [path for path, lines in most.items() if path.read_text("utf-8").count("\n") > lines]
    assert long == []


def test_a_module_runs_nothing_when_it_is_imported() -> None:
    for module in known().values():
        if module.path.stem != "__main__":
            calls = [node for node in module.tree.body if isinstance(node, ast.Expr)][1:]
            assert not [node for node in calls if isinstance(node.value, ast.Call)], module.file
            runs = (ast.For, ast.While, ast.With)
            assert not any(isinstance(node, runs) for node in module.tree.body), module.file
