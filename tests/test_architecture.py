"""The house: who may import whom, how big a room is, and that each is tested."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.source import ROOT, Module, imported, known, modules, of_ours, parsed

ORDER = (
    "core", "corpus", "stats", "replay", "measures", "agreement", "shadow", "gates", "policy",
    "report", "stages", "api", "serve", "cli",
)  # fmt: skip
"""A package imports from itself and from those before it."""
MAIN = "__main__"
OPEN_ENGINES = {"stages", "cli"}
MODULE_LINES, TEST_LINES = 250, 450
NO_ROOM = {"utils", "util", "helpers", "helper", "common", "misc", "shared", "tools"}
TALKS_PLAINLY = {"harness/cli/__init__.py"}
TESTS = sorted((ROOT / "tests").rglob("*.py"))
EVERY = pytest.mark.parametrize("module", known().values(), ids=known())


def package(module: Module) -> str:
    parts = module.name.split(".")
    return parts[1] if len(parts) > 1 else ""


def test_every_package_has_its_place() -> None:
    assert {package(m) for m in modules("harness").values()} - {"", MAIN} == set(ORDER)


@EVERY
def test_imports_point_one_way(module: Module) -> None:
    own = module.name.split(".")[0]
    for other in of_ours(module):
        target = other.name.split(".")[0]
        if own == target == "harness" and package(module) in ORDER and package(other):
            assert ORDER.index(package(other)) <= ORDER.index(package(module)), other.name
        elif own == "harness" and target == "engines":
            assert package(module) in OPEN_ENGINES, other.name
        elif own == "engines" and target == "harness":
            assert package(other) in {"core", ""}, other.name


@pytest.mark.parametrize("name", ["tests", "benchmarks", "examples", "run"])
def test_nothing_of_ours_imports_what_stands_outside(name: str) -> None:
    for module in known().values():
        assert name not in {found.split(".")[0] for found in imported(module.tree)}, module.name


@EVERY
def test_a_module_is_small_and_says_what_it_is(module: Module) -> None:
    text = module.path.read_text(encoding="utf-8")
    assert text.count("\n") <= MODULE_LINES
    assert ast.get_docstring(module.tree)
    assert module.path.stem not in NO_ROOM
    assert not module.says_something or "from __future__ import annotations" in text


@EVERY
def test_a_module_runs_nothing_when_it_is_imported(module: Module) -> None:
    if module.path.stem != MAIN:
        calls = [node for node in module.tree.body if isinstance(node, ast.Expr)][1:]
        assert not [node for node in calls if isinstance(node.value, ast.Call)]
        assert not any(
            isinstance(node, (ast.For, ast.While, ast.With)) for node in module.tree.body
        )


@EVERY
def test_nothing_is_printed(module: Module) -> None:
    names = [node.id for node in ast.walk(module.tree) if isinstance(node, ast.Name)]
    assert "print" not in names or module.file in TALKS_PLAINLY


@EVERY
def test_every_module_is_tested_by_name(module: Module) -> None:
    """A module below ``base`` may be tested by what stands on it."""
    if module.says_something and module.path.stem != MAIN:
        above = [m for m in known().values() if module in of_ours(m)]
        below_base = module.path.parent.name == "base" and above
        assert spoken_of(module) or (below_base and all(map(spoken_of, above)))


def spoken_of(module: Module) -> bool:
    """Tell whether a test imports the module, or one of its part names it."""
    own, part, *_ = [*module.name.split("."), ""]
    stem = module.path.stem if module.path.stem != "__init__" else module.path.parent.name
    return module.name in in_tests() or bool(re.search(rf"\b{stem}\b", said(own, part)))


@cache
def in_tests() -> frozenset[str]:
    """Everything that a test imports."""
    return frozenset(name for path in TESTS for name in imported(parsed(path)))


@cache
def said(own: str, part: str) -> str:
    """Names and text of the tests of one part."""
    files = sorted((ROOT / "tests" / (part if own == "harness" else own)).rglob("*.py"))
    names = [path.stem.removeprefix("test_") for path in files]
    return "\n".join([*names, *(path.read_text(encoding="utf-8") for path in files)])


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_a_test_file_is_not_endless(path: object) -> None:
    text = (ROOT / str(path)).read_text(encoding="utf-8")
    assert text.count("\n") <= TEST_LINES


def test_the_reading_of_imports_sees_lazy_ones() -> None:
    tree = ast.parse(
        "def f():\n    from harness.stages.gate import gate\n    import engines.arms\n"
    )
    assert set(imported(tree)) == {
        "harness.stages.gate", "harness.stages.gate.gate", "engines.arms",
    }  # fmt: skip
