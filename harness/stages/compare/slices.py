"""How each comparison comes out in each slice of the query set."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.clusters import independent
from harness.core.evidence import Evidence
from harness.core.scores import Estimate, Paired, Scores
from harness.gates.base.rules import Rules
from harness.measures.spans import span_of_difference
from harness.measures.summary import summarise
from harness.stats.bootstrap import FEWEST
from harness.stats.pooling import pooled


def slice_differences(
    evidence: Mapping[str, Evidence], measure: str, rules: Rules
) -> dict[str, dict[str, Estimate]]:
    """Mean of candidate - control with its interval, by comparison and slice.

    A slice is left out where fewer than two queries, or clusters, have a value in both arms.

    Raises:
        MismatchedQueries: two arms got different queries.
    """
    found: dict[tuple[str, str], dict[str, Estimate]] = {}
    for one in evidence.values():
        pair = one.control.arm, one.candidate.arm
        if pair not in found:
            found[pair] = _by_slice(one, measure, rules)
    return {name: found[one.control.arm, one.candidate.arm] for name, one in evidence.items()}


def pooled_slices(
    differences: Mapping[str, Mapping[str, Estimate]], rules: Rules
) -> dict[str, dict[str, float]]:
    """Draw each slice's mean to that of all slices of its comparison (``harness.stats.pooling``).

    A comparison with one slice has none to be drawn to, and is left out.
    """
    return {
        name: dict(
            zip(row, pooled([*row.values()], confidence=rules.confidence).tolist(), strict=True)
        )
        for name, row in differences.items()
        if len(row) > 1
    }


def _by_slice(evidence: Evidence, measure: str, rules: Rules) -> dict[str, Estimate]:
    control, candidate = evidence.control.scores[measure], evidence.candidate.scores[measure]
    found = {}
    for name, ids in evidence.slices.items():
        paired = Paired.of(control.only(ids), candidate.only(ids))
        if independent(paired.query_ids, evidence.clusters) >= FEWEST:
            found[name] = summarise(
                Scores(measure, paired.query_ids, paired.difference, {}),
                span=span_of_difference(measure),
                inference=rules,
                clusters=evidence.clusters,
            )
    return found
