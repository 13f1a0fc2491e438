"""Write the pool of a comparison: what somebody should judge, in one of three orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import NamedTuple

from harness.core.durable.journal import completed
from harness.core.durable.owned import check_new
from harness.core.errors import EvidenceError, UnknownName
from harness.core.printable import one_line
from harness.core.qrels import Qrels
from harness.core.run import Run, Status
from harness.corpus import pool as pools
from harness.corpus.pool import Pair, Pool
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.measures.unjudged.bounds import Bounding
from harness.measures.unjudged.runs import bounding, cases, differences, narrowing
from harness.measures.unjudged.settling import Look, Settling, scale_of
from harness.report.plain import snippet
from harness.stages.custody.proof import check_run
from harness.stages.judging.assisted import one_sided
from harness.stages.layout import Layout
from harness.stats.inference import Inference

TITLE, SNIPPET = 200, 600
"""Longest texts of a document, in characters."""


class Order(StrEnum):
    """Which pairs come first."""

    BOUNDS = "bounds"
    """Those that narrow the bounds of the mean difference."""
    SETTLE = "settle"
    """Whole queries, drawn by how much they can move it, until it is known to pass a bound."""
    RANDOM = "random"
    """All that one arm alone shows, judged or not, as they are drawn."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What is compared."""

    control: str
    candidate: str
    measure: str


@dataclass(frozen=True, slots=True)
class Choice:
    """How pairs are chosen."""

    order: Order
    inference: Inference
    """Its seed draws; its confidence is that of a verdict."""
    bound: float = 0.0
    """Of the difference, for the order settle."""


class Pooled(NamedTuple):
    """What was written, and what the missing judgements leave open as it is."""

    pairs: int
    """None is written where the bound is settled."""
    of: int
    """Pairs that there are to choose from."""
    queries: int
    worst: float
    best: float
    """Bounds of the mean difference, candidate - control."""
    look: Look | None = None
    """Of the order settle: whether the bound is settled."""


class _Runs(NamedTuple):
    """Both runs, and their queries that both answered."""

    control: Run
    candidate: Run
    qrels: Qrels
    ids: tuple[str, ...]


Chosen = Mapping[tuple[str, str], float]
"""Pairs in their order, and what is expected of each."""


def pool(layout: Layout, compared: Compared, choice: Choice, size: int, path: Path) -> Pooled:
    """Write at most ``size`` pairs into ``path``, and their texts beside it.

    The order bounds looks at queries that both arms answered and that have a value of the measure
    as they are judged now (method, section 2). Pairs are ordered by how much they narrow the bounds
    of the mean difference, each judged alone; equals by query and document. To settle a bound,
    queries are drawn that are judged whole, and nothing is written once it is settled.

    Raises:
        NotOurs: ``path``, or the file beside it, is there already.
        EvidenceError: an arm was not replayed, or changed since; or nothing is left to judge.
        UnknownName: an arm has no run here, or a run has no bounds of the measure, or it does not
            fit the order.
    """
    completed(path, within=(path.parent,))
    for file in (path, pools.beside(path)):
        check_new(file, reads=(layout.root,))
    known = sorted(path.stem for path in layout.manifests.glob("*.json"))
    for arm in (compared.control, compared.candidate):
        if known and arm not in known:
            raise UnknownName(f"arm that {layout.root.name} was run with", arm, known)
        check_run(layout, arm)
    data = Prepared.open(layout.data)
    pair = read_run(layout.run(compared.control)), read_run(layout.run(compared.candidate))
    answered = frozenset(_answered(pair[0])) & frozenset(_answered(pair[1]))
    runs = _Runs(*pair, data.qrels(), tuple(q for q in pair[0].query_ids if q in answered))
    match choice.order:
        case Order.BOUNDS:
            chosen, found = _by_bounds(runs, compared, size)
        case Order.RANDOM:
            chosen, found = _drawn(runs, compared.measure, size, choice.inference.seed)
        case Order.SETTLE:
            chosen, found = _settling(runs, compared.measure, choice, data, size)
    if chosen:
        scale = bounding(compared.measure, runs.qrels).scale
        pairs = _pairs(data, chosen, scale)
        pools.begin(path, Pool(pairs, (None,) * len(pairs)))
    return found


