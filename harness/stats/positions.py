"""The position-based click model: how likely a rank is looked at, and a document is clicked then.

A click needs both, and the two are independent: Craswell, Zoeter, Taylor and Ramsey, "An
experimental comparison of click position-bias models", WSDM 2008. Fitted by expectation
maximization as in Chuklin, Markov and de Rijke, "Click Models for Web Search" (2015), section
4.2.2. The first rank is looked at for certain, which sets the scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError

STEPS = 2_000
CLOSE = 1e-7
"""Largest change of a probability in the last step."""
PRIOR = 1.0, 2.0
"""Clicks and views of a document before any are seen: a uniform prior."""

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PositionModel:
    """Probabilities between 0 and 1."""

    looked_at: Floats
    """By rank from 0."""
    attractive: Floats
    """By pair of query and document: clicked, if looked at."""


def position_model(pairs: Codes, ranks: Codes, shown: Floats, clicked: Floats) -> PositionModel:
    """Fit the model to rows: a pair at a rank was shown so often, and clicked so often.

    Pairs and ranks count from 0, without gaps.

    Raises:
        EvidenceError: the first rank is missing, or clicks outnumber views. Or no document
            moved between two groups of ranks, so that rank and document cannot be told apart.
    """
    if not len(pairs) or ranks.min() > 0:
        raise EvidenceError("no list with a first rank was shown; log lists from the top")
    if (clicked > shown).any():
        raise EvidenceError("a document was clicked more often than shown; count a view once")
    _check_joined(pairs, ranks)
    views = np.bincount(ranks, weights=shown)
    seen = np.bincount(pairs, weights=shown) + PRIOR[1]
    looked_at, attractive = np.full(len(views), 0.5), np.full(len(seen), 0.5)
    looked_at[0] = 1.0
    for _ in range(STEPS):
        look, attract = looked_at[ranks], attractive[pairs]
        unclicked = (shown - clicked) / np.maximum(1 - look * attract, np.finfo(np.float64).tiny)
        by_rank = np.bincount(ranks, weights=clicked + unclicked * look * (1 - attract)) / views
        by_pair = np.bincount(pairs, weights=clicked + unclicked * attract * (1 - look))
        by_rank[0], by_pair = 1.0, (by_pair + PRIOR[0]) / seen
        moved = max(np.abs(by_rank - looked_at).max(), np.abs(by_pair - attractive).max())
        looked_at, attractive = by_rank, by_pair
        if moved < CLOSE:
            break
    return PositionModel(looked_at, attractive)


def _check_joined(pairs: Codes, ranks: Codes) -> None:
    """Let rows pass in which every rank is joined to the first by documents that moved."""
    count = int(ranks.max()) + 1
    group = np.arange(count)
    order = np.lexsort((ranks, pairs))
    same = np.diff(pairs[order]) == 0
    for one, other in zip(ranks[order][:-1][same], ranks[order][1:][same], strict=True):
        low, high = sorted((int(group[one]), int(group[other])))
        group[group == high] = low
    apart = np.flatnonzero(group != group[0])
    if len(apart):
        raise EvidenceError(
            f"no document moved between rank 1 and rank {int(apart[0]) + 1}, so a low rank cannot"
            " be told from a bad document; log interleaved lists, or use fewer ranks"
        )
