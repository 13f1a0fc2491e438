"""Rules of the hybrid on public collections: phrases, feedback of vectors, a tuned share.

    python3 run.py python benchmarks/hybrid_rules.py FOLDER [FOLDER ...] --out out/rules

Each FOLDER is a collection in BEIR layout. Gates, written before the figures:

* phrase: a query counts as a name where all of it is quoted, not where any of it is. Adopted if no
  collection loses more than 0.005 of nDCG@10 and the mean over collections does not fall.
* feedback: the query vector moves towards the mean of its first vectors (Rocchio, "Relevance
  feedback in information retrieval", 1971), and the corpus is scanned again. Weight and number of
  vectors are those that are best on the *other* collections. Adopted if the low end of the mean
  over collections lies above 0 and that of no collection below -0.02.
* tuned: the share of the vectors is chosen on 50 judged queries of the collection itself and
  tried on its others, 200 times. It tells what ``harness tune`` gives; nothing is adopted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.legs import Collection
from engines.lexical import query
from engines.lexical.grammar import exact_clauses
from engines.ranking import combine
from engines.stacks.text.blend import BlendSearcher, LegScores, is_name
from harness import Inference, score
from harness.core.records import Qrels
from harness.stats.interval import interval

MEASURE, DEPTH, K = "nDCG@10", 100, 10
SURE = Inference(confidence=0.95, resamples=10_000, seed=20261127)
WEIGHTS, FIRST = (0.25, 0.5, 0.75, 1.0), (3, 5)
SHARES = tuple(round(0.1 * at, 1) for at in range(11))
TUNED_ON, TRIALS = 50, 200
Values = NDArray[np.float64]
Ranked = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Measured:
    """nDCG@10 by rule, each of shape (queries,), in one order of the queries."""

    today: Values
    phrase: Values
    mixed: int
    """Queries with a phrase within other words."""
    feedback: Mapping[tuple[float, int], Values]
    shares: Values
    """Shape (shares, queries)."""


def measure(of: Collection) -> Measured:
    """Search the judged queries of a collection under every rule."""
    with of.opened("hybrid") as searcher:
        assert isinstance(searcher, BlendSearcher)  # noqa: S101  the arm's file says so
        legs = {q: searcher.found(text, DEPTH) for q, text in of.queries.items()}
        before = {q: _as_before(searcher, text, legs[q]) for q, text in of.queries.items()}
        moved = {
            (weight, first): {
                q: _with_feedback(searcher, of.queries[q], one, weight, first)
                for q, one in legs.items()
            }
            for weight in WEIGHTS
            for first in FIRST
        }
        setting = searcher.settings
    shares = [
        {q: _shown(one, setting.name_share if one.named else share) for q, one in legs.items()}
        for share in SHARES
    ]
    return Measured(
        today=_values({q: _shown(one, one.share(setting)) for q, one in before.items()}, of.qrels),
        phrase=_values({q: _shown(one, one.share(setting)) for q, one in legs.items()}, of.qrels),
        mixed=sum(one is not legs[q] for q, one in before.items()),
        feedback={
            how: _values({q: _shown(one, one.share(setting)) for q, one in run.items()}, of.qrels)
            for how, run in moved.items()
        },
        shares=np.stack([_values(run, of.qrels) for run in shares]),
    )


def _as_before(searcher: BlendSearcher, text: str, legs: LegScores) -> LegScores:
    """Search as a name where any part of a query is quoted."""
    wanted = exact_clauses(text)
    named = query.joined(wanted, searcher.title_names) or is_name(wanted)
    if named or not any(clause.quoted for clause in wanted):
        return legs
    return searcher.legs(text, text, DEPTH, named=True)


def _with_feedback(
    searcher: BlendSearcher, text: str, legs: LegScores, weight: float, first: int
) -> LegScores:
    query = searcher.vectors.query_vector(text)
    if query is None or legs.named or not legs.vectors:
        return legs
    store = searcher.vectors.store
    near = [doc_id for doc_id, _ in store.nearest(query, first)]
    rows = np.searchsorted(np.array(store.doc_ids), near)
    moved = query + weight * store.vectors[rows].astype(np.float32).mean(axis=0)
    moved /= np.linalg.norm(moved)
    vectors = dict(store.nearest(moved, DEPTH))
    others = [doc_id for doc_id in legs.words if doc_id not in vectors]
    return legs._replace(vectors=vectors | store.cosines(moved, others))


def _shown(legs: LegScores, share: float) -> list[str]:
    scores = {"words": legs.words, "vectors": legs.vectors}
    weights = {"words": 1 - share, "vectors": share}
    return [hit.doc_id for hit in combine(scores, weights, K)]


def _values(ranked: Ranked, qrels: Qrels) -> Values:
    run = {q: {doc_id: -float(at) for at, doc_id in enumerate(ids)} for q, ids in ranked.items()}
    return np.asarray(score(run, qrels, [MEASURE]).scores[MEASURE].values)


def tables(found: Mapping[str, Measured]) -> Iterator[str]:
    """Yield the lines of the three tables."""
    yield "| phrase: all less any | queries | with a phrase in words | nDCG@10 | difference |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name, of in found.items():
        cell = _cell(of.phrase - of.today)
        yield f"| {name} | {len(of.today)} | {of.mixed} | {of.phrase.mean():.4f} | {cell} |"
    yield _mean_row([of.phrase - of.today for of in found.values()], columns=3)
    yield "\n| feedback less none | chosen by the others | nDCG@10 | difference |"
    yield "| --- | ---: | ---: | ---: |"
    gains = []
    for name, of in found.items():
        others = [one for other, one in found.items() if other != name] or [of]
        weight, first = max(
            of.feedback,
            key=lambda how: np.mean([(o.feedback[how] - o.phrase).mean() for o in others]),
        )
        gains.append(of.feedback[weight, first] - of.phrase)
        yield (
            f"| {name} | {weight:g} of {first} | {of.feedback[weight, first].mean():.4f}"
            f" | {_cell(gains[-1])} |"
        )
    yield _mean_row(gains, columns=2)
    yield f"\n| share by {TUNED_ON} queries | as shipped | best on all | mean gain, 5 and 95 % |"
    yield "| --- | ---: | ---: | ---: |"
    for name, of in found.items():
        if of.shares.shape[1] > 2 * TUNED_ON:
            gained = _tuned(of)
            low, high = np.quantile(gained, [0.05, 0.95])
            best = SHARES[int(of.shares.mean(axis=1).argmax())]
            yield (
                f"| {name} | {of.phrase.mean():.4f} | {of.shares.mean(axis=1).max():.4f} ({best})"
                f" | {gained.mean():+.4f}, {low:+.4f} to {high:+.4f} |"
            )


def _tuned(of: Measured) -> Values:
    """Return what a share chosen on a sample gains on the other queries, shape (trials,)."""
    rng = np.random.default_rng(SURE.seed)
    gained = []
    for _ in range(TRIALS):
        order = rng.permutation(of.shares.shape[1])
        chosen = int(of.shares[:, order[:TUNED_ON]].mean(axis=1).argmax())
        rest = order[TUNED_ON:]
        gained.append((of.shares[chosen, rest] - of.phrase[rest]).mean())
    return np.array(gained)


def _cell(differences: Values) -> str:
    found = interval(differences, span=None, inference=SURE, clusters=None)
    return f"{found.value:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def pooled(values: Sequence[float], errors: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean over collections and its interval at 95 %, as Hartung and Knapp have it.

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


def _mean_row(gains: Sequence[Values], columns: int) -> str:
    known = [one for one in gains if one.std() > 0]
    if len(known) < len(gains) or len(gains) == 1:
        mean = f"{np.mean([one.mean() for one in gains]):+.4f}"
    else:
        errors = [float(one.std(ddof=1)) / len(one) ** 0.5 for one in known]
        value, low, high = pooled([float(one.mean()) for one in known], errors)
        mean = f"{value:+.4f} [{low:+.4f}, {high:+.4f}]"
    return f"| **mean over collections** {'| ' * columns}| {mean} |"


def main() -> None:
    """Measure every folder and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    found = {}
    for folder in args.folders:
        split = "test" if (folder / "qrels" / "test.tsv").is_file() else "dev"
        found[folder.resolve().name] = measure(Collection(folder, split, args.out))
    text = "\n".join(tables(found))
    (args.out / "hybrid_rules.md").write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
