"""What every stack keeps: settings, manifests, failures, and code that an arm brings."""

import json
import os
import re
import sqlite3
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from copy import deepcopy
from dataclasses import asdict, replace
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from harness.core import digest, errors
from harness.core.digest import DocumentsDigest, of_json
from harness.core.engine import MANIFEST, Engine, Manifest, Searcher
from harness.core.files import write_json, write_text
from harness.core.formats import MAX_INDEX_BYTES, json_file
from harness.core.reading import text_of
from harness.core.records import Document, Scalar


class SearchError(Exception):
    """Base of the four; the service turns each into a fallback that explain names."""


class InvalidQuery(SearchError):
    """A query that says nothing, or a change of what is not there."""


class IndexUnavailable(SearchError):
    """The index is missing, still being built, or broken."""


class EngineError(SearchError):
    """An engine failed while it searched."""


class FeatureUnavailable(SearchError):
    """A mode needs what is not there, such as a model."""


_KEYS = re.compile(r"\s*+(\[{0,2})\s*+([^\s=\[\]#][^=\]]*+)[=\]]")
"""Keys with dots that begin a line of TOML: of a table, or of what is assigned to."""


def line_of_key(path: Path, key: Sequence[str]) -> int | None:
    """Line, from 1, where ``key`` is assigned to; else that of the innermost table around it."""
    table: list[str] = []
    around: dict[int, int] = {}
    for number, line in enumerate(text_of(path).split("\n"), start=1):
        if (found := _KEYS.match(line)) is None:
            continue
        written = [one.strip(" \t\"'") for one in found[2].split(".")]
        here = written if found[1] else [*table, *written]
        if here == list(key):
            return number
        if found[1]:
            table = here
            if here == list(key[: len(here)]):
                around[len(here)] = number
    return around[max(around)] if around else None


Row = tuple[str, str, str]
"""Id, title and text of a document."""


