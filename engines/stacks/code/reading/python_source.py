"""Python source read by ``ast``: symbols, signatures, docs, comments, calls, uses, types."""

from __future__ import annotations

import ast
import io
import textwrap
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence

from engines.stacks.code.reading.risk import risks
from engines.stacks.code.unit import Facts, Texts

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Nodes = Sequence[ast.AST]
"""All nodes of a piece, the one around first; they are walked once."""
Read = tuple[Texts, Facts]
LONGEST = 2 << 20
"""Characters; longer files are generated, and parsing them takes seconds."""
LITERALS: Mapping[type[ast.AST], str] = {
    ast.List: "list", ast.ListComp: "list", ast.Dict: "dict", ast.DictComp: "dict",
    ast.Set: "set", ast.SetComp: "set", ast.Tuple: "tuple", ast.JoinedStr: "str",
    ast.Lambda: "function", ast.GeneratorExp: "generator",
}  # fmt: skip


def parsed(text: str) -> ast.Module | None:
    """Parse a file or an indented piece of one; None where it is not Python."""
    if len(text) > LONGEST:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(textwrap.dedent(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def is_code(tree: ast.Module) -> bool:
    """Tell code from a sentence that happens to parse: something is defined, imported or set."""
    says = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return any(isinstance(node, (*says, ast.Assign, ast.AugAssign)) for node in tree.body)


def read(
    text: str,
    tree: ast.Module,
    *,
    name: str,
    kind: str,
    imports: Mapping[str, str],
    own: Mapping[str, str] | None = None,
    package: str = "",
) -> Read:
    """Take a parsed text apart.

    ``name`` and ``kind`` are given where the text alone does not say them (a method, a qualified
    name), else empty. ``imports`` are names that the file around it imported, by what they are
    called there; ``own`` those that it defines, and ``self`` in a method. ``package`` is the one
    that relative imports within the text start from.

    Raises:
        RecursionError: the text nests deeper than Python can walk.
    """
    inner = tree.body[0] if len(tree.body) == 1 else tree
    defined = inner if isinstance(inner, Definition) else None
    within: ast.AST = defined or tree
    nodes = tuple(ast.walk(within))
    known = {**imports, **imported(nodes, package)}
    dotted = _Names({**(own or {}), **known})
    symbol = name.rpartition(".")[2] or (defined.name if defined else "")
    signature = _signature(defined) if defined else ""
    facts = Facts(
        type=kind or _kind(defined),
        symbol=symbol,
        full=name or symbol,
        exported=bool(symbol) and not any(p.startswith("_") for p in (name or symbol).split(".")),
        signature=signature,
        params=tuple(arg.arg for arg in _arguments(defined)),
        inferred_types=tuple(dict.fromkeys(_types(nodes, defined))),
        return_type=_returns(nodes, defined),
        uses=tuple(sorted(set(_uses(nodes, dotted)))),
        calls=tuple(sorted(set(_calls(nodes, dotted)))),
        imports=tuple(sorted(set(known.values()))),
        risks=risks(nodes, dotted),
    )
    body = _body(within)
    texts = Texts(
        name=name or symbol,
        signature=signature,
        doc=ast.get_docstring(defined or tree) or "",
        comment="\n".join(_comments(text)),
        body="\n".join(ast.unparse(node) for node in body),
    )
    return texts, facts


class _Names:
    """Names nodes: ``np.linalg.norm`` is ``numpy.linalg.norm`` where np was imported as numpy."""

    def __init__(self, imported: Mapping[str, str]) -> None:
        self._imported = imported

    def __call__(self, node: ast.AST) -> str:
        """Give a dotted name; of a method of a result its name alone; of anything else nothing."""
        behind: list[str] = []
        while isinstance(node, ast.Attribute):
            behind.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            return ".".join([self._imported.get(node.id, node.id), *reversed(behind)])
        return behind[0] if behind else ""


def imported(nodes: Iterable[ast.AST], package: str = "") -> dict[str, str]:
    """Say of each name that an import binds what it stands for.

    Relative names are resolved against ``package``; without one they keep their leading dots.
    """
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                found[bound] = alias.name if alias.asname else bound
        elif isinstance(node, ast.ImportFrom):
            above = "." * node.level + (node.module or "")
            joint = "" if above.endswith(".") or not above else "."
            found.update({a.asname or a.name: f"{above}{joint}{a.name}" for a in node.names})
    return {name: absolute(full, package) for name, full in found.items()} if package else found


def absolute(name: str, package: str) -> str:
    """Resolve a name with leading dots against the package it is imported in."""
    bare = name.lstrip(".")
    above = len(name) - len(bare)
    if not above:
        return name
    parts = package.split(".")
    kept = parts[: len(parts) - above + 1]
    return ".".join([*kept, bare]) if kept else bare


def _kind(defined: Definition | None) -> str:
    if isinstance(defined, ast.ClassDef):
        return "class"
    first = next(_arguments(defined), None)
    if first is not None and first.arg in {"self", "cls"}:
        return "method"
    return "function" if defined else "module"


def _arguments(defined: Definition | None) -> Iterator[ast.arg]:
    if isinstance(defined, ast.FunctionDef | ast.AsyncFunctionDef):
        given = defined.args
        yield from (*given.posonlyargs, *given.args)
        yield from filter(None, (given.vararg, *given.kwonlyargs, given.kwarg))


def _signature(defined: Definition) -> str:
    if isinstance(defined, ast.ClassDef):
        return f"{defined.name}({', '.join(ast.unparse(base) for base in defined.bases)})"
    returns = f" -> {ast.unparse(defined.returns)}" if defined.returns else ""
    return f"{defined.name}({ast.unparse(defined.args)}){returns}"


def _body(within: ast.AST) -> list[ast.stmt]:
    nodes: list[ast.stmt] = getattr(within, "body", [])
    documented = nodes and isinstance(nodes[0], ast.Expr) and _is_text(nodes[0].value)
    return nodes[1:] if documented else nodes


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _calls(nodes: Nodes, dotted: _Names) -> Iterator[str]:
    calls = (node for node in nodes if isinstance(node, ast.Call))
    return filter(None, (dotted(node.func) for node in calls))


def _uses(nodes: Nodes, dotted: _Names) -> Iterator[str]:
    for node in nodes:
        loaded = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        if loaded and (name := dotted(node)):
            yield name


def _types(nodes: Nodes, defined: Definition | None) -> Iterator[str]:
    """Yield what annotations, defaults, and values given to names say of types."""
    for argument in _arguments(defined):
        if argument.annotation:
            yield ast.unparse(argument.annotation)
    if isinstance(defined, ast.FunctionDef | ast.AsyncFunctionDef):
        for value in (*defined.args.defaults, *filter(None, defined.args.kw_defaults)):
            yield from _of_value(value)
    for node in nodes:
        if isinstance(node, ast.AnnAssign):
            yield ast.unparse(node.annotation)
        elif isinstance(node, ast.Assign):
            yield from _of_value(node.value)


def _of_value(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        if node.value is not None and node.value is not ...:
            yield type(node.value).__name__
    elif type(node) in LITERALS:
        yield LITERALS[type(node)]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and _makes(node.func.id):
        yield node.func.id


def _makes(name: str) -> bool:
    return name[:1].isupper() or name in {"dict", "list", "set", "str", "int"}


def _returns(nodes: Nodes, defined: Definition | None) -> str:
    """Give the annotated type, or the one type that all returned literals have."""
    if not isinstance(defined, ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    if defined.returns:
        return ast.unparse(defined.returns)
    returned = [n.value for n in nodes if isinstance(n, ast.Return) and n.value]
    said = {tuple(_of_value(value)) for value in returned}
    return next(iter(said))[0] if len(said) == 1 and () not in said else ""


def _comments(text: str) -> Iterator[str]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(textwrap.dedent(text)).readline):
            if token.type == tokenize.COMMENT:
                yield token.string.lstrip("#").strip()
    except (tokenize.TokenError, SyntaxError):
        return
