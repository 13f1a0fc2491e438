"""A difference of two rankings in two parts: what is shown, and in which order.

Two things change between a control and a candidate that both show k documents: some documents left
and others entered, and those that stayed stand in another order. The size of each part depends on
which is changed first. So both orders are computed and averaged: the Shapley value of a game of two
(Shapley 1953). Its parts sum to the difference, and change their signs when the arms change places,
which no fixed order of the two would grant.

A candidate that answers in stages is decomposed by stage: from the control to the first stage, to
the next, and so on to its final list. Each step is taken apart in the same way, and since each
begins where the one before it ended, all parts sum to the difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from harness.core.records import Qrels
from harness.core.run import Run, Status
from harness.measures.missing_judgements import Rows, hits_within
from harness.measures.name import parse
from harness.measures.quality import score


@dataclass(frozen=True, slots=True, eq=False)
class DifferenceParts:
    """Differences candidate - control by query, in parts; the arrays are of shape (queries,)."""

    query_ids: tuple[str, ...]
    shown: NDArray[np.float64]
    """By documents that entered the first k, and those that left."""
    order: NDArray[np.float64]
    """By the order of those that stayed."""

    @property
    def total(self) -> NDArray[np.float64]:
        """The difference itself."""
        return self.shown + self.order


def decompose(
    control: Run, candidate: Run, qrels: Qrels, measure: str, query_ids: Sequence[str]
) -> DifferenceParts:
    """Take the difference of ``measure`` apart for queries that both arms have a value for.

    k is the measure's cutoff; without one, whole rankings are taken apart.
    """
    k = parse(measure).params.get("cutoff")
    words = tuple(sorted({*control.vocabulary, *candidate.vocabulary}))
    code = {doc_id: at for at, doc_id in enumerate(words)}
    old, new = (hits_within(run, query_ids, code, k) for run in (control, candidate))
    before, after = (query * len(words) + docs for query, docs, _ in (old, new))
    stayed = np.isin(before, after, assume_unique=True)
    stay = np.isin(after, before, assume_unique=True)

    def value(query: Rows, docs: Rows) -> NDArray[np.float64]:
        run = _run(query_ids, words, query, docs)
        return score(run, qrels, [measure], query_ids)[measure].values

    moved, back = old[1].copy(), new[1].copy()  # what only one arm has stands still
    moved[stayed], back[stay] = new[1][stay], old[1][stayed]
    neither, both = value(old[0], old[1]), value(new[0], new[1])
    only_order, only_shown = value(old[0], moved), value(new[0], back)
    return DifferenceParts(
        tuple(query_ids),
        shown=((only_shown - neither) + (both - only_order)) / 2,
        order=((only_order - neither) + (both - only_shown)) / 2,
    )


def decompose_way(
    control: Run, way: Sequence[Run], qrels: Qrels, measure: str, query_ids: Sequence[str]
) -> tuple[DifferenceParts, ...]:
    """Take the difference of ``measure`` apart along the stages of the candidate, one step each.

    ``way`` are the runs of its stages that follow from each other, the last one what it shows.
    """
    steps = pairwise((control, *way))
    return tuple(decompose(*step, qrels, measure, query_ids) for step in steps)


def _run(query_ids: Sequence[str], words: tuple[str, ...], query: Rows, docs: Rows) -> Run:
    count, fallen = len(query_ids), -np.arange(len(docs), dtype=np.float64)
    return Run(
        arm="parts",
        query_ids=tuple(query_ids),
        vocabulary=words,
        offsets=np.searchsorted(query, np.arange(count + 1)),
        docs=docs.astype(np.int32),
        score=fallen,
        raw_score=fallen,
        status=np.full(count, Status.ANSWERED, dtype=np.uint8),
        served_by=("",) * count,
        errors=("",) * count,
        duplicates=np.zeros(count, dtype=np.int32),
    )
