"""One arm's values as a part file, so that other processes may score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.core.qrels import Qrels
from harness.core.scores import Scores
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.measures.quality import REASONS
from harness.measures.quality import score as score_run
from harness.stages.score.crosscheck import crosscheck_quality


class Judged(NamedTuple):
    """What all arms are scored against."""

    asked: tuple[str, ...]
    """Queries in their order."""
    qrels: Qrels


@dataclass(frozen=True, slots=True)
class Scoring:
    """Scores the run of one arm, and checks some values with ir-measures."""

    judged: Callable[[], Judged]
    measures: tuple[str, ...]
    seed: int

    def __call__(self, run_file: Path, beside: Path) -> Iterator[int]:
        asked, qrels = self.judged()
        run = read_run(run_file)
        found = score_run(run, qrels, self.measures, asked)
        crosscheck_quality(run, qrels, found, seed=self.seed)
        write(beside, asked, [found[name] for name in self.measures])
        yield 1


@lru_cache(maxsize=1)
def judged_in(data: Path, sha256: str) -> Judged:  # noqa: ARG001  other contents, other key
    """Read prepared data, once a process."""
    prepared = Prepared.open(data)
    return Judged(tuple(query.query_id for query in prepared.queries()), prepared.qrels())


def write(path: Path, asked: Sequence[str], scores: Sequence[Scores]) -> None:
    """Write values and reasons, shape (measures, queries) both."""
    place = {query_id: at for at, query_id in enumerate(asked)}
    values = np.full((len(scores), len(asked)), np.nan)
    reasons = np.full(values.shape, -1, dtype=np.int8)
    for row, one in enumerate(scores):
        values[row, [place[query_id] for query_id in one.query_ids]] = one.values
        for why, query_ids in one.undefined.items():
            reasons[row, [place[query_id] for query_id in query_ids]] = REASONS.index(why)
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, values=values, reasons=reasons)


def read(path: Path, asked: Sequence[str], measures: Sequence[str]) -> Mapping[str, Scores]:
    """Read what ``write`` wrote, by measure."""
    with path.open("rb") as file, np.load(file) as part:
        values, reasons = part["values"], part["reasons"]
    found = {}
    for name, row, why in zip(measures, values, reasons, strict=True):
        undefined: dict[str, list[str]] = {}
        for at in np.flatnonzero(why >= 0).tolist():
            undefined.setdefault(REASONS[why[at]], []).append(asked[at])
        kept = np.flatnonzero(why < 0)
        found[name] = Scores(
            name,
            tuple(asked[at] for at in kept.tolist()),
            row[kept],
            {reason: tuple(ids) for reason, ids in undefined.items()},
        )
    return found
