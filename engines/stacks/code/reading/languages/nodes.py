"""Nodes of a syntax tree: their text, their dotted names, their comments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

MEMBERS = (
    ("object", "property"),
    ("operand", "field"),
    ("value", "field"),
    ("path", "name"),
    ("object", "field"),
    ("object", "name"),
)
"""Fields of what stands before a dot and of what stands behind it, in the grammars."""
MEMBER_TYPES = frozenset({
    "member_expression", "selector_expression", "field_expression", "scoped_identifier",
    "scoped_type_identifier", "field_access", "method_invocation", "qualified_type",
})  # fmt: skip
SELVES = frozenset({"this", "self", "super", "crate"})
_MARKS = re.compile(r"^[ \t]*(?:/\*+!?|\*+/|\*|//[/!]?)?[ \t]?|[ \t]*\*+/[ \t]*$", re.MULTILINE)


def text_of(node: Node | None) -> str:
    """Give the text of a node; empty where there is none."""
    return (node.text or b"").decode("utf-8", "replace") if node is not None else ""


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all below it, in the order of the text, however deep the tree is."""
    left = [node]
    while left:
        now = left.pop()
        yield now
        left.extend(reversed(now.named_children))


def is_name(node: Node) -> bool:
    """Tell whether a node is one name, without dots."""
    return (node.type.endswith("identifier") and not node.named_children) or node.type in SELVES


def dotted(node: Node | None, known: Mapping[str, str]) -> str:
    """Name a node with dots, its first part by what ``known`` says that it stands for.

    Of a method of a result it is the name alone, of anything else nothing.
    """
    behind: list[str] = []
    while node is not None and node.type in MEMBER_TYPES:
        if behind and node.type == "method_invocation":
            return behind[0]
        before, name = _member(node)
        if name is None:
            break
        behind.append(text_of(name))
        node = before
        if node is None:
            return ".".join(reversed(behind))
    if node is not None and is_name(node):
        first = text_of(node)
        return ".".join([known.get(first, first), *reversed(behind)])
    return behind[0] if behind else ""


def _member(node: Node) -> tuple[Node | None, Node | None]:
    for before, name in MEMBERS:
        pair = node.child_by_field_name(before), node.child_by_field_name(name)
        if all(pair):
            return pair
    return None, node.child_by_field_name("name")


def is_comment(node: Node) -> bool:
    """Tell comments of all grammars; what those of Rust hold inside does not count."""
    kind: str = node.type
    return kind.endswith("comment") and kind != "doc_comment"


def said(comments: list[Node]) -> str:
    """Give what comments say, without their marks."""
    whole = "\n".join(_MARKS.sub("", text_of(one).rstrip("\n")) for one in comments)
    return "\n".join(line.strip() for line in whole.splitlines()).strip()
