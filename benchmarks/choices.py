"""The choices of a hybrid search, each as a paired comparison on public collections.

    python3 run.py python benchmarks/choices.py FOLDER [FOLDER ...] --out out/fusion

Each FOLDER is a collection in BEIR layout; its judgements are those of the split test, or of dev
where there is no test. Legs are kept below the folder of ``--out``, so a second call is quick.
Writes ``choices.md`` and the forest plot ``choices.svg``: for each choice the difference of nDCG@10
on each collection with its BCa interval, and the mean over collections with the interval of Hartung
and Knapp. Nothing is chosen here: both sides of each row were named before.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.fusion import pooled
from benchmarks.legs import Collection, Leg, Scores
from engines.ranking.convex import combine
from engines.ranking.rrf import fuse
from harness import Inference, compare
from harness.core.engine import Hit
from harness.core.records import Scalar
from harness.core.scores import Estimate

MEASURE = "nDCG@10"
SURE = Inference(confidence=0.95, resamples=10_000, seed=20261124)
SHARE, RRF_K, SHOWN = 0.7, 60, 100
FED, NEW = 3, 8
"""Documents of a first search that feed a second one, and words that they add."""
NORMAL = 1.96
"""Standard errors of an interval's half width, by which a collection is weighted."""
EDGE = 0.2
"""Of the plot; what lies beyond it is written there."""
WORD = re.compile(r"[a-z0-9]+")
Ranked = Callable[[Collection], Leg]


@dataclass(frozen=True, slots=True)
class Choice:
    """A question, the side that it starts from, and the other one."""

    name: str
    before: Ranked
    after: Ranked


def every_word(text: str) -> str:
    """Demand every word of a query."""
    return " ".join(f"+{word}" for word in re.findall(r"\w+", text))


def by_rank(collection: Collection, rrf_k: int) -> Leg:
    """Fuse stemmed words and vectors by reciprocal rank."""
    legs = {"words": collection.words, "vectors": collection.arm("dense")}
    even = dict.fromkeys(legs, 1.0)
    return {
        q: _scores(
            fuse({leg: list(of[q])[:SHOWN] for leg, of in legs.items()}, even, rrf_k=rrf_k, k=SHOWN)
        )
        for q in collection.queries
    }


def by_inverse_score(collection: Collection) -> Leg:
    """Fuse by ``1 / (60 + 1 / score)``, scores divided by the best, as one specification has it."""
    legs = collection.words, collection.arm("dense")

    def fused(q: str) -> Scores:
        sums: Scores = {}
        for of in (_over_best(leg[q]) for leg in legs):
            for doc_id, score in of.items():
                sums[doc_id] = sums.get(doc_id, 0.0) + 1 / (RRF_K + 1 / max(score, 1e-9))
        return sums

    return {q: fused(q) for q in collection.queries}


def added(
    collection: Collection,
    share: float = SHARE,
    depth: int = SHOWN,
    norm: Callable[[Scores], Scores] | None = None,
    *,
    exact: bool = True,
) -> Leg:
    """Add scores of stemmed words and of vectors, of ``depth`` candidates each."""

    def fused(q: str) -> Scores:
        words = dict(list(collection.words[q].items())[:depth])
        nearest = dict(sorted(collection.vectors[q].items(), key=lambda one: -one[1]))
        top = dict(list(nearest.items())[:depth])
        near = top | {d: nearest[d] for d in words if d in nearest} if exact else top
        if norm is None:
            legs = {"words": words, "vectors": near}
            return _scores(combine(legs, {"words": 1 - share, "vectors": share}, SHOWN))
        sums: Scores = {}
        for weight, of in ((1 - share, norm(words)), (share, norm(near))):
            for doc_id, score in of.items():
                sums[doc_id] = sums.get(doc_id, 0.0) + weight * score
        return sums

    return {q: fused(q) for q in collection.queries}


def quantised(collection: Collection, levels: int) -> Leg:
    """Search vectors of so many levels a side and component; one level is the sign alone."""
    near = collection.near
    most = np.abs(near.documents).max(axis=1, keepdims=True) + 1e-12
    whole = np.sign(near.documents) if levels == 1 else np.round(near.documents / most * levels)
    scale = np.ones_like(most) if levels == 1 else most / levels
    return {
        q: near.ranked((whole @ near.queries[q] * scale[:, 0]).astype(np.float32))
        if q in near.queries
        else {}
        for q in collection.queries
    }


