"""Arms: variants of a stack, a TOML file each in the folder that is the registry, or functions."""

import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from pydantic import Field, ValidationError

from harness.core.digest import of_files
from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher
from harness.core.errors import BadPolicy, InvalidArm, UnknownName
from harness.core.formats import toml_file
from harness.core.names import Place, checked
from harness.core.reading import Malformed, text_of
from harness.core.records import Document, Scalar
from harness_engines import contract, stacks
from harness_engines.contract import line_of_key, opened_whole, with_values
from harness_engines.ranking import by_best

FOLDER = Path(__file__).parent / "arms"
STACKS = {
    "blend": "text.blend",
    "code": "code.arm",
    "dense": "text.dense",
    "documents": "documents.arm",
    "fts5": "text.fts5",
    "http": "http.arm",
    "hybrid": "text.hybrid",
    "lucene": "lucene",
    "mail": "agent_mail.arm",
    "postgres": "postgres",
    "rerank": "text.rerank",
    "tantivy": "text.tantivy",
    "typesense": "typesense",
    "writing": "writing.arm",
    "remote/mcp": "remote",
}
"""Every built-in stack, and its module below ``harness_engines.stacks``, which makes the engine."""
SERVED = {"http", "postgres", "typesense", "remote/mcp"}
"""Of them, those whose index a server holds."""


@dataclass(frozen=True, slots=True)
class Arm:
    """A stack with its settings, ready to build and open indexes."""

    name: str
    summary: str
    """One sentence for the report."""
    engine: Engine
    path: Path
    shared: bool = False
    """Whether several processes may have an index open: its stack is ours and reads files."""
    tuning: Path | None = None
    """The record of how its settings were searched for; None where its file names none."""
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """As the engine got them."""

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        """Write an index into the empty folder ``index``."""
        with _written_in(self.path), contract.named(self.name, "its index cannot be built"):
            return self.engine.build(documents, index)

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        """Open what ``build`` wrote."""
        with ExitStack() as until_closed:
            with _written_in(self.path), contract.named(self.name, "its index cannot be opened"):
                searcher = until_closed.enter_context(opened_whole(self.engine, index))
            with contract.named(self.name, "its engine ended", only=SystemExit):
                yield searcher


def names() -> tuple[str, ...]:
    """Every arm of ``engines/harness_engines/arms``, in alphabetical order."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def name_of(given: str) -> str:
    """Return the name of an arm that is given by name, file or function."""
    if place := Place.of(given):
        return place.name
    return path_of(given).stem if "/" in given or given.endswith(".toml") else given


def path_of(name: str) -> Path:
    """Find the file of an arm: a name in the folder ``arms`` or a path to a TOML file."""
    if name.endswith((".py", "/")) or ("/" in name and not name.endswith(".toml")):
        raise InvalidArm(
            f"{name}: an arm is a .toml file that names its code, or FILE.py:FUNCTION. Give that"
        )
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{checked('an arm', name)}.toml"
    checked("an arm", path.stem)
    if not path.is_file() and name.endswith(".toml"):
        raise InvalidArm(f"{name}: no such file. Correct the path of the arm")
    if not path.is_file():
        raise UnknownName("arm", name, (*names(), "or a path to a .toml file"))
    return path


def load(name: str, cache: Path, instead: Mapping[str, Scalar] | None = None) -> Arm:
    """Make the arm called ``name``; what it may keep between runs goes below ``cache``.

    ``name`` may be a function, as ``module:function``. ``instead`` are values in place of those of
    its file, by dotted key (``words.title_weight``).
    """
    if place := Place.of(name):
        found, file = load_function(place)
        return Arm(place.name, f"the function {name}", found, file)
    path = path_of(name)
    about = read(path)
    settings = with_values(about.settings, instead or {})
    contract.check_allowed(path, about.stack, settings)
    with _written_in(path):
        stack = _stack(path, about.stack)
    try:
        with (
            _written_in(path),
            contract.named(path.stem, "its engine cannot be made", but=ValidationError),
        ):
            engine = stack.engine(settings, cache)
    except ValidationError as exc:
        known = getattr(getattr(stack, exc.title, None), "model_fields", ())
        hint = f"The stack {about.stack} has the settings {', '.join(sorted(known))}"
        raise _wrong(path, exc, hint, {"settings": settings}, "settings") from exc
    return Arm(
        path.stem,
        about.summary,
        engine,
        path,
        shared=about.stack in STACKS.keys() - SERVED,
        tuning=path.parent / about.tuning if about.tuning else None,
        settings=settings,
    )


class ArmFile(contract.StackSettings):
    """What the TOML file of an arm says."""

    summary: str
    stack: str
    settings: dict[str, Any] = Field(default_factory=dict)
    tuning: str = ""
    """The file of its tuning record, where it has one."""


def read(path: Path) -> ArmFile:
    """Read the file of an arm, and check its keys."""
    try:
        about = toml_file(path)
    except Malformed as exc:
        raise BadPolicy(path, f"not TOML: {exc}", "Correct it", exc.line) from exc
    try:
        return ArmFile.model_validate(about)
    except ValidationError as exc:
        hint = f"An arm has the keys {', '.join(ArmFile.model_fields)}"
        raise _wrong(path, exc, hint, about) from exc


def _wrong(
    path: Path, exc: ValidationError, hint: str, tree: Mapping[str, Any], *above: str
) -> BadPolicy:
    """Name the first wrong key of an arm's file, with its line."""
    first = min(exc.errors(), key=lambda error: error["type"] != "extra_forbidden")
    key = _written(tree, [*above, *first["loc"]])
    return BadPolicy(path, f"{'.'.join(key)}: {first['msg']}", hint, line_of_key(path, key))


