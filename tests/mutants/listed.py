"""The list of planted faults: small changes of the code that named tests must notice.

A file of ``planted/`` is a room of the code, and a table of it a fault by its name: ``at`` and
``edit``, as ``plant.py`` reads them; ``by``, the test functions that are to fail then; ``why``,
what would go wrong unseen. ``survives`` is the reason of one that no test can notice. ``rows`` are
the promises of docs/contract.md that it breaks; ``promise`` is the one of docs/trust.md.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from tests.source import ROOT, find_test, known

FOLDER = Path(__file__).with_name("planted")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault, and the tests that are to see it."""

    id: str
    at: str
    edit: str
    by: tuple[str, ...]
    why: str
    survives: str = ""
    rows: tuple[str, ...] = ()
    promise: str = ""

    @property
    def tests(self) -> tuple[str, ...]:
        """Where its tests stand."""
        return tuple(map(find_test, self.by))


@cache
def mutants() -> tuple[Mutant, ...]:
    """Return all of the list, room by room."""
    rooms = [tomllib.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.toml"))]
    return tuple(
        Mutant(**{"id": name, **told, "by": tuple(told["by"]), "rows": tuple(told.get("rows", ()))})
        for room in rooms
        for name, told in room.items()
    )


Nodes = list[Any]
DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)
WORD = re.compile(r"\w+")
ASIDE = frozenset({"ctx", "type_comment", "kind"})


@dataclass(frozen=True, slots=True)
class Spot:
    """Where code stands: in which node and field of it, from where to where in a list."""

    holder: ast.AST
    field: str
    span: slice | None
    bodies: list[Nodes]
    new: Nodes

    def put(self) -> None:
        """Put the new code in the place of the old."""
        new = _filled(deepcopy(self.new), iter(self.bodies))
        if self.span is None:
            setattr(self.holder, self.field, new[0])
        else:
            getattr(self.holder, self.field)[self.span] = new


def plant(mutant: Mutant) -> dict[str, str]:
    """Return the source of each file with the fault in it, by its path in the project.

    Raises:
        LookupError: the code to be changed does not stand there exactly once.
    """
    file = find(mutant)
    text = (ROOT / file).read_text("utf-8")
    if file == mutant.at:
        return {file: text.replace(*_sides(mutant.edit))}
    tree = ast.parse(text)
    (spot,) = spots(mutant, tree)
    spot.put()
    return {file: ast.unparse(ast.fix_missing_locations(tree)) + "\n"}


def find(mutant: Mutant) -> str:
    """Return the path, in the project, of the file that holds the code to be changed.

    Raises:
        LookupError: the code does not stand under that name exactly once.
    """
    old, new = _sides(mutant.edit)
    room, _, name = mutant.at.rpartition(":")
    parts = {*filter(None, name.split("."))}
    if "/" in mutant.at:
        found = [mutant.at] * (ROOT / mutant.at).read_text("utf-8").count(old)
    else:
        found = [
            module.file
            for module in known().values()
            if module.name == room or (name and f"{module.name}.".startswith(room and f"{room}."))
            if parts <= _words(module.path)
            for _ in spots(mutant, module.tree)
        ]
    if len(found) != 1 or old == new:
        said = f"{len(found)} times, not once {', '.join(found)}".strip()
        raise LookupError(f"{mutant.id}: in {mutant.at} its code stands {said}")
    return found[0]


@cache
def _words(path: Path) -> frozenset[str]:
    return frozenset(WORD.findall(path.read_text("utf-8")))


def spots(mutant: Mutant, tree: ast.Module) -> list[Spot]:
    scopes: list[ast.AST] = [tree]
    for name in filter(None, mutant.at.rpartition(":")[2].split(".")):
        scopes = [node for scope in scopes for node in _own(scope) if name in _names(node)]
    forms = _forms(mutant.edit) if scopes else ()
    return [spot for scope in scopes for old, new in forms for spot in _matches(scope, old, new)]


def _own(scope: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of a scope, without those of functions and classes in it."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, BLOCKS) and not isinstance(node, DEFINES):
            yield from _own(node)


def _names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, DEFINES):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        parts = (part for target in targets for part in ast.walk(target))
        yield from (part.id for part in parts if isinstance(part, ast.Name))


def _sides(edit: str) -> tuple[str, str]:
    old, _, new = edit.partition("=>")
    return old.strip(), new.strip()


@cache
def _forms(edit: str) -> tuple[tuple[Nodes, Nodes], ...]:
    """Read what an edit may mean: statements, an expression, or a keyword argument."""
    old, new = (ast.parse(side).body for side in _sides(edit))
    whole, value, keyword = zip(_readings(old), _readings(new), strict=True)
    if all(value):
        return (value,)
    return whole, *(one for one in (value, keyword) if one[0] and (one[1] or not new))


