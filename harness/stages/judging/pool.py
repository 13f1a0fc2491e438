"""Write the pool of a comparison: what somebody should judge, in one of three orders."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import NamedTuple

from harness.core.durable.journal import completed
from harness.core.durable.owned import check_new
from harness.core.errors import EvidenceError, UnknownName
from harness.corpus import pool as pools
from harness.corpus.pool import Pool
from harness.corpus.prepared import Prepared
from harness.measures.unjudged.runs import bounding, cases, differences, narrowing
from harness.stages.judging.assisted import one_sided
from harness.stages.judging.compared import Chosen, Compared, Runs, pairs_of, read_runs
from harness.stages.judging.settling import Gate, Standing, beside, runs_of, text_of
from harness.stages.layout import Layout
from harness.stats.inference import Inference


class Order(StrEnum):
    """Which pairs come first."""

    BOUNDS = "bounds"
    """Those that narrow the bounds of the mean difference."""
    SETTLE = "settle"
    """Whole queries, drawn by how much they can move it, until it is known to pass a bound."""
    RANDOM = "random"
    """All that one arm alone shows, judged or not, as they are drawn."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How pairs are chosen."""

    order: Order
    inference: Inference
    """Its seed draws; its confidence is that of a verdict."""
    asks: str = ""
    margin: float = 0.0
    """Of the gate that the order settle is for."""


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
    standing: Standing | None = None
    """Of the order settle: whether the bound is settled."""


def pool(layout: Layout, compared: Compared, choice: Choice, size: int, path: Path) -> Pooled:
    """Write at most ``size`` pairs into ``path``, and beside it their texts and a gate to settle.

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
    for file in (path, pools.beside(path), beside(path)):
        check_new(file, reads=(layout.root,))
    data = Prepared.open(layout.data)
    runs, more = read_runs(layout, compared, data), dict[Path, str]()
    match choice.order:
        case Order.BOUNDS:
            chosen, found = _by_bounds(runs, compared, size)
        case Order.RANDOM:
            chosen, found = _drawn(runs, compared.measure, size, choice.inference.seed)
        case Order.SETTLE:
            gate = _gate(layout, compared, choice, size)
            look = gate.look(runs, data)
            chosen = dict.fromkeys(look.missing[:size], 0.0)
            seen = Standing(gate, look, Pool((), ()))
            found = Pooled(len(chosen), len(look.missing), len(runs.ids), -1.0, 1.0, seen)
            more[beside(path)] = text_of(gate)
    if chosen:
        scale = bounding(compared.measure, runs.qrels).scale
        pairs = pairs_of(data, chosen, scale)
        pools.begin(path, Pool(pairs, (None,) * len(pairs)), more)
    return found


def _gate(layout: Layout, compared: Compared, choice: Choice, size: int) -> Gate:
    root, today, cache = (str(one.resolve()) for one in (layout.root, layout.today, layout.cache))
    inference = choice.inference
    return Gate.model_validate({
        "asks": choice.asks, "margin": choice.margin, "control": compared.control,
        "candidate": compared.candidate, "measure": compared.measure, "seed": inference.seed,
        "confidence": inference.confidence, "size": size, "root": root, "today": today,
        "cache": cache, "runs": runs_of(layout, compared),
    })  # fmt: skip


def _by_bounds(runs: Runs, compared: Compared, size: int) -> tuple[Chosen, Pooled]:
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


def _drawn(runs: Runs, measure: str, size: int, seed: int) -> tuple[Chosen, Pooled]:
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
