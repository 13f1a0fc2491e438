"""What the choices of the documents specification are worth: a Markdown table.

    python3 run.py python benchmarks/documents_choices.py OUT [OUT ...]

Each OUT is what ``harness run --out OUT`` wrote over the arms named below, on one collection. A row
is one choice on one collection: the mean difference of the specification's way and the other over
the judged queries, its 95 % interval (``harness.stats.bootstrap``) and the p-value of the
randomization test, adjusted by Holm over all rows of the table. The specification is supported or
contradicted where that p-value is below 0.05, and else the judgements cannot tell.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.core.scores import Estimate
from harness.corpus.score_table import read_scores
from harness.stats.bootstrap import bca
from harness.stats.holm import adjusted
from harness.stats.randomization import sign_flip

MEASURE, CONFIDENCE, RESAMPLES, SEED, LEVEL = "nDCG@10", 0.95, 10_000, 20261121, 0.05


class Choice(NamedTuple):
    """One decision of the specification."""

    what: str
    specified: str
    other: str


CHOICES = (
    Choice("models rank, not the order of BM25", "documents-free", "documents-bm25"),
    Choice("E6 beside E1", "documents-free", "documents-free-e1"),
    Choice("weight / (60 + 1 / score), not ranks", "documents-free", "documents-free-rank"),
    Choice("the order of recall is dropped", "documents-free-rank", "documents-free-words"),
    Choice("late interaction after its own fusion", "documents-pro", "documents-free"),
    Choice("late interaction after a fusion by rank", "documents-pro-rank", "documents-free-rank"),
    Choice("0.4 and 0.6 of scores, not of ranks", "documents-pro", "documents-pro-rrf"),
    Choice("its own BM25 recalls, not FTS5", "documents-free", "documents-free-fts5"),
    Choice("its own BM25 recalls, not Tantivy", "documents-free", "documents-free-tantivy"),
)


class Row(NamedTuple):
    """One choice on one collection."""

    collection: str
    choice: Choice
    means: tuple[float, float]
    difference: Estimate
    p_value: float
    moved: tuple[int, int]
    """Queries that the specification's way answers better, and worse."""


def rows(out: Path) -> Iterator[Row]:
    """Compare both ways of every choice on one collection."""
    scores = read_scores(out / "per_query.parquet", ["arm"])
    for choice in CHOICES:
        ours = scores[choice.specified,][MEASURE].by_query
        theirs = scores[choice.other,][MEASURE].by_query
        yield compared(out.name, choice, ours, theirs)


def compared(
    collection: str, choice: Choice, ours: Mapping[str, float], theirs: Mapping[str, float]
) -> Row:
    """Compare the specification's way with the other, query by query."""
    queries = sorted(ours.keys() & theirs.keys())
    pairs = np.array([(ours[query], theirs[query]) for query in queries])
    apart = pairs[:, 0] - pairs[:, 1]
    estimate = bca(apart, confidence=CONFIDENCE, resamples=RESAMPLES, seed=SEED, clusters=None)
    p_value = sign_flip(
        apart,
        shift=0.0,
        alternative="two-sided",
        resamples=RESAMPLES,
        seed=SEED,
        clusters=None,
    )
    means = tuple(pairs.mean(axis=0).tolist())
    moved = int((apart > 0).sum()), int((apart < 0).sum())
    return Row(collection, choice, (means[0], means[1]), estimate, p_value, moved)


def said(difference: float, p_value: float) -> str:
    """Name the outcome of one row."""
    if p_value >= LEVEL:
        return "inconclusive"
    return "supported" if difference > 0 else "**contradicted**"


def table(found: list[Row]) -> Iterator[str]:
    """Write all rows, the adjusted p-values last."""
    yield (
        "| the specification's choice | collection | its way | the other | difference |"
        " 95 % interval | better / worse | p (Holm) | result |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    p_values = adjusted(np.array([row.p_value for row in found]))
    order = list(dict.fromkeys(row.choice for row in found))
    for row, p_value in sorted(
        zip(found, p_values.tolist(), strict=True), key=lambda pair: order.index(pair[0].choice)
    ):
        ours, theirs = row.means
        apart = row.difference
        yield (
            f"| {row.choice.what} | {row.collection} | {ours:.4f} | {theirs:.4f} |"
            f" {apart.value:+.4f} | {apart.low:+.4f} to {apart.high:+.4f} |"
            f" {row.moved[0]} / {row.moved[1]} | {p_value:.3f} | {said(apart.value, p_value)} |"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, nargs="+")
    found = [row for out in parser.parse_args().out for row in rows(out)]
    sys.stdout.write("\n".join(table(found)) + "\n")


if __name__ == "__main__":
    main()
