"""One class a query: in which way the two lists differ, or why they were not compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from harness.agreement.pair import Pair
from harness.core.errors import EvidenceError
from harness.core.run import Run, Status


class Class(StrEnum):
    """How a query ended, of the lists A of the control and B of the candidate, cut at k.

    The first that holds, from the top, is the query's class.
    """

    SHED = "shed"
    """Not sent to the candidate, to spare the machine."""
    SKIPPED = "skipped"
    """One of the arms was not asked."""
    ERROR = "error"
    """One of the arms failed; what the other showed is not looked at."""
    TIMEOUT = "timeout"
    """One of the arms was too slow."""
    STALE = "stale"
    """An index moved between the two answers, so a difference proves nothing."""
    BOTH_EMPTY = "both_empty"
    """Both found nothing."""
    SERVING_EMPTY = "serving_empty"
    """Only the candidate found something."""
    SHADOW_EMPTY = "shadow_empty"
    """Only the control found something."""
    EXACT = "exact"
    """The same documents in the same order."""
    TIE_ORDER = "tie_order"
    """The same documents; those in other places have one raw score in A, and one in B."""
    REORDER = "reorder"
    """The same documents in another order."""
    EXPANSION = "expansion"
    """B has all of A and more, in any order."""
    TRUNCATION = "truncation"
    """A has all of B and more, in any order."""
    OVERLAP = "overlap"
    """They share documents, and each has its own."""
    DISJOINT = "disjoint"
    """They share no document."""


ERRORED = frozenset({Class.ERROR, Class.TIMEOUT})
SKIPPED = frozenset({Class.SKIPPED, Class.STALE})
UNCOMPARED = ERRORED | SKIPPED | {Class.SHED}


def classify(
    control: Run,
    candidate: Run,
    pair: Pair,
    *,
    depth: int,
    shed: Collection[str],
    stale: Collection[str],
) -> tuple[Class, ...]:
    """Class of each query of ``pair``, in its order; ``shed`` and ``stale`` name queries.

    Raises:
        EvidenceError: ``shed`` or ``stale`` names a query that is not in the runs.
    """
    shed, stale = frozenset(shed), frozenset(stale)
    unknown = (shed | stale) - set(pair.query_ids)
    if unknown:
        raise EvidenceError(
            f"{len(unknown)} shed or stale queries (for example {sorted(unknown)[:3]}) are not in"
            " the runs; hand over the observations of these runs"
        )
    how = np.stack([control.status[pair.control_rows], candidate.status[pair.candidate_rows]])
    a, b = pair.lengths(depth)
    shared = pair.shared(depth)
    same = (shared == a) & (shared == b)
    rank = pair.within(depth)
    own = np.arange(rank.shape[1])
    moved = (rank != own) & (own < a[:, None])
    cases = {
        Class.SHED: np.array([q in shed for q in pair.query_ids]),
        Class.SKIPPED: (how == Status.NOT_ASKED).any(axis=0),
        Class.ERROR: (how == Status.FAILED).any(axis=0),
        Class.TIMEOUT: (how == Status.TIMED_OUT).any(axis=0),
        Class.STALE: np.array([q in stale for q in pair.query_ids]),
        Class.BOTH_EMPTY: (a == 0) & (b == 0),
        Class.SERVING_EMPTY: a == 0,
        Class.SHADOW_EMPTY: b == 0,
        Class.EXACT: same & ~moved.any(axis=1),
        Class.TIE_ORDER: same & _among_ties(control, candidate, pair, depth, same),
        Class.REORDER: same,
        Class.EXPANSION: shared == a,
        Class.TRUNCATION: shared == b,
        Class.OVERLAP: shared > 0,
    }
    names = list(cases)
    which = np.argmax(np.stack([*cases.values(), np.ones(len(pair.query_ids), dtype=bool)]), axis=0)
    return tuple((*names, Class.DISJOINT)[at] for at in which)


def _among_ties(
    control: Run, candidate: Run, pair: Pair, depth: int, same: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Whether each document that moved stayed within one tie of both lists."""
    found = np.zeros(len(same), dtype=bool)
    for row in np.flatnonzero(same & (pair.control_length > 0)):
        length = min(int(pair.control_length[row]), depth)
        to = pair.rank[row, :length]
        ties = (
            _ties(control, int(pair.control_rows[row]), length),
            _ties(candidate, int(pair.candidate_rows[row]), length),
        )
        found[row] = all((tie == tie[to]).all() for tie in ties)
    return found


def _ties(run: Run, row: int, length: int) -> NDArray[np.int64]:
    """Give each rank the number of its stretch of equal raw score, shape (length,)."""
    low = int(run.offsets[row])
    raw = run.raw_score[low : low + length]
    return np.concatenate([[0], np.cumsum(np.diff(raw) != 0)]).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Tally:
    """Outcomes of all attempted comparisons; a skipped comparison does not count as equal."""

    attempted: int
    compared: int
    errored: int
    """Error or timeout in either arm."""
    skipped: int
    """One arm not asked, or an index that moved."""
    shed: int

    def __post_init__(self) -> None:
        if self.attempted != self.compared + self.errored + self.skipped + self.shed:
            raise EvidenceError(f"{self} does not add up; a comparison was lost or counted twice")


def tally(classes: Iterable[str]) -> Tally:
    """Count classes: attempted = compared + errored + skipped + shed (method, section 3).

    Raises:
        EvidenceError: a class is unknown, so the counts do not add up.
    """
    counts = Counter(classes)
    kinds = {
        "compared": frozenset(Class) - UNCOMPARED,
        "errored": ERRORED,
        "skipped": SKIPPED,
        "shed": frozenset({Class.SHED}),
    }
    sums = {kind: sum(counts[one] for one in members) for kind, members in kinds.items()}
    return Tally(attempted=counts.total(), **sums)