def rescored(collection: Collection, depth: int) -> Leg:
    """Rescore what the signs alone put first by half-precision vectors."""
    near, signs = collection.near, quantised(collection, 1)
    return {
        q: dict(
            sorted(
                (
                    (d, float(near.documents[near.row[d]] @ near.queries[q]))
                    for d in list(signs[q])[:depth]
                ),
                key=lambda one: -one[1],
            )
        )
        for q in collection.queries
    }


def rocchio(collection: Collection, documents: int = FED, weight: float = 0.5) -> Leg:
    """Add the mean vector of the nearest documents to that of the query (Rocchio, 1971)."""
    near = collection.near

    def again(q: str) -> Scores:
        if q not in near.queries:
            return {}
        first = list(near.ranked(near.documents @ near.queries[q], documents))
        mean = near.documents[[near.row[d] for d in first]].mean(axis=0) if first else 0
        return near.ranked(near.documents @ (near.queries[q] + weight * mean))

    return {q: again(q) for q in collection.queries}


def fed_back(collection: Collection) -> Leg:
    """Search again with the words that stand out in the first documents; typed ones count twice."""

    def gather() -> Leg:
        texts = {one.doc_id: f"{one.title} {one.text}".lower() for one in collection.documents}
        frequency: Counter[str] = Counter()
        for text in texts.values():
            frequency.update(set(WORD.findall(text)))
        found = {}
        with collection.opened("tantivy-stem") as searcher:
            for q, typed in collection.queries.items():
                counts: Counter[str] = Counter()
                for doc_id in list(collection.words[q])[:FED]:
                    counts.update(WORD.findall(texts[doc_id]))
                known = set(WORD.findall(typed.lower()))
                weight = {
                    word: count * float(np.log(len(texts) / frequency[word]))
                    for word, count in counts.items()
                    if word not in known
                }
                new = sorted(weight, key=lambda word: (-weight[word], word))[:NEW]
                hits = searcher.search(" ".join([typed, typed, *new]), SHOWN).hits
                found[q] = _scores(hits)
        return found

    return collection.kept("fed-back", gather)


def _over_best(of: Scores) -> Scores:
    most = max(of.values(), default=0.0)
    return {doc_id: score / most for doc_id, score in of.items()} if most > 0 else {}


def _min_max(of: Scores) -> Scores:
    low, high = min(of.values(), default=0.0), max(of.values(), default=0.0)
    return {d: (s - low) / (high - low) if high > low else 1.0 for d, s in of.items()}


def _z_score(of: Scores) -> Scores:
    mean, spread = (float(f(list(of.values()) or [0.0])) for f in (np.mean, np.std))
    return {d: (s - mean) / spread if spread > 0 else 0.0 for d, s in of.items()}


def _scores(hits: Sequence[Hit]) -> Scores:
    return {hit.doc_id: hit.raw_score for hit in hits}


def words(collection: Collection) -> Leg:
    """Rank by stemmed words."""
    return collection.words


def of_arm(arm: str, typed: Callable[[str], str] = str, **instead: Scalar) -> Ranked:
    """Rank by an arm under other settings."""
    return lambda collection: collection.arm(arm, instead or None, typed)


STEMS, OWN = "tantivy-stem", "examples/own_engine/own.toml"
HALF = partial(quantised, levels=1 << 20)
RRF = partial(by_rank, rrf_k=60)
CHOICES = (
    Choice("AND in place of OR", words, of_arm(STEMS, every_word)),
    Choice("stems (Porter, FTS5)", of_arm("fts5"), of_arm("fts5-porter")),
    Choice("stems and stop words (Tantivy)", of_arm("tantivy"), words),
    Choice("title counts 1, not 2", words, of_arm(STEMS, title_weight=1.0)),
    Choice("title counts 5, not 2", words, of_arm(STEMS, title_weight=5.0)),
    Choice("joined words as phrases only", words, of_arm(STEMS, joined="phrase")),
    Choice("k1 0.9 and b 0.4, not 1.2 and 0.75", of_arm(OWN), of_arm(OWN, k1=0.9, b=0.4)),
    Choice("k1 2.0, not 1.2", of_arm(OWN), of_arm(OWN, k1=2.0)),
    Choice("words of the first 3 hits added", words, fed_back),
    Choice("RRF k 10, not 60", RRF, partial(by_rank, rrf_k=10)),
    Choice("RRF k 1, not 60", RRF, partial(by_rank, rrf_k=1)),
    Choice("1 / (60 + 1/score), not RRF 60", RRF, by_inverse_score),
    Choice("sum of scores, not RRF 60", RRF, added),
    Choice("min-max, not over the best", added, partial(added, norm=_min_max)),
    Choice("z-scores, not over the best", added, partial(added, norm=_z_score)),
    Choice("share 0.5, not 0.7", added, partial(added, share=0.5)),
    Choice("20 candidates a leg, not 100", added, partial(added, depth=20)),
    Choice("200 candidates a leg, not 100", added, partial(added, depth=200)),
    Choice("no exact cosine of what words found", added, partial(added, exact=False)),
    Choice("hashed words, not MiniLM", of_arm("dense"), of_arm("dense", embedder="hash")),
    Choice("8-bit vectors, not 16", HALF, partial(quantised, levels=127)),
    Choice("4-bit vectors, not 16", HALF, partial(quantised, levels=7)),
    Choice("signs alone, not 16 bits", HALF, partial(quantised, levels=1)),
    Choice("signs, the first 100 rescored", HALF, partial(rescored, depth=100)),
    Choice("Rocchio: 3 documents, weight 0.5", of_arm("dense"), rocchio),
    Choice("hybrid, not stemmed words", words, added),
    Choice("hybrid, not vectors", of_arm("dense"), added),
)


