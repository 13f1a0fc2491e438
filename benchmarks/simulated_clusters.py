"""How often a gate is wrong where queries are near duplicates that nobody labelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from benchmarks.simulated_differences import CONFIDENCE, RESAMPLES, SEED, evidence_of, losing
from harness.core.gate import Verdict
from harness.core.records import Query
from harness.corpus.clusters import near_duplicates, of_queries
from harness.gates import non_inferior
from harness.gates.base.rules import Rules

MARGIN = 0.02
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
WAYS = (
    "{}",
    "how to {}",
    "{}?",
    "{} example",
    "the {}",
    "I need {}",
    "which {}, please",
    "show {}",
)
"""In which one need is put, where people or a generator put it again and again."""


def queries(needs: int, each: int) -> tuple[Query, ...]:
    """Give ``each`` queries of each need, in slightly other words; nobody says which are one."""
    rng = np.random.default_rng(SEED)
    found = []
    for need in range(needs):
        words = ["".join(rng.choice(SYLLABLES, 4)) for _ in range(4)]
        texts = [way.format(" ".join(words)) for way in WAYS[:each]]
        found += [Query(f"q{need * each + at}", text) for at, text in enumerate(texts)]
    return tuple(found)


def clustered(each: int, count: int, trials: int, *, truth: float = -MARGIN) -> tuple[float, float]:
    """Shares of PASSes with every query alone, and with queries clustered by their texts.

    ``count`` queries in clusters of ``each``, whose differences are one and the same; their mean is
    ``truth``, and the margin .02.
    """
    asked = queries(count // each, each)
    by_text = of_queries(asked, near_duplicates(asked))
    alone = _passing(each, count, trials, truth, {})
    return alone, _passing(each, count, trials, truth, by_text)


def _passing(
    each: int, count: int, trials: int, truth: float, clusters: Mapping[str, str]
) -> float:
    case, rng = losing(-truth), np.random.default_rng((SEED, each, count))
    settings = non_inferior.Settings(measure="nDCG@10", margin=MARGIN, min_queries=20)
    passed = 0
    for trial in range(trials):
        differences = np.repeat(case.draw(rng, (count // each,)), each)
        evidence = replace(evidence_of(differences), clusters=clusters)
        rules = Rules(confidence=CONFIDENCE, resamples=RESAMPLES // 2, seed=SEED + trial, power=0.8)
        passed += non_inferior.judge("Q", settings, evidence, rules).verdict is Verdict.PASS
    return passed / trials
