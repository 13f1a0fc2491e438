"""The first screen: for each step, whether it may be taken and what blocks it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Outcome, StepDecision, Verdict
from harness.core.printable import counted, many
from harness.core.scores import BY_TEXT, Dependence, Paired
from harness.gates.base.rules import Where
from harness.policy.model import Policy
from harness.report.inputs import ReportInput
from harness.report.page.remains import Need, listed, remains
from harness.report.rounding import (
    in_unit,
    interval,
    interval_in,
    milliseconds,
    number,
    p_value,
    signed,
)


def merged(report: ReportInput) -> ReportInput:
    """Join comparisons of one control with one candidate under both names.

    Their measurements are the same. Only their bounds differ, and those stay in the decisions, by
    step.
    """
    names: dict[tuple[str, str], list[str]] = {}
    for name, evidence in report.evidence.items():
        names.setdefault((evidence.control.arm, evidence.candidate.arm), []).append(name)
    title = {same[0]: ", ".join(same) for same in names.values()}
    latency = report.latency and replace(
        report.latency,
        ratios={title.get(n, n): r for n, r in report.latency.ratios.items() if n in title},
    )
    return replace(
        report,
        evidence={title[name]: found for name, found in report.evidence.items() if name in title},
        differences={title[name]: row for name, row in report.differences.items() if name in title},
        slice_differences={
            title[name]: row for name, row in report.slice_differences.items() if name in title
        },
        latency=latency,
    )


BEYOND = 1.1
"""Where an end is drawn that is infinite; the furthest finite one lies at 1 or -1."""
EDGE = 1.2
"""Where a drawing ends."""


class Bar(NamedTuple):
    """Ends and value, in multiples of the furthest distance from the bound."""

    low: float
    value: float
    high: float


def bar(finding: Finding) -> Bar | None:
    """Place a finding against its bound; None where there is not a finite number or no bound."""
    estimate, limit = finding.estimate, finding.limit
    if estimate is None or limit is None or not math.isfinite(estimate.value):
        return None
    ends = [end for end in (estimate.low, estimate.value, estimate.high) if math.isfinite(end)]
    scale = max(abs(end - limit) for end in ends) or 1.0

    def placed(end: float) -> float:
        return (end - limit) / scale if math.isfinite(end) else math.copysign(BEYOND, end)

    return Bar(placed(estimate.low), placed(estimate.value), placed(estimate.high))


def allowed(finding: Finding, passes: Where | None) -> tuple[float, float] | None:
    """Place the side of the bound on which an interval passes, on the scale of ``bar``.

    It ends at the edges of the drawing. None where no bar is drawn, or no side alone passes.
    """
    placed, limit = bar(finding), finding.limit
    if placed is None or limit is None or passes is None or finding.estimate is None:
        return None
    if passes == "above":
        return 0.0, EDGE
    if passes == "below" or not placed.value:
        return -EDGE, 0.0
    scale = (finding.estimate.value - limit) / placed.value
    return max(-EDGE, -2 * limit / scale), 0.0


def sides(policy: Policy | None, step: str) -> Mapping[str, Where | None]:
    """Give the side on which each gate of a step passes, by the gate's name."""
    steps = policy.steps if policy else ()
    return {
        gate.name: gate.settings.passes for one in steps if one.name == step for gate in one.gates
    }


REASONS = 2
PREFIX = 12
SHADOW = "shadow"


class Tone(StrEnum):
    """How a step looks; a step that is not proven never looks like one that is."""

    PROMOTE = "promote"
    WAITS = "waits"
    UNSURE = "unsure"
    HOLD = "hold"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class GateRow:
    """One finding in words."""

    gate: str
    rule: str
    verdict: Verdict
    bound: str
    value: str
    interval: str
    n: str
    p_value: str
    reason: str
    remedy: str
    timed: bool
    bar: Bar | None
    """Its interval against its bound; None where there is nothing to draw."""
    allowed: tuple[float, float] | None = None
    """Where its interval passes, on the scale of the bar; None where that is not one side."""


