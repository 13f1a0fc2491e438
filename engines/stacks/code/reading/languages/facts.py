"""What a piece of another language says: its fields of text, and its properties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from engines.stacks.code.reading.languages.grammars import Grammar
from engines.stacks.code.reading.languages.nodes import (
    MEMBER_TYPES,
    dotted,
    is_comment,
    is_name,
    said,
    text_of,
    walk,
)
from engines.stacks.code.reading.languages.units import defined
from engines.stacks.code.unit import Facts, Texts

if TYPE_CHECKING:
    from tree_sitter import Node

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
) -> tuple[Texts, Facts]:
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
    texts = Texts(
        name=name or symbol,
        signature=signature,
        doc=said(leading),
        comment=said([one for one in comments if one not in leading]),
        body=_without_comments(body if body is not None else node),
    )
    return texts, facts


def _declared(node: Node) -> Node:
    """Give what has parameters and a body: a definition, or the function that a name is given."""
    value = node.child_by_field_name("value")
    has_body = value is not None and value.child_by_field_name("body") is not None
    return value if value is not None and has_body else node


def _signature(span: Node, declared: Node, text: str) -> str:
    """Give the text up to the body, in one line; of what has none, nothing."""
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
    """Say where a bare name is looked for first: ``within`` is the type around a method."""
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
    """Tell whether users of a module may name a definition, by the custom of its language."""
    if grammar.language == "go":
        return symbol[:1].isupper()
    if grammar.language == "rust":
        return text.startswith("pub") or "\npub" in text
    if grammar.language == "java":
        return "private" not in text.partition("{")[0].split()
    return not symbol.startswith(("_", "#"))


def _without_comments(node: Node) -> str:
    """Give the text of a node without the comments in it."""
    data, kept, at = node.text or b"", b"", 0
    for one in walk(node):
        if is_comment(one):
            low = one.start_byte - node.start_byte
            kept, at = kept + data[at : max(at, low)], max(at, one.end_byte - node.start_byte)
    return (kept + data[at:]).decode("utf-8", "replace").strip()
