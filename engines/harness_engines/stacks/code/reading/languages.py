"""Files of other languages as documents: definitions, imports and facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING, NamedTuple

from harness.core.records import Document, Scalar
from harness_engines.stacks.code.reading.python import numbered, pairs
from harness_engines.stacks.code.reading.syntax import (
    MEMBER_TYPES,
    SPACE,
    Grammar,
    dotted,
    is_comment,
    is_name,
    said,
    text_of,
    walk,
)
from harness_engines.stacks.code.units import Facts, Mode, UnitTexts

if TYPE_CHECKING:
    from tree_sitter import Node


ROOTS = frozenset({"lib", "main", "mod"})
"""Files of Rust that bear the name of their folder."""
SOURCES = "src"


def module_of(path: str, root: Node, grammar: Grammar) -> str:
    """Name the module of a file, with dots, as those that import it would.

    That is the package in Java, the folder in Go, and else the file without its ending.
    """
    bare = path.rpartition(".")[0]
    kinds = {"package_declaration", "package_clause"}
    package = next((one for one in root.named_children if one.type in kinds), None)
    named = text_of(package.named_children[-1]) if package and package.named_children else ""
    if grammar.language == "java":
        return named or _dots(dirname(path)) or "unnamed"
    if grammar.language == "go":
        return _dots(dirname(path)) or named or "main"
    if grammar.language == "rust":
        return _of_crate(bare)
    return _script(bare)


def names_bound(root: Node, path: str, module: str, grammar: Grammar) -> Mapping[str, str]:
    """Return what each name that an import binds stands for."""
    found: dict[str, str] = {}
    read = {"go": _of_go, "rust": _of_rust, "java": _of_java}.get(grammar.language, _of_script)
    for node in root.named_children:
        if read is _of_script or node.type in grammar.imports:
            found.update(read(node, path if read is _of_script else module))
    return {name: full for name, full in found.items() if name and not {",", "="} & set(full)}


def type_name(node: Node) -> str:
    """Return the plain name of a type: of ``(p *Price[T])`` and ``Price<T>`` it is Price."""
    names = [one for one in walk(node) if one.type == "type_identifier"]
    return text_of(names[0]) if names else ""


def first_name(node: Node) -> str:
    """Return the first plain name below a node."""
    return next((text_of(one) for one in walk(node) if one.type == "identifier"), "")


def _dots(path: str) -> str:
    return path.strip("./").replace("/", ".")


def _script(path: str) -> str:
    """Name a file of JavaScript; ``index`` bears the name of its folder."""
    return _dots(path.removesuffix("/index")) or path


def _of_crate(bare: str) -> str:
    """Name a file of Rust by its crate, which is the folder around ``src``."""
    folders = bare.split("/")
    if SOURCES in folders:
        at = folders.index(SOURCES)
        folders = [folders[at - 1] if at else "crate", *folders[at + 1 :]]
    if len(folders) > 1 and folders[-1] in ROOTS:
        folders.pop()
    return ".".join(folders)


def _of_go(node: Node, _: str) -> Iterator[tuple[str, str]]:
    for spec in walk(node):
        if spec.type == "import_spec":
            full = text_of(spec.child_by_field_name("path")).strip('"`')
            name = text_of(spec.child_by_field_name("name")) or full.rpartition("/")[2]
            yield name, full.replace("/", ".")


def _of_java(node: Node, _: str) -> Iterator[tuple[str, str]]:
    full = next((text_of(one) for one in node.named_children if one.type != "asterisk"), "")
    if node.type == "import_declaration" and "asterisk" not in {one.type for one in node.children}:
        yield full.rpartition(".")[2], full


def _of_rust(node: Node, module: str) -> Iterator[tuple[str, str]]:
    argument = node.child_by_field_name("argument")
    if argument is not None:
        yield from _used(argument, "", module)


def _used(node: Node, before: str, module: str) -> Iterator[tuple[str, str]]:
    """Yield the names of a tree of ``use``."""
    if node.type == "use_as_clause":
        full = _joined(before, text_of(node.child_by_field_name("path")), module)
        yield text_of(node.child_by_field_name("alias")), full
    elif node.type == "scoped_use_list":
        below = _joined(before, text_of(node.child_by_field_name("path")), module)
        listed = node.child_by_field_name("list")
        for one in listed.named_children if listed is not None else ():
            yield from _used(one, below, module)
    elif node.type == "use_list":
        for one in node.named_children:
            yield from _used(one, before, module)
    elif node.type != "use_wildcard":
        full = before if node.type == "self" else _joined(before, text_of(node), module)
        yield full.rpartition(".")[2], full


def _joined(before: str, path: str, module: str) -> str:
    """Resolve ``crate``, ``self`` and ``super`` at the start of a path."""
    parts = [part.strip() for part in path.split("::") if part.strip()]
    here = module.split(".")
    if not before and parts and parts[0] in {"crate", "self", "super"}:
        start = {"crate": here[:1], "self": here, "super": here[:-1]}[parts[0]]
        parts = [*start, *parts[1:]]
    return ".".join([*([before] if before else []), *parts])


def _of_script(node: Node, path: str) -> Iterator[tuple[str, str]]:
    if node.type == "import_statement":
        full = _imported(text_of(node.child_by_field_name("source")), path)
        for one in walk(node):
            if one.type == "import_specifier":
                name = text_of(one.child_by_field_name("name"))
                yield text_of(one.child_by_field_name("alias")) or name, f"{full}.{name}"
            elif one.type == "namespace_import":
                yield first_name(one), full
            elif one.type == "import_clause":
                for name in (text_of(kid) for kid in one.named_children if is_name(kid)):
                    yield name, f"{full}.{name}"
        return
    for one in walk(node) if node.type.endswith("declaration") else ():
        if one.type == "variable_declarator":
            yield from _required(one, path)


def _required(node: Node, path: str) -> Iterator[tuple[str, str]]:
    """Read ``const a = require("./b")`` and ``const {a, b} = require("./c")``."""
    value, name = node.child_by_field_name("value"), node.child_by_field_name("name")
    if value is None or name is None or value.type != "call_expression":
        return
    given = value.child_by_field_name("arguments")
    if text_of(value.child_by_field_name("function")) != "require" or given is None:
        return
    full = _imported(text_of(given).strip("() "), path)
    if is_name(name):
        yield text_of(name), full
    for one in name.named_children if name.type == "object_pattern" else ():
        if one.type == "shorthand_property_identifier_pattern":
            yield text_of(one), f"{full}.{text_of(one)}"


def _imported(source: str, path: str) -> str:
    """Name a module as its file does, where it is given by a relative path."""
    named = source.strip("\"'`")
    if not named.startswith("."):
        return named
    where = normpath(join(dirname(path), named))
    ending = where.rpartition(".")[2]
    return _script(where.removesuffix(f".{ending}") if ending in {"js", "mjs", "ts"} else where)


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
    bound = names_bound(root, path, module, grammar)
    own = {part.name: f"{module}.{part.name}" for part in parts if "." not in part.name}
    about: dict[str, Scalar] = {
        "path": path, "language": grammar.language, "mode": Mode.CODE.value,
        "imports": pairs(bound),
    }  # fmt: skip
    ids = numbered(path, (part.name for part in parts))
    for doc_id, part in zip(ids, parts, strict=True):
        mine = own
        if part.within:  # what a method's own object is called, and what type it has
            receiver = part.node.child_by_field_name("receiver")
            named = first_name(receiver) if receiver is not None else ""
            selves = filter(None, ("this", "self", "Self", named))
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
        said = {"kind": "module", "name": module, "lines": lines}
        text = "\n".join(text_of(one) for one in rest)
        yield Document(f"{path}::<module>", "", text, {**about, **said})


RETURNS = ("return_type", "result", "type")
LONGEST_SIGNATURE = 1_000


def read(
    text: str,
    grammar: Grammar,
    *,
    name: str,
    kind: str,
    imports: Mapping[str, str],
    own: Mapping[str, str],
) -> tuple[UnitTexts, Facts]:
    """Take a piece of code apart; its arguments are those of ``python_source.read``."""
    before, behind = grammar.methods if kind == "method" else ("", "")
    root = grammar.parse(f"{before}{text}{behind}".encode())
    part = next((one for one in defined(root, grammar) if one.name not in {"", "_"}), None)
    node = part.node if part else root
    known = {**own, **imports}
    symbol = name.rpartition(".")[2] or (part.name.rpartition(".")[2] if part else "")
    declared = _declared(node) if part else None
    comments = [one for one in walk(root) if is_comment(one)]
    leading = [one for one in comments if part and one.start_byte < part.node.start_byte]
    params = list(_params(declared)) if declared is not None else []
    calls = {called for one in walk(node) if (called := _called(one, grammar, known, name))}
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
        uses=tuple(sorted(set(_uses(node, known)) - {symbol} | calls)),
        calls=tuple(sorted(calls)),
        imports=tuple(sorted(set(imports.values()))),
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


def _declared(node: Node) -> Node:
    """Return what has parameters and a body: a definition, or the function that a name is given."""
    value = node.child_by_field_name("value")
    has_body = value is not None and value.child_by_field_name("body") is not None
    return value if value is not None and has_body else node


def _signature(span: Node, declared: Node, text: str) -> str:
    """Return the text up to the body, in one line; of what has none, nothing."""
    body = declared.child_by_field_name("body")
    if body is None or not text:
        return ""
    whole = (span.text or b"")[: body.start_byte - span.start_byte]
    return " ".join(whole.decode("utf-8", "replace").split())[:LONGEST_SIGNATURE].rstrip(" {=>")


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
    fields = (node.child_by_field_name(name) for name in RETURNS)
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
