"""From evidence to decisions, and from decisions to an exit code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import combinations
from types import MappingProxyType

from harness.core.errors import EvidenceError, MismatchedQueries, UnknownName
from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Outcome, StepDecision, Verdict
from harness.core.scores import Estimate
from harness.gates.base.classes import class_of
from harness.gates.base.rules import Rules, signed
from harness.policy.age import check_age
from harness.policy.conditions import unmet
from harness.policy.model import Gate, Policy, Step
from harness.policy.premises import open_premises

EXIT_PROMOTE = 0
EXIT_FAIL = 1
EXIT_UNDECIDED = 3
PREFIX = 12
NOTHING_SPENT: Mapping[str, Finding] = MappingProxyType({})


def decide(
    policy: Policy,
    evidence: Mapping[str, Evidence],
    *,
    now: datetime,
    ends: Sequence[Mapping[str, Evidence]] = (),
    reservations: Sequence[Finding] = (),
    spent: Mapping[str, Finding] = NOTHING_SPENT,
) -> tuple[StepDecision, ...]:
    """Judge every gate of every step, in the order of the policy (method, section 6).

    ``evidence`` is by step name. A step without evidence is not refused but INCONCLUSIVE in all its
    gates. Where the policy is chained, a step waits for the first one before it that is neither
    taken nor promoted, or that must be rolled back. ``ends`` is the same evidence with open values
    settled otherwise: a gate needs the same verdict at all of them. A gate is INCONCLUSIVE if its
    addition to its gates (``harness.policy.reservations``); ``spent`` has those of single steps.

    Raises:
        UnknownName: ``evidence`` has a step that the policy does not have.
        EvidenceError: evidence is stale, of other arms or contradictory. Or the control is not the
            policy's baseline, or not the one that the previous step accepted.
        MismatchedQueries: the arms of a step have different queries.
    """
    known = tuple(step.name for step in policy.steps)
    for name in evidence:
        if name not in known:
            raise UnknownName("step", name, known)
    decisions: list[StepDecision] = []
    blocked_by = ""
    for at, step in enumerate(policy.steps):
        if policy.chained and at and policy.steps[at - 1].taken:
            _accepted(policy.steps[at - 1], step, evidence)
        others = [end[step.name] for end in ends if step.name in end]
        given = evidence.get(step.name)
        findings = (*_findings(policy, step, given, others, now), *reservations)
        if given is not None:
            findings = (*findings, *open_premises(policy, step, given))
        if step.name in spent:
            findings = (*findings, spent[step.name])
        accepting = policy.accepting(at)
        by = accepting.accepted.sha256 if accepting and accepting.accepted else ""
        decision = StepDecision(
            step.name, step.control, step.candidate, step.taken, findings, blocked_by, by
        )
        decisions.append(decision)
        stands = step.taken and decision.outcome is not Outcome.ROLLBACK
        if policy.chained and not (blocked_by or stands or decision.outcome is Outcome.PROMOTE):
            blocked_by = step.name
    return tuple(decisions)


def exit_code(decisions: Iterable[StepDecision]) -> int:
    """0 where every step is promoted, 1 where a gate failed, 3 where anything is left open."""
    found = tuple(decisions)
    if any(decision.verdict is Verdict.FAIL for decision in found):
        return EXIT_FAIL
    if found and all(decision.outcome is Outcome.PROMOTE for decision in found):
        return EXIT_PROMOTE
    return EXIT_UNDECIDED


def worst(codes: Iterable[int]) -> int:
    """One exit code for several data sets: a failure before what is open, and that before 0."""
    found = set(codes)
    return next((code for code in (EXIT_FAIL, EXIT_UNDECIDED) if code in found), EXIT_PROMOTE)


def _findings(
    policy: Policy,
    step: Step,
    evidence: Evidence | None,
    ends: Sequence[Evidence],
    now: datetime,
) -> tuple[Finding, ...]:
    if evidence is None:
        return tuple(
            gate.settings.undecided(
                gate.name,
                Cause.NO_EVIDENCE,
                f"evidence of {step.candidate} against {step.control} is missing",
                f"replay, score and compare both arms of step {step.name}",
            )
            for gate in step.gates
        )
    _check(policy, step, evidence, now)
    found = []
    for gate in step.gates:
        if missing := unmet(gate.settings, evidence, policy.demands):
            said = gate.name, Cause.NO_EVIDENCE, missing.reason, missing.remedy
            found.append(gate.settings.undecided(*said))
        else:
            found.append(judge_over(gate, evidence, ends, policy.rules))
    return tuple(found)


def _accepted(before: Step, step: Step, evidence: Mapping[str, Evidence]) -> None:
    """Refuse a step that is not judged against what the step before it put in its place."""
    if (step.control, step.candidate) == (before.control, before.candidate):
        return
    if step.control != before.candidate:
        raise EvidenceError(
            f"step {step.name} is judged against {step.control}, but step {before.name} was taken"
            f" and {before.candidate} serves; make {before.candidate} its control"
        )
    if before.name in evidence and step.name in evidence:
        accepted = evidence[before.name].candidate.manifest.fingerprint
        found = evidence[step.name].control.manifest.fingerprint
        if accepted != found:
            raise EvidenceError(
                f"step {step.name} is judged against {step.control} {found[:PREFIX]}, but step"
                f" {before.name} accepted {accepted[:PREFIX]}; measure both on one index"
            )


def _check(policy: Policy, step: Step, evidence: Evidence, now: datetime) -> None:
    """Refuse evidence that is not about this step, or of another day."""
    sides = (evidence.control, evidence.candidate)
    for side, arm in zip(sides, (step.control, step.candidate), strict=True):
        if {side.arm, side.run.arm} != {arm}:
            raise EvidenceError(
                f"step {step.name} needs evidence of {arm}, but was given {side.arm} with a run of"
                f" {side.run.arm}; replay {arm}"
            )
    found = evidence.control.manifest.fingerprint
    if step.baseline and not found.startswith(step.baseline):
        raise EvidenceError(
            f"step {step.name} is judged against {step.control} {found[:PREFIX]}, which is not the"
            f" baseline {step.baseline[:PREFIX]} of the policy: its engine, settings or documents"
            " differ. Bring them back, or accept the new baseline in the policy, with a reason"
        )
    _check_two_engines(step, evidence)
    left, right = (frozenset(side.run.query_ids) for side in sides)
    if left != right:
        raise MismatchedQueries(left - right, right - left)
    class_of(evidence)
    if evidence.race is not None:
        check_age(evidence.race.raced_at, now=now, evidence_days=policy.evidence_days)
    if evidence.load is not None and any(gate.settings.loaded for gate in step.gates):
        check_age(evidence.load.loaded_at, now=now, evidence_days=policy.evidence_days)
    if evidence.traffic is not None:
        check_age(evidence.traffic.until, now=now, evidence_days=policy.evidence_days)


def _check_two_engines(step: Step, evidence: Evidence) -> None:
    """Refuse arms of one fingerprint, and two engines with one index, unless declared A/A.

    Two releases of one arm have one name, and need no word.
    """
    if step.same_engine or step.control == step.candidate:
        return
    further = (evidence.others[arm] for arm in step.also if arm in evidence.others)
    for left, right in combinations((evidence.control, evidence.candidate, *further), 2):
        one, two = left.manifest, right.manifest
        if one.fingerprint == two.fingerprint:
            said = f"are the same engine: both are {one.fingerprint[:PREFIX]}"
        elif left.index_sha256 == right.index_sha256 is not None and one.engine != two.engine:
            said = f"are {one.engine} and {two.engine}, and have one index, byte for byte"
        else:
            continue
        raise EvidenceError(
            f"{left.arm} and {right.arm} {said}. Compare two engines; or, for an A/A test, write"
            f" same_engine = ... with its reason into step {step.name}"
        )


def judge_over(gate: Gate, evidence: Evidence, ends: Sequence[Evidence], rules: Rules) -> Finding:
    """Judge ``evidence``, and give its verdict if each of ``ends`` gives it too.

    The ends are the same evidence with all that is open settled for the worst and for the best of
    the candidate. The interval of the finding covers all of them. A loss at one end and a gain at
    the other count as different verdicts, even if both are FAIL.
    """
    found = gate.judge(evidence, rules)
    others = [gate.judge(end, rules) for end in ends]
    one_answer = all(other.verdict is found.verdict for other in others)
    estimates = [other.estimate for other in others if other.estimate is not None]
    if found.estimate is None or all(one == found.estimate for one in estimates):
        return found if one_answer else _left_open(found)
    low, high = min(one.low for one in estimates), max(one.high for one in estimates)
    over = replace(
        found,
        estimate=Estimate(found.estimate.value, low, high, found.estimate.n),
        reason=f"{found.reason}; at the ends of what ties leave open"
        f" {', '.join(signed(one) for one in estimates)}",
    )
    turns = min(one.high for one in estimates) < 0 < max(one.low for one in estimates)
    if one_answer and not (turns and found.verdict is Verdict.FAIL):
        return over
    return _left_open(over)


def _left_open(finding: Finding) -> Finding:
    remedy = "a run whose scores tell hits apart: with more digits, or in the engine's own order"
    if finding.verdict is Verdict.INCONCLUSIVE:
        return replace(finding, remedy=finding.remedy or remedy)
    return replace(finding, verdict=Verdict.INCONCLUSIVE, cause=Cause.TIES, remedy=remedy)
