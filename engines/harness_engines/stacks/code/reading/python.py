"""Files of Python as documents: symbols, signatures, documentation and risks."""

import ast
import codecs
import io
import re
import textwrap
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from harness.core.markup import NO_CHARSETS
from harness.core.records import Document, Scalar
from harness_engines.lexical.terms import mended
from harness_engines.stacks.code.units import Facts, Mode, Risk, UnitTexts

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Nodes = Sequence[ast.AST]
"""All nodes of a piece, the one around first; they are walked once."""
Read = tuple[UnitTexts, Facts]
Dotted = Callable[[ast.AST], str]
"""Names a node with dots, or gives an empty text."""
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
    """Return whether a text is code: something is defined, imported or set."""
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
    """Take a parsed text apart; ``name`` and ``kind`` are given where it does not say them itself.

    ``imports`` are names that the file around it imported, by what they are called there; ``own``
    those that it defines, and ``self`` in a method. Relative imports start from ``package``.
    """
    inner = tree.body[0] if len(tree.body) == 1 else tree
    defined = inner if isinstance(inner, Definition) else None
    within: ast.AST = defined or tree
    nodes = tuple(ast.walk(within))
    known = {**imports, **imported(nodes, package)}
    dotted = _namer({**(own or {}), **known})
    symbol = name.rpartition(".")[2] or (defined.name if defined else "")
    signature = _signature(defined) if defined else ""
    names = (node for node in nodes if isinstance(node, ast.Name | ast.Attribute))
    loaded = (node for node in names if isinstance(node.ctx, ast.Load))
    facts = Facts(
        type=kind or _kind(defined),
        symbol=symbol,
        full=name or symbol,
        exported=bool(symbol) and not any(p.startswith("_") for p in (name or symbol).split(".")),
        signature=signature,
        params=tuple(arg.arg for arg in _arguments(defined)),
        inferred_types=tuple(dict.fromkeys(_types(nodes, defined))),
        return_type=_returns(nodes, defined),
        uses=tuple(sorted({dotted(node) for node in loaded} - {""})),
        calls=tuple(sorted({dotted(n.func) for n in nodes if isinstance(n, ast.Call)} - {""})),
        imports=tuple(sorted(set(known.values()))),
        risks=risks(nodes, dotted),
    )
    doc = ast.get_docstring(defined or tree)
    body = (defined or tree).body[0 if doc is None else 1 :]
    texts = UnitTexts(
        name=name or symbol,
        signature=signature,
        doc=doc or "",
        comment="\n".join(_comments(text)),
        body="\n".join(ast.unparse(node) for node in body),
    )
    return texts, facts


def _namer(known: Mapping[str, str]) -> Dotted:
    """Make what names a node: ``np.linalg`` is ``numpy.linalg`` where np is known as numpy."""

    def dotted(node: ast.AST) -> str:
        behind: list[str] = []
        while isinstance(node, ast.Attribute):
            behind.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            return ".".join([known.get(node.id, node.id), *reversed(behind)])
        return behind[0] if behind else ""

    return dotted


