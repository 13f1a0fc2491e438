"""An engine that is a function: ``search(text, k)`` of a module or of a Python file."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from harness.core.digest import of_files
from harness.core.engine import Answer, Hit, Manifest, Searcher
from harness.core.errors import InvalidArm
from harness.core.names import Place
from harness.core.records import Document
from harness_engines import contract
from harness_engines.ranking import by_best

ENGINE = "function"
SOURCES = ("", "src")
"""Folders below one of the project in which a module may lie."""
INSTALLED = {"site-packages", "dist-packages"}

Search = Callable[[str, int], Iterable[object]]


@dataclass(frozen=True, slots=True)
class FunctionEngine:
    """A function as an engine: it has its own index, or none; documents are only counted."""

    name: str
    search: Search
    version: str
    """Digest of the Python files of its package, or of those beside its file."""

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        """Record which documents the answers are about."""
        by = {"engine": ENGINE, "version": self.version}
        return contract.record(index, documents, list, settings=self.name, **by)

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        """Open it, and refuse an index of another text of the function."""
        made = contract.read(index)
        by = {"engine": ENGINE, "version": self.version}
        contract.check_made_by(index, made, settings=self.name, **by)
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


def load(place: Place) -> tuple[FunctionEngine, Path]:
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
    _add_root(place.module.partition(".")[0])
    return import_module(place.module)


def _add_root(top: str) -> None:
    """Add the project around the current folder to the module path, as ``python -m`` does."""
    for root in roots(Path.cwd()):
        if (root / top).is_dir() or (root / f"{top}{contract.SUFFIX}").is_file():
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))
            return


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