@dataclass(frozen=True, slots=True)
class Row:
    """What a choice does."""

    name: str
    each: Mapping[str, Estimate]
    """By collection."""
    mean: tuple[float, float, float]
    """Over collections: value, low, high."""


def row(choice: Choice, collections: Sequence[Collection]) -> Row:
    """Compare both sides on every collection."""
    each, errors = {}, []
    for one in collections:
        before, after = (by_place(side(one)) for side in (choice.before, choice.after))
        found = compare(before, after, one.qrels, MEASURE, sure=SURE)
        each[one.name] = found.estimate
        errors.append((found.estimate.high - found.estimate.low) / (2 * NORMAL))
    return Row(choice.name, each, pooled([e.value for e in each.values()], errors))


def by_place(leg: Leg) -> dict[str, dict[str, float]]:
    """Give each document its rank, negative: equal scores stay in order, by id."""
    return {
        q: {d: -float(at) for at, d in enumerate(sorted(of, key=lambda d: (-of[d], d))[:SHOWN])}
        for q, of in leg.items()
    }


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table."""
    names = list(rows[0].each)
    yield "| choice | mean, other collections | " + " | ".join(names) + " |"
    yield "|---|---|" + "---|" * len(names)
    for one in rows:
        cells = [cell(e.value, e.low, e.high) for e in one.each.values()]
        yield f"| {one.name} | {cell(*one.mean)} | " + " | ".join(cells) + " |"
    yield ""


def cell(value: float, low: float, high: float) -> str:
    """Write a difference with its interval."""
    return f"{value:+.4f} [{low:+.4f}, {high:+.4f}]"


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw each choice's mean with its interval, and a dot for each collection."""
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    rcParams["svg.hashsalt"] = "choices"
    figure = Figure(figsize=(8, 0.3 * len(rows) + 1), layout="constrained")
    axes = figure.subplots()
    for at, one in enumerate(reversed(rows)):
        value, low, high = one.mean
        if max(abs(low), abs(high)) > EDGE:
            side = EDGE if value > 0 else -EDGE
            beyond = f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"
            align = "right" if value > 0 else "left"
            axes.text(side, at, f" {beyond} ", ha=align, va="center", fontsize=8)
            continue
        dots = [e.value for e in one.each.values()]
        axes.scatter(dots, [at] * len(dots), s=8, color="0.6", zorder=2)
        axes.plot([low, high], [at, at], color="#1f4e79", linewidth=2, zorder=3)
        axes.scatter([value], [at], s=26, color="#1f4e79", zorder=4)
    axes.axvline(0, color="0.3", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [one.name for one in reversed(rows)], fontsize=8)
    axes.set_xlim(-EDGE, EDGE)
    axes.set_xlabel(f"difference of {MEASURE}; line: 95 % for other collections, dots: collections")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Measure every folder, print the table and draw the plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if len(args.folders) < 2:  # noqa: PLR2004  a mean over one collection has no interval
        parser.error("give two collections or more")
    splits = [(f, "test" if (f / "qrels" / "test.tsv").is_file() else "dev") for f in args.folders]
    collections = [Collection(folder, split, args.out) for folder, split in splits]
    rows = []
    for choice in CHOICES:
        rows.append(row(choice, collections))
        sys.stderr.write(f"{choice.name}: {cell(*rows[-1].mean)}\n")
    text = "\n".join(table(rows))
    (args.out / "choices.md").write_text(text, encoding="utf-8")
    plot(rows, args.out / "choices.svg")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