@dataclass(frozen=True, slots=True)
class Card:
    """One step on the first screen."""

    step: str
    gloss: str
    """What a word of the field means that names the step; empty for other names."""
    control: str
    candidate: str
    taken: bool
    outcome: Outcome
    tone: Tone
    answer: str
    gates: tuple[GateRow, ...]
    """All of them, in the order of the policy."""
    because: tuple[GateRow, ...]
    """The first blocking gates, failures first; empty if all pass."""
    more: tuple[GateRow, ...]
    """The rest of those that block the next step."""
    counts: str
    effect: str
    """What taking the step does to the quality that people look at first."""
    gain: str
    """The same in few words; empty where nothing was measured."""
    latency: str
    """Times of both arms; empty without a race."""
    remains: tuple[Need, ...]
    """All that is to be done before the step may be taken."""
    sure: tuple[str, ...]
    """How far the queries are independent, and the false-promotion rate and power, if known."""


def gloss(decision: StepDecision) -> str:
    """Explain a step that is called shadow, as many policies call their first one."""
    if decision.step != SHADOW:
        return ""
    return f"{decision.candidate} beside {decision.control}, unseen by users"


def tone(decision: StepDecision) -> Tone:
    """Look of a decision."""
    if decision.outcome is Outcome.ROLLBACK:
        return Tone.ROLLBACK
    if decision.outcome is Outcome.PROMOTE:
        return Tone.PROMOTE
    if decision.verdict is Verdict.PASS:
        return Tone.WAITS
    return Tone.HOLD if decision.verdict is Verdict.FAIL else Tone.UNSURE


def answer(decision: StepDecision) -> str:
    """Say in one sentence what may be done."""
    match tone(decision):
        case Tone.ROLLBACK:
            said = "Take it back: the step was taken and a gate fails."
        case Tone.PROMOTE if decision.taken:
            said = "Taken, and every gate still passes."
        case Tone.PROMOTE:
            said = "May be taken: every gate passes."
        case Tone.WAITS:
            return f"Not yet: every gate passes, but it waits for {decision.blocked_by}."
        case Tone.HOLD:
            said = "May not be taken: a gate fails."
        case _ if not decision.findings:
            said = "Cannot be decided: no gate judged it."
        case _ if decision.taken:
            said = "Taken, but the evidence no longer proves it safe."
        case _:
            said = "Cannot be decided yet: the evidence is not enough."
    return f"{said} It also waits for {decision.blocked_by}." if decision.blocked_by else said


def counts(decision: StepDecision) -> str:
    """Count the findings by verdict, leaving out what there is none of."""
    said = [finding.verdict for finding in decision.findings]
    parts = [f"{said.count(verdict)} {verdict}" for verdict in Verdict if verdict in said]
    gates = many(len(said), "gate")
    return f"{gates}: {', '.join(parts)}" if parts else "No gate"


def gate_row(finding: Finding, passes: Where | None = None) -> GateRow:
    """Put a finding into words.

    ``passes`` is the side of its bound on which it passes.
    """
    estimate = finding.estimate
    if estimate is None:
        value, ends, n = "nothing to measure", "", ""
    else:
        value = in_unit(estimate.value, finding.unit)
        ends = interval_in(estimate, finding.unit)
        n = f"{estimate.n:,}"
    return GateRow(
        gate=finding.gate,
        rule=finding.rule,
        verdict=finding.verdict,
        bound=finding.bound,
        value=value,
        interval=ends,
        n=n,
        p_value=p_value(finding.p_value),
        reason=finding.reason,
        remedy=finding.remedy,
        timed=finding.timed,
        bar=bar(finding),
        allowed=allowed(finding, passes),
    )


def gate_rows(decision: StepDecision) -> tuple[GateRow, ...]:
    """Put the findings of a step into words."""
    return tuple(gate_row(found) for found in decision.findings)


def paired(evidence: Evidence, measure: str) -> Paired | None:
    """Pair the scores of both arms; None where one of them was not scored by ``measure``."""
    control = evidence.control.scores.get(measure)
    candidate = evidence.candidate.scores.get(measure)
    return Paired.of(control, candidate) if control and candidate else None


