"""The size of the product: ``python -m tests.budget`` renews ``budgets.toml``; it only shrinks.

A change that needs more lines in a folder raises the figure by hand, and its commit tells what was
removed elsewhere.
"""

import argparse
import ast
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.source import ROOT, known, of_ours

FILE = ROOT / "budgets.toml"
SMALL = 80
"""Lines of a module that may be too small to stand alone."""
FOUND_BY_FOLDER = {"__init__", "commands", "evidence", "api"}
"""Packages, and modules that a slice is found by; so are rules of gates."""
HEAD = "# Ceilings, lines by folder. Renewed by: python3 run.py python -m tests.budget"


def lines() -> Mapping[str, int]:
    """Count the lines of each folder below both packages."""
    by: Counter[str] = Counter()
    for module in known().values():
        parts = module.file.removeprefix("engines/").split("/")
        by["/".join(parts[:2]) if len(parts) > len("ab") else parts[0]] += _lines(module.path)
    return dict(sorted(by.items()))


def whole() -> Mapping[str, float]:
    """Count what holds for the product as a whole."""
    trees = [module.tree for module in known().values()]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    found = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    imports = sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in found)
    classes = Counter(
        node.name
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    total = sum(lines().values())
    return {
        "lines": total,
        "modules": len(known()),
        "percent_of_imports": round(100 * imports / total + 0.05, 1),
        "small_modules_with_one_importer": len(small()),
        "names_of_several_classes": sum(count > 1 for count in classes.values()),
    }


def small() -> list[str]:
    """Name modules of a few lines that one other module imports."""
    by: dict[str, set[str]] = defaultdict(set)
    for module in known().values():
        for other in of_ours(module) - {module}:
            by[other.name].add(module.name)
    return [
        module.file
        for module in known().values()
        if module.says_something
        and _lines(module.path) < SMALL
        and len(by[module.name]) == 1
        and module.path.stem not in FOUND_BY_FOLDER
        and module.path.parent.name != "gates"
    ]


def _lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def over() -> list[str]:
    """Name what is larger than its ceiling, or has none."""
    ceilings = tomllib.loads(FILE.read_text(encoding="utf-8"))
    found: dict[str, Mapping[str, float]] = {"lines": lines(), "whole": whole()}
    return [
        f"{name}: {count:g}, and {ceilings[table].get(name, 0):g} is the ceiling in budgets.toml"
        for table, counts in found.items()
        for name, count in counts.items()
        if count > ceilings[table].get(name, 0)
    ]


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    tables = {"whole": whole(), "lines": lines()}
    rows = (
        f"\n[{table}]\n" + "".join(f'"{name}" = {count}\n' for name, count in of.items())
        for table, of in tables.items()
    )
    FILE.write_text(f"{HEAD}\n{''.join(rows)}", encoding="utf-8")
