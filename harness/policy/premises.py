"""What a PASS takes for granted: checked in the evidence, or declared in the policy with a reason.

No interval shows it. What is neither checked nor declared, and what the evidence refutes, is one
INCONCLUSIVE finding of the step, beside its gates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scipy.special import bdtrc

from harness.core.clusters import BY_TEXT
from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding
from harness.gates.base.timing import TimedSettings
from harness.policy.demands import Premises
from harness.policy.model import Policy, Step
from harness.policy.reservations import PREMISES, reservation

LARGEST = "largest_cluster"
TAKEN = {LARGEST: "no need has more than a known share of the queries"} | {
    key: str(field.description) for key, field in Premises.model_fields.items()
}
"""Premises, in words."""


def open_premises(policy: Policy, step: Step, evidence: Evidence) -> tuple[Finding, ...]:
    """Return a finding with the open premises of a step's gates; nothing where all hold."""
    settings = [gate.settings for gate in step.gates]
    wanted = dict.fromkeys(key for one in settings for key in one.granted)
    read = {(step.control, step.candidate, measure) for one in settings for measure in one.measures}
    if not read.isdisjoint(evidence.samples):
        wanted["judges"] = None
    timed = (one for one in settings if isinstance(one, TimedSettings))
    starts = max((one.fewest(policy.rules.confidence) for one in timed), default=0)
    known = {*policy.premises.model_dump(exclude_none=True), *_checked(policy, evidence, starts)}
    open_ = [key for key in wanted if key not in known]
    said = [f"{key} ({TAKEN[key]}) is neither checked nor declared" for key in open_]
    checks = {
        "needs": "queries compared by: harness prepare --similar",
        "starts": f"race.processes of {starts} or more in params.yaml",
    }
    remedies = [f"a reason in the policy for {', '.join(open_)}"] if open_ else []
    remedies += [check for key, check in checks.items() if key in open_]
    if LARGEST in wanted and (large := _too_large(policy, evidence)):
        said.append(large)
        remedies.append(f"a larger {LARGEST} in the policy, or one query of each need")
    if not said:
        return ()
    name, bound = "Premises are checked or declared", "a check or a reason for each"
    remedy = "; or ".join(remedies)
    return (
        reservation(
            name, PREMISES, Cause.PREMISE, "; ".join(said),
            bound=bound, unit="premises", remedy=remedy,
        ),
    )  # fmt: skip


def _checked(policy: Policy, evidence: Evidence, starts: int) -> Iterator[str]:
    """Yield the premises that the evidence or another key of the policy settles.

    Of so many starts that are all alike, too few others are slow to move a percentile; and gates
    on time refuse starts that differ by more than their noise.
    """
    if evidence.unlike_words and policy.clusters == BY_TEXT:
        yield "needs"
    if policy.rules.largest_cluster:
        yield LARGEST
    race = evidence.race
    if race and all(len(times) >= starts for times in race.elapsed_ns.values()):
        yield "starts"


def _too_large(policy: Policy, evidence: Evidence) -> str:
    """Say that a cluster refutes ``largest_cluster``; empty where none surely does.

    One of the needs that may be as large has so many queries with less than the level, by chance.
    """
    asked, share = evidence.control.run.query_ids, policy.rules.largest_cluster
    seen = Counter(evidence.clusters[one] for one in asked if one in evidence.clusters)
    most = max(seen.values(), default=0)
    if most * share == 0 or bdtrc(most - 1, len(asked), share) / share >= policy.level:
        return ""
    return f"one need has {most:,} of {len(asked):,} queries, and {LARGEST} is {share:.2%}"
