"""Risk by a short table of names: what reads from outside, what acts outside, and how they meet.

The limits, plainly. Names are compared as they are written, with the imports that stand in the same
text resolved. A method of an object (``cursor.execute``) is known by its last part alone, so any
object with such a method is meant. A flow is seen inside one function only, through assignments of
plain names and without their order. What passes through a call's result is taken to stay tainted.
What passes through an attribute, a container or another function is not seen, and nothing is ever
taken for cleaned. It points at lines worth reading. It is not a proof that something is safe.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence

from harness_engines.stacks.code.units import Risk

ROUNDS = 8
"""Assignments are followed so many times over; longer chains of names are not."""
LOW, MEDIUM, HIGH = 1, 2, 3
Dotted = Callable[[ast.AST], str]


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
        sink = _sink(dotted(node.func))
        handed = [*node.args, *(keyword.value for keyword in node.keywords)]
        if not sink or all(isinstance(one, ast.Constant) for one in handed):
            continue
        found.add(Risk(*SINKS[sink], MEDIUM, sink=sink))
        tainted = _tainted(nodes, dotted) if tainted is None else tainted
        for value in handed:
            for source in _reaching(value, tainted, dotted):
                found.add(Risk(*SINKS[sink], HIGH, source=source, sink=sink))
    return tuple(sorted(found))


def _sink(name: str) -> str:
    if name in SINKS:
        return name
    method = f"*.{name.rpartition('.')[2]}" if "." in name else ""
    return method if method in SINKS else ""


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
