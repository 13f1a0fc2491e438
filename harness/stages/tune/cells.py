"""Values of candidates by query: measured once, kept on disk, and read again after a kill."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from harness.core.digest import of_json
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.core.records import Query
from harness.core.run import Run, Status
from harness.measures.quality import score
from harness.stages.tune.answers import Answers, Collection, settings_of
from harness.stats.selection import Floats, Ints

AT_ONCE = 100
"""Queries between two writes: a killed search loses no more."""


class CandidateFailed(Exception):
    """A candidate failed at a query, so it has no mean."""

    def __init__(self, candidate: int, told: str) -> None:
        super().__init__(told)
        self.candidate = candidate


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """A table with a row for each query of all collections, and a column for each candidate."""

    answers: Answers
    collections: Sequence[Collection]
    measure: str
    folder: Path
    """Where values are kept."""
    advance: Callable[[int], object]
    """Told how many queries were run."""
    _known: dict[tuple[int, int], dict[str, float]] = field(default_factory=dict)

    def __call__(self, candidate: int, rows: Ints) -> Floats:
        """Give the values of some rows under a candidate.

        Raises:
            CandidateFailed: it failed at one of the queries.
            InvalidArm: its index cannot be built or opened.
        """
        found, start = np.zeros(len(rows)), 0
        for at, collection in enumerate(self.collections):
            here = (rows >= start) & (rows < start + len(collection.queries))
            asked = [collection.queries[row - start] for row in rows[here].tolist()]
            if asked:
                found[here] = self._values(candidate, at, asked)
            start += len(collection.queries)
        return found

    def _values(self, candidate: int, at: int, asked: Sequence[Query]) -> list[float]:
        path = self._path(candidate, at)
        if (candidate, at) not in self._known:
            self._known[candidate, at] = _read(path)
        known = self._known[candidate, at]
        missing = [query for query in asked if query.query_id not in known]
        for begin in range(0, len(missing), AT_ONCE):
            part = missing[begin : begin + AT_ONCE]
            known |= self._scored(candidate, at, part)
            write_json(path, known)
            self.advance(len(part))
        return [known[query.query_id] for query in asked]

    def _scored(self, candidate: int, at: int, queries: Sequence[Query]) -> dict[str, float]:
        collection = self.collections[at]
        rows = tuple(self.answers.of(candidate, collection, queries))
        for row in rows:
            if row.status is not Status.ANSWERED:
                raise CandidateFailed(candidate, f"query {row.query_id}: {row.error}")
        run = Run.of(self.answers.arms[candidate].name, rows)
        asked = [row.query_id for row in rows]
        return dict(score(run, collection.qrels, [self.measure], asked)[self.measure].by_query)

    def _path(self, candidate: int, at: int) -> Path:
        """Name the file of a column by all that its values depend on."""
        answers = self.answers
        settings = settings_of(answers.arms[candidate].settings)
        rests = [answers.code, settings, answers.k, answers.time_limit_s, self.measure]
        return self.folder / f"{of_json([rests, self.collections[at].sha256])[:32]}.json"


def _read(path: Path) -> dict[str, float]:
    """Read what is known of a column; what is no column is as good as nothing."""
    try:
        return {str(query_id): float(value) for query_id, value in json_file(path).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