def movement(pairs: Paired) -> str:
    """Count the queries that got better, worse and stayed."""
    difference = pairs.difference
    better, worse = int(np.sum(difference > 0)), int(np.sum(difference < 0))
    same = len(difference) - better - worse
    text = f"worse on {worse:,}, better on {better:,}, same on {counted(same, 'query')}"
    lost = f"; {len(pairs.unpaired):,} without a value in one arm" if pairs.unpaired else ""
    return text + lost


def effect(report: ReportInput, name: str) -> str:
    """Say what a comparison's candidate does to the first measure, in numbers."""
    evidence = report.evidence.get(name)
    if evidence is None:
        return "Evidence for this step is missing."
    pairs = paired(evidence, report.measure)
    if pairs is None or not len(pairs.difference):
        return f"No query has a value of {report.measure} in both arms."
    found = report.differences.get(name, {}).get(report.measure)
    ends = (
        f"{signed(found.value)} {interval(found)}"
        if found
        else f"{signed(float(pairs.difference.mean()))} (no interval)"
    )
    control, candidate = number(float(pairs.control.mean())), number(float(pairs.candidate.mean()))
    return f"{report.measure} {control} → {candidate}: {ends}; {movement(pairs)}."


def gain(report: ReportInput, decision: StepDecision) -> str:
    """Return the difference in the first measure, with its interval; empty without one."""
    found = report.differences.get(decision.step, {}).get(report.measure)
    return f"{report.measure} {signed(found.value)} {interval(found)}" if found else ""


def latency(report: ReportInput, decision: StepDecision) -> str:
    """Return the 95th percentiles of both arms in a race; empty where they may not be shown."""
    arms = decision.control, decision.candidate
    found = report.latency
    if found is None or not all(found.race.verified.get(arm) is True for arm in arms):
        return ""
    p95 = [found.percentiles.get(arm, {}).get("p95") for arm in arms]
    control, candidate = (milliseconds(one.value) if one else "" for one in p95)
    findings = (one for each in report.decisions for one in each.findings)
    busy = any(one.cause is Cause.MACHINE for one in findings)
    on = ", on a busy machine" if busy else ""
    return f"p95 {control} → {candidate} ms{on}" if control and candidate else ""


def independence(report: ReportInput, name: str) -> str:
    """Say how far the queries of a comparison are independent; empty where each stands alone."""
    found = report.dependence.get(name, {}).get(report.measure)
    said = f"{dependence(found)}{covered(report, found)}{parted(report)}{alone(report)}"
    return said.strip()


def dependence(found: Dependence | None) -> str:
    """Say how many independent queries these are worth; empty where each stands alone."""
    if found is None or found.clusters == found.queries:
        return ""
    return (
        f" {counted(found.queries, 'query')} in {counted(found.clusters, 'cluster')} (largest"
        f" {found.largest}): design effect {found.design_effect:.2f}, effective sample size"
        f" {found.effective:,.0f}."
    )


def covered(report: ReportInput, found: Dependence | None) -> str:
    """Say how large a cluster may be for the intervals to be valid; empty without a policy."""
    if found is None or report.trust is None:
        return ""
    stated = int(report.trust.policy.rules.largest_cluster * found.queries)
    most = max(found.largest, stated)
    return (
        f" Intervals are valid where no intent has more than {most:,} of these"
        f" {counted(found.queries, 'query')} ({most / found.queries:.2%}), seen or not."
    )


def parted(report: ReportInput) -> str:
    """Say how many near duplicates are independent by declared intents; empty where none."""
    count = max((len(found.parted) for found in report.evidence.values()), default=0)
    if not count:
        return ""
    return (
        f" {counted(count, 'query has')} nearly the words of another; the dataset declares another"
        " intent for each, so they count as independent."
    )


def alone(report: ReportInput) -> str:
    """Say that the policy takes queries for independent, and why; empty where it does not."""
    policy = report.trust.policy if report.trust else None
    if policy is None or policy.clusters == BY_TEXT:
        return ""
    which = "All queries" if policy.clusters == "none" else "Queries without an intent"
    return f" {which} are taken as independent: {policy.premises.needs or 'not declared why'}."


