"""The house: who may import whom, and how big rooms and modules are."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.house import ORDER, SMALL, circles, importers, package, rooms, upward
from tests.source import (
    ROOT,
    imported,
    known,
    modules,
    names_imported,
    parsed,
    reached,
)

pytestmark = pytest.mark.slow

MAIN = "__main__"
MODULE_LINES, TEST_LINES, ROOM = 600, 800, 30
NO_ROOM = {"utils", "util", "helpers", "helper", "common", "misc", "shared", "tools"}
IMPORTS = 0.08
STAND_ALONE = {
    "harness/__init__.py",
    "harness/api/contract.py",
    "harness/report/fonts.py",
    "harness/cli/__init__.py",
}
TALKS_PLAINLY = {"harness/cli/__init__.py"}
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def test_every_package_has_its_place() -> None:
    assert {package(m) for m in modules("harness").values()} - {"", MAIN} == set(ORDER)


def test_imports_point_one_way() -> None:
    assert [f"{module.file} imports {other.name}" for module, other in upward()] == []


def test_modules_import_each_other_in_no_circle() -> None:
    assert circles() == []


def test_a_room_holds_few_modules() -> None:
    assert {room: count for room, count in rooms().items() if count > ROOM} == {}


@pytest.mark.parametrize("name", ["tests", "benchmarks", "examples", "run"])
def test_nothing_of_ours_imports_what_stands_outside(name: str) -> None:
    for module in known().values():
        assert name not in {found.split(".")[0] for found in names_imported(module)}, module.name


def test_a_module_is_small_and_says_what_it_is() -> None:
    for module in known().values():
        text = module.path.read_text(encoding="utf-8")
        assert text.count("\n") <= MODULE_LINES, module.file
        assert ast.get_docstring(module.tree), module.file
        assert module.path.stem not in NO_ROOM, module.file
        late = "from __future__ import annotations" in text
        assert late or not module.says_something, module.file


def test_a_module_runs_nothing_when_it_is_imported() -> None:
    for module in known().values():
        if module.path.stem != MAIN:
            calls = [node for node in module.tree.body if isinstance(node, ast.Expr)][1:]
            assert not [node for node in calls if isinstance(node.value, ast.Call)], module.file
            runs = (ast.For, ast.While, ast.With)
            assert not any(isinstance(node, runs) for node in module.tree.body), module.file


def test_nothing_is_printed() -> None:
    for module in known().values():
        names = {node.id for node in ast.walk(module.tree) if isinstance(node, ast.Name)}
        assert "print" not in names or module.file in TALKS_PLAINLY, module.file


def test_a_small_module_has_more_than_one_reader() -> None:
    """A rule of gates is found by its folder; tools of MCP need their extra."""
    for module in known().values():
        lines = module.path.read_text(encoding="utf-8").count("\n")
        if module.says_something and lines < SMALL and len(importers().get(module.name, ())) == 1:
            apart = module.path.parent.name == "gates" or module.path.stem == "mcp_tools"
            assert apart or module.file in STAND_ALONE, f"{module.file}: merge it with its reader"


def test_imports_are_a_small_part_of_the_lines() -> None:
    trees = [module.tree for module in known().values()]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    found = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    lines = sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in found)
    every = sum(m.path.read_text(encoding="utf-8").count("\n") for m in known().values())
    assert lines <= IMPORTS * every


def test_every_module_is_reached_by_a_test() -> None:
    """A name may stand in a test by chance; what no test imports, by whatever way, never runs."""
    commands = {n for n in known() if n.endswith(".commands") or n.startswith("harness.cli.")}
    begun = (in_tests() & known().keys()) | commands  # the application imports every command
    runs = {one for name in begun for one in reached(known()[name])}
    left = {module for module in known().values() if module not in runs and module.says_something}
    for module in left:
        named = module.path.parent.name == "gates"  # the registry finds rules by folder
        copied = "template" in module.path.parts
        assert named or copied or module.path.stem == MAIN, f"{module.file}: no test reaches it"


@cache
def in_tests() -> frozenset[str]:
    """Everything that a test imports."""
    return frozenset(name for path in TESTS for name in imported(parsed(path)))


def test_a_test_file_is_not_endless() -> None:
    for path in TESTS:
        assert path.read_text(encoding="utf-8").count("\n") <= TEST_LINES, path.name


def test_the_reading_of_imports_sees_lazy_ones() -> None:
    tree = ast.parse(
        "def f():\n    from harness.pipeline.gate import gate\n    import engines.arms\n"
    )
    assert set(imported(tree)) == {
        "harness.pipeline.gate", "harness.pipeline.gate.gate", "engines.arms",
    }  # fmt: skip
