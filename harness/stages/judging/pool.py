"""Write the pool of a comparison: what somebody should judge, in one of two orders."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from random import Random
from typing import NamedTuple

from harness.core.durable.journal import completed
from harness.core.durable.owned import check_new
from harness.core.errors import EvidenceError
from harness.corpus import pool as pools
from harness.corpus.pool import Pool
from harness.corpus.prepared import Prepared
from harness.measures.unjudged.missing import Missing, missing
from harness.measures.unjudged.runs import bounding, cases, narrowing
from harness.stages.judging.compared import Chosen, Compared, Runs, pairs_of, read_runs
from harness.stages.judging.sampling import Drawing, beside, drawing_of, text_of, unjudged
from harness.stages.layout import Layout


class Order(StrEnum):
    """Which pairs come first."""

    BOUNDS = "bounds"
    """Those that narrow the bounds of the mean difference."""
    SAMPLE = "sample"
    """A sample of the unjudged hits of both arms, drawn by what each can move."""


class Pooled(NamedTuple):
    """What was written, and what the missing judgements leave open as it is."""

    pairs: int
    of: int
    """Pairs that there are to choose from."""
    queries: int
    worst: float
    best: float
    """Bounds of the mean difference, candidate - control."""


def pool(  # noqa: PLR0917  all of it is needed
    layout: Layout, compared: Compared, order: Order, size: int, path: Path, seed: int
) -> Pooled:
    """Write ``size`` pairs into ``path``, and beside it their texts and how they were drawn.

    The order bounds looks at queries that both arms answered and that have a value of the measure
    as they are judged now (method, section 2). Pairs are ordered by how much they narrow the bounds
    of the mean difference, each judged alone; equals by query and document. A sample has ``size``
    pairs on average, in a drawn order.

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
    match order:
        case Order.BOUNDS:
            chosen, found = _by_bounds(runs, compared, size)
        case Order.SAMPLE:
            open_ = unjudged(runs, compared.measure)
            how = drawing_of(layout, compared, open_, size, seed)
            chosen, found = _sampled(how, runs, open_)
            more[beside(path)] = text_of(how)
    scale = bounding(compared.measure, runs.qrels).scale
    pairs = pairs_of(data, chosen, scale)
    pools.begin(path, Pool(pairs, (None,) * len(pairs)), more)
    return found


def _sampled(how: Drawing, runs: Runs, open_: Missing) -> tuple[Chosen, Pooled]:
    left = list(how.judged(runs, None).left)
    if not left:
        raise EvidenceError("no hit was drawn; ask for a larger --size")
    Random(how.seed).shuffle(left)
    bounds = float(open_.worst.mean()), float(open_.best.mean())
    return dict.fromkeys(left, 0.0), Pooled(
        len(left), len(open_.query), len(open_.query_ids), *bounds
    )


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
    every = missing(control, candidate, qrels, measure).of(ids)
    ends = float(every.worst.mean()), float(every.best.mean())
    narrows = {pair: found[pair] for pair in chosen}
    return narrows, Pooled(len(chosen), len(found), len(ids), *ends)
