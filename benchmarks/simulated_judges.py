"""Simulated judges of documents: how valid the difference stays, and how many labels they save."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.stats.assisted import Assisted, assisted, assisted_by_pairs, saved
from harness.stats.calibration import Flags, UniqueHits
from harness.stats.inference import Inference
from harness.stats.raters.kappa import kappa

QUERIES, LABELLED, K = 1_000, 100, 10
RESAMPLES = 1_000
CONFIDENCE = 0.95
MARGIN = 0.02
TRUST = 0.4
"""Least kappa of the machine with people."""
SEED = 20_261_124
Floats = NDArray[np.float64]
Judge = Callable[[np.random.Generator, Floats, Floats], Floats]
"""From the relevance of documents and their arm (1 candidate, -1 control) to its labels."""


def flipping(share: float) -> Judge:
    """Err at random in so many documents."""
    return lambda rng, true, _: np.abs(true - (rng.random(len(true)) < share))


def toward(arm: int, share: float) -> Judge:
    """Agree with people, but call so many irrelevant documents of one arm relevant."""
    return lambda rng, true, of: np.maximum(true, (rng.random(len(true)) < share) * (of == arm))


JUDGES: dict[str, Judge] = {
    "agrees in 95 %": flipping(0.05),
    "agrees in 85 %": flipping(0.15),
    "agrees in 70 %": flipping(0.3),
    "guesses": flipping(0.5),
    "partial to the candidate": toward(1, 0.4),
    "partial to the control": toward(-1, 0.4),
    "calls all of the candidate's relevant": toward(1, 1.0),
    "says the opposite": flipping(1.0),
}


class Judged(NamedTuple):
    """Shares of the trials, and means over them."""

    coverage: float
    promoted: float
    """Promoted although the candidate loses exactly the margin."""
    trusted: float
    saved: float | None
    """Of the labels of people who judge whole queries alone, at equal width, where the judge was
    trusted; None where it never was."""
    by_machine: float | None
    """The same of people who judge what was judged here, alone."""
    believed: float
    """Promoted where the machine's labels were taken for true."""


def judged(judge: Judge, trials: int, *, pairs: bool = False) -> Judged:
    """Judge a candidate whose true loss is the margin.

    People judge ``LABELLED`` whole queries, or with ``pairs`` as many pairs of all queries.
    """
    rng = np.random.default_rng(SEED)
    held = promoted = trusted = believed = 0
    whole, same = [], []
    for trial in range(trials):
        shown, labels = _world(rng, judge)
        inference = Inference(confidence=CONFIDENCE, resamples=RESAMPLES, seed=trial)
        of_queries = _of_queries(shown, inference)
        known = shown.query < LABELLED
        found = of_queries
        if pairs:
            known = known[np.random.default_rng((SEED, trial)).permutation(len(known))]
            found = assisted_by_pairs(
                shown, known, queries=QUERIES, clusters=None, inference=inference
            )
        alike = kappa(shown.human[known], labels[known], shown.query[known], confidence=CONFIDENCE)
        trust = alike.low >= TRUST
        used = found.assisted if trust else found.human
        held += used.low <= -MARGIN <= used.high
        promoted += used.low > -MARGIN
        trusted += trust
        whole += [saved(of_queries.human, found.assisted)] if trust else []
        same += [found.saved] if trust else []
        plain = np.bincount(shown.query, weights=shown.weight * labels, minlength=QUERIES)
        half = 1.96 * plain.std() / QUERIES**0.5
        believed += plain.mean() - half > -MARGIN
    return Judged(
        held / trials, promoted / trials, trusted / trials,
        float(np.mean(whole)) if whole else None, float(np.mean(same)) if same else None,
        believed / trials,
    )  # fmt: skip


def _of_queries(shown: UniqueHits, inference: Inference) -> Assisted:
    people: Flags = np.arange(QUERIES) < LABELLED
    return assisted(shown, people, clusters=None, inference=inference)


def _world(rng: np.random.Generator, judge: Judge) -> tuple[UniqueHits, Floats]:
    """Draw queries, the documents that one arm alone shows, and what the judge says of them."""
    unique = rng.integers(2, K + 1, QUERIES)
    base = rng.beta(1.2, 2.0, QUERIES)
    effect = rng.normal(0, 0.15, (2, QUERIES))
    chance = np.clip(base + effect, 0.02, 0.98)
    query = np.repeat(np.arange(QUERIES), 2 * unique)
    of = np.where(np.concatenate([np.arange(2 * n) for n in unique]) % 2 == 0, 1.0, -1.0)
    kept = 1 - MARGIN * K / float((unique * chance[0]).mean())
    likely = np.where(of > 0, chance[0, query] * kept, chance[1, query])
    true = (rng.random(len(query)) < likely) * 1.0
    labels = judge(rng, true, of)
    shown = UniqueHits(query, of / K, true, labels.astype(np.int64))
    return shown, labels