def _readings(code: Nodes) -> tuple[Nodes, Nodes, Nodes]:
    match code:
        case [ast.Expr(value)]:
            return code, [value], []
        case [ast.Assign([ast.Name(name)], value)]:
            return code, [], [ast.keyword(name, value)]
    return code, [], []


def _matches(scope: ast.AST, old: Nodes, new: Nodes) -> Iterator[Spot]:
    for holder in ast.walk(scope):
        for field, value in ast.iter_fields(holder):
            if isinstance(value, list):
                for at in range(len(value) - len(old) + 1):
                    bodies: list[Nodes] = []
                    end = at + len(old)
                    if all(map(partial(_same, bodies), old, value[at:end])):
                        yield Spot(holder, field, slice(at, end), bodies, new)
            elif len(old) == len(new) == 1 and _same(bodies := [], old[0], value):
                yield Spot(holder, field, None, bodies, new)


def _same(bodies: list[Nodes], pattern: Any, node: Any) -> bool:  # noqa: ANN401
    """Compare a pattern with code, and add to ``bodies`` what its gaps stand for."""
    if isinstance(pattern, list) and isinstance(node, list):
        if node and isinstance(node[0], ast.stmt) and len(pattern) == 1 and _is_gap(pattern[0]):
            bodies.append(node)
            return True
        return len(pattern) == len(node) and all(map(partial(_same, bodies), pattern, node))
    if not isinstance(pattern, ast.AST):
        return type(pattern) is type(node) and bool(pattern == node)
    return type(pattern) is type(node) and all(
        _same(bodies, value, getattr(node, field))
        for field, value in ast.iter_fields(pattern)
        if field not in ASIDE
    )


def _is_gap(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and getattr(node.value, "value", None) is ...


def _filled(nodes: Nodes, bodies: Iterator[Nodes]) -> Nodes:
    """Put the bodies that were found in the place of the gaps."""
    found: Nodes = []
    for node in nodes:
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], BLOCKS):
                setattr(node, field, _filled(value, bodies))
        found += next(bodies, [node]) if _is_gap(node) else [node]
    return found


LONGEST_S = 120
KEPT_AWAY = shutil.ignore_patterns("__pycache__")
LINKED, COPIED = (".venv",), ("harness", "engines", "tests", "benchmarks", "examples", "ci")


class Fate(StrEnum):
    """What became of a fault."""

    KILLED = "killed"
    SURVIVED = "survived"
    BROKEN = "broken"
    """The tests did not run: the fault is no fault, or a test is not there."""


@dataclass(frozen=True)
class Bench:
    """A copy of the project, in which one fault at a time is planted."""

    root: Path
    moments: Iterator[int] = dataclasses.field(default_factory=lambda: itertools.count(1))
    """When a file was changed: compiled modules are told apart by seconds, and we are quicker."""

    @classmethod
    def of(cls, root: Path) -> Bench:
        """Copy what tests run, and link the rest."""
        root.mkdir(parents=True)
        for path in ROOT.iterdir():
            if path.name in COPIED:
                shutil.copytree(path, root / path.name, ignore=KEPT_AWAY, symlinks=True)
            elif path.name != ".git":
                (root / path.name).symlink_to(path)
        return cls(root)

    @contextmanager
    def spoilt(self, mutant: Mutant) -> Iterator[None]:
        """Plant a fault, and take it back."""
        spoilt = {self.root / file: text for file, text in plant(mutant).items()}
        honest = {path: path.read_text("utf-8") for path in spoilt}
        self._write(spoilt)
        try:
            yield
        finally:
            self._write(honest)

    def _write(self, texts: Mapping[Path, str]) -> None:
        for path, text in texts.items():
            path.write_text(text, "utf-8")
            moment = next(self.moments)
            os.utime(path, (moment, moment))

    def fate(self, mutant: Mutant) -> tuple[Fate, str]:
        """Try one fault; what was said beside it, for people."""
        with self.spoilt(mutant):
            return self.run(mutant.tests)

    def run(self, tests: Sequence[str]) -> tuple[Fate, str]:
        """Run tests of the copy up to the first that fails; whoever hangs has noticed."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
        path = f"{self.root}:{self.root / 'engines'}"
        env = {**kept, "PYTHONPATH": path, "HYPOTHESIS_STORAGE_DIRECTORY": str(self.root)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        try:
            done = subprocess.run(
                command, cwd=self.root, env=env, capture_output=True, text=True,
                timeout=LONGEST_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Fate.KILLED, f"no answer within {LONGEST_S} s"
        said = done.stdout + done.stderr
        ends = {pytest.ExitCode.OK: Fate.SURVIVED, pytest.ExitCode.TESTS_FAILED: Fate.KILLED}
        return ends.get(pytest.ExitCode(done.returncode), Fate.BROKEN), said
