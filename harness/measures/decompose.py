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

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from harness.core.engine import Hit
from harness.core.records import Qrels
from harness.core.run import Row, Run, Status
from harness.measures.name import parse
from harness.measures.quality import score

Rankings = Mapping[str, Sequence[str]]


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

    Raises:
        UnknownName: the measure is unknown.
        KeyError: a query was not asked.
        EvidenceError: no query is given, or one twice.
    """
    k = parse(measure).params.get("cutoff")
    old, new = control.rankings(query_ids, k), candidate.rankings(query_ids, k)
    asked = Qrels({query_id: qrels.grades[query_id] for query_id in query_ids})

    def value(rankings: Rankings) -> NDArray[np.float64]:
        return score(_run(rankings), asked, [measure], query_ids)[measure].values

    neither, both = value(old), value(new)
    only_order = value({query_id: reordered(old[query_id], new[query_id]) for query_id in old})
    only_shown = value({query_id: reordered(new[query_id], old[query_id]) for query_id in old})
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

    Raises:
        UnknownName, KeyError, EvidenceError: as ``decompose``.
    """
    steps = pairwise((control, *way))
    return tuple(decompose(*step, qrels, measure, query_ids) for step in steps)


def reordered(shown: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """Return ``shown`` with what ``other`` shows too in the order that it has there.

    What only ``shown`` has stays where it stands.
    """
    mine, theirs = frozenset(shown), frozenset(other)
    shared = iter([doc_id for doc_id in other if doc_id in mine])
    return tuple(next(shared) if doc_id in theirs else doc_id for doc_id in shown)


def _run(rankings: Rankings) -> Run:
    hits = {q: [Hit(d, -at, -at) for at, d in enumerate(docs)] for q, docs in rankings.items()}
    return Run.of("parts", [Row(q, Status.ANSWERED, found) for q, found in hits.items()])
