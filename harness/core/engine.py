"""The protocols of a search stack, and its proof of identity."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from pydantic import ConfigDict

from harness.core.digest import of_json
from harness.core.printable import many
from harness.core.records import Document, Scalar
from harness.core.store import Artifact, Json

IMPORTED = "imported run"
"""Engine name of a run that was imported as a file."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The inputs of an index; written by ``build``, checked by ``open``.

    The index files of most engines differ between two builds of one corpus, so this, and not
    their bytes, is the index's identity.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

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


MANIFEST: Artifact[Manifest] = Json("a manifest", Manifest, keep=8)


class Hit(NamedTuple):
    """One document shown; ``score`` is in [0, 1] and higher is better, ``raw_score`` is native."""

    doc_id: str
    score: float
    raw_score: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The hits for one query, best first, and the fingerprint of the engine that answered."""

    hits: tuple[Hit, ...]
    served_by: str
    note: str = ""
    """How the query was interpreted or degraded, for people; may be empty."""
    retries: int = 0
    """Attempts that failed before this answer; their time is part of its latency."""
    rate_limited: int = 0
    """Of these, attempts that the server refused to limit the rate."""


def surplus(shown: int, k: int) -> str:
    """State that more hits were shown than requested; empty where they were not."""
    return f"{many(shown, 'hit was')} shown, {k} were requested" if shown > k else ""


class Searcher(Protocol):
    """An open index that answers queries."""

    @property
    def manifest(self) -> Manifest:
        """Manifest of the open index."""
        ...

    def search(self, text: str, k: int) -> Answer:
        """Return at most ``k`` hits for the text as typed.

        Normalising, parsing, retrieval, fusion and ranking all happen here, and the whole call is
        timed. Equal scores are ordered by document id.
        """
        ...


@runtime_checkable
class TakesParams(Protocol):
    """A searcher that accepts params in addition to the text, such as filters."""

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Return at most ``k`` hits for a text and its params (``Query.params``)."""
        ...


class Stage(NamedTuple):
    """Hits after one stage of a stack, best first."""

    name: str
    """Name of the stage: ``lexical``, ``fused``, ``reranked``."""
    hits: tuple[Hit, ...]
    beside: bool = False
    """Whether it feeds a later stage without following from the previous one, like the second leg
    of a fusion. All other stages follow from each other."""


@runtime_checkable
class Staged(Protocol):
    """A searcher that reports the stages of its answers."""

    def stages(self, text: str, k: int, params: Mapping[str, Scalar]) -> tuple[Stage, ...]:
        """List the hits of each stage for one query, at most ``k`` each.

        The last one that is not ``beside`` equals the result of ``search``. This call is not timed.
        """
        ...


class Explained(NamedTuple):
    """The explanation of one answer, in the stack's own terms, as JSON values."""

    answer: Mapping[str, Any]
    hits: Mapping[str, Mapping[str, Any]]
    """Explanations of single hits, by document id; may be incomplete."""


@runtime_checkable
class Explains(Protocol):
    """A searcher that can explain the ranks of its hits."""

    def explain(self, text: str, k: int, params: Mapping[str, Scalar]) -> Explained:
        """Explain the answer of ``search_with`` to the same query; not timed."""
        ...


class VectorAgreement(NamedTuple):
    """Agreement of recorded vectors with fresh ones of the same texts."""

    apart: float
    """Largest difference of a component, in a sample."""
    used: bool

    @classmethod
    def of(cls, parts: "Iterable[VectorAgreement | None]") -> "VectorAgreement | None":
        """Sum up those of several models; None where none of them has vectors."""
        said = [part for part in parts if part is not None]
        if not said:
            return None
        return cls(max(part.apart for part in said), all(part.used for part in said))


@runtime_checkable
class KeepsVectors(Protocol):
    """An engine whose vectors can be copied to another machine."""

    def keep_vectors(
        self, documents: Iterable[Document], queries: Iterable[str], folder: Path
    ) -> None:
        """Write the vectors of these texts into ``folder``, one file for each model."""
        ...

    def take_vectors(
        self, documents: Iterable[Document], queries: Iterable[str], folder: Path
    ) -> VectorAgreement | None:
        """Use the vectors of ``folder`` from now on, if fresh ones of a sample agree.

        None if the folder has no vectors for this engine.
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
            IndexNotReady: the index is missing, damaged, or does not match its manifest.
            ModelNotReady: a model that the stack needs is absent.
        """
        ...


@runtime_checkable
class Recombines(Protocol):
    """An engine whose last step can be repeated under other settings, without another query."""

    @property
    def last_step(self) -> frozenset[str]:
        """Dotted keys of the settings that only the last step depends on."""
        ...

    def candidates(self, searcher: Searcher, text: str, k: int) -> Any:  # noqa: ANN401  its own
        """Return what the last step of a query starts from; ``searcher`` is one that it opened."""
        ...

    def combined(self, found: Any, k: int) -> tuple[Hit, ...]:  # noqa: ANN401  its own
        """Return the hits that ``search`` gives: the last step, under the settings of this engine.

        ``found`` may come from an engine with other settings of the last step.
        """
        ...
