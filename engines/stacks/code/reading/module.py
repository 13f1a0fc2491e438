"""One file of Python as documents: what it defines, its constants, what its module says and does.

A file that does not parse, as it is being edited or of another age, is cut at its definitions.
Those that parse are read as ever, and the rest by its signs.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from engines.stacks.code.reading import python_source
from engines.stacks.code.unit import Mode
from harness.core.records import Document, Scalar

_CUT = re.compile(r"^(?=(?:async[ \t]+def|def|class)[ \t]|@)", re.MULTILINE)
_DEFINED = re.compile(r"^(?:async[ \t]+)?(def|class)[ \t]+(\w+)", re.MULTILINE)
_LINE_END = re.compile(r"\r\n?")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
SELF = "self"


class Part(NamedTuple):
    """A stretch of a file that becomes a document."""

    name: str
    """Within the module; empty for the module itself."""
    kind: str
    text: str
    first: int
    """Line, from 1."""
    last: int
    within: str = ""
    """The class around a method."""


def decoded(data: bytes) -> str:
    """Decode a file of Python as Python does: by its mark or its first lines, else as UTF-8.

    What cannot be decoded becomes U+FFFD. Line ends become line feeds.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding, "replace")
    except (SyntaxError, LookupError):
        text = data.decode("utf-8-sig", "replace")
    return _LINE_END.sub("\n", text.replace("\0", "\ufffd"))


def documents(path: str, module: str, text: str) -> Iterator[Document]:
    """Make the documents of a file; ``module`` is its name with dots, ``path`` begins their ids."""
    whole = python_source.parsed(text)
    parts = _parts(whole, text) if whole is not None else list(_broken(text))
    inside = path.rpartition("/")[2].startswith("__init__.")
    package = module if inside else module.rpartition(".")[0]
    bound = _imports(whole, package)
    imports = ",".join(f"{name}={full}" for name, full in sorted(bound.items()))
    own = {part.name: f"{module}.{part.name}" for part in parts if part.name.isidentifier()}
    about: dict[str, Scalar] = {
        "path": path, "language": "python", "imports": imports, "package": package,
    }  # fmt: skip
    doc = ast.get_docstring(whole) if whole is not None else None
    if doc:
        last = whole.body[0].end_lineno if whole is not None else 0
        said = {"path": path, "kind": "module", "mode": Mode.PROSE.value, "lines": f"1-{last}"}
        yield Document(f"{path}::", module, doc, said)
    seen: dict[str, int] = {}
    for part in parts:
        again = seen[part.name] = seen.get(part.name, 0) + 1
        shown = part.name or "<module>"
        doc_id = f"{path}::{shown}" + (f"#{again}" if again > 1 else "")
        mine = {**own, SELF: f"{module}.{part.within}"} if part.within else own
        names = ",".join(f"{name}={full}" for name, full in sorted(mine.items()))
        more: dict[str, Scalar] = {
            "kind": part.kind, "name": f"{module}.{part.name}" if part.name else module,
            "own": names, "lines": f"{part.first}-{part.last}", "mode": Mode.CODE.value,
        }  # fmt: skip
        yield Document(doc_id, "", part.text, {**about, **more})


def _parts(tree: ast.Module, text: str) -> list[Part]:
    lines = text.split("\n")
    found = list(_defined(tree.body, lines, ""))
    own = [node for node in tree.body if not _is_import(node) and not _defines(node)]
    own = own[1:] if own and ast.get_docstring(tree) and own[0] is tree.body[0] else own
    if own:
        said = "\n".join(_text(node, lines) for node in own)
        found.append(Part("", "module", said, own[0].lineno, own[-1].end_lineno or 0))
    return found


def _defined(body: list[ast.stmt], lines: list[str], holder: str) -> Iterator[Part]:
    """Yield functions, classes, their methods and constants, also those below an if or a try."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            name = f"{holder}{node.name}"
            first, last = _first(node), node.end_lineno or node.lineno
            yield Part(name, "class", _without_inner(node, lines), first, last)
            yield from _defined(node.body, lines, f"{name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            kind = "method" if holder else "function"
            first, last = _first(node), node.end_lineno or node.lineno
            said = "\n".join(lines[first - 1 : last])
            yield Part(f"{holder}{node.name}", kind, said + "\n", first, last, holder[:-1])
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not holder:
            for name in _constants(node):
                said = _text(node, lines) + "\n"
                yield Part(name, "constant", said, node.lineno, node.end_lineno or node.lineno)
        else:
            for inner in _guarded(node):
                yield from _defined(inner, lines, holder)


def _guarded(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the bodies of an if, a try or a with."""
    if isinstance(node, ast.If | ast.Try | ast.TryStar | ast.With):
        yield node.body
        yield getattr(node, "orelse", [])
        for handler in getattr(node, "handlers", []):
            yield handler.body
        yield getattr(node, "finalbody", [])


def _defines(node: ast.stmt) -> bool:
    return isinstance(node, Definition) or any(
        _defines(inner) for body in _guarded(node) for inner in body
    )


def _constants(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    yield from (one.id for one in targets if isinstance(one, ast.Name))


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _first(node: Definition) -> int:
    """Line, from 1, where a definition begins: at its first decorator."""
    return min([node.lineno, *(mark.lineno for mark in node.decorator_list)])


def _text(node: ast.stmt, lines: list[str]) -> str:
    return "\n".join(lines[node.lineno - 1 : node.end_lineno])


def _without_inner(node: ast.ClassDef, lines: list[str]) -> str:
    own = [inner for inner in node.body if not isinstance(inner, Definition)]
    kept = lines[_first(node) - 1 : node.body[0].lineno - 1]
    for inner in own:
        kept += lines[inner.lineno - 1 : inner.end_lineno]
    said = "\n".join(kept)
    return f"{said}\n" if own else f"{said.rstrip()}\n    ...\n"


def _broken(text: str) -> Iterator[Part]:
    """Cut a file that does not parse at its definitions, and read each by itself."""
    cuts = [0, *(found.start() for found in _CUT.finditer(text)), len(text)]
    cuts = sorted(set(cuts))
    for low, high in pairwise(cuts):
        piece = text[low:high]
        first = text.count("\n", 0, low) + 1
        tree = python_source.parsed(piece)
        if tree is not None:
            inner = piece.split("\n")
            found = list(_defined(tree.body, inner, ""))
            yield from (
                part._replace(first=part.first + first - 1, last=part.last + first - 1)
                for part in found
            )
        elif named := _DEFINED.search(piece):
            kind = "class" if named[1] == "class" else "function"
            last = first + piece.rstrip().count("\n")
            yield Part(named[2], kind, piece, first, last)


def _imports(tree: ast.Module | None, package: str) -> Mapping[str, str]:
    """Say what imported names stand for; those of a relative import with their package."""
    if tree is None:
        return {}
    nodes: list[ast.stmt] = [node for node in tree.body if _is_import(node)]
    for node in tree.body:
        for body in _guarded(node):
            nodes += [inner for inner in body if _is_import(inner)]
    return python_source.imported(nodes, package)
