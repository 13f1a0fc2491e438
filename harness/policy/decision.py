"""From evidence to decisions, and from decisions to an exit code."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import combinations
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.special import bdtrc

from harness.core.errors import EvidenceError, MismatchedQueries, UnknownName
from harness.core.evidence import ArmResult, Evidence, Load, Race, Traffic
from harness.core.gate import Cause, Finding, Outcome, StepDecision, Verdict
from harness.core.printable import counted, many
from harness.core.run import Status
from harness.core.scores import BY_TEXT, Estimate
from harness.corpus.tuning import Leak
from harness.gates.base.queries import check_compared
from harness.gates.base.rules import GateSettings, Rules, signed
from harness.gates.latency import Hindrance, TimedSettings
from harness.policy.looks import SAME, Looks
from harness.policy.model import Gate, Policy, Premises, Step
from harness.policy.validity import check_age
from harness.stats.bounded import ValueRange
from harness.stats.interval import share
from harness.stats.sample_size import min_queries

CUT_SHARE = 0.05
"""Lists of which so many end at the longest one's length were cut there, not ended there."""
REPLAY = "replay both arms with one replay.k and one replay.time_limit_s, then score and compare"


def unmet(settings: GateSettings, evidence: Evidence) -> Hindrance | None:
    """Return the first condition of the replays that is not met; None if all are met."""
    if settings.timed:
        return None
    others = [evidence.others[arm] for arm in settings.arms if arm in evidence.others]
    sides, deepest = (evidence.control, evidence.candidate, *others), settings.deepest
    known = {side.arm: side.run.conditions for side in sides if side.run.conditions}
    if len(set(known.values())) > 1:
        said = "; ".join(
            f"{arm}: {many(found.k, 'hit')} within {found.time_limit_s:g} s"
            for arm, found in known.items()
        )
        return Hindrance(Cause.NO_EVIDENCE, f"the arms were not asked alike ({said})", REPLAY)
    for side in sides:  # two releases of one arm have one name
        found = side.run.conditions
        if found and found.k < deepest:
            return Hindrance(
                Cause.NO_EVIDENCE,
                f"{side.arm} returned {many(found.k, 'hit')} a query, and the gate looks at"
                f" {deepest}: the end of its lists is not a miss",
                f"raise replay.k to {deepest}, and {REPLAY}",
            )
    return next(_cut(sides, deepest), None)


def _cut(sides: tuple[ArmResult, ...], deepest: int) -> Iterator[Hindrance]:
    """Find imported runs whose lists were cut before the gate's depth, and another arm's not."""
    longest = max(int(side.run.lengths.max(initial=0)) for side in sides)
    for side in sides:
        lengths = side.run.lengths[side.run.status == Status.ANSWERED]
        cut = int(lengths.max(initial=0))
        ended = side.run.conditions or not cut or float(np.mean(lengths == cut)) < CUT_SHARE
        if not ended and cut < min(deepest, longest, side.manifest.documents):
            yield Hindrance(
                Cause.NO_EVIDENCE,
                f"the lists of {side.arm} were cut at {many(cut, 'hit')}, those of another arm go"
                f" to {longest}, and the gate looks at {deepest}",
                f"import a run of {side.arm} with {many(deepest, 'hit')} a query",
            )


ROUNDING = 1e-9
PINNED, BUDGET, TUNED, PREMISES = "pinned", "error_budget", "tuned", "premises"
"""Names that stand where a finding of a gate names its rule."""


def reservation(
    gate: str,
    rule: str,
    cause: Cause,
    reason: str,
    *,
    bound: str,
    unit: str,
    remedy: str,
    timed: bool = False,
) -> Finding:
    """Return an INCONCLUSIVE finding without a number."""
    said = Verdict.INCONCLUSIVE
    return Finding(
        gate, rule, said, cause, reason, bound, None, None, unit, remedy, None, timed
    )  # fmt: skip


def not_as_pinned(said: Sequence[str], *, pinned_at: str, again: str) -> Finding:
    """Return what differs from the pin; ``again`` is the command that pins what is there now."""
    return reservation(
        "Evidence is what the policy was pinned to",
        PINNED,
        Cause.PINNED,
        f"since the pin of {pinned_at}: {'; '.join(said)}",
        bound="the pinned queries, judgements and race settings",
        unit="evidence",
        remedy=f"the pinned evidence; or, if the change is meant, pin it again: {again}",
    )


