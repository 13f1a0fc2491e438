"""How each comparison comes out in each slice of the query set."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.evidence import Evidence
from harness.core.scores import Estimate, Paired, Scores
from harness.gates.base.rules import Rules
from harness.measures.summary import summarise
from harness.stats.bootstrap import FEWEST


def slice_differences(
    evidence: Mapping[str, Evidence], measure: str, rules: Rules
) -> dict[str, dict[str, Estimate]]:
    """Mean of candidate - control with its interval, by comparison and slice.

    A slice is left out where fewer than two queries, or intents, have a value in both arms.

    Raises:
        MismatchedQueries: two arms were asked different queries.
    """
    found: dict[tuple[str, str], dict[str, Estimate]] = {}
    for one in evidence.values():
        pair = one.control.arm, one.candidate.arm
        if pair not in found:
            found[pair] = _by_slice(one, measure, rules)
    return {name: found[one.control.arm, one.candidate.arm] for name, one in evidence.items()}


def _by_slice(evidence: Evidence, measure: str, rules: Rules) -> dict[str, Estimate]:
    control, candidate = evidence.control.scores[measure], evidence.candidate.scores[measure]
    found = {}
    for name, ids in evidence.slices.items():
        paired = Paired.of(control.only(ids), candidate.only(ids))
        if len({evidence.intents.get(q, q) for q in paired.query_ids}) >= FEWEST:
            found[name] = summarise(
                Scores(measure, paired.query_ids, paired.difference, {}),
                confidence=rules.confidence,
                resamples=rules.resamples,
                seed=rules.seed,
                intents=evidence.intents,
                threads=rules.threads,
            )
    return found
