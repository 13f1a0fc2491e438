"""Ways to join words and vectors on public collections: by rank, and by scores at several shares.

    python3 run.py python benchmarks/fusion.py FOLDER [FOLDER ...] --out out/fusion

Each FOLDER is a collection in BEIR layout; its judgements are those of the split test, or of dev
where there is no test. Indexes and vectors are kept below the folder of ``--out``, so that a second
call is quick. Prints a table of nDCG@10; then for each collection the share of the vectors that is
best on the mean of the *other* collections, and what the blend at that share gains; then the mean
over collections with the interval of Hartung and Knapp ("A refined method for the meta-analysis of
controlled clinical trials with binary outcome", Statistics in Medicine 20, 2001), collections as a
random factor.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy import stats

from engines import registry
from engines.ranking.convex import combine
from engines.ranking.rrf import fuse
from engines.stacks.text.blend import BlendSearcher
from harness import Inference, compare, score
from harness.core.engine import Hit
from harness.core.qrels import Qrels
from harness.core.records import Document
from harness.corpus.beir import Beir

MEASURE = "nDCG@10"
DEPTH = 100
SHARES = tuple(round(0.1 * at, 1) for at in range(11))
SURE = Inference(confidence=0.95, resamples=10_000, seed=20261121)
PLAIN, STEMMED, VECTORS = "tantivy", "tantivy-stem", "dense"
RANKS = "by rank, plain words"
RANKS_STEMMED = "by rank, stems"
BESIDE = (STEMMED, VECTORS, RANKS, RANKS_STEMMED)
"""What a blend is compared with."""

Run = Mapping[str, Mapping[str, float]]
"""Scores by query and document."""


@dataclass(frozen=True, slots=True)
class Sides:
    """What each side shows for one query, best first: scores of its own by document."""

    plain: Mapping[str, float]
    stemmed: Mapping[str, float]
    near: Mapping[str, float]
    cosines: Mapping[str, float]
    """Of what the vectors show, and of what stemmed words show."""

    def by_rank(self, words: Mapping[str, float]) -> Mapping[str, float]:
        """Fuse words and vectors by reciprocal rank."""
        rankings = {"words": list(words), "vectors": list(self.near)}
        return _scores(fuse(rankings, dict.fromkeys(rankings, 1.0), rrf_k=60, k=DEPTH))

    def by_score(self, share: float) -> Mapping[str, float]:
        """Add the scores of stemmed words and of vectors."""
        scores = {"words": self.stemmed, "vectors": self.cosines}
        return _scores(combine(scores, {"words": 1 - share, "vectors": share}, DEPTH))


def name_of(share: float) -> str:
    """Name the blend with this share of the vectors."""
    return f"by score, {share:.1f}"


WAYS: Mapping[str, Callable[[Sides], Mapping[str, float]]] = {
    PLAIN: lambda sides: sides.plain,
    STEMMED: lambda sides: sides.stemmed,
    VECTORS: lambda sides: sides.near,
    RANKS: lambda sides: sides.by_rank(sides.plain),
    RANKS_STEMMED: lambda sides: sides.by_rank(sides.stemmed),
    **{name_of(share): partial(Sides.by_score, share=share) for share in SHARES},
}


@dataclass(frozen=True, slots=True)
class Collection:
    """One collection: its judgements, and the run of every way to join."""

    qrels: Qrels
    runs: Mapping[str, Run]
    means: Mapping[str, float]
    """nDCG@10 of each way."""


def measured(folder: Path, out: Path) -> Collection:
    """Index a collection and ask every judged query."""
    split = "test" if (folder / "qrels" / "test.tsv").is_file() else "dev"
    given = Beir(folder, split)
    qrels = given.qrels()
    documents = tuple(given.documents())
    queries = {one.query_id: one.text for one in given.queries()}
    sides = dict(_asked(documents, {q: queries[q] for q in qrels.query_ids}, out, folder.name))
    runs = {
        way: {q: _by_rank(join(found)) for q, found in sides.items()} for way, join in WAYS.items()
    }
    return Collection(qrels, runs, {way: _mean(run, qrels) for way, run in runs.items()})


def _by_rank(shown: Iterable[str]) -> dict[str, float]:
    """Give each document its rank, negative: equal scores stay in the order of the engine."""
    return {doc_id: -float(rank) for rank, doc_id in enumerate(shown)}


def _mean(run: Run, qrels: Qrels) -> float:
    mean = score(run, qrels, [MEASURE]).scores[MEASURE].mean
    assert mean is not None  # noqa: S101  every query was answered
    return mean


def _asked(
    documents: Sequence[Document], queries: Mapping[str, str], out: Path, name: str
) -> Iterator[tuple[str, Sides]]:
    cache = out / "cache"
    plain_arm, both_arm = registry.load(PLAIN, cache), registry.load("hybrid", cache)
    with (
        plain_arm.open(_built(plain_arm, documents, out / name)) as plain,
        both_arm.open(_built(both_arm, documents, out / name)) as both,
    ):
        assert isinstance(both, BlendSearcher)  # noqa: S101  the arm's file says so
        for query_id, text in queries.items():
            words = _scores(both.words.search(text, DEPTH).hits)
            vector = both.vectors.query_vector(text)
            store = both.vectors.store
            near = {} if vector is None else dict(store.nearest(vector, DEPTH))
            more = {} if vector is None else store.cosines(vector, list(words))
            plain_words = _scores(plain.search(text, DEPTH).hits)
            yield query_id, Sides(plain_words, words, near, more | near)


def _scores(hits: Sequence[Hit]) -> dict[str, float]:
    return {hit.doc_id: hit.raw_score for hit in hits}


def _built(arm: registry.Arm, documents: Sequence[Document], folder: Path) -> Path:
    """Build the index of an arm, if it is not there."""
    index = folder / arm.name
    if not index.exists():
        beside = folder / f"{arm.name}.partial"
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        arm.build(documents, beside)
        beside.rename(index)
    return index


def chosen(found: Mapping[str, Collection], left_out: str | None = None) -> float:
    """Give the share that is best on the mean of the collections but one."""
    others = [of for name, of in found.items() if name != left_out]
    return max(SHARES, key=lambda share: np.mean([of.means[name_of(share)] for of in others]))


def pooled(values: Sequence[float], errors: Sequence[float]) -> tuple[float, float, float]:
    """Give the mean over collections and its interval at 95 %, as Hartung and Knapp have it.

    ``errors`` are standard errors; the variance between collections is that of DerSimonian and
    Laird ("Meta-analysis in clinical trials", Controlled Clinical Trials 7, 1986).
    """
    y, fixed = np.asarray(values), 1 / np.square(errors)
    within = float(fixed @ np.square(y - fixed @ y / fixed.sum()))
    spread = fixed.sum() - np.square(fixed).sum() / fixed.sum()
    between = max(0.0, (within - (len(y) - 1)) / spread)
    weights = 1 / (np.square(errors) + between)
    mean = float(weights @ y / weights.sum())
    variance = float(weights @ np.square(y - mean)) / ((len(y) - 1) * weights.sum())
    half = float(stats.t.ppf(0.975, len(y) - 1)) * variance**0.5
    return mean, mean - half, mean + half


def tables(found: Mapping[str, Collection]) -> Iterator[str]:
    """Yield the lines of the three tables."""
    yield f"| {MEASURE} | " + " | ".join(found) + " | mean |"
    yield "|---|" + "---|" * (len(found) + 1)
    for way in WAYS:
        means = [of.means[way] for of in found.values()]
        yield f"| {way} | " + " | ".join(f"{m:.4f}" for m in [*means, np.mean(means)]) + " |"
    yield f"\nOf all collections together the best share is {chosen(found):.1f}.\n"
    shares = {name: chosen(found, name) for name in found}
    yield "| collection | share by the others | less " + " | less ".join(BESIDE) + " |"
    yield "|---|---|" + "---|" * len(BESIDE)
    apart: dict[str, list[tuple[float, float]]] = {way: [] for way in BESIDE}
    for name, of in found.items():
        cells = []
        for way in BESIDE:
            blend = of.runs[name_of(shares[name])]
            gain = compare(of.runs[way], blend, of.qrels, MEASURE, sure=SURE)
            difference = gain.paired.difference
            error = float(difference.std(ddof=1)) / len(difference) ** 0.5
            apart[way].append((gain.estimate.value, error))
            cells.append(_cell(gain.estimate.value, gain.estimate.low, gain.estimate.high))
        yield f"| {name} | {shares[name]:.1f} | " + " | ".join(cells) + " |"
    if len(found) > 1:
        over_all = (_cell(*pooled(*zip(*apart[way], strict=True))) for way in BESIDE)
        yield "| **mean, other collections** | | " + " | ".join(over_all) + " |"
    yield ""


def _cell(value: float, low: float, high: float) -> str:
    return f"{value:+.4f} [{low:+.4f}, {high:+.4f}]"


def main() -> None:
    """Measure every folder and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    text = "\n".join(tables({one.resolve().name: measured(one, args.out) for one in args.folders}))
    (args.out / "fusion.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