def _by_bounds(runs: _Runs, compared: Compared, size: int) -> tuple[Chosen, Pooled]:
    control, candidate, qrels, answered = runs
    measure, judged = compared.measure, set(qrels.query_ids)
    wanted = bounding(measure, qrels)
    both = tuple(query_id for query_id in answered if query_id in judged)
    each = cases(control, candidate, qrels, both, 0)
    ids = tuple(q for q, case in each if wanted.defined(case))
    found = narrowing(control, candidate, qrels, measure, ids)
    if not found:
        raise EvidenceError(
            f"no judgement is missing that would move {measure} of {compared.candidate} against"
            f" {compared.control}; judge more queries instead"
        )
    chosen = sorted(found, key=lambda pair: (-found[pair], pair))[:size]
    worst, best = differences(control, candidate, qrels, measure, ids).mean(axis=0).tolist()
    narrows = {pair: found[pair] for pair in chosen}
    return narrows, Pooled(len(chosen), len(found), len(ids), worst, best)


def _drawn(runs: _Runs, measure: str, size: int, seed: int) -> tuple[Chosen, Pooled]:
    """Draw from all that one arm alone shows, as ``harness assisted`` counts them."""
    asked = bounding(measure, runs.qrels).asked
    if asked.name != "P" or asked.cutoff is None:
        raise UnknownName("measure for the order random", measure, ("P@5", "P@10"))
    shown = (
        (query_id, doc_id)
        for query_id in runs.ids
        for doc_id in one_sided(
            runs.control.ranking(query_id, asked.cutoff),
            runs.candidate.ranking(query_id, asked.cutoff),
        )
    )
    every = sorted(shown)
    Random(seed).shuffle(every)
    if not every:
        raise EvidenceError("both arms show the same documents; there is nothing to judge")
    chosen = dict.fromkeys(every[:size], 0.0)
    return chosen, Pooled(len(chosen), len(every), len(runs.ids), -1.0, 1.0)


def _settling(
    runs: _Runs, measure: str, choice: Choice, data: Prepared, size: int
) -> tuple[Chosen, Pooled]:
    control, candidate, qrels, ids = runs
    wanted = bounding(measure, qrels)
    wanted = Bounding.of(measure, {*wanted.scale, *scale_of(wanted)})
    begun = Qrels({query_id: qrels.grades.get(query_id, {}) for query_id in ids})
    each = dict(cases(control, candidate, begun, ids, wanted.asked.cutoff))
    seed, confidence = choice.inference.seed, choice.inference.confidence
    settling = Settling.of(wanted, choice.bound, each, data.clusters(), seed)
    look = settling.look(each, confidence=confidence)
    chosen = dict.fromkeys(look.missing[:size], 0.0)
    return chosen, Pooled(len(chosen), len(look.missing), len(ids), -1.0, 1.0, look)


def _pairs(data: Prepared, chosen: Chosen, scale: Sequence[int]) -> tuple[Pair, ...]:
    asked = {query.query_id: query for query in data.queries()}
    shown = {doc_id for _, doc_id in chosen}
    documents = {d.doc_id: d for d in data.documents() if d.doc_id in shown}
    pairs = []
    for (query_id, doc_id), narrows in chosen.items():
        query, document = asked[query_id], documents.get(doc_id)
        pairs.append(
            Pair(
                query_id=query_id,
                doc_id=doc_id,
                query=one_line(query.text),
                title=one_line(document.title, TITLE) if document else "",
                snippet=snippet(document.text, query.text, SNIPPET)
                if document
                else "not in the corpus",
                narrows=narrows,
                scale=tuple(scale),
            )
        )
    return tuple(pairs)


def _answered(run: Run) -> tuple[str, ...]:
    ended = zip(run.query_ids, run.status.tolist(), strict=True)
    return tuple(query_id for query_id, status in ended if status == Status.ANSWERED)
