"""How much of one run could be a copy of the other: equal scores, and lists that hardly differ.

Two engines that both rank by BM25 show much the same documents. Scores that are equal to the last
bit, or long lists that differ only in neighbours, are not a coincidence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.agreement.pair import ABSENT, Pair
from harness.core.run import Run

LONG = 20
"""Hits of a list that two engines do not order alike by chance."""
NEAR = 0.9
"""Share of a list's hits that stand where the other shows them, or one place off."""
FIRST, FEWEST_FIRST = 10, 5
"""Hits at the head of a list that are compared, and how few say nothing."""
FEWEST_HITS, FEWEST_LISTS = 100, 20
"""Below these, nothing is said."""
TOO_ALIKE = 0.5
"""Share above which two runs are more alike than two builds are. On the embedded data, different
engines share at most 0 % of scores, 4 % of long lists and 10 % of heads. Other settings of one
engine share 16 %, 5 % and 9 %."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What two runs have in common that two engines do not."""

    hits: int
    """Documents that both show for a query, with a score that no other hit of the control has."""
    equal: int
    """Of these, the ones with the same score to the last bit."""
    lists: int
    """Queries with a long list in both runs."""
    near: int
    """Of these, the ones whose lists are nearly identical."""
    heads: int
    """Queries for which both runs show enough hits to hold the first ones against each other."""
    same: int
    """Of these, the ones whose first hits are the same in the same order."""

    @property
    def known(self) -> bool:
        """Whether there is enough to tell two engines from one by their documents."""
        return max(self.lists, self.heads) >= FEWEST_LISTS

    @property
    def too_alike(self) -> bool:
        """Whether one of the shares is larger than two engines give."""
        return any(
            whole >= fewest and part > TOO_ALIKE * whole
            for part, whole, fewest in (
                (self.equal, self.hits, FEWEST_HITS),
                (self.near, self.lists, FEWEST_LISTS),
                (self.same, self.heads, FEWEST_LISTS),
            )
        )

    @property
    def said(self) -> str:
        """Say all, as counts."""
        return (
            f"{self.equal:,} of {self.hits:,} shared hits have one score to the last bit,"
            f" {self.near:,} of {self.lists:,} long lists are nearly identical,"
            f" {self.same:,} of {self.heads:,} lists begin with the same hits in the same order"
        )


def copied(control: Run, candidate: Run) -> Copied:
    """Count what could be copied.

    A score that several hits of the control have (a rank turned into a number, a constant) says
    nothing where it is equal, so such hits are left out.

    Raises:
        MismatchedQueries: the runs are about different queries.
    """
    pair = Pair.of(control, candidate)
    rows, ranks = np.nonzero(pair.rank != ABSENT)
    ours = control.raw_score[control.offsets[pair.control_rows[rows]] + ranks]
    there = candidate.offsets[pair.candidate_rows[rows]] + pair.rank[rows, ranks]
    own = _unique(control.raw_score, ours)
    shorter = np.minimum(pair.control_length, pair.candidate_length)
    long, heads = shorter >= LONG, shorter >= FEWEST_FIRST
    return Copied(
        hits=int(own.sum()),
        equal=int((own & (ours == candidate.raw_score[there])).sum()),
        lists=int(long.sum()),
        near=int((_near(pair)[long] >= NEAR).sum()),
        heads=int(heads.sum()),
        same=int(_begin_alike(pair, np.minimum(shorter, FIRST))[heads].sum()),
    )


def _unique(every: NDArray[np.float64], these: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which of ``these`` scores only one hit has."""
    values, counts = np.unique(every, return_counts=True)
    found: NDArray[np.bool_] = counts[np.searchsorted(values, these)] == 1
    return found


def _begin_alike(pair: Pair, length: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which queries show the same first ``length`` hits in one order, shape (queries,)."""
    own = np.arange(min(pair.rank.shape[1], FIRST))
    alike = (pair.rank[:, :FIRST] == own) | (own >= length[:, None])
    return np.asarray(alike.all(axis=1))


def _near(pair: Pair) -> NDArray[np.float64]:
    """Share of each control list that the candidate shows within one place, shape (queries,)."""
    own = np.arange(pair.rank.shape[1])
    placed = (pair.rank != ABSENT) & (np.abs(pair.rank - own) <= 1)
    share: NDArray[np.float64] = placed.sum(axis=1) / np.maximum(pair.control_length, 1)
    return share
