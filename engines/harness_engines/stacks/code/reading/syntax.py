"""Grammars of tree-sitter, and nodes of a syntax tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


EXTRA = "languages"
SPACE = "space"
"""Kind of what only holds definitions, such as a namespace or a block of methods."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """One language: its package, and the types of its nodes that matter here."""

    language: str
    package: str
    function: str
    """Of the package, which gives the grammar."""
    defines: Mapping[str, str]
    """Kind of unit by type of node; those of kind ``SPACE`` only hold others."""
    around: frozenset[str]
    """Types that stand around a definition and belong to it, such as ``export``."""
    imports: frozenset[str]
    calls: Mapping[str, str]
    """Field that names what is called, by type of node."""
    methods: tuple[str, str] = ("", "")
    """What to put before and behind a method so that it parses alone."""

    @property
    def installed(self) -> bool:
        """Whether tree-sitter and the grammar are there; neither is imported."""
        return all(find_spec(name) is not None for name in ("tree_sitter", self.package))

    def parse(self, data: bytes) -> Node:
        """Parse bytes of UTF-8; what is broken becomes nodes of type ``ERROR``."""
        return _parser(self.package, self.function).parse(data).root_node


def _kinds(**types: str) -> Mapping[str, str]:
    """Return the kind of unit by type of node."""
    return {one: kind.rstrip("_") for kind, some in types.items() for one in some.split()}


_SCRIPT = _kinds(
    function="function_declaration generator_function_declaration",
    class_="class_declaration",
    method="method_definition",
    constant="variable_declarator",
)
_TYPED = {
    **_SCRIPT,
    **_kinds(
        class_="abstract_class_declaration interface_declaration type_alias_declaration"
        " enum_declaration",
        function="function_signature",
        space="internal_module module",
    ),
}
_SCRIPT_AROUND = frozenset({
    "export_statement", "lexical_declaration", "variable_declaration", "expression_statement",
    "ambient_declaration", "ERROR",
})  # fmt: skip
_SCRIPT_CALLS = {"call_expression": "function", "new_expression": "constructor"}
_IN_CLASS = ("class _ {\n", "\n}")
_SCRIPT_REST = (_SCRIPT_AROUND, frozenset({"import_statement"}), _SCRIPT_CALLS, _IN_CLASS)
JAVASCRIPT = Grammar("javascript", "tree_sitter_javascript", "language", _SCRIPT, *_SCRIPT_REST)
_TYPESCRIPT = "tree_sitter_typescript"
TYPESCRIPT = Grammar("typescript", _TYPESCRIPT, "language_typescript", _TYPED, *_SCRIPT_REST)
TSX = Grammar("tsx", _TYPESCRIPT, "language_tsx", _TYPED, *_SCRIPT_REST)
GO = Grammar(
    "go",
    "tree_sitter_go",
    "language",
    _kinds(
        function="function_declaration",
        method="method_declaration",
        class_="type_spec type_alias",
        constant="const_spec var_spec",
    ),
    frozenset({
        "const_declaration", "var_declaration", "var_spec_list", "type_declaration", "ERROR",
    }),
    frozenset({"import_declaration", "package_clause"}),
    {"call_expression": "function"},
)  # fmt: skip
RUST = Grammar(
    "rust",
    "tree_sitter_rust",
    "language",
    _kinds(
        function="function_item function_signature_item macro_definition",
        class_="struct_item enum_item union_item trait_item type_item",
        constant="const_item static_item",
        space="impl_item mod_item",
    ),
    frozenset({"ERROR"}),
    frozenset({"use_declaration", "extern_crate_declaration"}),
    {"call_expression": "function", "macro_invocation": "macro"},
)
JAVA = Grammar(
    "java",
    "tree_sitter_java",
    "language",
    _kinds(
        class_="class_declaration interface_declaration enum_declaration record_declaration"
        " annotation_type_declaration",
        method="method_declaration constructor_declaration",
    ),
    frozenset({"enum_body_declarations", "ERROR"}),
    frozenset({"import_declaration", "package_declaration"}),
    {"method_invocation": "name", "object_creation_expression": "type"},
    _IN_CLASS,
)
GRAMMARS: Mapping[str, Grammar] = {
    one.language: one for one in (JAVASCRIPT, TYPESCRIPT, TSX, GO, RUST, JAVA)
}
LANGUAGES: Mapping[str, str] = {
    "js": "javascript", "mjs": "javascript", "cjs": "javascript", "jsx": "javascript",
    "ts": "typescript", "mts": "typescript", "cts": "typescript", "tsx": "tsx",
    "go": "go", "rs": "rust", "java": "java",
}  # fmt: skip
"""Language by the ending of a file."""


def of_language(language: str) -> Grammar | None:
    """Return a grammar that is installed; None where there is none, or it is absent."""
    found = GRAMMARS.get(language)
    return found if found is not None and found.installed else None


def identity() -> str:
    """Return which grammars read, with their versions."""
    found = []
    for package in ("tree_sitter", *sorted({one.package for one in GRAMMARS.values()})):
        name = package.replace("_", "-")
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found) or "no grammars"


@lru_cache(maxsize=16)
def _parser(package: str, function: str) -> Parser:
    from tree_sitter import Language, Parser

    return Parser(Language(getattr(import_module(package), function)()))


MEMBERS = (
    *(("object", "property"), ("operand", "field"), ("value", "field"), ("path", "name")),
    *(("object", "field"), ("object", "name")),
)
"""Fields of what stands before a dot and of what stands behind it, in the grammars."""
MEMBER_TYPES = frozenset({
    "member_expression", "selector_expression", "field_expression", "scoped_identifier",
    "scoped_type_identifier", "field_access", "method_invocation", "qualified_type",
})  # fmt: skip
SELVES = frozenset({"this", "self", "super", "crate"})
_MARKS = re.compile(r"^[ \t]*(?:/\*+!?|\*+/|\*|//[/!]?)?[ \t]?|[ \t]*\*+/[ \t]*$", re.MULTILINE)


def text_of(node: Node | None) -> str:
    """Return the text of a node; empty where there is none."""
    return (node.text or b"").decode("utf-8", "replace") if node is not None else ""


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all below it, in the order of the text, however deep the tree is."""
    left = [node]
    while left:
        now = left.pop()
        yield now
        left.extend(reversed(now.named_children))


def is_name(node: Node) -> bool:
    """Return whether a node is one name, without dots."""
    return (node.type.endswith("identifier") and not node.named_children) or node.type in SELVES


def dotted(node: Node | None, known: Mapping[str, str]) -> str:
    """Name a node with dots, its first part by what ``known`` says that it stands for."""
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
    """Describe comments of all grammars; what those of Rust hold inside does not count."""
    kind: str = node.type
    return kind.endswith("comment") and kind != "doc_comment"


def said(comments: list[Node]) -> str:
    """Return what comments say, without their marks."""
    whole = "\n".join(_MARKS.sub("", text_of(one).rstrip("\n")) for one in comments)
    return "\n".join(line.strip() for line in whole.splitlines()).strip()
