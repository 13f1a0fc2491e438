"""Several tests of one family: no more false alarms than one test has, or few false finds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError


def adjusted(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Holm's step-down adjusted p-values, shape (tests,), in the order given.

    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6 (1979). The k-th smallest of m is multiplied by m - k + 1, never below the ones
    before it, at most 1.

    Raises:
        EvidenceError: one is not between 0 and 1.
    """
    _check(p_values)
    order = np.argsort(p_values, kind="stable")
    steps = np.arange(len(p_values), 0, -1)
    stepped = np.minimum(1.0, np.maximum.accumulate(p_values[order] * steps))
    return _as_given(order, stepped)


def fdr_adjusted(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the adjusted p-values of Benjamini and Hochberg, shape (tests,), in the order given.

    "Controlling the false discovery rate", JRSS B 57 (1995). The k-th smallest of m is
    multiplied by m / k, never above the ones after it, at most 1. Of those at or below a
    level, no greater share is expected to be false, where the tests are independent or rise and
    fall together. It is for looking around; a decision over several slices takes ``adjusted``.

    Raises:
        EvidenceError: one is not between 0 and 1.
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