def sort_by_id(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows in code point order of their ids, then of title and text."""
    with closing(sqlite3.connect("")) as scratch:
        scratch.execute("PRAGMA journal_mode = OFF")
        scratch.execute("CREATE TABLE document (id TEXT, title TEXT, text TEXT)")
        scratch.executemany("INSERT INTO document VALUES (?, ?, ?)", rows)
        yield from scratch.execute("SELECT id, title, text FROM document ORDER BY id, title, text")


class StackSettings(BaseModel):
    """Settings of a stack as an arm's TOML file gives them; docs/engines.md describes each."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def with_values(settings: Mapping[str, Any], instead: Mapping[str, Scalar]) -> dict[str, Any]:
    """Copy settings, and put a value in the place of each dotted key; UnknownName without one."""
    changed = deepcopy(dict(settings))
    for key, value in instead.items():
        *tables, last = key.split(".")
        within: Any = changed
        for table in tables:
            within = within.get(table) if isinstance(within, dict) else None
        if not isinstance(within, dict) or isinstance(within.get(last, {}), dict):
            raise errors.UnknownName("setting of the arm", key, sorted(value_keys(settings)))
        within[last] = value
    return changed


def value_keys(settings: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield the dotted key of each value."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from value_keys(value, f"{above}{key}.")
        else:
            yield f"{above}{key}"


PATIENCE_S = 30.0
"""How long an index is opened again and again."""


@contextmanager
def opened_whole(engine: Engine, index: Path) -> Iterator[Searcher]:
    """Open an index; whatever its engine raises, IndexNotReady too, it raises of one index."""
    until = monotonic() + PATIENCE_S
    while True:
        with _stays(index) as stays, ExitStack() as opened:
            try:
                searcher = opened.enter_context(engine.open(index))
            except Exception:
                if stays():
                    raise
            else:
                if stays():
                    yield searcher
                    return
        if monotonic() >= until:
            raise errors.IndexNotReady(f"{index}: is built anew all the time. Open it after that")


@contextmanager
def _stays(index: Path) -> Iterator[Callable[[], bool]]:
    """Return what tells whether the folder is still the one that it was, or still not there."""
    try:
        folder = os.open(index, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield lambda: not index.exists()
        return
    try:
        yield lambda: index.exists() and os.path.samestat(os.fstat(folder), index.stat())
    finally:
        os.close(folder)


FILE = "manifest.json"


def record(
    index: Path,
    documents: Iterable[Document],
    fill: Callable[[Iterable[Document]], object],
    *,
    engine: str,
    version: str,
    settings: Any,  # noqa: ANN401  whatever json can write
) -> Manifest:
    """Index ``documents`` by ``fill``; then write the manifest that an interrupted build lacks."""
    digest = DocumentsDigest()
    fill(digest.watch(documents))
    made = Manifest(engine, version, digest.count, digest.sha256, of_json(settings))
    write_json(index / FILE, asdict(made))
    return made


def read(index: Path) -> Manifest:
    """Read the manifest of the index in the folder ``index``, or raise IndexNotReady."""
    path = index / FILE
    if not path.is_file():
        raise errors.IndexNotReady(f"{path}: no index here. Run: harness stage index")
    try:
        return MANIFEST.read(path, "Build it again: harness stage index")
    except errors.BadFile as exc:
        raise errors.IndexNotReady(str(exc)) from exc


def check_made_by(
    index: Path,
    manifest: Manifest,
    *,
    engine: str,
    version: str,
    settings: Any,  # noqa: ANN401  whatever json can write
) -> None:
    """Compare an index's manifest with the engine that wants to open it, or raise IndexNotReady."""
    opens = replace(manifest, engine=engine, version=version, settings_sha256=of_json(settings))
    ours, built = asdict(opens), asdict(manifest)
    differ = [
        f"{key} {built[key]!r} is now {ours[key]!r}" for key in ours if ours[key] != built[key]
    ]
    if differ:
        raise errors.IndexNotReady(
            f"{index}: was built by another arm, or before its settings or its engine changed"
            f" ({'; '.join(differ)}). Build it again: harness stage index"
        )


def check_count(index: Path, manifest: Manifest, found: int) -> None:
    """Raise IndexNotReady where an opened index holds other documents than its manifest says."""
    if found != manifest.documents:
        raise errors.IndexNotReady(
            f"{index}: the manifest says {manifest.documents} documents, the index holds {found}."
            " Build it again: harness stage index"
        )


Opened = TypeVar("Opened", bound=Searcher)


@contextmanager
def reading(where: Path, *kinds: type[Exception]) -> Iterator[None]:
    """Read files of an index; an error of these kinds is raised as IndexNotReady."""
    try:
        yield
    except kinds as exc:
        raise errors.IndexNotReady(f"{where}: {exc}. Build it again: harness stage index") from exc


@contextmanager
def unmoved(lost: Callable[[], str], prove: Callable[[], object]) -> Iterator[None]:
    """Raise InvalidArm where a server was lost, or its index moved, while the block ran."""
    yield
    if why := lost():
        told = f"the server was lost while queries ran: {why}. Nothing is scored."
        raise errors.InvalidArm(f"{told} Start the server, and replay")
    try:
        prove()
    except errors.IndexNotReady as exc:
        why = f"the index moved while queries ran: {exc}. Nothing is scored"
        raise errors.InvalidArm(why) from exc


def write_ids(path: Path, doc_ids: Iterable[str]) -> None:
    """Write the ids of an index's documents, in their order."""
    write_text(path, json.dumps([*doc_ids]))


def read_ids(path: Path) -> tuple[str, ...]:
    """Read the ids that ``write_ids`` wrote, or raise IndexNotReady."""
    with reading(path, OSError, ValueError, TypeError):
        return tuple(json_file(path, most=MAX_INDEX_BYTES))


class FileEngine(ABC, Generic[Opened]):
    """An engine whose index is a folder of files."""

    ENGINE: ClassVar[str]
    settings: StackSettings

    @property
    def identity(self) -> Any:  # noqa: ANN401  whatever json can write
        """Settings that change an answer."""
        return self.settings.model_dump()

    @abstractmethod
    def version(self, made: Manifest | None = None) -> str:
        """Return the software that builds an index, or opens one that was ``made``."""

    @abstractmethod
    def fill(self, documents: Iterable[Document], index: Path) -> None:
        """Write an index of all documents into the empty folder ``index``."""

    @abstractmethod
    def load(self, index: Path, made: Manifest) -> AbstractContextManager[Opened]:
        """Open what ``fill`` wrote; IndexNotReady where it is not whole, or of another build."""

    def whole_version(self, index: Path, made: Manifest | None = None) -> str:  # noqa: ARG002  where it has parts
        """Return ``version``, and of an index with parts theirs too."""
        return self.version(made)

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        """Write an index, and what it was made of and by."""
        by: Any = {"engine": self.ENGINE, "version": self.version(), "settings": self.identity}
        return record(index, documents, partial(self.fill, index=index), **by)

    @contextmanager
    def open(self, index: Path) -> Iterator[Opened]:
        """Open an index that this engine made; IndexNotReady where it is not, or not whole."""
        made = read(index)
        version = self.whole_version(index, made)
        check_made_by(index, made, engine=self.ENGINE, version=version, settings=self.identity)
        with self.load(index, made) as searcher:
            yield searcher


class PartsEngine(FileEngine[Opened]):
    """An engine whose index has those of others, each in a folder of its name."""

    @abstractmethod
    def engines(self) -> Mapping[str, Engine]:
        """Make the engine of each part."""

    @abstractmethod
    def join(
        self, index: Path, made: Manifest, parts: Mapping[str, Searcher]
    ) -> AbstractContextManager[Opened]:
        """Open the whole over its open parts."""

    def prepare(self, documents: Sequence[Document], index: Path) -> None:
        """Write what the whole keeps beside its parts, before them."""

    def whole_version(self, index: Path, made: Manifest | None = None) -> str:
        told = {name: read(index / name) for name in self.engines()}
        parts = (f"{name} {one.engine} {one.fingerprint[:16]}" for name, one in told.items())
        return f"{self.version(made)}: {', '.join(parts)}"

    def fill(self, documents: Iterable[Document], index: Path) -> None:
        everything = tuple(documents)
        self.prepare(everything, index)
        for name, part in self.engines().items():
            (index / name).mkdir()
            part.build(everything, index / name)

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        """Build every part, and write what they are."""
        made = super().build(documents, index)
        whole = replace(made, version=self.whole_version(index))
        write_json(index / FILE, asdict(whole))
        return whole

    @contextmanager
    def load(self, index: Path, made: Manifest) -> Iterator[Opened]:
        with ExitStack() as opened:
            engines = self.engines().items()
            parts = {name: opened.enter_context(one.open(index / name)) for name, one in engines}
            for part in parts.values():
                check_count(index, made, part.manifest.documents)
            yield opened.enter_context(self.join(index, made, parts))


NO_CODE = "HARNESS_NO_CODE"
"""Variable of the environment; any text but the empty one and 0 sets it."""
SUFFIX = ".py"
PROGRAM = "command"
"""The setting of a stack that names a program to start."""


def allowed() -> bool:
    """Return whether arms may bring code."""
    return os.environ.get(NO_CODE, "") in {"", "0"}


@contextmanager
def forbidden() -> Iterator[None]:
    """Allow no arm to bring code while the block runs, in processes that it starts too."""
    before = os.environ.get(NO_CODE)
    os.environ[NO_CODE] = "1"
    try:
        yield
    finally:
        os.environ.pop(NO_CODE)
        if before is not None:
            os.environ[NO_CODE] = before


def check_allowed(arm: Path, stack: str, settings: Mapping[str, Any]) -> None:
    """Raise InvalidArm where an arm brings code and none is allowed."""
    if stack.endswith(SUFFIX):
        check_code(str(arm), arm.stem, str(arm.parent / stack))
    elif program := settings.get(PROGRAM):
        check_code(str(arm), arm.stem, f"the program {program}")


def check_code(written: str, arm: str, what: str) -> None:
    """Raise InvalidArm where no code is allowed."""
    if not allowed():
        raise errors.InvalidArm(
            f"{written}: the arm {arm} brings code ({what}), and {NO_CODE} is set. Read that code,"
            " and run the command without --no-code if you trust it"
        )


def imported(file: Path) -> ModuleType:
    """Import a Python file, or raise FileNotFoundError."""
    name = f"arm_stack_{digest.of_bytes(str(file.resolve()).encode())[:16]}"
    spec = spec_from_file_location(name, file) if file.is_file() else None
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"no file {file}")
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def module_of(arm: Path, stack: str) -> ModuleType:
    """Import the Python file that an arm names."""
    file = arm.parent / stack
    if not file.is_file():
        raise errors.BadPolicy(arm, f"stack: no file {file}", "Name a Python file beside this one")
    with named(arm.stem, f"{file} cannot be imported"):
        module = imported(file)
    if not callable(getattr(module, "engine", None)):
        raise errors.BadPolicy(file, "has no function engine", "Define engine(settings, cache)")
    return module


@contextmanager
def named(
    arm: str,
    what: str,
    *,
    but: type[Exception] = errors.HarnessError,
    only: type[BaseException] = BaseException,
) -> Iterator[None]:
    """Make whatever an engine raises an error that names its arm; its own exit is one too."""
    try:
        yield
    except (but, errors.HarnessError, KeyboardInterrupt, GeneratorExit):
        raise
    except only as exc:
        if isinstance(exc, ModuleNotFoundError) and (hint := errors.hint(exc)):
            raise errors.NotInstalled(f"{arm}: {what}: {hint}") from exc
        if isinstance(exc, MemoryError):
            raise errors.InvalidArm(f"{arm}: {what}: {errors.MEMORY_RAN_OUT}") from exc
        line = f" (line {exc.lineno})" if isinstance(exc, SyntaxError) else ""
        raise errors.InvalidArm(f"{arm}: {what}: {type(exc).__name__}: {exc}{line}") from exc