def card(report: ReportInput, decision: StepDecision) -> Card:
    """Put one step's decision onto the first screen."""
    errs = report.trust.step(decision.step) if report.trust else ""
    passes = sides(report.trust.policy if report.trust else None, decision.step)
    by = decision.accepted_by[:PREFIX]
    accepted = f"Its control was accepted by the decision {by}." if by else ""
    return Card(
        step=decision.step,
        gloss=gloss(decision),
        control=decision.control,
        candidate=decision.candidate,
        taken=decision.taken,
        outcome=decision.outcome,
        tone=tone(decision),
        answer=answer(decision),
        gates=tuple(gate_row(one, passes=passes.get(one.gate)) for one in decision.findings),
        because=tuple(gate_row(finding) for finding in decision.blocking[:REASONS]),
        more=tuple(gate_row(finding) for finding in decision.blocking[REASONS:]),
        counts=counts(decision),
        effect=effect(report, decision.step),
        gain=gain(report, decision),
        latency=latency(report, decision),
        remains=remains(decision, report.provenance.queries),
        sure=tuple(filter(None, (independence(report, decision.step), errs, accepted))),
    )


SAID = {
    (Tone.ROLLBACK, True): "take back",
    (Tone.PROMOTE, True): "keep",
    (Tone.PROMOTE, False): "yes to",
    (Tone.UNSURE, True): "no longer proven:",
    (Tone.HOLD, False): "no to",
    (Tone.UNSURE, False): "not yet to",
    (Tone.WAITS, False): "not yet to",
    (Tone.WAITS, True): "not yet to",
}
"""By the look of a step and whether it was taken, in the order in which they are said."""
BLOCKS = {Verdict.FAIL: "failed", Verdict.INCONCLUSIVE: "inconclusive"}
IS = {Verdict.FAIL: "fails", Verdict.INCONCLUSIVE: "is inconclusive"}
ARE = {Verdict.FAIL: "fail", Verdict.INCONCLUSIVE: "are inconclusive"}
BLOCKED = frozenset({Tone.ROLLBACK, Tone.HOLD, Tone.UNSURE})


def headline(cards: Sequence[Card]) -> str:
    """Give the answer, with the reason where one step is blocked; empty without steps."""
    parts = [
        f"{word} {listed(names)}"
        for word in dict.fromkeys(SAID.values())
        if (names := [_named(card) for card in cards if SAID[card.tone, card.taken] == word])
    ]
    said = "; ".join(parts)
    blocked = _blocked(cards)
    why = f": {_why(blocked[0])}" if len(blocked) == 1 else ""
    return f"{said[:1].upper()}{said[1:]}{why}." if said else ""


def _named(card: Card) -> str:
    measured = ", ".join(filter(None, (card.gain, card.latency)))
    said = "; ".join(filter(None, (card.gloss, measured if card.tone is Tone.PROMOTE else "")))
    return f"{card.step} ({said})" if said else card.step


def _blocked(cards: Sequence[Card]) -> list[Card]:
    return [card for card in cards if card.tone in BLOCKED and card.because]


def _why(card: Card) -> str:
    """Say what the first gate in the way of a step measured, its bound, and how many more block."""
    gate = card.because[0]
    said = gate.reason.removesuffix(".")
    if gate.interval:
        bound = gate.bound.replace("the control's", f"{card.control}'s")
        said = f"{gate.value} {gate.interval}, required: {bound}"
    rest = (*card.because[1:], *card.more)
    alike = [row for row in rest if not gate.interval and _same_cause(row, gate)]
    others = Counter(row.verdict for row in rest if row not in alike)
    more = [f"{others[verdict]} more {word}" for verdict, word in BLOCKS.items() if others[verdict]]
    and_more = f"; {listed(more)}" if more else ""
    subject = f"{gate.gate} {IS[gate.verdict]}"
    if alike:
        subject = f"{gate.gate} and {len(alike)} more {ARE[gate.verdict]}"
    return f"{subject} ({said}{and_more})"


def _same_cause(one: GateRow, other: GateRow) -> bool:
    return (one.verdict, one.reason) == (other.verdict, other.reason)
