"""Checks of an engine over HTTP: whether its TOML file reads its answers as they are meant.

The engine holds its documents already, so promises about building an index are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Protocol, runtime_checkable

from harness.core.engine import Engine
from harness.core.printable import many
from harness.stages.contract import answers, indexes, process, sameness
from harness.stages.contract.check import Check
from harness.stages.contract.subject import NotChecked, QueryOutcome, Subject, ask

FEW = 3
"""Hits asked for where a server has more."""
LEFT_OUT = {
    "scores", "order", "ties", "equal documents", "more than all", "empty text", "long text",
    "fingerprint", "document order", "empty corpus", "finds", "answers",
}  # fmt: skip
"""Promises that no one can keep who does not build the index, or that the server decides."""


class MappedHit(Protocol):
    """A hit as the server has it."""

    @property
    def doc_id(self) -> str: ...
    @property
    def score(self) -> float | None: ...


class Read(Protocol):
    """What was read of an answer."""

    @property
    def hits(self) -> Sequence[MappedHit]: ...
    @property
    def total(self) -> int | None: ...


@runtime_checkable
class Exchanges(Protocol):
    """A searcher that shows what it reads, before anything is made of it."""

    def exchange(self, text: str, k: int) -> tuple[Read, int]:
        """Send one query; give what was read, and how many attempts failed before."""
        ...


@runtime_checkable
class ServedElsewhere(Protocol):
    """An engine whose server holds its documents already."""

    def of_any_documents(self) -> Engine:
        """Give the same engine, which takes whatever ids the server has."""
        ...


def _read(subject: Subject) -> Iterator[tuple[QueryOutcome, Read]]:
    """Yield the queries that have an answer, with what is read of it.

    Raises:
        NotChecked: none has one.
    """
    if not isinstance(subject.searcher, Exchanges):
        raise NotChecked("needs an engine over HTTP")
    for one in subject.answered():
        yield one, subject.searcher.exchange(one.text, one.k)[0]


def _finds(subject: Subject) -> Iterator[str]:
    if not any(one.hits for one in subject.answered()):
        where = "of the data set" if subject.documents else "of the harness"
        yield f"none of {len(subject.asked)} queries {where} has a hit"


def _ids(subject: Subject) -> Iterator[str]:
    if not subject.documents:
        raise NotChecked("needs the documents that the server holds: name them with --dataset")
    for one in subject.answered():
        if strange := [hit.doc_id for hit in one.hits if hit.doc_id not in subject.known]:
            yield f"{one}: {strange[0]!r} is the id of no document, {len(strange)} of them"


def _twice(subject: Subject) -> Iterator[str]:
    for one, read in _read(subject):
        for doc_id, times in Counter(hit.doc_id for hit in read.hits).items():
            if times > 1:
                yield f"{one}: {doc_id!r} is shown {times} times"


def _descending(subject: Subject) -> Iterator[str]:
    for one, read in _read(subject):
        for at, (before, after) in enumerate(pairwise(read.hits), start=2):
            if before.score is None or after.score is None:
                raise NotChecked("the file reads no score")
            if before.score < after.score:
                yield f"{one}: hit {at} scores {after.score:g}, the one above {before.score:g}"


def _tied(subject: Subject) -> Iterator[str]:
    """Compare the order of equal scores in repeated answers."""
    for one, first in _read(subject):
        for _ in range(sameness.TIMES - 1):
            again = subject.searcher.exchange(one.text, one.k)[0]  # type: ignore[attr-defined]
            was, now = ([(h.score, h.doc_id) for h in read.hits] for read in (first, again))
            if was != now and sorted(was, key=str) == sorted(now, key=str):
                at = next(
                    i for i, pair in enumerate(zip(was, now, strict=True)) if len({*pair}) > 1
                )
                yield f"{one}: {now[at][1]!r} instead of {was[at][1]!r} at rank {at + 1}"
                break


def _k(subject: Subject) -> Iterator[str]:
    for one in subject.answered():
        if len(one.hits) > 1:
            few = ask(subject.searcher, one.text, 1)
            if few.error or [h.doc_id for h in few.hits] != [one.hits[0].doc_id]:
                yield f"{few}: {few.error or f'shows {[h.doc_id for h in few.hits]}'}"


def _total(subject: Subject) -> Iterator[str]:
    for one, read in _read(subject):
        if read.total is None:
            raise NotChecked("the file reads no total")
        if read.total < len(read.hits):
            yield f"{one}: total is {read.total}, and {many(len(read.hits), 'hit is')} shown"


KEPT = tuple(
    check
    for check in (*answers.CHECKS, *sameness.CHECKS, *process.CHECKS, *indexes.CHECKS)
    if check.name not in LEFT_OUT | {"ids", "k"}
)
CHECKS = (
    Check(
        "answers",
        "Every query gets an answer that the file can read.",
        "Correct the key of the file that the message names",
        answers.errors,
    ),
    Check(
        "finds",
        "Some query has a hit.",
        "Name a data set whose queries fit the server's documents with --dataset, and compare"
        " url, query and body with a request that finds something",
        _finds,
    ),
    Check(
        "ids",
        "Each hit is a document of the data set.",
        "Let id name the member that holds the data set's id, such as _source.doc_id",
        _ids,
    ),
    Check(
        "once",
        "Each document is shown once.",
        "Let the server collapse parts of a document into one hit",
        _twice,
    ),
    Check(
        "descending scores",
        "The scores do not ascend.",
        "Let score name what the server ranks by, and no distance; or leave score out",
        _descending,
    ),
    Check(
        "order of ties",
        "Equal scores come in the same order each time.",
        "Let the server sort by score and then by id, so that two runs are the same",
        _tied,
    ),
    Check(
        "k",
        "The number of hits is the one that was requested.",
        'Put "${k}" where the server reads the number of hits, such as size, limit or rows',
        _k,
    ),
    Check(
        "total",
        "The total is at least the number of hits.",
        "Let total name the number of all matches, and not that of a page",
        _total,
    ),
    *KEPT,
)
