"""What the harness asks of a search stack, and how a stack proves who it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from harness.core.digest import of_json
from harness.core.records import Document, Scalar

IMPORTED = "imported run"
"""The engine of a run that was replayed elsewhere and came as a file."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an index is made from; written by ``build``, checked by ``open``.

    The index files of most engines differ between two builds of one corpus, so this, and not
    their bytes, is the index's identity.
    """

    engine: str
    """The software that searches, e.g. ``sqlite-fts5``."""
    version: str
    """Its version, e.g. ``3.40.1``."""
    documents: int
    corpus_sha256: str
    """Digest of the documents in the order given (``harness.core.digest.of_documents``)."""
    settings_sha256: str
    """Digest of all settings of the arm, of indexing and of searching."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything above, in hexadecimal."""
        return of_json(asdict(self))


class Hit(NamedTuple):
    """One document shown; ``score`` is in [0, 1] and higher is better, ``raw_score`` is native."""

    doc_id: str
    score: float
    raw_score: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What was shown for one query, best first, and the fingerprint of who really answered."""

    hits: tuple[Hit, ...]
    served_by: str
    note: str = ""
    """How the query was understood or degraded, for people; empty where there is nothing to say."""
    retries: int = 0
    """Attempts that failed before this answer; their time is part of its latency."""


class Searcher(Protocol):
    """An open index that answers queries."""

    @property
    def manifest(self) -> Manifest:
        """What is open."""
        ...

    def search(self, text: str, k: int) -> Answer:
        """Show at most ``k`` hits for what a person typed.

        Normalising, parsing, retrieval, fusion and ranking all happen in here: it is what the
        clock is wrapped around. Equal scores are ordered by document id.
        """
        ...


@runtime_checkable
class TakesParams(Protocol):
    """A searcher that understands what was set beside the text, such as filters."""

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Show at most ``k`` hits for a text and its params (``Query.params``)."""
        ...


class Stage(NamedTuple):
    """What stood after one part of a stack, best first."""

    name: str
    """The field's word for it: ``lexical``, ``fused``, ``reranked``."""
    hits: tuple[Hit, ...]
    beside: bool = False
    """Whether it feeds a later stage without following from the one before it, as the second leg
    of a fusion does. Stages that are not beside follow from each other."""


@runtime_checkable
class Staged(Protocol):
    """A searcher that can tell how its answers come about."""

    def stages(self, text: str, k: int, params: Mapping[str, Scalar]) -> tuple[Stage, ...]:
        """List what each part had for one question, at most ``k`` hits each.

        The last one not beside is what ``search`` shows. This is asked off the clock.
        """
        ...


class Explained(NamedTuple):
    """How one answer came about, in words and numbers of the stack's own; all of it is JSON."""

    answer: Mapping[str, Any]
    """Of the answer as a whole."""
    hits: Mapping[str, Mapping[str, Any]]
    """Of single hits, by document id; those of which there is nothing to say may be absent."""


@runtime_checkable
class Explains(Protocol):
    """A searcher that can say why its hits stand where they stand."""

    def explain(self, text: str, k: int, params: Mapping[str, Scalar]) -> Explained:
        """Explain the answer that ``search_with`` gives to the same question, off the clock."""
        ...


class Agreement(NamedTuple):
    """How near recorded vectors are to fresh ones of the same texts."""

    apart: float
    """The largest difference of a component, in a sample."""
    used: bool


@runtime_checkable
class KeepsVectors(Protocol):
    """An engine whose vectors a record can bring to another machine."""

    def keep_vectors(
        self, documents: Iterable[Document], queries: Iterable[str], folder: Path
    ) -> None:
        """Write the vectors of these texts into ``folder``, a file a model."""
        ...

    def take_vectors(self, documents: Iterable[Document], folder: Path) -> Agreement | None:
        """Use the vectors of ``folder`` from now on, if fresh ones of a sample agree.

        None where the folder has nothing for this engine.
        """
        ...


class Engine(Protocol):
    """A search stack and its settings; holds no open handles."""

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        """Write an index of ``documents`` into the empty folder ``index``."""
        ...

    def open(self, index: Path) -> AbstractContextManager[Searcher]:
        """Open what ``build`` wrote.

        Raises:
            IndexNotReady: it is missing, broken or holds something else than its manifest says.
            ModelNotReady: a model that the stack needs is absent.
        """
        ...
