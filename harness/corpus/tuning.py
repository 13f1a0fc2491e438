"""The record of a tuning: what was searched, what was chosen, and which judgements were seen.

An arm's file names it (``tuning = "own.tuning.json"``), so that a decision can tell whether the arm
was tuned on the queries that judge it. A query is known by a digest of its words, without regard to
case and order: another id, another split and other judgements of it hide nothing.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from harness.core.digest import of_json
from harness.core.names import KeptModel, Sha256
from harness.core.records import Query, Scalar
from harness.core.store import Artifact, Json
from harness.corpus.clusters import normalised

SUFFIX = ".tuning.json"
DIGITS = 16
"""Of a digest: 64 bits tell the queries of one collection apart."""
HINT = "Tune again (harness tune)"
Short = Annotated[str, Field(pattern=f"^[0-9a-f]{{{DIGITS}}}$")]


class TuningDifference(KeptModel):
    """A difference of means with its interval."""

    value: float
    low: float
    high: float


class SeenJudgements(KeptModel):
    """The judgements of one collection that the search has seen."""

    dataset: str
    split: str
    corpus: Sha256
    queries: Sha256
    qrels: Sha256
    words: tuple[Short, ...]
    """Digest of the words of each judged query (``digest_of``), in byte order."""
    left_out: Annotated[object, Field(exclude=True)] = None
    """Of earlier files: what the other collections had chosen."""


class TuningRecord(KeptModel):
    """All of it."""

    format: Literal[1] = 1
    arm: str
    base: Sha256
    """Digest of the arm as it was given, and of the code beside it."""
    measure: str
    k: int
    seed: int
    folds: int
    confidence: float
    resamples: int
    first: int | None
    keep: float
    space: dict[str, tuple[Scalar, ...]]
    settings: dict[str, Scalar]
    candidates: int
    failed: dict[str, str]
    given: float
    """Mean over collections of the arm as it was given."""
    apparent: float
    """Mean of the choice, on the queries that chose it."""
    expected: float
    """Mean of the same choice on queries that had no part in it (nested cross-validation)."""
    gain: TuningDifference
    collections: tuple[SeenJudgements, ...]

    @property
    def optimism(self) -> float:
        """How much better the choice looks than it is expected to be."""
        return self.apparent - self.expected

    @property
    def words(self) -> frozenset[str]:
        """Digest of each query that was seen."""
        return frozenset(word for one in self.collections for word in one.words)


class Leak(NamedTuple):
    """Queries of a decision whose judgements an arm was tuned on."""

    arm: str
    seen: int
    judged: int
    collections: tuple[str, ...]

    @property
    def said(self) -> str:
        """Return it in words."""
        on = ", ".join(self.collections)
        return f"{self.arm} was tuned on {self.seen:,} of the {self.judged:,} judged queries ({on})"


def digest_of(text: str) -> str:
    """Digest of the words of a query, whatever their case and order."""
    return of_json(sorted(normalised(text).split()))[:DIGITS]


def digests_of(queries: Iterable[Query]) -> tuple[str, ...]:
    """Digest of each query, in byte order, each once."""
    return tuple(sorted({digest_of(query.text) for query in queries}))


def leak(arm: str, record: TuningRecord, judged: Iterable[Query]) -> Leak:
    """Count the queries of a decision that a tuning has seen."""
    known, asked = record.words, [digest_of(query.text) for query in judged]
    named = tuple(f"{one.dataset}/{one.split}" for one in record.collections)
    return Leak(arm, sum(one in known for one in asked), len(asked), named)


RECORDS: Artifact[TuningRecord] = Json("a tuning record", TuningRecord, remedy=HINT)


def read(path: Path) -> TuningRecord:
    """Read what ``harness tune`` wrote."""
    return RECORDS.read(path)
