"""Everything that two runs tell of each other without judgements."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.agreement.classes import UNCOMPARED, Class, classify
from harness.agreement.jaccard import jaccard
from harness.agreement.pair import Pair
from harness.agreement.partial import Partial
from harness.agreement.rbo import rbo
from harness.agreement.tau import tau, tau_ap
from harness.core.elementary import log2
from harness.core.errors import EvidenceError, HarnessError
from harness.core.evidence import Agreement
from harness.core.run import Run
from harness.core.scores import Scores


def serving_only(pair: Pair, depth: int) -> NDArray[np.int64]:
    """Documents that only the control shows within ``depth``, shape (queries,)."""
    return pair.lengths(depth)[0] - pair.shared(depth)


def shadow_only(pair: Pair, depth: int) -> NDArray[np.int64]:
    """Documents that only the candidate shows within ``depth``, shape (queries,)."""
    return pair.lengths(depth)[1] - pair.shared(depth)


def length_difference(pair: Pair) -> NDArray[np.int64]:
    """Hits of the candidate less those of the control, uncut, shape (queries,)."""
    return pair.candidate_length - pair.control_length


PSEUDO_DEPTH = 10
PSEUDO = f"nDCG@{PSEUDO_DEPTH}-of-serving"
"""The serving list as pseudo-judgements: agreement, not quality; asymmetric."""


def agree(
    control: Run,
    candidate: Run,
    *,
    depths: Sequence[int],
    p: float,
    shed: Collection[str] = (),
    stale: Collection[str] = (),
) -> Agreement:
    """Compare two runs of one query set, query by query (method, section 3).

    Scores are ``Jaccard@k``, ``serving_only@k`` and ``shadow_only@k`` for each k of ``depths``,
    and ``RBO`` (of persistence ``p``), ``tau``, ``tauAP``, ``nDCG@10-of-serving`` and
    ``length_difference``. RBO, both taus and the classes look at the deepest of ``depths``. A query
    without a value stands in ``Scores.undefined`` with its reason. The reason is its class if it
    was not compared or both lists are empty. For the taus it is ``below_two_shared``, for the nDCG
    ``serving_empty``. ``shed`` and ``stale`` name the queries that a live comparison could not use.

    Raises:
        MismatchedQueries: the runs are about different queries.
        EvidenceError: the query set is empty, or ``shed`` or ``stale`` names an unknown one.
        HarnessError: no depth, a depth below 1, or ``p`` not between 0 and 1.
    """
    if not depths:
        raise HarnessError("no depth to compare at; give at least one, e.g. 10")
    if not len(control):
        raise EvidenceError(f"{control.arm}: no query to compare; replay both arms first")
    pair = Pair.of(control, candidate)
    deepest = max(depths)
    classes = classify(control, candidate, pair, depth=deepest, shed=shed, stale=stale)
    found: dict[str, tuple[Partial, str]] = {}
    for depth in depths:
        found[f"Jaccard@{depth}"] = jaccard(pair, depth), Class.BOTH_EMPTY
        found[f"serving_only@{depth}"] = _count(serving_only(pair, depth))
        found[f"shadow_only@{depth}"] = _count(shadow_only(pair, depth))
    found["RBO"] = rbo(pair, deepest, p), Class.BOTH_EMPTY
    found["tau"] = tau(pair, deepest), "below_two_shared"
    found["tauAP"] = tau_ap(pair, deepest), "below_two_shared"
    found[PSEUDO] = pseudo_ndcg(pair, PSEUDO_DEPTH), Class.SERVING_EMPTY
    found["length_difference"] = _count(length_difference(pair))
    reasons = {
        query_id: str(name)
        for query_id, name in zip(pair.query_ids, classes, strict=True)
        if name in UNCOMPARED or name is Class.BOTH_EMPTY
    }
    return Agreement(
        pair.query_ids,
        tuple(str(name) for name in classes),
        {
            name: _scores(name, pair.query_ids, partial, why, reasons)
            for name, (partial, why) in found.items()
        },
        depth=deepest,
    )


def _count(values: NDArray[np.int64]) -> tuple[Partial, str]:
    return Partial(np.ones(len(values), dtype=bool), values.astype(np.float64)), ""


def _scores(
    name: str, query_ids: Sequence[str], partial: Partial, why: str, reasons: Mapping[str, str]
) -> Scores:
    """Turn a kernel's values into scores, less the queries that have a reason to be left out."""
    undefined: dict[str, list[str]] = {}
    for query_id, defined in zip(query_ids, partial.defined.tolist(), strict=True):
        reason = reasons.get(query_id, "" if defined else str(why))
        if reason:
            undefined.setdefault(reason, []).append(query_id)
    with_value = [q for q, defined in zip(query_ids, partial.defined, strict=True) if defined]
    keep = np.array([q not in reasons for q in with_value], dtype=bool)
    return Scores(
        name,
        tuple(q for q in with_value if q not in reasons),
        partial.values[keep],
        {reason: tuple(ids) for reason, ids in undefined.items()},
    )


def pseudo_ndcg(pair: Pair, depth: int) -> Partial:
    """Score the candidate, the control's first ``depth`` gaining depth, ..., 2, 1; in [0, 1].

    It measures agreement, not quality: a candidate that is better than the control scores
    below 1. It is asymmetric: swapping the arms changes it. The discount is log2(rank + 1)
    (Järvelin and Kekäläinen 2002). An empty candidate gives 0; an empty control judges nothing
    and leaves it undefined.
    """
    rank = pair.within(depth)
    control, _ = pair.lengths(depth)
    own = np.arange(rank.shape[1])
    gain = (depth - own).astype(np.float64)
    shown = rank < depth
    gained = np.where(shown, gain / log2(np.where(shown, rank, 0) + 2), 0.0).sum(axis=1)
    best = np.where(own < control[:, None], gain / log2(own + 2), 0.0).sum(axis=1)
    return Partial.ratio(gained, best)
