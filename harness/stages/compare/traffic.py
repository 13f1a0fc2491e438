"""Means and differences over the traffic of a log, for query sets that were sampled from one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from harness.core.errors import EvidenceError
from harness.core.evidence import ArmResult, Evidence
from harness.core.records import Query
from harness.core.scores import Estimate, Paired
from harness.gates.base.rules import Rules
from harness.stats.stratified import traffic_mean_each


def traffic(
    queries: Sequence[Query],
    arms: Mapping[str, ArmResult],
    evidence: Mapping[str, Evidence],
    measure: str,
    rules: Rules,
) -> dict[str, Estimate]:
    """Mean of each arm by its name, and of candidate - control by ``control~candidate``.

    Empty where the queries are not a sample of a log.

    Raises:
        EvidenceError: some of the queries are of a sample, and others are not.
    """
    sampled = [query for query in queries if query.drawn]
    if not sampled:
        return {}
    if len(sampled) < len(queries):
        raise EvidenceError(
            f"{len(sampled)} of {len(queries)} queries have a place in a sample (drawn) and the"
            " others have none; give the queries of one sample"
        )
    found = {arm: side.scores[measure].by_query for arm, side in arms.items()}
    for one in evidence.values():
        paired = Paired.of(one.control.scores[measure], one.candidate.scores[measure])
        values = zip(paired.query_ids, paired.difference.tolist(), strict=True)
        found[name(one)] = dict(values)
    columns = np.array([_column(of, sampled) for of in found.values()]).T
    drawn = [query.drawn for query in sampled if query.drawn]
    means = traffic_mean_each(columns, drawn, inference=rules)
    return {key: mean for key, mean in zip(found, means, strict=True) if mean is not None}


def name(evidence: Evidence) -> str:
    """Name a comparison by its arms."""
    return f"{evidence.control.arm}~{evidence.candidate.arm}"


def _column(of: Mapping[str, float], queries: Iterable[Query]) -> list[float]:
    return [of.get(query.query_id, np.nan) for query in queries]
