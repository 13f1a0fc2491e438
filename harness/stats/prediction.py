"""A paired difference from few human judgements, beside what many machine ones suggest."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.core.scores import Estimate
from harness.stats.bootstrap import bca
from harness.stats.bounded import ValueRange
from harness.stats.inference import Inference
from harness.stats.interval import interval

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
    sums, counts = _by_grade(shown.human, shown.machine, which)
    return tuple(
        float(total / count) if count else None for total, count in zip(sums, counts, strict=True)
    )


def _by_grade(values: Floats, machine: Codes, which: Flags) -> tuple[Floats, NDArray[np.intp]]:
    """Sum and count the values of ``which`` by each one's grade; both of shape (grades,)."""
    codes = int(machine.max(initial=0)) + 1
    of = machine[which]
    sums = np.bincount(of, values[which], codes).astype(np.float64, copy=False)
    return sums, np.bincount(of, minlength=codes)


def expected(shown: UniqueHits, train: Flags) -> Floats:
    """Return how likely each document is to be relevant, learned from the judged ones of ``train``.

    A grade that people never judged counts as all of ``train`` do.
    """
    overall = float(shown.human[train].mean()) if train.any() else 0.0
    shares = np.array([overall if one is None else one for one in calibration(shown, train)])
    by_grade: Floats = shares[shown.machine]
    others = _others(shown.query, by_grade)
    sums, counts = _by_grade(others, shown.machine, train)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), others.mean())
    rest = others - means[shown.machine]
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


FOLDS = 5
FEWEST = 10
"""Independent queries that people judged and found a difference in; fewer show no spread."""
DIFFERENCES = ValueRange(-1.0, 1.0)
"""Of two precisions."""


@dataclass(frozen=True, slots=True)
class Assisted:
    """The difference with and without the machine."""

    human: Estimate
    """From the human judgements alone, with a finite-sample interval; it decides."""
    assisted: Estimate
    """From both; its interval describes, and misses rare losses that the machine does not see."""
    weight: float
    """Of the machine's judgements, 0 to 1."""
    calibration: tuple[float | None, ...]
    """Share that people found relevant, by grade of the machine; None where they judged none."""


def assisted(
    shown: UniqueHits, judged: Flags, *, clusters: Codes | None, inference: Inference
) -> Assisted:
    """Estimate the mean difference over all queries, of which people judged ``judged``.

    ``judged`` has shape (queries,); every document of these queries has a human judgement.
    """
    groups = np.arange(len(judged)) if clusters is None else clusters
    known = judged[shown.query]
    human = _by_query(shown, np.where(known, np.nan_to_num(shown.human), 0.0), len(judged))
    moved = np.unique(groups[judged & (human != 0)])
    if len(moved) < FEWEST or judged.all():
        raise EvidenceError(
            f"people judged {int(judged.sum())} of {len(judged)} queries, and {len(moved)}"
            f" independent ones of them differ; at least {FEWEST} must, and others must be left"
            " to the machine"
        )
    fold = _folds(groups, inference.seed)
    labelled, other = np.zeros(len(judged)), np.zeros(len(judged))
    weights = []
    for at in range(FOLDS):
        train = judged & (fold != at)
        predicted = _by_query(shown, expected(shown, train[shown.query]), len(judged))
        weight = _weight(human[train], predicted[train], predicted[~judged])
        weights.append(weight)
        own = fold == at
        labelled[own] = weight * predicted[own]
        other += weight * predicted / FOLDS
    return Assisted(
        interval(
            human[judged],
            span=DIFFERENCES,
            inference=inference,
            clusters=None if clusters is None else groups[judged],
        ),
        _joined(
            _interval(human[judged] - labelled[judged], groups[judged], inference),
            _interval(other[~judged], groups[~judged], inference),
            len(judged),
        ),
        float(np.mean(weights)),
        calibration(shown, known),
    )


def _by_query(shown: UniqueHits, relevant: Floats, queries: int) -> Floats:
    found: Floats = np.bincount(shown.query, shown.weight * relevant, queries).astype(np.float64)
    return found


def _folds(groups: Codes, seed: int) -> Codes:
    """Assign each cluster to one of the folds, at random."""
    names, code = np.unique(groups, return_inverse=True)
    order = np.random.Generator(np.random.Philox(key=seed)).permutation(len(names))
    found: Codes = (order % FOLDS)[code]
    return found


def _weight(human: Floats, predicted: Floats, elsewhere: Floats) -> float:
    """Return the weight of the smallest variance, between 0 and 1."""
    spread = float(np.concatenate([predicted, elsewhere]).var())
    if math.isclose(spread, 0, abs_tol=1e-300):
        return 0.0
    shared = float(((human - human.mean()) * (predicted - predicted.mean())).mean())
    return min(1.0, max(0.0, shared / (spread * (1 + len(predicted) / len(elsewhere)))))


def _interval(values: Floats, groups: Codes, inference: Inference) -> Estimate:
    return bca(
        values,
        confidence=inference.confidence,
        resamples=inference.resamples,
        seed=inference.seed,
        clusters=groups,
    )


def _joined(one: Estimate, other: Estimate, queries: int) -> Estimate:
    mean = one.value + other.value
    low = math.hypot(one.value - one.low, other.value - other.low)
    high = math.hypot(one.high - one.value, other.high - other.value)
    return Estimate(mean, mean - low, mean + high, queries)
