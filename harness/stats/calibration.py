"""What a machine's judgements lead to expect of documents that people did not judge.

Each grade of the machine counts as the share of its documents that people found relevant. Queries
differ in how much there is to find, and a machine's errors hide that: where it calls all other
documents irrelevant, one that it calls relevant is rarely so. So within a grade the expectation
also follows, by least squares, what the grades of the query's other documents count as.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Flags = NDArray[np.bool_]


class UniqueHits(NamedTuple):
    """Documents that one arm shows and the other does not, each array of shape (documents,)."""

    query: Codes
    """Place of its query."""
    weight: Floats
    """What it adds to the query's difference where it is relevant."""
    human: Floats
    """1 relevant, 0 not, NaN where people did not judge it."""
    machine: Codes
    """Grade by the machine, from 0; the largest code stands for none."""


def calibration(shown: UniqueHits, which: Flags) -> tuple[float | None, ...]:
    """Share of relevant documents among ``which`` by grade of the machine."""
    codes = int(shown.machine.max(initial=0)) + 1
    counts = np.bincount(shown.machine[which], minlength=codes)
    sums = np.bincount(shown.machine[which], weights=shown.human[which], minlength=codes)
    return tuple(
        float(total / count) if count else None for total, count in zip(sums, counts, strict=True)
    )


def expected(shown: UniqueHits, train: Flags) -> Floats:
    """Say how likely each document is to be relevant, learned from the judged ones of ``train``.

    A grade that people never judged counts as all of ``train`` do.
    """
    overall = float(shown.human[train].mean()) if train.any() else 0.0
    shares = np.array([overall if one is None else one for one in calibration(shown, train)])
    by_grade: Floats = shares[shown.machine]
    others = _others(shown.query, by_grade)
    rest = others - _mean_by_grade(others, shown.machine, train)
    spread = float((rest[train] ** 2).sum())
    if math.isclose(spread, 0, abs_tol=1e-12):
        return by_grade
    left = float((rest[train] * (shown.human - by_grade)[train]).sum())
    found: Floats = np.clip(by_grade + left / spread * rest, 0.0, 1.0)
    return found


def _others(query: Codes, values: Floats) -> Floats:
    """Mean of the other values of each one's query; where there is none, that of all."""
    sums, counts = np.bincount(query, values)[query], np.bincount(query)[query]
    found: Floats = np.where(counts > 1, (sums - values) / np.maximum(counts - 1, 1), values.mean())
    return found


def _mean_by_grade(values: Floats, machine: Codes, train: Flags) -> Floats:
    """Mean of the values of ``train`` with each one's grade; where there is none, that of all."""
    codes = int(machine.max(initial=0)) + 1
    counts = np.bincount(machine[train], minlength=codes)
    sums = np.bincount(machine[train], values[train], codes)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), values.mean())
    found: Floats = means[machine]
    return found
