"""Names joined by identity in packages that people wrote: relative imports, calls in a module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec, resolve_name
from pathlib import Path

import pytest

from engines.stacks.code.reading.documents import module_of, understand
from engines.stacks.code.units import Mode, Unit
from tests.make.code import documents

PACKAGES = ("requests", "click", "jinja2")
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def trees(package: str) -> Iterator[tuple[str, str, ast.Module]]:
    """Yield each file's path below the package's parent, its module, and its tree."""
    root = folder(package)
    for file in sorted(root.rglob("*.py")):
        path = file.relative_to(root.parent).as_posix()
        yield path, module_of(path), ast.parse(file.read_bytes())


def rebound(node: FUNCTION) -> Iterator[str]:
    """Yield the names that mean something else inside a function than outside."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.arg):
            yield inner.arg
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id
        elif isinstance(inner, ast.alias):
            yield inner.asname or inner.name
        elif isinstance(inner, FUNCTION) and inner is not node:
            yield inner.name


@pytest.fixture(scope="module", params=PACKAGES)
def read(request: pytest.FixtureRequest) -> tuple[str, list[Unit]]:
    package: str = request.param
    return package, [understand(one) for one in documents(folder(package))]


def test_each_relative_import_has_the_name_that_python_gives_it(
    read: tuple[str, list[Unit]],
) -> None:
    package, units = read
    by_path: dict[str, set[str]] = {}
    for unit in units:
        if unit.mode is Mode.CODE:
            by_path.setdefault(unit.path, set()).update(unit.facts.imports)
    count = 0
    for path, module, tree in trees(package):
        inside = module if path.endswith("__init__.py") else module.rpartition(".")[0]
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not node.level or path not in by_path:
                continue
            base = resolve_name("." * node.level + (node.module or ""), inside)
            for alias in node.names:
                assert f"{base}.{alias.name}" in by_path[path], (path, node.lineno)
                count += 1
    assert count > 50
    assert not [name for names in by_path.values() for name in names if name.startswith(".")]


def test_each_call_of_a_function_of_the_same_module_has_its_full_name(
    read: tuple[str, list[Unit]],
) -> None:
    package, units = read
    called: dict[tuple[str, str], set[str]] = {}
    for unit in units:
        if unit.facts.type == "function":
            called.setdefault((unit.path, unit.facts.full), set()).update(unit.facts.calls)
    count = 0
    for path, module, tree in trees(package):
        functions = [node for node in tree.body if isinstance(node, FUNCTION)]
        names = {node.name for node in functions}
        for node in functions:
            bound = set(rebound(node))
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                    name = call.func.id
                    if name in names - bound:
                        assert f"{module}.{name}" in called[path, f"{module}.{node.name}"], (
                            path,
                            call.lineno,
                        )
                        count += 1
    assert count > 10
