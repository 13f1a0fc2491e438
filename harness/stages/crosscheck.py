"""Agreement held against textbook formulas: a comparator that is wrong must not be believed.

The kernels of ``harness.agreement`` work on arrays. Here a few queries are counted once more, the
slow way: sets for Jaccard, scipy for Kendall's tau-b, over ranks of the shared documents alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from harness.core.errors import EvidenceError
from harness.core.evidence import Agreement
from harness.core.run import Run, Status

QUERIES = 40
"""Counted twice; a wrong formula shows in far fewer."""
SAME = 1e-9


def crosscheck(
    control: Run, candidate: Run, agreement: Agreement, *, depths: Sequence[int], seed: int
) -> None:
    """Count Jaccard and tau of some queries again.

    Raises:
        EvidenceError: a value is another, or stands where there is none, or the reverse.
    """
    queries = agreement.query_ids
    drawn = random.Random(seed).sample(queries, min(QUERIES, len(queries)))
    names = [f"Jaccard@{depth}" for depth in depths]
    values = {name: agreement.scores[name].by_query for name in (*names, "tau")}
    for query_id in drawn:
        both = [_shown(run, query_id) for run in (control, candidate)]
        left, right = both if None not in both else (None, None)
        expected = {f"Jaccard@{depth}": _jaccard(left, right, depth) for depth in depths}
        expected["tau"] = _tau(left, right, max(depths))
        for name, wanted in expected.items():
            found = values[name].get(query_id)
            if (found is None) != (wanted is None) or (
                found is not None and wanted is not None and abs(found - wanted) > SAME
            ):
                raise EvidenceError(
                    f"{name} of {control.arm} and {candidate.arm} for query {query_id} is"
                    f" {found}, but counted by hand it is {wanted}; the comparison cannot be"
                    " believed: mend harness.agreement"
                )


def _shown(run: Run, query_id: str) -> tuple[str, ...] | None:
    answered = run.status[run.positions[query_id]] == Status.ANSWERED
    return run.ranking(query_id) if answered else None


def _jaccard(
    left: tuple[str, ...] | None, right: tuple[str, ...] | None, depth: int
) -> float | None:
    if left is None or right is None:
        return None
    here, there = set(left[:depth]), set(right[:depth])
    return len(here & there) / len(here | there) if here | there else None


def _tau(left: tuple[str, ...] | None, right: tuple[str, ...] | None, depth: int) -> float | None:
    from scipy.stats import kendalltau

    if left is None or right is None:
        return None
    there = right[:depth]
    shared = [doc_id for doc_id in left[:depth] if doc_id in there]
    if len(shared) < 2:  # noqa: PLR2004  one document has no order
        return None
    ranks = range(len(shared))
    return float(kendalltau(ranks, [there.index(doc_id) for doc_id in shared]).statistic)
