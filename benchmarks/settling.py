"""How many judgements settle a gate, by the order in which pairs are judged; a Markdown table.

    python3 run.py python benchmarks/settling.py FOLDER [FOLDER ...] --trials 2

Each FOLDER is a collection in BEIR layout. Its judgements are withheld, and given one by one as an
assessor would. Each trial takes four fifths of the queries, drawn, and judges by four orders:

* random: pairs of all queries, as they are drawn; settled by the bounds over all queries.
* bounds: ``harness pool``; the same.
* queries: whole queries as they are drawn, settled by the evidence that holds at every look.
* settle: ``harness pool --order settle``: the same, drawn by how much they can move.

Wrong is a verdict that contradicts the mean over all queries of the collection, all judged.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from harness.core.gate import Verdict
from harness.core.qrels import Qrels
from harness.corpus import prepared
from harness.corpus.beir import Beir
from harness.measures.unjudged.bounds import Bounding, Case
from harness.measures.unjudged.settling import Drawn, Settling
from harness.stages.index import index
from harness.stages.layout import Layout
from harness.stages.params import ReplayParams
from harness.stages.replay.stage import replay
from harness.stats.bounded import Span
from harness.stats.inference import Inference
from harness.stats.interval import interval

CONTROL, MEASURE, DEPTH = "fts5", "nDCG@10", 10
GATES = (("tantivy-stem", 0.05), ("hash-hybrid", 0.02))
"""Candidates, and the loss that each is allowed."""
BATCH = 50
"""Pairs that are judged before the order is made anew and the gate is looked at."""
MORE = 20
"""Draws of whole queries for each draw of pairs, which takes long."""
SEED = 20_261_124
INFERENCE = Inference(confidence=0.95, resamples=1_000, seed=SEED)
SPAN = Span(-1.0, 1.0)
Cases = Mapping[str, Case]
Grades = Mapping[str, Mapping[str, int]]
Pairs = list[tuple[str, str]]


class Ends(NamedTuple):
    """Worst and best difference of one query, each counted against what it would prove."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Withheld:
    """A comparison whose judgements are withheld, and what they are."""

    bounding: Bounding
    bound: float
    cases: Cases
    """Nothing of them is judged."""
    grades: Grades
    """Of every pair that an arm shows."""
    known: dict[tuple[str, frozenset[tuple[str, int]]], Ends]
    """Ends that were computed before."""

    @property
    def pairs(self) -> Pairs:
        """All pairs."""
        return [(q, doc_id) for q in self.cases for doc_id in self.grades[q]]

    def judged(self, cases: Cases, pairs: Pairs) -> Cases:
        """Judge some pairs."""
        found = dict(cases)
        for query_id, doc_id in pairs:
            grade = self.grades[query_id][doc_id]
            found[query_id] = found[query_id].with_judged(doc_id, grade)
        return found

    def only(self, query_ids: list[str]) -> Withheld:
        """Keep some queries, in this order."""
        kept = {query_id: self.cases[query_id] for query_id in query_ids}
        return replace(self, cases=kept)

    @property
    def passes(self) -> bool:
        """Whether the mean over all queries with a value lies above the bound, all judged."""
        cases = self.judged(self.cases, self.pairs).values()
        values = [self.bounding.difference(c).worst for c in cases if self.bounding.defined(c)]
        return float(np.mean(values)) > self.bound

    def ends(self, query_id: str, case: Case) -> Ends:
        """Bound one query; one that may have no relevant document proves nothing."""
        key = query_id, frozenset(case.grades.items())
        if key not in self.known:
            self.known[key] = self._ends(case)
        return self.known[key]

    def _ends(self, case: Case) -> Ends:
        if self.bounding.defined(case):
            return Ends(*self.bounding.difference(case))
        if not self.bounding.unjudged(case):
            return Ends(self.bound, self.bound)
        worst, best = self.bounding.difference(case)
        return Ends(min(worst, self.bound), max(best, self.bound))

    def verdict(self, cases: Cases) -> Verdict:
        """Judge by the bounds over all queries, once: they only ever get narrower."""
        ends = np.array([self.ends(query_id, case) for query_id, case in cases.items()])
        low, high = (
            interval(ends[:, at], span=SPAN, inference=INFERENCE, clusters=None) for at in (0, 1)
        )
        if low.low > self.bound:
            return Verdict.PASS
        return Verdict.FAIL if high.high < self.bound else Verdict.INCONCLUSIVE


class Settled:
    """When each order settled a gate, over the trials."""

    def __init__(self) -> None:
        self.labels: list[float] = []
        self.verdicts: list[Verdict] = []

    def note(self, labels: float, said: Verdict) -> None:
        """Keep one trial; one that does not settle took all labels and more."""
        self.labels.append(labels)
        self.verdicts.append(said)


Follow = Callable[[Cases], Pairs]


def until_settled(held: Withheld, follow: Follow) -> tuple[float, Verdict]:
    """Judge batch by batch until the gate is settled; infinitely many where it never is."""
    cases, labels, said = held.cases, 0, Verdict.INCONCLUSIVE
    while said is Verdict.INCONCLUSIVE and (pairs := follow(cases)):
        cases, labels = held.judged(cases, pairs), labels + len(pairs)
        said = held.verdict(cases)
    return (labels if said is not Verdict.INCONCLUSIVE else np.inf), said


def randomly(held: Withheld, rng: np.random.Generator) -> Follow:
    """Take pairs as they are drawn."""
    left = [held.pairs[at] for at in rng.permutation(len(held.pairs))]
    batches = iter([left[at : at + BATCH] for at in range(0, len(left), BATCH)])
    return lambda _: next(batches, [])


