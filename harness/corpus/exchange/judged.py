"""What a file of another tool judges: its queries by their texts, and their grades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.errors import BadFile
from harness.core.qrels import Qrels
from harness.core.records import Judgement, Query
from harness.corpus.cells import grades
from harness.corpus.lines import UNCARRIED

At = int | str
"""Where a fault is: the number of a line, or a place inside a file of JSON."""


@dataclass(frozen=True, slots=True)
class Ratings:
    """Queries in the order of the file, and their judgements."""

    queries: tuple[Query, ...]
    qrels: Qrels
    unrated: int
    """Pairs that the file lists without a grade."""


@dataclass(slots=True)
class Collector:
    """Collects queries and grades of one file, and names the place of what is wrong."""

    path: Path
    _queries: dict[str, Query] = field(default_factory=dict)
    _judged: dict[tuple[str, str], At] = field(default_factory=dict)
    _kept: list[Judgement] = field(default_factory=list)
    _unrated: int = 0

    def add_query(self, text: str, at: At, query_id: str = "") -> str:
        """Note a query; give its id, which is made of its text where the file has none.

        Raises:
            BadFile: it has no text, or its id has another text already.
        """
        if not text.strip():
            raise self.wrong(at, "the query has no text", "Give it one, or remove it.")
        given = _encoded(query_id, UNCARRIED) if query_id else id_of(text)
        if self._queries.setdefault(given, Query(given, text)).text != text:
            problem = f"the query {given!r} has another text already"
            raise self.wrong(at, problem, "Give every query its own id.")
        return given

    def add_grade(self, query_id: str, doc_id: str, grade: object, at: At) -> None:
        """Note a grade; None and an empty text are a pair that was not rated.

        Raises:
            BadFile: the grade is not an integer, the document's id cannot be carried, or the pair
                is rated twice.
        """
        if not doc_id or any(one in UNCARRIED for one in doc_id):
            problem = f"the document id {doc_id!r} is empty or holds white space or a NUL"
            raise self.wrong(at, problem, "Use ids that a TREC file can carry.")
        if grade is None or grade == "":
            self._unrated += 1
            return
        pair = query_id, doc_id
        if pair in self._judged:
            problem = f"{doc_id} is rated for query {query_id!r} at {self._judged[pair]} already"
            raise self.wrong(at, problem, "Keep one of the two.")
        self._judged[pair] = at
        self._kept.append(Judgement(*pair, self._grade(grade, at)))

    def done(self) -> Ratings:
        """Give what was collected.

        Raises:
            BadFile: nothing is rated.
        """
        if not self._kept:
            raise BadFile(self.path, "it holds no rating", "Rate some documents, and export again.")
        return Ratings(tuple(self._queries.values()), Qrels.of(self._kept), self._unrated)

    def wrong(self, at: At, problem: str, hint: str) -> BadFile:
        """Give the error of a place."""
        if isinstance(at, int):
            return BadFile(self.path, problem, hint, at)
        return BadFile(self.path, f"{at}: {problem}", hint)

    def _grade(self, grade: object, at: At) -> int:
        found = grades.whole(grade)
        if found is None:
            raise self.wrong(at, grades.problem(grade), grades.HINT)
        return found


def id_of(text: str) -> str:
    """Make an id of a text, in which white space stands as ``%20``: other texts have other ids."""
    return _encoded(text, UNCARRIED + "%")


def _encoded(text: str, which: str) -> str:
    return "".join(f"%{ord(one):02X}" if one in which else one for one in text)


def rows_of(qrels: Qrels, queries: Sequence[Query]) -> list[tuple[Query, list[tuple[str, int]]]]:
    """Give each query that is judged with its documents and grades, in the order of the queries."""
    return [
        (query, [*qrels.grades[query.query_id].items()])
        for query in queries
        if query.query_id in qrels.grades
    ]