def imported(nodes: Iterable[ast.AST], package: str = "") -> dict[str, str]:
    """Return what each name that an import binds stands for; relative ones within ``package``."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                found[bound] = alias.name if alias.asname else bound
        elif isinstance(node, ast.ImportFrom):
            above, dots = [node.module] if node.module else [], "." * node.level
            if package and node.level:
                parts, dots = package.split("."), ""
                above = [*parts[: len(parts) - node.level + 1], *above]
            for alias in node.names:
                found[alias.asname or alias.name] = dots + ".".join([*above, alias.name])
    return found


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
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        name = node.func.id
        if name[:1].isupper() or name in {"dict", "list", "set", "str", "int"}:
            yield name


def _returns(nodes: Nodes, defined: Definition | None) -> str:
    """Return the annotated type, or the one type that all returned literals have."""
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


_SIGNATURE = re.compile(r"([A-Za-z_]\w*)\((.*)\)")
_HEADING = re.compile(r"^(?P<name>[A-Z][A-Za-z ]+)\n(?:-{3,}|={3,})[ \t]*$", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:, ?\*{0,2}\w+)*) ?: ?(\S.*)$", re.MULTILINE)
_REFERENCE = re.compile(r"`{1,2}[~.!]*([A-Za-z_][\w.]*\w)(?:\(\))?`{1,2}")
_EXAMPLE = re.compile(r"^[ \t]*(?:>>>|\.\.\.)[ \t](.*)$", re.MULTILINE)
_LINK = re.compile(r"^([A-Za-z_][\w.]*(?:, [A-Za-z_][\w.]*)*)(?= ?:|$)", re.MULTILINE)
USUAL: Mapping[str, str] = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot"}
"""What examples of the scientific packages call them without an import."""


def signature_of(name: str, text: str) -> str:
    """Return the first line where it is the signature of the object ``name``; else empty."""
    first = text.partition("\n")[0].strip()
    match = _SIGNATURE.fullmatch(first)
    return first if match and name and match[1] == name.rpartition(".")[2] else ""


def read_symbol(name: str, text: str, kind: str, signature: str) -> tuple[UnitTexts, Facts]:
    """Read a docstring in the style of numpydoc, below the signature of what it documents."""
    doc = text.partition("\n")[2].strip()
    named = _sections(doc)
    entries = _ENTRY.findall(named.get("Parameters", ""))
    returned = _ENTRY.findall(named.get("Returns", "")) or [("", named.get("Returns", ""))]
    lines = "\n".join(_EXAMPLE.findall(doc))
    whole = parsed(lines)
    trees = [whole] if whole is not None else [*filter(None, map(parsed, lines.splitlines()))]
    examples = [read("", tree, name="", kind="", imports=USUAL)[1] for tree in trees]
    inside = _SIGNATURE.fullmatch(signature)
    given = re.findall(r"(?:^|,)\s*\**(\w+)", inside[2]) if inside else []
    described = [word.strip("* ") for names, _ in entries for word in names.split(",")]
    facts = Facts(
        type=kind or "function",
        symbol=name.rpartition(".")[2],
        full=name,
        exported=not any(part.startswith("_") for part in name.split(".")),
        signature=signature,
        params=tuple(dict.fromkeys([*given, *described])),
        inferred_types=tuple(dict.fromkeys(filter(None, (_type(said) for _, said in entries)))),
        return_type=_type(returned[0][1].strip().partition("\n")[0]),
        uses=tuple(sorted({used for one in examples for used in one.uses})),
        calls=tuple(sorted({called for one in examples for called in one.calls})),
        links=_links(doc, named, name),
    )
    return UnitTexts(name=name, signature=signature, doc=doc), facts


def read_prose(title: str, text: str, kind: str) -> tuple[UnitTexts, Facts]:
    """Read prose: a title, what it says, and the names that it marks as code."""
    full = title if kind == "module" else ""
    facts = Facts(type=kind or "text", full=full, links=_links(text, _sections(text), title))
    return UnitTexts(name=title, doc=text), facts


def _sections(text: str) -> Mapping[str, str]:
    """Text below each heading that is underlined; the first of a name counts."""
    found: dict[str, str] = {}
    for heading, following in pairwise([*_HEADING.finditer(text), None]):
        if heading is not None:
            end = following.start() if following else len(text)
            found.setdefault(heading["name"].strip().title(), text[heading.end() : end])
    return found


def _type(written: str) -> str:
    """Reduce ``int, optional`` and ``ndarray of shape (n,)`` to the type that comes first."""
    first = re.split(r",| of | or |\(|;", written.strip("` "), maxsplit=1)[0]
    return first.strip("`~ .")


def _links(text: str, named: Mapping[str, str], own: str) -> tuple[str, ...]:
    see_also = [
        name.strip()
        for names in _LINK.findall(named.get("See Also", ""))
        for name in names.split(",")
    ]
    marked = [name for name in _REFERENCE.findall(text) if "." in name or "_" in name]
    return tuple(name for name in dict.fromkeys([*see_also, *marked]) if name != own)


_CUT = re.compile(r"^(?=(?:async[ \t]+def|def|class)[ \t]|@)", re.MULTILINE)
_DEFINED = re.compile(r"^(?:async[ \t]+)?(def|class)[ \t]+(\w+)", re.MULTILINE)
_LINE_END = re.compile(r"\r\n?")


class FileStretch(NamedTuple):
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
    """Decode a file of Python as Python does: by its mark or its first lines, else as UTF-8."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        known = codecs.lookup(encoding).name
        text = data.decode("utf-8-sig" if known in NO_CHARSETS else encoding, "replace")
    except (SyntaxError, LookupError):
        text = data.decode("utf-8-sig", "replace")
    return _LINE_END.sub("\n", mended(text.replace("\0", "\ufffd")))


