"""What a run leaves to ``--all``, and that it keeps something of everything."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.source import ROOT, parsed

HERE = Path(__file__)


def marks() -> list[tuple[Path, str]]:
    """Give the test that each mark of ``whole`` names, with the file that it stands in."""
    found = []
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    for path in (path for path in paths if ".whole(" in path.read_text("utf-8")):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.whole":
                (kept,) = node.args
                assert isinstance(kept, ast.Constant), path
                found.append((path, str(kept.value)))
    return found


def decorators(path: Path, name: str) -> list[str]:
    (test,) = (
        node
        for node in parsed(path).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    return [ast.unparse(one) for one in test.decorator_list]


@pytest.mark.parametrize(("path", "kept"), marks())
def test_what_is_kept_in_the_place_of_a_test_is_there_and_run(path: Path, kept: str) -> None:
    file, _, name = kept.rpartition("::")
    said = decorators(ROOT / file if file else path, name)
    assert not any(one.startswith("pytest.mark.whole") for one in said)