def _stack(path: Path, stack: str) -> ModuleType:
    """Import a built-in stack, or a Python file beside the arm's own."""
    if stack.endswith(contract.SUFFIX):
        return contract.module_of(path, stack)
    if stack not in STACKS:
        raise UnknownName("stack", stack, (*STACKS, "or a Python file beside the arm"))
    with contract.named(path.stem, f"the stack {stack} cannot be imported"):
        return import_module(f"{stacks.__name__}.{STACKS[stack]}")


@contextmanager
def _written_in(path: Path) -> Iterator[None]:
    """Return the file and the line of a name that the block does not know."""
    try:
        yield
    except UnknownName as exc:
        hint = f"Write {exc.meant}" if exc.meant else "Write one of these"
        lines = text_of(path).replace("'", '"').replace(" ", "").split("\n")
        said = [at for at, one in enumerate(lines, start=1) if f'="{exc.name}"' in one]
        raise BadPolicy(path, exc.problem, hint, said[0] if said else None) from exc


def _written(settings: Mapping[str, Any], loc: Sequence[str | int]) -> list[str]:
    """Reduce a place in settings to keys as they are written, and a last that may be missing."""
    found: list[str] = []
    within: Any = settings
    for at, part in enumerate(loc, start=1):
        if isinstance(within, dict) and part in within:
            within = within[part]
            found.append(str(part))
        elif at == len(loc) and isinstance(within, dict):
            found.append(str(part))
    return found


FUNCTION = "function"
SOURCES = ("", "src")
"""Folders below one of the project in which a module may lie."""
INSTALLED = {"site-packages", "dist-packages"}

Search = Callable[[str, int], Iterable[object]]


@dataclass(frozen=True, slots=True)
class FunctionEngine(contract.FileEngine["FunctionSearcher"]):
    """A function as an engine: it has its own index, or none; documents are only counted."""

    ENGINE: ClassVar = FUNCTION
    name: str
    search: Search
    sources: str
    """Digest of the Python files of its package, or of those beside its file."""

    @property
    def identity(self) -> str:
        return self.name

    def version(self, made: Manifest | None = None) -> str:  # noqa: ARG002  the same for both
        return self.sources

    def fill(self, documents: Iterable[Document], index: Path) -> None:  # noqa: ARG002  keeps nothing
        deque(documents, maxlen=0)

    @contextmanager
    def load(self, index: Path, made: Manifest) -> "Iterator[FunctionSearcher]":  # noqa: ARG002  as above
        yield FunctionSearcher(made, self.search)


@dataclass(frozen=True, slots=True)
class FunctionSearcher:
    """What answers: ids in their order, or pairs of id and score."""

    manifest: Manifest
    function: Search

    def search(self, text: str, k: int) -> Answer:
        """Call the function; pairs of equal score are ordered by document id."""
        found = [_pair(one, place) for place, one in enumerate(self.function(text, k), start=1)]
        scores = [score for _, score in found]
        if scores != sorted(scores, reverse=True):
            raise ValueError("a score is higher than the one before it; give the best hit first")
        hits = (Hit(doc_id, max(score, 0.0), raw) for doc_id, score, raw in by_best(found, k))
        return Answer(tuple(hits), self.manifest.fingerprint)


def _pair(hit: object, place: int) -> tuple[str, float]:
    """Read a hit; one without a score gets 1 / place."""
    doc_id, score = hit if isinstance(hit, tuple | list) and len(hit) == 2 else (hit, 1 / place)  # noqa: PLR2004
    if not isinstance(doc_id, str | int):
        raise TypeError(f"hit {place} is {hit!r}: give an id, or a pair of id and score")
    if not math.isfinite(value := float(score)):
        raise ValueError(f"hit {place} has the score {score!r}, which is not finite")
    return str(doc_id), value


def load_function(place: Place) -> tuple[FunctionEngine, Path]:
    """Import the function, and find its file."""
    written = f"{place.module}:{place.function}"
    contract.check_code(written, place.name, written)
    with contract.named(place.name, f"{place.module} cannot be imported"):
        module = _module(place)
    search = getattr(module, place.function, None)
    if not callable(search):
        raise InvalidArm(f"{written}: the module has no such function. Define search(text, k)")
    file = Path(module.__file__ or "")
    return FunctionEngine(place.name, search, of_files(_sources(file, place))[:12]), file


def _module(place: Place) -> ModuleType:
    if place.is_file:
        file = Path(place.module)
        places = (file.resolve().parent, *roots(Path.cwd()))
        sys.path += [str(one) for one in places if str(one) not in sys.path]
        return contract.imported(file)
    top = place.module.partition(".")[0]
    for root in roots(Path.cwd()):  # of the project, as ``python -m`` has it
        if (root / top).is_dir() or (root / f"{top}{contract.SUFFIX}").is_file():
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))
            break
    return import_module(place.module)


def roots(folder: Path) -> Iterator[Path]:
    """Yield where a module of a project may lie: in the folder, or above it up to ``.git``."""
    above = (folder, *folder.parents)
    last = next((at for at, one in enumerate(above) if (one / ".git").exists()), 0)
    for one in above[: last + 1]:
        yield from (one / below for below in SOURCES)


def _sources(file: Path, place: Place) -> list[Path]:
    """List the Python files of the package, or those beside a file that is in none."""
    deep = 0 if place.is_file else place.module.count(".") + (file.stem == "__init__")
    if not deep:
        beside = [file] if INSTALLED & set(file.parts) else file.parent.glob(f"*{contract.SUFFIX}")
        return sorted(beside)
    return sorted(file.parents[deep - 1].rglob(f"*{contract.SUFFIX}"))
