"""Files of other languages as documents, by tree-sitter: definitions and facts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from posixpath import dirname
from typing import TYPE_CHECKING, NamedTuple

from harness.core.records import Document, Scalar
from harness_engines.stacks.code.reading.python import numbered, pairs
from harness_engines.stacks.code.units import Facts, Mode, UnitTexts

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
        part = node.child_by_field_name
        pairs = ((part(before), part(name)) for before, name in MEMBERS)
        before, name = next(filter(all, pairs), (None, part("name")))
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


def is_comment(node: Node) -> bool:
    """Describe comments of all grammars; what those of Rust hold inside does not count."""
    kind: str = node.type
    return kind.endswith("comment") and kind != "doc_comment"


def said(comments: list[Node]) -> str:
    """Return what comments say, without their marks."""
    whole = "\n".join(_MARKS.sub("", text_of(one).rstrip("\n")) for one in comments)
    return "\n".join(line.strip() for line in whole.splitlines()).strip()


def module_of(path: str, root: Node, grammar: Grammar) -> str:
    """Name the module of a file, with dots.

    That is the package in Java, the folder in Go, and else the file without its ending.
    """
    bare, folder = path.rpartition(".")[0], dirname(path).strip("./").replace("/", ".")
    kinds = {"package_declaration", "package_clause"}
    package = next((one for one in root.named_children if one.type in kinds), None)
    named = text_of(package.named_children[-1]) if package and package.named_children else ""
    if grammar.language == "java":
        return named or folder or "unnamed"
    if grammar.language == "go":
        return folder or named or "main"
    # index of JavaScript bears the name of its folder
    return bare.removesuffix("/index").strip("./").replace("/", ".") or bare


def type_name(node: Node) -> str:
    """Return the plain name of a type: of ``(p *Price[T])`` and ``Price<T>`` it is Price."""
    names = [one for one in walk(node) if one.type == "type_identifier"]
    return text_of(names[0]) if names else ""


DEEPEST = 20
"""Definitions inside of definitions; deeper ones are part of those around them."""
ABOVE = frozenset({"attribute_item", "decorator"})
"""What stands above a definition and belongs to it, beside comments."""
FUNCTIONS = frozenset({
    "arrow_function", "function_expression", "generator_function", "func_literal",
})  # fmt: skip


class DefinitionNode(NamedTuple):
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
    module = module_of(path, root, grammar)
    parts = list(defined(root, grammar))
    own = {part.name: f"{module}.{part.name}" for part in parts if "." not in part.name}
    about: dict[str, Scalar] = {
        "path": path, "language": grammar.language, "mode": Mode.CODE.value,
    }  # fmt: skip
    ids = numbered(path, (part.name for part in parts))
    for doc_id, part in zip(ids, parts, strict=True):
        mine = own
        if part.within:  # what a method's own object is called, and what type it has
            receiver = part.node.child_by_field_name("receiver")
            below = walk(receiver) if receiver is not None else ()
            named = [text_of(one) for one in below if one.type == "identifier"]
            selves = ("this", "self", "Self", *named[:1])
            mine = own | dict.fromkeys(selves, f"{module}.{part.within}")
        low, high = _first(part.span).start_point.row + 1, _last_row(part.span) + 1
        more: dict[str, Scalar] = {
            "kind": part.kind, "name": f"{module}.{part.name}", "own": pairs(mine),
            "lines": f"{low}-{high}",
        }  # fmt: skip
        text = _without_inner(part, data, grammar)
        yield Document(doc_id, "", text, {**about, **more})
    yield from _module(root, path, module, about, grammar)


def defined(
    node: Node, grammar: Grammar, holder: str = "", within: str = "", depth: int = 0
) -> Iterator[DefinitionNode]:
    """Yield the definitions directly below a node, and those inside them.

    ``holder`` is the name of what is around them with a dot, ``within`` that of a type.
    """
    if depth > DEEPEST:
        return
    for span in node.named_children:
        for one, shown in _unwrapped(span, span, grammar):
            name, receiver = name_of(one), one.child_by_field_name("receiver")
            if not name:
                continue
            of = type_name(receiver) if receiver is not None else within
            full = f"{of}.{name}" if receiver is not None else f"{holder}{name}"
            kind = _kind(one, grammar, of)
            if kind != SPACE and not (kind == "constant" and of):
                yield DefinitionNode(one, shown, full, kind, of if kind == "method" else "")
            body = one.child_by_field_name("body")
            if kind in {"class", SPACE} and body is not None:
                held = full if kind == "class" or one.type == "impl_item" else ""
                yield from defined(body, grammar, f"{full}.", held, depth + 1)


def _kind(node: Node, grammar: Grammar, within: str) -> str:
    """Return the kind of a definition: a name that is given a function is one."""
    value = node.child_by_field_name("value") if node.type == "variable_declarator" else None
    is_function = value is not None and value.type in FUNCTIONS
    kind = "function" if is_function else grammar.defines[node.type]
    return "method" if kind == "function" and within else kind


def _unwrapped(node: Node, span: Node, grammar: Grammar) -> Iterator[tuple[Node, Node]]:
    """Yield definitions with what is shown of each: what stands around one that is alone."""
    if node.type in grammar.defines:
        yield node, span
    elif node.type in grammar.around:
        known = grammar.defines.keys() | grammar.around
        inner = [one for one in node.named_children if one.type in known]
        for one in inner:
            alone = len(inner) == 1 and node.type != "ERROR"
            yield from _unwrapped(one, span if alone else one, grammar)


def _holds(span: Node, grammar: Grammar) -> bool:
    return any(True for _ in _unwrapped(span, span, grammar))


def name_of(node: Node) -> str:
    """Name what a node defines; empty where it has no plain name, as a pattern."""
    found = node.child_by_field_name("name") or node.child_by_field_name("type")
    if found is None or found.type.endswith("_pattern"):
        return ""
    return type_name(found) if node.type == "impl_item" else text_of(found).strip("\"'")


def _first(span: Node) -> Node:
    """Return the first of the comments and marks right above a definition, or itself."""
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


def _without_inner(part: DefinitionNode, data: bytes, grammar: Grammar) -> str:
    """Return the text of a definition; of a type without the definitions inside it."""
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
        more = {"kind": "module", "name": module, "lines": lines}
        text = "\n".join(text_of(one) for one in rest)
        yield Document(f"{path}::<module>", "", text, {**about, **more})


def read(
    text: str, grammar: Grammar, *, name: str, kind: str, own: Mapping[str, str]
) -> tuple[UnitTexts, Facts]:
    """Take a piece of code apart; its arguments are those of ``reading.python.read``."""
    before, behind = grammar.methods if kind == "method" else ("", "")
    root = grammar.parse(f"{before}{text}{behind}".encode())
    part = next((one for one in defined(root, grammar) if one.name not in {"", "_"}), None)
    node = part.node if part else root
    symbol = name.rpartition(".")[2] or (part.name.rpartition(".")[2] if part else "")
    declared = node if part else None  # what has parameters and a body
    given = node.child_by_field_name("value") if part else None
    if given is not None and given.child_by_field_name("body") is not None:
        declared = given  # the function that a name is given
    comments = [one for one in walk(root) if is_comment(one)]
    leading = [one for one in comments if part and one.start_byte < part.node.start_byte]
    params = list(_params(declared)) if declared is not None else []
    calls = {called for one in walk(node) if (called := _called(one, grammar, own, name))}
    signature = _signature(part.span, declared, text) if part and declared is not None else ""
    facts = Facts(
        type=kind or (part.kind if part else "module"),
        symbol="" if kind == "module" else symbol,
        full=name or symbol,
        exported=bool(symbol) and _exported(symbol, text_of(part.span) if part else "", grammar),
        signature=signature,
        params=tuple(dict.fromkeys(one for one, _ in params if one)),
        inferred_types=tuple(dict.fromkeys(one for _, one in params if one)),
        return_type=_returns(declared) if declared is not None else "",
        uses=tuple(sorted(set(_uses(node, own)) - {symbol} | calls)),
        calls=tuple(sorted(calls)),
    )
    body = declared.child_by_field_name("body") if declared is not None else None
    texts = UnitTexts(
        name=name or symbol,
        signature=signature,
        doc=said(leading),
        comment=said([one for one in comments if one not in leading]),
        body=_without_comments(body if body is not None else node),
    )
    return texts, facts


def _signature(span: Node, declared: Node, text: str) -> str:
    """Return the text up to the body, in one line; of what has none, nothing."""
    body = declared.child_by_field_name("body")
    if body is None or not text:
        return ""
    whole = (span.text or b"")[: body.start_byte - span.start_byte]
    return " ".join(whole.decode("utf-8", "replace").split())[:1_000].rstrip(" {=>")


def _params(node: Node) -> Iterator[tuple[str, str]]:
    """Yield the names of parameters with their types."""
    listed = node.child_by_field_name("parameters") or node.child_by_field_name("parameter")
    if listed is None:
        return
    for one in listed.named_children or [listed]:
        if is_comment(one):
            continue
        written = text_of(one.child_by_field_name("type")).lstrip(": ")
        names = [text_of(kid) for kid in walk(one) if kid.type in {"identifier", "self"}]
        yield (names[0] if names else ""), written


def _returns(node: Node) -> str:
    if node.child_by_field_name("parameters") is None:
        return ""
    fields = (node.child_by_field_name(name) for name in ("return_type", "result", "type"))
    return next((text_of(one).lstrip(": ") for one in fields if one is not None), "")


def _called(node: Node, grammar: Grammar, known: Mapping[str, str], name: str) -> str:
    """Name what a node calls; a bare name of Go or Java is one of its package or class."""
    field = grammar.calls.get(node.type)
    if field is None:
        return ""
    called = node if node.type == "method_invocation" else node.child_by_field_name(field)
    full = dotted(called, known)
    around = _around(node, called, grammar, known.get("this", ""), name)
    return f"{around}.{full}" if around and full and "." not in full else full


def _around(node: Node, called: Node | None, grammar: Grammar, within: str, name: str) -> str:
    """Return where a bare name is looked for first: ``within`` is the type around a method."""
    if grammar.language == "go" and called is not None and is_name(called):
        return (within or name).rpartition(".")[0]
    if grammar.language == "java":
        if node.type == "method_invocation":
            return "" if node.child_by_field_name("object") is not None else within
        return within.rpartition(".")[0]
    return ""


def _uses(node: Node, known: Mapping[str, str]) -> Iterator[str]:
    """Yield names that are read: a dotted one whole, without its parts."""
    left = list(node.named_children)
    while left:
        one = left.pop()
        if (one.type in MEMBER_TYPES or is_name(one)) and (full := dotted(one, known)):
            yield full
        else:
            left.extend(one.named_children)


def _exported(symbol: str, text: str, grammar: Grammar) -> bool:
    """Return whether users of a module may name a definition, by the custom of its language."""
    if grammar.language == "go":
        return symbol[:1].isupper()
    if grammar.language == "rust":
        return text.startswith("pub") or "\npub" in text
    if grammar.language == "java":
        return "private" not in text.partition("{")[0].split()
    return not symbol.startswith(("_", "#"))


def _without_comments(node: Node) -> str:
    """Return the text of a node without the comments in it."""
    data, kept, at = node.text or b"", b"", 0
    for one in walk(node):
        if is_comment(one):
            low = one.start_byte - node.start_byte
            kept, at = kept + data[at : max(at, low)], max(at, one.end_byte - node.start_byte)
    return (kept + data[at:]).decode("utf-8", "replace").strip()
