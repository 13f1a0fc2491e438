"""A share of the vectors that depends on the query, learnt without the collection that judges it.

    python3 run.py python benchmarks/adaptive.py FOLDER [FOLDER ...] --out out/fusion

The share is ``sigmoid(bias + weights . features)``, of features of the legs before fusion: how far
the first hit of each stands out, the first cosine, how many of the first ten they have in
common, how much each values the other's first hit, how long the query is, and how many of its words
are rare or unknown. Weights maximise the mean over collections of the mean nDCG@10, less a penalty
on their squares that an inner leave-one-collection-out chooses. Each collection is judged by the
weights of the *other* ones, and compared with the fixed share of the arm ``hybrid``. The best share
of a collection, and that of each query, are seen in hindsight: nothing could reach more.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from benchmarks.fusion import pooled
from benchmarks.legs import Collection
from engines.ranking.convex import combine
from harness import Inference, compare, score

MEASURE = "nDCG@10"
SHARES = np.linspace(0, 1, 21)
FIXED = 0.7
PENALTIES = (0.001, 0.01, 0.1, 1.0)
SURE = Inference(confidence=0.95, resamples=10_000, seed=20261124)
FEATURES = (
    "words stand out",
    "vectors stand out",
    "first cosine",
    "first ten in common",
    "words of the vectors' first",
    "cosine of the words' first",
    "length",
    "rare words",
    "unknown words",
)
RARE = 0.01
WORD = re.compile(r"[a-z0-9]+")
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Table:
    """One collection: features and the value of every share, by query."""

    name: str
    queries: Sequence[str]
    features: Floats
    """Shape (queries, features)."""
    values: Floats
    """Shape (queries, shares)."""

    @classmethod
    def of(cls, collection: Collection) -> Table:
        """Gather the legs and try every share."""
        kept = [q for q in collection.queries if q in set(collection.qrels.answerable)]
        frequency: Counter[str] = Counter()
        for one in collection.documents:
            frequency.update(set(WORD.findall(f"{one.title} {one.text}".lower())))
        many = len(collection.documents)
        features = [
            _features(
                collection.words[q],
                collection.vectors[q],
                [frequency[w] / many for w in WORD.findall(collection.queries[q].lower())],
            )
            for q in kept
        ]
        values = []
        for share in SHARES.tolist():
            runs = {q: run(collection, q, share) for q in kept}
            of = score(runs, collection.qrels, [MEASURE], queries=kept).scores[MEASURE].by_query
            values.append([of[q] for q in kept])
        return cls(collection.name, kept, np.array(features), np.array(values).T)

    def at(self, shares: Floats) -> tuple[Floats, Floats]:
        """Value of each query at its share, between the tried ones, and the slope there."""
        step = SHARES[1]
        left = np.clip((shares / step).astype(int), 0, len(SHARES) - 2)
        rows = np.arange(len(shares))
        low, high = self.values[rows, left], self.values[rows, left + 1]
        return low + (high - low) * (shares / step - left), (high - low) / step


def run(collection: Collection, query: str, share: float) -> Mapping[str, float]:
    """Fuse one query, as ranks."""
    legs = {"words": collection.words[query], "vectors": collection.vectors[query]}
    hits = combine(legs, {"words": 1 - share, "vectors": share}, 100)
    return {hit.doc_id: -float(rank) for rank, hit in enumerate(hits)}


def _features(
    words: Mapping[str, float], near: Mapping[str, float], shares: Sequence[float]
) -> list[float]:
    by_words, by_near = (sorted(of, key=lambda d: -of[d])[:10] for of in (words, near))
    most, nearest = (
        of[first[0]] if first else 0.0 for of, first in ((words, by_words), (near, by_near))
    )
    return [
        1 - words[by_words[-1]] / most if by_words else 0.0,
        1 - near[by_near[-1]] / nearest if by_near else 0.0,
        nearest,
        len(set(by_words) & set(by_near)) / 10,
        words.get(by_near[0], 0.0) / most if by_words and by_near else 0.0,
        near.get(by_words[0], 0.0) / nearest if by_words and by_near else 0.0,
        float(np.log1p(len(shares))),
        float(np.mean([0 < s < RARE for s in shares])) if shares else 0.0,
        float(np.mean([s == 0 for s in shares])) if shares else 0.0,
    ]


@dataclass(frozen=True, eq=False)
class Model:
    """Features are centred and scaled as they were in learning."""

    middle: Floats
    scale: Floats
    weights: Floats
    """Shape (1 + features,): the bias first."""

    def shares(self, features: Floats) -> Floats:
        """Share of each query."""
        z = self.weights[0] + ((features - self.middle) / self.scale) @ self.weights[1:]
        found: Floats = expit(z)
        return found

    @classmethod
    def learnt(cls, tables: Sequence[Table], penalty: float) -> Model:
        """Maximise the mean over collections; begin at the fixed share."""
        means = np.array([t.features.mean(0) for t in tables])
        spread = np.array([t.features.var(0) for t in tables]).mean(0) + means.var(0)
        middle, scale = means.mean(0), np.sqrt(spread) + 1e-9

        def loss(weights: Floats) -> tuple[float, Floats]:
            model, value, slope = cls(middle, scale, weights), 0.0, np.zeros_like(weights)
            for t in tables:
                shares = model.shares(t.features)
                values, slopes = t.at(shares)
                inner = slopes * shares * (1 - shares) / len(values)
                value += values.mean()
                slope[0] += inner.sum()
                slope[1:] += inner @ ((t.features - middle) / scale)
            ridge = penalty * weights[1:]
            slope = -slope / len(tables)
            slope[1:] += ridge
            return -value / len(tables) + float(ridge @ weights[1:]) / 2, slope

        start = np.zeros(1 + len(middle))
        start[0] = np.log(FIXED / (1 - FIXED))
        best = minimize(loss, start, jac=True, method="L-BFGS-B")
        return cls(middle, scale, best.x)


def chosen(tables: Sequence[Table]) -> tuple[Model, float]:
    """Learn with the penalty that is best without each collection in turn."""

    def without(penalty: float) -> float:
        found = []
        for at, held in enumerate(tables):
            model = Model.learnt([*tables[:at], *tables[at + 1 :]], penalty)
            found.append(held.at(model.shares(held.features))[0].mean())
        return float(np.mean(found))

    penalty = max(PENALTIES, key=without)
    return Model.learnt(tables, penalty), penalty


def report(collections: Sequence[Collection]) -> Iterator[str]:
    """Yield the lines of the table, and the weights that all collections give together."""
    tables = [Table.of(one) for one in collections]
    yield (
        f"| collection | penalty | fixed {FIXED} | adaptive | best share of the collection |"
        " best share of each query | adaptive less fixed | adaptive less vectors |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    apart: list[tuple[float, float]] = []
    for at, (one, table) in enumerate(zip(collections, tables, strict=True)):
        model, penalty = chosen([*tables[:at], *tables[at + 1 :]])
        shares = dict(zip(table.queries, model.shares(table.features).tolist(), strict=True))
        adaptive = {q: run(one, q, shares[q]) for q in table.queries}
        cells = []
        for share in (FIXED, 1.0):
            fixed = {q: run(one, q, share) for q in table.queries}
            found = compare(fixed, adaptive, one.qrels, MEASURE, sure=SURE)
            cells.append(found)
        mean = [
            float(np.mean(side)) for side in (cells[0].paired.control, cells[0].paired.candidate)
        ]
        difference = cells[0].paired.difference
        apart.append((
            cells[0].estimate.value,
            float(difference.std(ddof=1)) / len(difference) ** 0.5,
        ))
        said = [
            f"{c.estimate.value:+.4f} [{c.estimate.low:+.4f}, {c.estimate.high:+.4f}]"
            for c in cells
        ]
        known = table.values.mean(axis=0).max(), table.values.max(axis=1).mean()
        values = " | ".join(f"{value:.4f}" for value in (*mean, *known))
        yield f"| {table.name} | {penalty:g} | {values} | {said[0]} | {said[1]} |"
    value, low, high = pooled(*zip(*apart, strict=True))
    yield f"| **mean, other collections** | | | | | | {value:+.4f} [{low:+.4f}, {high:+.4f}] | |"
    model, penalty = chosen(tables)
    yield f"\nLearnt on all of them, penalty {penalty:g}: bias {model.weights[0]:+.3f}"
    for name, weight in zip(FEATURES, model.weights[1:].tolist(), strict=True):
        yield f"- {name}: {weight:+.3f}"
    yield ""


def main() -> None:
    """Measure every folder and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    splits = [(f, "test" if (f / "qrels" / "test.tsv").is_file() else "dev") for f in args.folders]
    text = "\n".join(report([Collection(f, split, args.out) for f, split in splits]))
    (args.out / "adaptive.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
