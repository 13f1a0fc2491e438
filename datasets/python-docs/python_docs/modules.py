"""Python source, read and never run: which names a module binds, and what they stand for."""

import ast
import gc
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Block = list[ast.stmt]


@dataclass(frozen=True, slots=True)
class Source:
    """What is kept of a function or class."""

    name: str
    is_class: bool
    docstring: str
    """As it stands in the file; empty where there is none."""
    arguments: tuple[str, ...]
    """Names with their stars, of a class those of its ``__init__``; ``self`` is left out."""
    decorators: frozenset[str]
    """Last parts of their names, e.g. ``overload`` of ``@typing.overload``."""
    bases: tuple[str, ...]
    """Base classes that are plain names."""
    members: "tuple[Source, ...]"
    """Methods in source order; of several with one name, the first."""


@dataclass(frozen=True, slots=True)
class Module:
    """What one file binds; the first binding of a name counts."""

    name: str
    definitions: Mapping[str, Source]
    imported: Mapping[str, tuple[str, str]]
    """Module and name there, by the name here."""
    starred: tuple[str, ...]
    """Modules of which everything public is imported."""
    listed: frozenset[str] | None
    """The strings that ``__all__`` is set to; None where it is not set to a plain list."""
    listed_whole: bool
    """Whether nothing is added to ``listed`` at run time."""
    docstring: str
    """As it stands in the file; empty where there is none."""


def parse(name: str, path: Path) -> Module:
    """Read one file; statements under ``if``, ``try`` and ``with`` count like others."""
    tree = _tree(path)
    definitions: dict[str, Source] = {}
    imported: dict[str, tuple[str, str]] = {}
    starred: list[str] = []
    for statement in _statements(tree.body):
        if isinstance(statement, Node):
            if statement.name not in imported and not _is_overload(statement):
                definitions.setdefault(statement.name, _source(statement))
        elif isinstance(statement, ast.ImportFrom):
            module = _imported_module(name, path.name == "__init__.py", statement)
            for alias in statement.names:
                bound = alias.asname or alias.name
                if alias.name == "*":
                    starred.append(module)
                elif bound not in definitions:
                    imported.setdefault(bound, (module, alias.name))
    said = ast.get_docstring(tree, clean=False) or ""
    return Module(name, definitions, imported, tuple(starred), *_listed(tree.body), said)


def _tree(path: Path) -> ast.Module:
    collecting = gc.isenabled()
    gc.disable()  # a tree holds no circles, but its many nodes would set the collector to work
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of escapes in old docstrings
            return ast.parse(path.read_bytes(), filename=str(path))
    finally:
        if collecting:
            gc.enable()


def _statements(body: Block) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        match statement:
            case ast.If(body=first, orelse=second):
                yield from _statements([*first, *second])
            case ast.Try(body=first, handlers=handlers, orelse=second, finalbody=last):
                caught = [inner for handler in handlers for inner in handler.body]
                yield from _statements([*first, *second, *last, *caught])
            case ast.With(body=inner):
                yield from _statements(inner)


def _source(node: Node) -> Source:
    members: dict[str, Source] = {}
    inits: list[Source] = []
    if isinstance(node, ast.ClassDef):
        for statement in _statements(node.body):
            if isinstance(statement, ast.FunctionDef) and not _is_overload(statement):
                members.setdefault(statement.name, _source(statement))
        inits = [members["__init__"]] if "__init__" in members else []
    return Source(
        name=node.name,
        is_class=isinstance(node, ast.ClassDef),
        docstring=ast.get_docstring(node, clean=False) or "",
        arguments=next((init.arguments for init in inits), ())
        if isinstance(node, ast.ClassDef)
        else _arguments(node.args),
        decorators=_decorators(node),
        bases=tuple(b.id for b in node.bases if isinstance(b, ast.Name))
        if isinstance(node, ast.ClassDef)
        else (),
        members=tuple(members.values()),
    )


def _arguments(given: ast.arguments) -> tuple[str, ...]:
    found = [a.arg for a in (*given.posonlyargs, *given.args)]
    found += [f"*{given.vararg.arg}"] if given.vararg else []
    found += [a.arg for a in given.kwonlyargs]
    found += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return tuple(found[1:] if found[:1] in (["self"], ["cls"]) else found)


def _decorators(node: Node) -> frozenset[str]:
    found: set[str] = set()
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(called, ast.Attribute):
            found.add(called.attr)
        elif isinstance(called, ast.Name):
            found.add(called.id)
    return frozenset(found)


def _is_overload(node: Node) -> bool:
    return "overload" in _decorators(node)


def _imported_module(name: str, is_package: bool, statement: ast.ImportFrom) -> str:  # noqa: FBT001  of a file
    if not statement.level:
        return statement.module or ""
    parts = name.split(".")
    base = parts[: len(parts) - statement.level + is_package]
    return ".".join([*base, statement.module] if statement.module else base)


def _listed(body: Block) -> tuple[frozenset[str] | None, bool]:
    listed: frozenset[str] | None = None
    whole = True
    for statement in body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id="__all__")], value=ast.List(elts=found) | ast.Tuple(elts=found)
            ):
                constants = [e.value for e in found if isinstance(e, ast.Constant)]
                listed = frozenset(c for c in constants if isinstance(c, str))
            case ast.AugAssign(target=ast.Name(id="__all__")):
                whole = False
    return listed, whole and listed is not None