def over_budget(policy: Policy, looks: Mapping[str, Looks]) -> dict[str, Finding]:
    """State, by step, that more attempts were made than the policy plans.

    A policy that declares its attempts has no log to count them from. A log is the record of one
    place, as times are of one machine, so the finding is marked as timed.
    """
    if policy.declared:
        return {}
    return {
        step: reservation(
            "Attempts stay within the error budget",
            BUDGET,
            Cause.BUDGET,
            f"this is attempt {one.attempts} and {policy.attempts} were planned: together they"
            f" may promote wrongly with {one.spent:.3g}, and the budget is {policy.alpha:.3g}",
            bound=f"{policy.alpha:.3g} over {many(policy.attempts, 'attempt')}",
            unit="probability",
            remedy="a new version of the policy with a budget of its own, on fresh queries in a"
            " data set of their own",
            timed=True,
        )
        for step, one in looks.items()
        if one.spent > policy.alpha + ROUNDING
    }


def tuned_on(policy: Policy, leaks: Sequence[Leak]) -> tuple[Finding, ...]:
    """State that arms were tuned on their own queries; nothing where the policy allows it."""
    seen = [leak for leak in leaks if leak.seen]
    if not seen or policy.tuned_reason:
        return ()
    return (
        reservation(
            "No arm was tuned on these judgements",
            TUNED,
            Cause.TUNED,
            "INVALID: " + "; ".join(leak.said for leak in seen),
            bound="queries that no tuning record names",
            unit="queries",
            remedy="queries that the search has not seen, such as a test split; or a policy that"
            " says why these may judge (tuned_reason)",
        ),
    )


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
        "needs": "queries compared by: harness stage prepare --similar",
        "starts": f"race.processes of {starts} or more in params.yaml",
    }
    remedies = [f"a reason in the policy for {', '.join(open_)}"] if open_ else []
    remedies += [check for key, check in checks.items() if key in open_]
    if LARGEST in wanted and (large := _too_large(policy, evidence)):
        said.append(large)
        remedies.append(f"a larger {LARGEST} in the policy, or one query of each need")
    judged = (one for key, one in evidence.samples.items() if key in read)
    if machines := sorted({one.by for one in judged if one.machine}):
        said.append(f"judges: {', '.join(machines)} judged, and its error is in no interval")
        remedies.append("a sample that people judge")
    if not said:
        return ()
    name, bound = "Premises are checked or declared", "a check or a reason for each"
    why, remedy = "; ".join(said), "; or ".join(remedies)
    found = reservation(
        name, PREMISES, Cause.PREMISE, why, bound=bound, unit="premises", remedy=remedy
    )
    return (found,)


def _checked(policy: Policy, evidence: Evidence, starts: int) -> Iterator[str]:
    """Yield the premises that the evidence or another key of the policy settles."""
    if evidence.unlike_words and policy.clusters == BY_TEXT:
        yield "needs"
    if policy.rules.largest_cluster:
        yield LARGEST
    race = evidence.get(Race)
    if race and all(len(times) >= starts for times in race.elapsed_ns.values()):
        yield "starts"


def _too_large(policy: Policy, evidence: Evidence) -> str:
    """State that a cluster refutes ``largest_cluster``; empty where none surely does."""
    asked, share = evidence.control.run.query_ids, policy.rules.largest_cluster
    seen = Counter(evidence.clusters[one] for one in asked if one in evidence.clusters)
    most = max(seen.values(), default=0)
    if most * share == 0 or bdtrc(most - 1, len(asked), share) / share >= policy.level:
        return ""
    return f"one need has {most:,} of {len(asked):,} queries, and {LARGEST} is {share:.2%}"


EXIT_PROMOTE = 0
EXIT_FAIL = 1
EXIT_UNDECIDED = 3
PREFIX = 12
NO_LOOKS: Mapping[str, Looks] = MappingProxyType({})


