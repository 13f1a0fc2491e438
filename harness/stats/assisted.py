"""A paired difference from few human judgements and many machine ones, valid whatever they err.

Prediction-powered inference (Angelopoulos, Duchi and Zrnic, "PPI++", 2023). The queries that
people judged are a random part of all. The machine's difference over the other queries is corrected
by how far it is off where people judged. Its weight makes the variance smallest, and is at most 1.

Documents are expected to be relevant by ``harness.stats.calibration``. Weight and calibration of a
query come from other queries (five folds; Zrnic and Candès, PNAS 2024), so that no query corrects
itself. The interval joins those of the two independent parts, each by ``harness.stats.bootstrap``,
by the square root of squares (Zou and Donner, Statistics in Medicine 27, 2008).

Where people judged pairs drawn over all queries, not whole queries, each query has an expected
difference. The pairs that people judged of it correct that, over the share of pairs that were drawn
(Horvitz and Thompson, JASA 47, 1952). Zrnic and Candès use it for labels ("Active statistical
inference", ICML 2024). Errors of one query then count once, and not as a whole query of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from harness.core.errors import EvidenceError
from harness.core.printable import many
from harness.core.scores import Estimate
from harness.stats.bootstrap import bca
from harness.stats.calibration import Codes, Flags, Floats, UniqueHits, calibration, expected
from harness.stats.inference import Inference

FOLDS = 5
FEWEST = 10
"""Independent queries that people judged and found a difference in; fewer show no spread."""
FEWEST_PAIRS = 50
"""Pairs that people judged where pairs were drawn; fewer do not calibrate a machine."""


@dataclass(frozen=True, slots=True)
class Assisted:
    """The difference with and without the machine."""

    human: Estimate
    """From the human judgements alone."""
    assisted: Estimate
    """From both."""
    weight: float
    """Of the machine's judgements, 0 to 1."""
    calibration: tuple[float | None, ...]
    """Share that people found relevant, by grade of the machine; None where they judged none."""

    @property
    def saved(self) -> float:
        """Share of the human judgements that the machine's replace at equal width."""
        return saved(self.human, self.assisted)


def saved(alone: Estimate, other: Estimate) -> float:
    """Share of the judgements behind ``alone`` that ``other`` does without at equal width."""
    widths = [one.high - one.low for one in (other, alone)]
    return 1 - (widths[0] / widths[1]) ** 2 if widths[1] else 0.0


def assisted(
    shown: UniqueHits, judged: Flags, *, clusters: Codes | None, inference: Inference
) -> Assisted:
    """Estimate the mean difference over all queries, of which people judged ``judged``.

    ``judged`` has shape (queries,); every document of these queries has a human judgement.

    Raises:
        EvidenceError: fewer than ten independent queries that people judged differ, or people
            judged all queries.
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
        _interval(human[judged], groups[judged], inference),
        _joined(
            _interval(human[judged] - labelled[judged], groups[judged], inference),
            _interval(other[~judged], groups[~judged], inference),
            len(judged),
        ),
        float(np.mean(weights)),
        calibration(shown, known),
    )


def assisted_by_pairs(
    shown: UniqueHits, judged: Flags, *, queries: int, clusters: Codes | None, inference: Inference
) -> Assisted:
    """Estimate the mean difference over ``queries``, of whose pairs people judged ``judged``.

    ``judged`` has shape (documents,), and is a random part of them.

    Raises:
        EvidenceError: people judged fewer than fifty pairs, fewer than ten independent queries
            have one that is relevant, or people judged all pairs.
    """
    groups = np.arange(queries) if clusters is None else clusters
    moved = np.unique(groups[shown.query[judged & (shown.human > 0)]])
    if judged.sum() < FEWEST_PAIRS or len(moved) < FEWEST or judged.all():
        raise EvidenceError(
            f"people judged {int(judged.sum())} of {len(judged)} pairs, and"
            f" {many(len(moved), 'independent query has')} a relevant one. At least {FEWEST_PAIRS}"
            f" pairs and {FEWEST}"
            " such queries must be judged, and others must be left to the machine"
        )
    fold = _folds(groups, inference.seed)[shown.query]
    alone, both = np.zeros(len(judged)), np.zeros(len(judged))
    for at in range(FOLDS):
        train, own = judged & (fold != at), fold == at
        alone[own] = shown.human[train].mean()
        both[own] = expected(shown, train)[own]
    share = judged.mean()
    human, joined = (
        _interval(
            _by_query(shown, guess + np.where(judged, shown.human - guess, 0.0) / share, queries),
            groups,
            inference,
        )
        for guess in (alone, both)
    )
    return Assisted(human, joined, 1.0, calibration(shown, judged))


def _by_query(shown: UniqueHits, relevant: Floats, queries: int) -> Floats:
    found: Floats = np.bincount(shown.query, shown.weight * relevant, queries).astype(np.float64)
    return found


def _folds(groups: Codes, seed: int) -> Codes:
    """Put each cluster into one of the folds, at random."""
    names, code = np.unique(groups, return_inverse=True)
    order = np.random.Generator(np.random.Philox(key=seed)).permutation(len(names))
    found: Codes = (order % FOLDS)[code]
    return found


def _weight(human: Floats, predicted: Floats, elsewhere: Floats) -> float:
    """Give the weight of the smallest variance, between 0 and 1."""
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
