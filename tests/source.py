"""The project's own source, read and not run: modules, what they import, what a file holds."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEST = re.compile(r"^def (test_\w+)\(", re.MULTILINE)


@dataclass(frozen=True)
class Module:
    """One Python file."""

    name: str
    path: Path

    @property
    def file(self) -> str:
        """Path as seen from the project's folder."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def tree(self) -> ast.Module:
        return parsed(self.path)

    @property
    def says_something(self) -> bool:
        """Whether it holds more than its docstring."""
        return len(self.tree.body) > 1


@cache
def parsed(path: Path) -> ast.Module:
    """Parse a file, once."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def modules(package: str) -> dict[str, Module]:
    """Every module of a package, by its dotted name."""
    found = {}
    top = ROOT / "engines" if package == "harness_engines" else ROOT
    for path in sorted((top / package).rglob("*.py")):
        parts = path.relative_to(top).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path)
    return found


@cache
def known() -> dict[str, Module]:
    """Every module of ours."""
    return {**modules("harness"), **modules("harness_engines")}


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield what is imported, also inside functions: modules, and names that may be modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def names_imported(module: Module) -> frozenset[str]:
    """Name what a module imports, also inside functions, once."""
    return frozenset(imported(module.tree))


@cache
def of_ours(module: Module) -> frozenset[Module]:
    """Modules of ours that a module imports."""
    return frozenset(known()[name] for name in names_imported(module) if name in known())


@cache
def reached(module: Module) -> frozenset[Module]:
    """Modules of ours that are imported when ``module`` works, itself among them."""
    found: set[Module] = set()
    todo = [module]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += of_ours(one)
            parts = one.name.split(".")
            todo += [known()[".".join(parts[:at])] for at in range(1, len(parts))]
    return frozenset(found)


@cache
def _tests(root: Path) -> dict[str, list[str]]:
    """Where each test function stands, by its name."""
    found: dict[str, list[str]] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        for name in TEST.findall(path.read_text("utf-8")):
            found.setdefault(name, []).append(f"{path.relative_to(root).as_posix()}::{name}")
    return found


def find_test(name: str, root: Path = ROOT) -> str:
    """Return where a test function stands, as pytest names it.

    Raises:
        LookupError: there is none of that name, or another has it too.
    """
    if "/" in name:
        return name
    found = _tests(root).get(name, [])
    if len(found) != 1:
        raise LookupError(f"there is no {name}" if not found else f"{name} stands in {found}")
    return found[0]
