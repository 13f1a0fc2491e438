"""Documents, queries and judgements."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.core.errors import DatasetError

Scalar = str | int | float | bool | None
FIELDS = ("title", "text")


@dataclass(frozen=True, slots=True)
class Document:
    """One unit of retrieval."""

    doc_id: str
    title: str
    text: str
    metadata: Mapping[str, Scalar] = field(default_factory=dict)


class Drawn(NamedTuple):
    """How a query came into a sample of a log: what an estimate for the traffic needs."""

    stratum: str
    inclusion: float
    """Probability of being in the sample, above 0 and at most 1."""
    requests: int


@dataclass(frozen=True, slots=True)
class Query:
    """What a person typed, untouched.

    ``slices`` name the kinds it belongs to (for example ``identifier``); queries that share an
    ``intent`` are one need in several wordings, and are resampled together. ``params`` are set in
    addition to the text, such as filters: names and values of the stack's own query. They are part
    of the query. ``drawn`` is set where the query was sampled from a log.
    """

    query_id: str
    text: str
    slices: tuple[str, ...] = ()
    intent: str | None = None
    params: Mapping[str, Scalar] = field(default_factory=dict, hash=False)
    drawn: Drawn | None = None


class Judgement(NamedTuple):
    """One relevance judgement; grade 0 is judged and not relevant, absent is unjudged."""

    query_id: str
    doc_id: str
    grade: int


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Qrels:
    """Grades by query and document, queries in byte order of their ids.

    A query is *answerable* if one of its grades is above 0. A query that was judged and has no
    relevant document is a *negative query*; it has no nDCG, RR, R or AP (method, section 2).
    """

    grades: Mapping[str, Mapping[str, int]]

    @property
    def query_ids(self) -> tuple[str, ...]:
        """Every judged query."""
        return tuple(self.grades)

    @property
    def answerable(self) -> tuple[str, ...]:
        """Judged queries with at least one relevant document."""
        return tuple(q for q, docs in self.grades.items() if max(docs.values()) > 0)

    @property
    def negative(self) -> tuple[str, ...]:
        """Judged queries that no document answers."""
        return tuple(q for q, docs in self.grades.items() if max(docs.values()) <= 0)

    def rows(self) -> Iterator[Judgement]:
        """Yield every judgement, by query and then document."""
        for query_id, docs in self.grades.items():
            for doc_id, grade in docs.items():
                yield Judgement(query_id, doc_id, grade)

    @classmethod
    def of(cls, judgements: Iterable[Judgement]) -> "Qrels":
        """Collect judgements."""
        grades: dict[str, dict[str, int]] = {}
        for query_id, doc_id, grade in judgements:
            row = grades.setdefault(query_id, {})
            if doc_id in row:
                raise DatasetError(
                    f"{doc_id} is judged twice for query {query_id}; keep one of the two rows"
                )
            if type(grade) is not int:
                raise DatasetError(
                    f"grade {grade!r} of {doc_id} for query {query_id} is not an integer;"
                    " map the scale to integers (gains are linear in the grade)"
                )
            row[doc_id] = grade
        return cls({q: dict(sorted(grades[q].items())) for q in sorted(grades)})