def by_bounds(held: Withheld) -> Follow:
    """Take pairs by how much narrower the bounds get, over an irrelevant and the best grade.

    ``harness pool`` leaves out queries without a known relevant document; here none would be left.
    """

    def width(query_id: str, case: Case) -> float:
        low, high = held.ends(query_id, case)
        return high - low

    def follow(cases: Cases) -> Pairs:
        found = []
        for query_id, case in cases.items():
            now = width(query_id, case)
            for doc_id in held.bounding.unjudged(case):
                ends = (0, held.bounding.scale[-1])
                left = sum(width(query_id, case.with_judged(doc_id, g)) for g in ends) / 2
                found.append((left - now, query_id, doc_id))
        return [pair[1:] for pair in sorted(found)[:BATCH] if pair[0] < 0]

    return follow


def by_queries(held: Withheld, seed: int, *, whole: bool) -> tuple[float, Verdict]:
    """Judge whole queries in a drawn order, all or by how much they can move; look after each."""
    settling = Settling.of(held.bounding, held.bound, held.cases, {}, seed)
    if whole:
        every = tuple(Drawn((query_id,), 1.0) for query_id in held.cases)
        settling = replace(settling, drawn=every)
    cases = held.judged(held.cases, held.pairs)
    look = settling.look(cases, confidence=INFERENCE.confidence)
    if look.verdict is Verdict.INCONCLUSIVE:
        return np.inf, look.verdict
    judged = (q for one in settling.drawn[: look.judged] for q in one.query_ids)
    return sum(len(held.grades[query_id]) for query_id in judged), look.verdict


def withheld(folder: Path) -> Iterator[tuple[str, float, Withheld]]:
    """Run the arms on a collection."""
    source = Beir(folder, "test")
    qrels, documents = source.qrels(), tuple(source.documents())
    queries = tuple(query for query in source.queries() if query.query_id in qrels.grades)
    scale = {grade for docs in qrels.grades.values() for grade in docs.values()}
    shown: dict[str, dict[str, tuple[str, ...]]] = {}
    with tempfile.TemporaryDirectory() as work:
        root = Path(work)
        layout = Layout(root / "build" / folder.name, root / "perf", root / "cache")
        prepared.write(layout.data, folder.name, "test", documents, queries, Qrels({}))
        for arm in (CONTROL, *dict.fromkeys(arm for arm, _ in GATES)):
            index(layout, arm, root / "cache")
            params = ReplayParams(k=DEPTH, time_limit_s=60, seed=SEED)
            rows = replay(layout, arm, root / "cache", params).rows()
            shown[arm] = {r.query_id: tuple(hit.doc_id for hit in r.hits) for r in rows}
    for arm, margin in GATES:
        cases = {q: Case(shown[CONTROL][q], shown[arm][q], {}) for q in qrels.grades}
        grades = {
            q: {d: max(0, qrels.grades[q].get(d, 0)) for d in {*case.control, *case.candidate}}
            for q, case in cases.items()
        }
        yield arm, margin, Withheld(Bounding.of(MEASURE, scale), -margin, cases, grades, {})


def tried(whole: Withheld, trials: int) -> dict[str, Settled]:
    """Settle the gate in each order, on as many draws of the queries.

    Whole queries are tried ``MORE`` times as often.
    """
    found = {name: Settled() for name in ("random", "bounds", "queries", "settle")}
    for trial in range(trials * MORE):
        rng = np.random.default_rng((SEED, trial))
        drawn = rng.permutation(np.array(list(whole.cases)))[: len(whole.cases) * 4 // 5]
        held = whole.only(drawn.tolist())
        if trial < trials:
            found["random"].note(*until_settled(held, randomly(held, rng)))
            found["bounds"].note(*until_settled(held, by_bounds(held)))
        found["queries"].note(*by_queries(held, trial, whole=True))
        found["settle"].note(*by_queries(held, trial, whole=False))
    return found


def main() -> None:
    """Print the table, a line for each gate as it is done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--trials", type=int, default=2)
    asked = parser.parse_args()
    said = (
        "| collection | candidate | margin | pairs | random | bounds | queries | settle | wrong |"
    )
    print(said + "\n| --- | --- |" + " ---: |" * 7, flush=True)  # noqa: T201  the output
    for folder in asked.folders:
        for arm, margin, whole in withheld(folder):
            found = tried(whole, asked.trials)
            against = Verdict.FAIL if whole.passes else Verdict.PASS
            wrong = sum(one.verdicts.count(against) for one in found.values())
            of = sum(
                len(one.verdicts) - one.verdicts.count(Verdict.INCONCLUSIVE)
                for one in found.values()
            )
            cells = " | ".join(_cell(one) for one in found.values())
            pairs = len(whole.pairs) * 4 // 5
            print(  # noqa: T201  the output
                f"| {folder.name} | `{arm}` | {margin} | {pairs:,} | {cells} | {wrong} of {of} |",
                flush=True,
            )


def _cell(one: Settled) -> str:
    """Median of the labels, and the share of the trials that settled."""
    settled = [said for said in one.verdicts if said is not Verdict.INCONCLUSIVE]
    middle = median(one.labels)
    labels = f"{middle:,.0f}" if np.isfinite(middle) else "open"
    return f"{labels} ({len(settled) / len(one.verdicts):.0%})"


if __name__ == "__main__":
    main()
