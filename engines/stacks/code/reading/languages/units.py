"""A file of another language as documents: its functions, types, methods and constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from engines.stacks.code.reading.languages import imports
from engines.stacks.code.reading.languages.grammars import SPACE, Grammar
from engines.stacks.code.reading.languages.nodes import is_comment, text_of
from engines.stacks.code.unit import Mode
from harness.core.records import Document, Scalar

if TYPE_CHECKING:
    from tree_sitter import Node

DEEPEST = 20
"""Definitions inside of definitions; deeper ones are part of those around them."""
ABOVE = frozenset({"attribute_item", "decorator"})
"""What stands above a definition and belongs to it, beside comments."""
FUNCTIONS = frozenset({
    "arrow_function", "function_expression", "generator_function", "func_literal",
})  # fmt: skip


class Part(NamedTuple):
    """A definition, and the node that is shown of it."""

    node: Node
    span: Node
    name: str
    """Within the module."""
    kind: str
    within: str = ""
    """The type around a method."""


def documents(path: str, data: bytes, grammar: Grammar) -> Iterator[Document]:
    """Make the documents of a file, as ``reading.module`` does of Python."""
    root = grammar.parse(data)
    module = imports.module_of(path, root, grammar)
    parts = list(defined(root, grammar))
    bound = imports.bound(root, path, module, grammar)
    own = {part.name: f"{module}.{part.name}" for part in parts if "." not in part.name}
    about: dict[str, Scalar] = {
        "path": path, "language": grammar.language, "mode": Mode.CODE.value,
        "imports": ",".join(f"{name}={full}" for name, full in sorted(bound.items())),
    }  # fmt: skip
    seen: dict[str, int] = {}
    for part in parts:
        again = seen[part.name] = seen.get(part.name, 0) + 1
        first = _first(part.span)
        mine = own if not part.within else own | _selves(part, module)
        names = ",".join(f"{name}={full}" for name, full in sorted(mine.items()))
        low, high = first.start_point.row + 1, _last_row(part.span) + 1
        more: dict[str, Scalar] = {
            "kind": part.kind, "name": f"{module}.{part.name}", "own": names,
            "lines": f"{low}-{high}",
        }  # fmt: skip
        doc_id = f"{path}::{part.name}" + (f"#{again}" if again > 1 else "")
        text = _without_inner(part, data, grammar)
        yield Document(doc_id, "", text, {**about, **more})
    yield from _module(root, path, module, about, grammar)


class Around(NamedTuple):
    """What stands around a definition."""

    holder: str = ""
    """Its name with a dot."""
    within: str = ""
    """Its name where it is a type."""
    depth: int = 0


TOP = Around()


def defined(node: Node, grammar: Grammar, around: Around = TOP) -> Iterator[Part]:
    """Yield the definitions directly below a node, and those inside them."""
    if around.depth > DEEPEST:
        return
    for span in node.named_children:
        for one, shown in _unwrapped(span, span, grammar):
            yield from _of(one, shown, grammar, around)


def _of(node: Node, span: Node, grammar: Grammar, around: Around) -> Iterator[Part]:
    kind, name = grammar.defines[node.type], name_of(node)
    if not name:
        return
    receiver = node.child_by_field_name("receiver")
    if receiver is not None:
        within = imports.type_name(receiver)
        around = Around(f"{within}.", within, around.depth)
    full = f"{around.holder}{name}"
    if node.type == "variable_declarator":
        value = node.child_by_field_name("value")
        kind = "function" if value is not None and value.type in FUNCTIONS else kind
    if kind == "function" and around.within:
        kind = "method"
    if kind != SPACE and not (kind == "constant" and around.within):
        yield Part(node, span, full, kind, around.within if kind == "method" else "")
    body = node.child_by_field_name("body")
    if kind in {"class", SPACE} and body is not None:
        held = full if kind == "class" or node.type == "impl_item" else ""
        yield from defined(body, grammar, Around(f"{full}.", held, around.depth + 1))


def _unwrapped(node: Node, span: Node, grammar: Grammar) -> Iterator[tuple[Node, Node]]:
    """Yield definitions with what is shown of each: what stands around one that is alone."""
    if node.type in grammar.defines:
        yield node, span
    elif node.type in grammar.around:
        inner = [one for one in node.named_children if _relevant(one, grammar)]
        for one in inner:
            alone = len(inner) == 1 and node.type != "ERROR"
            yield from _unwrapped(one, span if alone else one, grammar)


def _holds(span: Node, grammar: Grammar) -> bool:
    return any(True for _ in _unwrapped(span, span, grammar))


def _relevant(node: Node, grammar: Grammar) -> bool:
    return node.type in grammar.defines or node.type in grammar.around


def name_of(node: Node) -> str:
    """Name what a node defines; empty where it has no plain name, as a pattern."""
    found = node.child_by_field_name("name") or node.child_by_field_name("type")
    if found is None or found.type.endswith("_pattern"):
        return ""
    return imports.type_name(found) if node.type == "impl_item" else text_of(found).strip("\"'")


def _first(span: Node) -> Node:
    """Give the first of the comments and marks right above a definition, or itself."""
    first = span
    while (above := first.prev_named_sibling) is not None:
        belongs = is_comment(above) or above.type in ABOVE
        before = above.prev_named_sibling
        own_line = before is None or before.end_point.row < above.start_point.row or (
            is_comment(before) and before.end_point.row == above.start_point.row
        )  # fmt: skip
        if not belongs or not own_line or _last_row(above) + 1 < first.start_point.row:
            break
        first = above
    return first


def _last_row(node: Node) -> int:
    """Row of a node's last character; a line comment of Rust ends where the next line begins."""
    end = node.end_point
    row: int = end.row
    return row - 1 if not end.column and row > node.start_point.row else row


def _without_inner(part: Part, data: bytes, grammar: Grammar) -> str:
    """Give the text of a definition; of a type without the definitions inside it."""
    first = _first(part.span)
    body = part.node.child_by_field_name("body")
    cuts: list[tuple[int, int]] = []
    if part.kind == "class" and body is not None:
        inner = [one for one in body.named_children if _holds(one, grammar)]
        cuts = [(_first(one).start_byte, one.end_byte) for one in inner]
    kept, at = b"", first.start_byte
    for low, high in cuts:
        kept += data[at:low].rstrip(b" \t\n")
        at = high
    return (kept + data[at : part.span.end_byte]).decode("utf-8", "replace").strip("\n") + "\n"


def _selves(part: Part, module: str) -> dict[str, str]:
    """Say what a method's own object is called, and what type it has."""
    full = f"{module}.{part.within}"
    receiver = part.node.child_by_field_name("receiver")
    named = imports.first_name(receiver) if receiver is not None else ""
    return {name: full for name in ("this", "self", "Self", named) if name}


def _module(
    root: Node, path: str, module: str, about: dict[str, Scalar], grammar: Grammar
) -> Iterator[Document]:
    """Yield what a module does beside its definitions, where it does anything."""
    rest = [
        one
        for one in root.named_children
        if one.type not in grammar.imports
        and not is_comment(one)
        and one.type not in ABOVE
        and not _holds(one, grammar)
    ]
    if rest:
        lines = f"{rest[0].start_point.row + 1}-{_last_row(rest[-1]) + 1}"
        said = {"kind": "module", "name": module, "lines": lines}
        text = "\n".join(text_of(one) for one in rest)
        yield Document(f"{path}::<module>", "", text, {**about, **said})
