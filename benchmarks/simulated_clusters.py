"""How often a gate is wrong where queries are near duplicates that nobody labelled."""

from __future__ import annotations

import numpy as np

from benchmarks.simulated_differences import SEED, losing
from benchmarks.simulated_sizes import DIFFERENCES, LEVEL
from harness.core.clusters import codes
from harness.core.records import Query
from harness.corpus.clusters import near_duplicates, of_queries
from harness.stats.bounded import chance_above

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
    together = codes([query.query_id for query in asked], by_text)
    drawn = losing(-truth).draw(np.random.default_rng((SEED, each, count)), (count // each, trials))
    values = np.repeat(drawn, each, axis=0)
    alone, known = (
        np.mean(chance_above(values, -MARGIN, span=DIFFERENCES, clusters=of) < LEVEL)
        for of in (None, together)
    )
    return float(alone), float(known)
