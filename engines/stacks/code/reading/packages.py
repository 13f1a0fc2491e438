"""Installed packages as documents: every symbol, what modules and pages say, and settings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from engines.stacks.code.reading import python_source
from engines.stacks.code.unit import Mode
from harness.core.reading import Malformed, text_of
from harness.core.records import Document, Scalar

PROSE, RECORDS = frozenset({"md", "rst", "txt"}), frozenset({"toml", "json", "csv"})
BIGGEST = 1 << 18
"""Bytes; a bigger file is data, not something that people wrote."""
_HEADING = re.compile(r"^#{1,3} +(\S.*?) *#*$", re.MULTILINE)


def documents(root: Path) -> Iterator[Document]:
    """Read every file below ``root``, in byte order of paths; nothing is imported or run.

    A function, method or class is a document, a class without its methods. So is the docstring
    of a module, a section of Markdown, and a file of TOML, JSON or CSV. Paths begin with the
    folder's own name. Files that are not UTF-8, too big, or no Python of today are left out.
    """
    for path in sorted(root.rglob("*"), key=lambda path: path.as_posix().encode()):
        ext = path.suffix.removeprefix(".").lower()
        if ext not in {"py", *PROSE, *RECORDS} or not path.is_file():
            continue
        if path.stat().st_size > BIGGEST:
            continue
        try:
            text = text_of(path)
        except Malformed:
            continue
        shown = f"{root.name}/{path.relative_to(root).as_posix()}"
        if ext == "py":
            yield from _of_module(shown, text)
        elif ext in PROSE:
            yield from _of_page(shown, text)
        else:
            yield Document(shown, path.stem, text, {"path": shown, "mode": Mode.RECORDS.value})


def _of_module(path: str, text: str) -> Iterator[Document]:
    tree = python_source.parsed(text)
    if tree is None:
        return
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    bound = _imports(tree)
    imports = ",".join(f"{name}={full}" for name, full in sorted(bound.items()))
    about: dict[str, Scalar] = {"path": path, "language": "python", "imports": imports}
    doc = ast.get_docstring(tree)
    if doc:
        said = {"path": path, "kind": "module", "mode": Mode.PROSE.value}
        yield Document(f"{path}::", module, doc, said)
    lines = text.splitlines(keepends=True)
    seen: dict[str, int] = {}
    for name, kind, part in _symbols(tree, lines):
        again = seen[name] = seen.get(name, 0) + 1
        doc_id = f"{path}::{name}" + (f"#{again}" if again > 1 else "")
        full = f"{module}.{name}"
        yield Document(doc_id, "", part, {**about, "kind": kind, "name": full, "mode": "code"})


def _symbols(tree: ast.Module, lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield name, kind and text of what a module defines, and of the methods of its classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, "function", "".join(lines[_first(node) : node.end_lineno])
        elif isinstance(node, ast.ClassDef):
            yield node.name, "class", _without_methods(node, lines)
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    part = "".join(lines[_first(inner) : inner.end_lineno])
                    yield f"{node.name}.{inner.name}", "method", part


def _first(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    """Line, from 0, where a definition begins: at its first decorator."""
    return min([node.lineno, *(mark.lineno for mark in node.decorator_list)]) - 1


def _without_methods(node: ast.ClassDef, lines: list[str]) -> str:
    own = [
        inner
        for inner in node.body
        if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    kept = lines[_first(node) : node.body[0].lineno - 1]
    for inner in own:
        kept += lines[inner.lineno - 1 : inner.end_lineno]
    return "".join(kept) if own else f"{''.join(kept).rstrip()}\n    ...\n"


def _imports(tree: ast.Module) -> dict[str, str]:
    top = ast.Module([n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)], [])
    return python_source.imported(top)


def _of_page(path: str, text: str) -> Iterator[Document]:
    """Cut a page at its headings; what stands above the first is a section without a title."""
    headings = list(_HEADING.finditer(text))
    cuts = [0, *(heading.start() for heading in headings), len(text)]
    titles = ["", *(heading[1] for heading in headings)]
    for at, title in enumerate(titles):
        part = text[cuts[at] : cuts[at + 1]].strip()
        if part:
            about: dict[str, Scalar] = {"path": path, "kind": "section", "mode": Mode.PROSE.value}
            yield Document(f"{path}#{at}", title, part, about)