def decide(
    policy: Policy,
    evidence: Mapping[str, Evidence],
    *,
    now: datetime,
    ends: Sequence[Mapping[str, Evidence]] = (),
    reservations: Sequence[Finding] = (),
    looks: Mapping[str, Looks] = NO_LOOKS,
) -> tuple[StepDecision, ...]:
    """Judge every gate of every step, in the order of the policy (method, section 6).

    ``evidence`` is by step name. A step without evidence is not refused but INCONCLUSIVE in all its
    gates. Where the policy is chained, a step waits for the first one before it that is neither
    taken nor promoted, or that must be rolled back. ``ends`` is the same evidence with open values
    settled otherwise: a gate needs the same verdict at all of them. Each step has ``reservations``
    in addition to its gates. ``looks`` has the attempts at the controls of steps.
    """
    spent, known = over_budget(policy, looks), tuple(step.name for step in policy.steps)
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
        seen = 0.0 if policy.declared or step.name not in looks else looks[step.name].elsewhere
        left = policy.alpha - seen
        findings = (*_findings(policy, step, given, others, now=now, left=left), *reservations)
        if given is not None:
            findings = (*findings, *open_premises(policy, step, _one_by_one(given)))
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
    *,
    now: datetime,
    left: float,
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

    untimed = _one_by_one(evidence)

    def judged(attempts: int) -> tuple[Finding, ...]:
        sure = 1 - 2 * policy.level * attempts
        rules = replace(policy.rules, confidence=sure) if attempts > 1 else policy.rules
        found = []
        for gate in step.gates:
            settings = gate.settings
            if missing := unmet(settings, evidence):
                found.append(settings.undecided(gate.name, *missing))
            elif settings.timed:
                found.append(judge_over(gate, evidence, ends, policy.rules))
            else:
                found.append(judge_over(gate, untimed, ends, rules))
        return tuple(found)

    found = judged(1)
    if not _open(found) or not _show_the_same(evidence):
        return found
    first = policy.attempts > 2 and left > policy.alpha - policy.level / 2  # noqa: PLR2004  of three
    return _of_the_same(len(evidence.control.run), judged, policy.level, 2 if first else 1)


def _one_by_one(evidence: Evidence) -> Evidence:
    """Take near duplicates of a log as they were drawn, where all answers are the same."""
    apart = evidence.drawn and _show_the_same(evidence)
    return replace(evidence, clusters={}) if apart else evidence


def _show_the_same(evidence: Evidence) -> bool:
    """Return whether both arms answered each query, with the same list, hit for hit."""
    run = evidence.control.run
    return run.count(Status.ANSWERED) == len(run) and run.shows_the_same(evidence.candidate.run)


def _open(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings whose interval contains the bound."""
    return tuple(one for one in findings if one.cause is Cause.OPEN)


def _of_the_same(
    queries: int, judged: Callable[[int], tuple[Finding, ...]], level: float, attempts: int
) -> tuple[Finding, ...]:
    """Judge answers that are the same by the error of ``attempts`` planned ones (statistics.md)."""
    found, spent = judged(attempts), level * attempts
    of_all = [(one.limit, one.estimate.n) for one in found if one.limit and one.estimate]
    limit = min(abs(limit) for limit, _ in of_all)
    passed = Verdict.INCONCLUSIVE if _open(found) else Verdict.PASS
    least = min_queries(0.0, -limit, span=ValueRange(-1.0, 1.0), level=spent)
    more = least - min(count for _, count in of_all)
    like_these = "queries without near duplicates, with the same answers"
    own = Finding(
        "The same answers",
        SAME,
        passed,
        Cause.KEPT if passed is Verdict.PASS else Cause.TOO_FEW,
        f"the same answers, hit for hit, to {counted(queries, 'query')}, by the error of"
        f" {many(attempts, 'attempt')} of those planned",
        f"fewer than {limit:.2%} of such queries have another answer",
        share(0, queries, confidence=1 - 2 * spent),
        limit,
        "share",
        "" if passed is Verdict.PASS
        else f"{counted(more, 'more query')} with the same answers" if more > 0 else like_these,
        spent,
    )  # fmt: skip
    return own, *found


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
    check_compared(evidence)
    for kind, made_at in MADE_AT.items():
        one = evidence.kinds.get(kind)
        if one is not None and (kind is not Load or step.needs(Load)):
            check_age(made_at(one), now=now, evidence_days=policy.evidence_days)


MADE_AT: Mapping[type, Callable[[Any], str]] = {
    Race: attrgetter("raced_at"),
    Load: attrgetter("loaded_at"),
    Traffic: attrgetter("until"),
}
"""When evidence of a kind was made."""


def _check_two_engines(step: Step, evidence: Evidence) -> None:
    """Refuse arms of one fingerprint, and two engines with one index, unless declared A/A."""
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
