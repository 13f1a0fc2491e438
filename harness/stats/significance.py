"""The sign-flip test, and several tests of one family."""

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.stats.bootstrap import by_cluster, flipped_sums

EXACT_UP_TO = 20
ROUNDING = 1e-12

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def sign_flip(differences: Floats, *, resamples: int, seed: int, clusters: Codes | None) -> float:
    """p-value of one column, shape (queries,); see ``sign_flip_each``."""
    column = differences.reshape(-1, 1)
    return sign_flip_each(column, resamples=resamples, seed=seed, clusters=clusters)[0]


def sign_flip_each(
    differences: Floats, *, resamples: int, seed: int, clusters: Codes | None
) -> tuple[float, ...]:
    """Two-sided p-value of "the mean is 0" of each column, by the paired sign-flip test.

    Fisher, "The Design of Experiments" (1935), section 21; for retrieval see Smucker, Allan and
    Carterette, CIKM 2007. ``differences`` has shape (queries, columns); the sum of each is compared
    with the sums under every choice of signs. Queries of one code in ``clusters`` flip together.

    What is 0 (a query, or the sum of a cluster) adds 0 to the sum whatever its sign. A column with
    up to 20 others is enumerated. For the rest signs are drawn ``resamples`` times, with one added
    to both counts (Phipson and Smyth, 2010), so that no p-value is 0. Nothing but zeros: p is 1.
    All columns share the signs, and a column's p-value is the same beside any others.
    """
    if not len(differences) or not np.isfinite(differences).all():
        raise EvidenceError("a randomization test needs differences, all of them finite")
    sums, _ = by_cluster(differences, clusters)
    ties = ROUNDING * np.abs(differences).sum(axis=0)
    found = np.empty(sums.shape[1])
    drawn = []
    for at, tie in enumerate(ties):
        column = sums[:, at][np.abs(sums[:, at]) > tie]
        if len(column) <= EXACT_UP_TO:
            every = np.zeros(1)
            for value in column:
                every = np.concatenate([every + value, every - value])
            found[at] = _beyond(every, float(column.sum()), tie) / len(every)
        else:
            drawn.append(at)
    if drawn:
        columns = sums[:, drawn]
        flipped = flipped_sums(columns, resamples=resamples, seed=seed)
        for at, column, every in zip(drawn, columns.T, flipped.T, strict=True):
            count = _beyond(every, float(column.sum()), ties[at])
            found[at] = (count + 1) / (resamples + 1)
    return tuple(found.tolist())


def _beyond(sums: Floats, observed: float, tie: float) -> int:
    """How many ``sums`` are at least as extreme as ``observed``."""
    return int((np.abs(sums) >= abs(observed) - tie).sum())


def adjusted(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Holm's step-down adjusted p-values, shape (tests,), in the order given.

    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6 (1979). The k-th smallest of m is multiplied by m - k + 1, never below the ones
    before it, at most 1.
    """
    _check(p_values)
    order = np.argsort(p_values, kind="stable")
    steps = np.arange(len(p_values), 0, -1)
    stepped = np.minimum(1.0, np.maximum.accumulate(p_values[order] * steps))
    return _as_given(order, stepped)


def fdr_adjusted(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the adjusted p-values of Benjamini and Hochberg, shape (tests,), in the order given.

    "Controlling the false discovery rate", JRSS B 57 (1995). The k-th smallest of m is
    multiplied by m / k, never above the ones after it, at most 1. Of those at or below a
    level, no greater share is expected to be false, where the tests are independent or rise and
    fall together. It is for looking around; a decision over several slices takes ``adjusted``.
    """
    _check(p_values)
    count = len(p_values)
    order = np.argsort(p_values, kind="stable")[::-1]
    steps = count / np.arange(count, 0, -1)
    stepped = np.minimum(1.0, np.minimum.accumulate(p_values[order] * steps))
    return _as_given(order, stepped)


def _check(p_values: NDArray[np.float64]) -> None:
    if not ((p_values >= 0) & (p_values <= 1)).all():
        raise EvidenceError("a p-value lies between 0 and 1")


def _as_given(order: NDArray[np.int64], stepped: NDArray[np.float64]) -> NDArray[np.float64]:
    found = np.empty_like(stepped)
    found[order] = stepped
    return found
