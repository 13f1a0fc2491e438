"""What the order of equal scores could have done to the means of an imported run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.core.engine import IMPORTED
from harness.core.errors import HarnessError
from harness.core.evidence import ArmResult, Evidence
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.measures.ties.sensitivity import Spread, Ties, count_ties, tie_sensitivity
from harness.policy.model import Policy
from harness.stages.layout import Layout


def ties(
    layout: Layout, arms: Sequence[str], measures: Sequence[str]
) -> tuple[dict[str, Ties], dict[str, object]]:
    """Count the tied hits of each arm; give them, and with the ends of each mean as JSON.

    The mean that is reported lies between: equal scores stand in the order of trec_eval, the
    greater document id first. A measure without a kernel, or without a value, is left out.
    """
    data = Prepared.open(layout.data)
    asked = [query.query_id for query in data.queries()]
    qrels = data.qrels()
    counted: dict[str, Ties] = {}
    written: dict[str, object] = {}
    for arm in arms:
        run = read_run(layout.run(arm))
        counted[arm] = found = count_ties(run)
        spreads = tie_sensitivity(run, qrels, measures, asked)
        written[arm] = {
            "hits": found.hits,
            "tied": found.tied,
            "tied_in_float32_only": found.only_float64,
            "measures": {
                name: {
                    "least": spread.least.mean,
                    "expected": spread.expected.mean,
                    "most": spread.most.mean,
                }
                for name, spread in spreads.items()
                if spread.most.mean is not None
            },
        }
    return counted, written


def tie_ends(
    layout: Layout, policy: Policy, evidence: Mapping[str, Evidence]
) -> tuple[dict[str, Evidence], ...]:
    """Give the evidence twice: ties of imported runs against the candidate, and for it.

    Each query's value is the least or the largest over all orders of equal scores. An arm that a
    gate names beside the two counts as the control does. None where no such run has ties.

    Raises:
        HarnessError: a gate looks at a measure of such a run that has no bounds under ties.
    """
    data = Prepared.open(layout.data)
    asked, qrels = [query.query_id for query in data.queries()], data.qrels()
    spreads: dict[str, Mapping[str, Spread]] = {}
    for side in {s.arm: s for one in evidence.values() for s in _sides(one)}.values():
        if side.manifest.engine == IMPORTED and count_ties(side.run).tied:
            spreads[side.arm] = tie_sensitivity(side.run, qrels, tuple(side.scores), asked)
            _all_bounded(side, policy, spreads[side.arm])
    if not spreads:
        return ()
    return tuple(
        {name: _at(one, spreads, best=best) for name, one in evidence.items()}
        for best in (False, True)
    )


def _sides(one: Evidence) -> tuple[ArmResult, ...]:
    return (one.control, one.candidate, *one.others.values())


def _at(one: Evidence, spreads: Mapping[str, Mapping[str, Spread]], *, best: bool) -> Evidence:
    def settled(side: ArmResult, *, up: bool) -> ArmResult:
        found = spreads.get(side.arm, {})
        scores = {m: spread.most if up else spread.least for m, spread in found.items()}
        return replace(side, scores={**side.scores, **scores})

    return replace(
        one,
        control=settled(one.control, up=not best),
        candidate=settled(one.candidate, up=best),
        others={arm: settled(side, up=not best) for arm, side in one.others.items()},
    )


def _all_bounded(side: ArmResult, policy: Policy, spreads: Mapping[str, Spread]) -> None:
    asked = {getattr(gate.settings, "measure", "") for s in policy.steps for gate in s.gates}
    if missing := sorted(asked.intersection(side.scores) - set(spreads)):
        raise HarnessError(
            f"{side.arm}: its scores tie, and {', '.join(missing)} has no bounds under ties;"
            " judge by another measure"
        )