def documents(path: str, module: str, text: str) -> Iterator[Document]:
    """Make the documents of a file; ``module`` is its name with dots, ``path`` begins their ids."""
    whole = parsed(text)
    try:
        parts = _parts(whole, text) if whole is not None else list(_broken(text))
    except RecursionError:
        parts = [FileStretch("", "module", text, 1, text.count("\n") + 1)]
    inside = path.rpartition("/")[2].startswith("__init__.")
    package = module if inside else module.rpartition(".")[0]
    top = whole.body if whole is not None else []
    guarded = [inner for node in top for body in _guarded(node) for inner in body]
    # those of a relative import with their package
    bound = imported((node for node in (*top, *guarded) if _is_import(node)), package)
    own = {part.name: f"{module}.{part.name}" for part in parts if part.name.isidentifier()}
    about: dict[str, Scalar] = {
        "path": path, "language": "python", "imports": pairs(bound), "package": package,
    }  # fmt: skip
    doc = ast.get_docstring(whole) if whole is not None else None
    if doc:
        last = whole.body[0].end_lineno if whole is not None else 0
        said = {"path": path, "kind": "module", "mode": Mode.PROSE.value, "lines": f"1-{last}"}
        yield Document(f"{path}::", module, mended(doc), said)
    ids = numbered(path, (part.name or "<module>" for part in parts))
    for doc_id, part in zip(ids, parts, strict=True):
        mine = {**own, "self": f"{module}.{part.within}"} if part.within else own
        more: dict[str, Scalar] = {
            "kind": part.kind, "name": f"{module}.{part.name}" if part.name else module,
            "own": pairs(mine), "lines": f"{part.first}-{part.last}", "mode": Mode.CODE.value,
        }  # fmt: skip
        yield Document(doc_id, "", part.text, {**about, **more})


def numbered(path: str, names: Iterable[str]) -> Iterator[str]:
    """Yield an id for each definition of a file; the second of a name has a number."""
    seen: Counter[str] = Counter()
    for name in names:
        seen[name] += 1
        yield f"{path}::{name}" + (f"#{seen[name]}" if seen[name] > 1 else "")


def pairs(known: Mapping[str, str]) -> str:
    """Write what names stand for as metadata."""
    return ",".join(f"{name}={full}" for name, full in sorted(known.items()))


def _parts(tree: ast.Module, text: str) -> list[FileStretch]:
    lines = text.split("\n")
    found = list(_defined(tree.body, lines, ""))
    own = [node for node in tree.body if not _is_import(node) and not _defines(node)]
    own = own[1:] if own and ast.get_docstring(tree) and own[0] is tree.body[0] else own
    if own:
        said = "\n".join(_text(node, lines) for node in own)
        found.append(FileStretch("", "module", said, own[0].lineno, own[-1].end_lineno or 0))
    return found


def _defined(body: list[ast.stmt], lines: list[str], holder: str) -> Iterator[FileStretch]:
    """Yield functions, classes, their methods and constants, also those below an if or a try."""
    for node in body:
        if isinstance(node, Definition):
            name, first = f"{holder}{node.name}", _first(node)
            last = node.end_lineno or node.lineno
            if isinstance(node, ast.ClassDef):
                yield FileStretch(name, "class", _without_inner(node, lines), first, last)
                yield from _defined(node.body, lines, f"{name}.")
            else:
                kind = "method" if holder else "function"
                said = "\n".join([*lines[first - 1 : last], ""])
                yield FileStretch(name, kind, said, first, last, holder[:-1])
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not holder:
            said, last = _text(node, lines) + "\n", node.end_lineno or node.lineno
            for one in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(one, ast.Name):
                    yield FileStretch(one.id, "constant", said, node.lineno, last)
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


def _broken(text: str) -> Iterator[FileStretch]:
    """Cut a file that does not parse at its definitions, and read each by itself."""
    cuts = sorted({0, *(found.start() for found in _CUT.finditer(text)), len(text)})
    for low, high in pairwise(cuts):
        piece = text[low:high]
        first = text.count("\n", 0, low) + 1
        tree = parsed(piece)
        if tree is not None:
            for part in _defined(tree.body, piece.split("\n"), ""):
                yield part._replace(first=part.first + first - 1, last=part.last + first - 1)
        elif named := _DEFINED.search(piece):
            kind = "class" if named[1] == "class" else "function"
            last = first + piece.rstrip().count("\n")
            yield FileStretch(named[2], kind, piece, first, last)


ROUNDS = 8
"""Assignments are followed so many times over; longer chains of names are not."""
LOW, MEDIUM, HIGH = 1, 2, 3
Rules = Mapping[str, tuple[str, str]]
"""Tag and category of names."""


