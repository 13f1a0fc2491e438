"""A pool: pairs of query and document that somebody is to judge, and what was judged of them.

It is a TREC file of judgements; a grade is ``?`` until it is filled in, by hand or by ``harness
judge``. JSON lines beside it hold what a person must see to judge.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from harness.core import json_models
from harness.core.durable.journal import changing, completed
from harness.core.durable.locks import held
from harness.core.durable.owned import check_new
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import write_text
from harness.core.printable import many
from harness.core.reading import numbered
from harness.core.records import Judgement
from harness.corpus import trec

HINT = "Make the pool again: harness pool."
PUT_BACK = "Put the lines back, with ? where nothing is judged, or restore the file"
GUIDELINES = "guidelines.md"
"""File beside a pool with what a grade means; it is shown to those who judge."""


class Pair(BaseModel):
    """One pair, with what a person must see; a line of the file beside the pool."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    query_id: str
    doc_id: str
    query: str
    title: str
    snippet: str
    narrows: float
    """How much narrower the bounds of the mean difference get by judging it."""
    scale: Annotated[tuple[int, ...], Field(min_length=1, strict=False)]
    """Grades that the judgements of the set know."""


class Overtaken(EvidenceError):
    """Somebody else judged the pair since it was shown."""

    def __init__(self, grade: int | None) -> None:
        now = "took its grade away" if grade is None else f"judged it {grade}"
        super().__init__(f"somebody else {now} meanwhile; nothing was changed")
        self.grade = grade


class Line(NamedTuple):
    """A line of the pool."""

    query_id: str
    doc_id: str
    grade: int | None


@dataclass(frozen=True, slots=True)
class Pool:
    """Pairs, the most decisive first, and the grade of each; None where it is unjudged."""

    pairs: tuple[Pair, ...]
    grades: tuple[int | None, ...]

    @property
    def open(self) -> tuple[int, ...]:
        """Places of the unjudged pairs."""
        return tuple(at for at, grade in enumerate(self.grades) if grade is None)

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        """What was judged."""
        return tuple(
            Judgement(pair.query_id, pair.doc_id, grade)
            for pair, grade in zip(self.pairs, self.grades, strict=True)
            if grade is not None
        )

    def at(self, query_id: str, doc_id: str) -> int | None:
        """Place of a pair; None where it is not in the pool."""
        of = ((pair.query_id, pair.doc_id) for pair in self.pairs)
        return next((at for at, ids in enumerate(of) if ids == (query_id, doc_id)), None)

    def graded(self, at: int, grade: int | None) -> Pool:
        """Give the pair at a place a grade, or take it away."""
        return replace(self, grades=(*self.grades[:at], grade, *self.grades[at + 1 :]))


def beside(path: Path) -> Path:
    """Where the queries and documents of a pool lie.

    Raises:
        BadFile: the path has no name of its own, as ``.`` and ``/`` have none.
    """
    if not path.name:
        raise BadFile(path, "is a folder", "Name the pool: the file that harness pool wrote")
    return path.with_name(f"{path.name}.jsonl")


def begin(path: Path, pool: Pool, more: Mapping[Path, str] = MappingProxyType({})) -> None:
    """Write a new pool with what lies beside it, and ``more``; all are there or none.

    Raises:
        NotOurs: there is such a file already.
    """
    with changing(path, within=(path.parent,), what="pool") as change:
        for file in (path, beside(path), *more):
            check_new(file)
        for file, text in more.items():
            change.write(file, text)
        change.write(beside(path), texts_of(pool))
        change.write(path, grades_of(pool))


def write_grades(path: Path, pool: Pool) -> None:
    """Write the pool itself."""
    write_text(path, grades_of(pool), durable=True)


def texts_of(pool: Pool) -> str:
    """Give the file beside a pool."""
    rows = (pair.model_dump(mode="json") for pair in pool.pairs)
    return "".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in rows)


def grades_of(pool: Pool) -> str:
    """Give the pool itself."""
    lines = (
        f"{pair.query_id} 0 {pair.doc_id} {trec.UNFILLED if grade is None else grade}\n"
        for pair, grade in zip(pool.pairs, pool.grades, strict=True)
    )
    return "".join(lines)


def regrade(path: Path, pair: Pair, was: int | None, grade: int | None) -> Pool:
    """Write the grade of a pair that had the grade ``was`` when it was shown; give the pool now.

    Several may judge one pool at once, in terminals and in browsers: the file is locked, read anew,
    and only this pair's grade changes. The same grade twice does not conflict.

    Raises:
        Overtaken: the pair has another grade than ``was`` by now; it keeps that.
        BadFile: the pool cannot be read, or the pair is gone from it.
    """
    completed(path, within=(path.parent,))
    with held(path):
        pool = read_held(path)
        at = pool.at(pair.query_id, pair.doc_id)
        if at is None:
            raise BadFile(path, f"{pair.doc_id} for query {pair.query_id} is gone", HINT)
        if pool.grades[at] == grade:
            return pool
        if pool.grades[at] != was:
            raise Overtaken(pool.grades[at])
        changed = pool.graded(at, grade)
        write_grades(path, changed)
        return changed


def read(path: Path, *, strict: bool = False) -> Pool:
    """Read a pool with what lies beside it; its lines may stand in another order by now.

    Raises:
        BadFile: a file is missing or malformed, or the two are not about the same pairs. With
            ``strict``, or a pair has no line, or a grade is not on the scale of its pair.
    """
    completed(path, within=(path.parent,))
    return read_held(path, strict=strict)


def read_held(path: Path, *, strict: bool = False) -> Pool:
    """Read a pool that is held already, and so is whole: a lock is not given twice.

    Raises:
        BadFile: as ``read``.
    """
    texts = {(pair.query_id, pair.doc_id): pair for pair in _texts(beside(path))}
    found: dict[tuple[str, str], int | None] = {}
    for number, line in _lines(path):
        if line[:2] not in texts or line[:2] in found:
            problem = f"{line.doc_id} for query {line.query_id} is not in the pool, or is twice"
            raise BadFile(path, problem, "Only fill in grades.", number)
        scale = texts[line[:2]].scale
        if strict and line.grade is not None and line.grade not in scale:
            problem = f"the grade {line.grade} is not on the scale {', '.join(map(str, scale))}"
            raise BadFile(path, problem, "Correct it", number)
        found[line[:2]] = line.grade
    if not found:
        raise BadFile(path, "it holds no pair", HINT)
    gone = [pair for pair in texts if pair not in found]
    if strict and gone:
        query_id, doc_id = gone[0]
        problem = f"{len(gone)} of {many(len(texts), 'pair')} are gone"
        raise BadFile(path, f"{problem}, the first {doc_id} for query {query_id}", PUT_BACK)
    return Pool(tuple(texts[pair] for pair in found), tuple(found.values()))


def _lines(path: Path) -> Iterator[tuple[int, Line]]:
    for number, text in numbered(path):
        query_id, doc_id, grade = trec.judged_line(path, number, text)
        given = None if grade == trec.UNFILLED else trec.grade(path, number, grade)
        yield number, Line(query_id, doc_id, given)


def _texts(path: Path) -> Iterator[Pair]:
    for number, text in numbered(path):
        yield json_models.from_text(Pair, text, path, HINT, number)
