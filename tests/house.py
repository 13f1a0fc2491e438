"""Figures of the house: ``python -m tests.house`` counts modules, rooms, circles and importers."""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache

from tests.source import Module, known, of_ours

TOP = (
    "gates", "policy", "report", "pipeline", "check", "load", "judge", "migrate", "tune", "logs",
    "clicks", "shadow", "serve", "trust", "api", "cli",
)  # fmt: skip
ORDER = {
    room: floor
    for floor, rooms in enumerate((
        ("core",),
        ("corpus",),
        ("stats",),
        ("replay",),
        ("measures",),
        ("agreement",),
        TOP,
    ))
    for room in rooms
}
"""A package imports from its own floor and from those below it."""
OPEN_ENGINES = {"pipeline", "check", "tune", "judge", "shadow", "migrate", "load", "trust", "cli"}
SMALL = 80
"""Lines of a module that may be too small to stand alone."""


def package(module: Module) -> str:
    """Room of the first floor that a module is in; empty for the package itself."""
    return [*module.name.split("."), ""][1]


def may_import(module: Module, other: Module) -> bool:
    """Tell whether the order of the rooms lets a module import another."""
    own, target = module.name.split(".")[0], other.name.split(".")[0]
    if own == target == "harness" and package(module) in ORDER and package(other):
        return ORDER[package(other)] <= ORDER[package(module)]
    if own == "harness" and target == "engines":
        return package(module) in OPEN_ENGINES
    return not (own == "engines" and target == "harness") or package(other) in {"core", ""}


def upward() -> Iterator[tuple[Module, Module]]:
    """Yield imports against the order of the rooms."""
    for module in known().values():
        yield from ((module, other) for other in of_ours(module) if not may_import(module, other))


def rooms() -> Mapping[str, int]:
    """Modules of each folder, ``__init__`` included."""
    return Counter(module.path.parent.as_posix() for module in known().values())


@cache
def importers() -> Mapping[str, frozenset[str]]:
    """By module, those that import it or a name from it."""
    by: dict[str, set[str]] = defaultdict(set)
    for module in known().values():
        for other in of_ours(module) - {module}:
            by[other.name].add(module.name)
    return {name: frozenset(names) for name, names in by.items()}


def circles() -> list[frozenset[str]]:
    """List sets of modules that import each other, for types too (Kosaraju)."""
    order: list[str] = []
    seen: set[str] = set()
    for name in known():
        todo = [(name, False)]
        while todo:
            one, done = todo.pop()
            if done:
                order.append(one)
            elif one not in seen:
                seen.add(one)
                todo += [(one, True), *((other.name, False) for other in of_ours(known()[one]))]
    of: dict[str, set[str]] = {}
    for name in reversed(order):
        if name not in of:
            own: set[str] = set()
            back = [name]
            while back:
                one = back.pop()
                if one not in of:
                    of[one] = own
                    own.add(one)
                    back += importers().get(one, ())
    return [
        frozenset(own) for own in {id(own): own for own in of.values()}.values() if len(own) > 1
    ]


def figures() -> Mapping[str, int]:
    """Count the house."""
    alone = [
        name for name, by in importers().items() if len(by) == 1 and known()[name].says_something
    ]
    return {
        "modules": len(known()),
        "folders": len(rooms()),
        "modules in the largest folder": max(rooms().values()),
        "circles of imports": len(circles()),
        "imports against the order of rooms": len(list(upward())),
        "modules with one importer": len(alone),
        f"of them, of fewer than {SMALL} lines": sum(
            known()[name].path.read_text(encoding="utf-8").count("\n") < SMALL for name in alone
        ),
    }


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    for what, count in figures().items():
        print(f"{count:6,}  {what}")  # noqa: T201  a command