def _rules(said: Mapping[tuple[str, str], str]) -> Rules:
    return {name: rule for rule, names in said.items() for name in names.split()}


SOURCES = _rules({
    ("user-input", "input"): "input sys.argv sys.stdin",
    ("environment", "input"): "os.environ os.getenv",
    ("web-input", "input"): "request.args request.form request.json",
    ("download", "network"): "urllib.request.urlopen requests.get",
})
SINKS = _rules({
    ("code-execution", "injection"): "eval exec",
    ("command-execution", "injection"): (
        "os.system os.popen subprocess.run subprocess.call subprocess.Popen subprocess.check_output"
    ),
    ("sql", "injection"): "*.execute *.executescript",
    ("deserialization", "injection"): "pickle.load pickle.loads yaml.load",
    ("file-access", "files"): "open",
    ("file-removal", "files"): "os.remove shutil.rmtree",
    ("weak-hash", "cryptography"): "hashlib.md5 hashlib.sha1",
})


def risks(nodes: Sequence[ast.AST], dotted: Dotted) -> tuple[Risk, ...]:
    """Apply the rules to the nodes of a piece; ``dotted`` names one, or gives an empty text.

    The limits, plainly. Names are compared as they are written, with the imports that stand in the
    same text resolved. A method of an object (``cursor.execute``) is known by its last part alone,
    so any object with such a method is meant. A flow is seen inside one function only, through
    assignments of plain names and without their order. What passes through a call's result is taken
    to stay tainted. What passes through an attribute, a container or another function is not seen,
    and nothing is ever taken for cleaned. It points at lines worth reading. It is not a proof that
    something is safe.

    A source alone is low, a sink that is handed more than constants medium, a sink that a source
    reaches high. Ordered, and without repetition.
    """
    found: set[Risk] = set()
    tainted: Mapping[str, frozenset[str]] | None = None
    for node in nodes:
        for source in _sources_in(node, dotted, deep=False):
            found.add(Risk(*SOURCES[source], LOW, source=source))
        if not isinstance(node, ast.Call):
            continue
        sink = dotted(node.func)
        if sink not in SINKS:
            sink = f"*.{sink.rpartition('.')[2]}" if "." in sink else ""
        handed = [*node.args, *(keyword.value for keyword in node.keywords)]
        if sink not in SINKS or all(isinstance(one, ast.Constant) for one in handed):
            continue
        found.add(Risk(*SINKS[sink], MEDIUM, sink=sink))
        tainted = _tainted(nodes, dotted) if tainted is None else tainted
        for value in handed:
            for source in _reaching(value, tainted, dotted):
                found.add(Risk(*SINKS[sink], HIGH, source=source, sink=sink))
    return tuple(sorted(found))


def _sources_in(node: ast.AST, dotted: Dotted, *, deep: bool) -> Iterator[str]:
    for one in ast.walk(node) if deep else [node]:
        if isinstance(one, ast.Name | ast.Attribute) and (name := dotted(one)) in SOURCES:
            yield name


def _reaching(value: ast.AST, tainted: Mapping[str, frozenset[str]], dotted: Dotted) -> set[str]:
    found = set(_sources_in(value, dotted, deep=True))
    for node in ast.walk(value):
        if isinstance(node, ast.Name):
            found |= tainted.get(node.id, frozenset())
    return found


def _tainted(nodes: Sequence[ast.AST], dotted: Dotted) -> Mapping[str, frozenset[str]]:
    """Return which sources may have reached each plain name."""
    assigned = [
        (target.id, value)
        for node in nodes
        for targets, value in _assignments(node)
        for target in targets
        if isinstance(target, ast.Name)
    ]
    known: dict[str, frozenset[str]] = {}
    for _ in range(ROUNDS):
        before = dict(known)
        for name, value in assigned:
            reached = known.get(name, frozenset()) | _reaching(value, known, dotted)
            known[name] = frozenset(reached)
        if known == before:
            break
    return known


def _assignments(node: ast.AST) -> Iterator[tuple[list[ast.expr], ast.expr]]:
    if isinstance(node, ast.Assign):
        yield node.targets, node.value
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value:
        yield [node.target], node.value
    elif isinstance(node, ast.For | ast.AsyncFor):
        yield [node.target], node.iter
    elif isinstance(node, ast.withitem) and node.optional_vars:
        yield [node.optional_vars], node.context_expr
