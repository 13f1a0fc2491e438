"""The first screen: for each step, whether it may be taken, what blocks it and what remains."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Outcome, StepDecision, Verdict
from harness.core.printable import counted, many
from harness.core.scores import BY_TEXT, Dependence, Paired
from harness.gates.base.rules import Where
from harness.policy.model import Policy
from harness.report import doc
from harness.report.doc import measured as measured_or
from harness.report.html import explore_link
from harness.report.inputs import ReportInput
from harness.report.rounding import interval, milliseconds, number, percent, signed

Row = TypeVar("Row")


def merged(report: ReportInput) -> ReportInput:
    """Join comparisons of one control with one candidate under both names."""
    names: dict[tuple[str, str], list[str]] = {}
    for name, evidence in report.evidence.items():
        names.setdefault((evidence.control.arm, evidence.candidate.arm), []).append(name)
    title = {same[0]: ", ".join(same) for same in names.values()}

    def joined(rows: Mapping[str, Row]) -> dict[str, Row]:
        return {title[name]: row for name, row in rows.items() if name in title}

    latency = report.latency
    return replace(
        report,
        evidence=joined(report.evidence),
        differences=joined(report.differences),
        slice_differences=joined(report.slice_differences),
        latency=latency and replace(latency, ratios=joined(latency.ratios)),
    )


BEYOND = 1.1
"""Where an end is drawn that is infinite; the furthest finite one lies at 1 or -1."""
EDGE = 1.2
"""Where a drawing ends."""


def bar(finding: Finding) -> doc.Bar | None:
    """Place a finding against its bound; None where there is not a finite number or no bound."""
    estimate, limit = finding.estimate, finding.limit
    if estimate is None or limit is None or not math.isfinite(estimate.value):
        return None
    ends = [end for end in (estimate.low, estimate.value, estimate.high) if math.isfinite(end)]
    scale = max(abs(end - limit) for end in ends) or 1.0

    def placed(end: float) -> float:
        return (end - limit) / scale if math.isfinite(end) else math.copysign(BEYOND, end)

    return doc.Bar(placed(estimate.low), placed(estimate.value), placed(estimate.high))


def allowed(finding: Finding, passes: Where | None) -> tuple[float, float] | None:
    """Place the side of the bound that passes, on the scale of ``bar``; None where none does."""
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
    """Return the side on which each gate of a step passes, by the gate's name."""
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


def outcome_word(decision: StepDecision) -> str:
    """Name the outcome, and say where it is open."""
    more = " (inconclusive)" if decision.verdict is Verdict.INCONCLUSIVE else ""
    return f"{decision.outcome.upper()}{more}"


def answer(decision: StepDecision) -> str:
    """Describe in one sentence what may be done."""
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
            said = "Already taken; current evidence no longer supports it."
        case _:
            said = "Cannot be decided yet: the evidence is not enough."
    return f"{said} It also waits for {decision.blocked_by}." if decision.blocked_by else said


def counts(decision: StepDecision) -> str:
    """Count the findings by verdict, leaving out what there is none of."""
    said = [finding.verdict for finding in decision.findings]
    parts = [f"{said.count(verdict)} {verdict}" for verdict in Verdict if verdict in said]
    gates = many(len(said), "gate")
    return f"{gates}: {', '.join(parts)}" if parts else "No gate"


def measured(finding: Finding) -> doc.Value:
    """Show what a gate measured, with its interval."""
    return measured_or(finding.estimate, finding.unit, instead="nothing to measure")


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
    """Describe what a comparison's candidate does to the first measure, in numbers."""
    evidence = report.evidence.get(name)
    if evidence is None:
        return "Evidence for this step is missing."
    pairs = paired(evidence, report.measure)
    if pairs is None or not len(pairs.difference):
        return f"No query has a value of {report.measure} in both arms."
    if not pairs.difference.any() and not pairs.unpaired:
        mean = number(float(pairs.control.mean()))
        return (
            f"{report.measure} {mean} → {mean}: equal on {counted(len(pairs.difference), 'query')}."
        )
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
    if found and found.value == found.low == found.high == 0:
        return f"{report.measure} equal on each query"
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
    """Return how far the queries of a comparison are independent; empty where each stands alone."""
    return " ".join(_independence(report, report.dependence.get(name, {}).get(report.measure)))


def _independence(report: ReportInput, found: Dependence | None) -> Iterator[str]:
    policy = report.judged_by
    if found and found.clusters != found.queries:
        yield (
            f"{counted(found.queries, 'query')} in {counted(found.clusters, 'cluster')} (largest"
            f" {found.largest}): design effect {found.design_effect:.2f}, effective sample size"
            f" {found.effective:,.0f}."
        )
    if found and policy:
        most = max(found.largest, int(policy.rules.largest_cluster * found.queries))
        yield (
            f"Intervals are valid if no intent, declared or not, has more than {most:,} of these"
            f" {counted(found.queries, 'query')} ({most / found.queries:.2%})."
        )
    if parted := max((len(one.parted) for one in report.evidence.values()), default=0):
        yield (
            f"{counted(parted, 'query has')} nearly the words of another; the dataset declares"
            " another intent for each, so they count as independent."
        )
    if policy and policy.clusters != BY_TEXT:
        which = "All queries" if policy.clusters == "none" else "Queries without an intent"
        yield f"{which} are taken as independent: {policy.premises.needs or 'not declared why'}."


def sure(report: ReportInput, decision: StepDecision) -> tuple[str, ...]:
    """Return how far a decision can be trusted: independence, errors by design, its control."""
    said = [independence(report, decision.step)]
    if policy := report.judged_by:
        level = percent(policy.level)
        said.append(f"False-promotion rate: the design allows {level} in one attempt.")
    if decision.accepted_by:
        by = decision.accepted_by[:PREFIX]
        said.append(f"Its control was accepted by the decision {by}.")
    return tuple(filter(None, said))


def card(report: ReportInput, decision: StepDecision, target: str) -> doc.Card:
    """Draw one step on the first screen; its gates lead to rows ``target`` and their number."""
    look = tone(decision)
    beside = {Tone.UNSURE: " inconclusive", Tone.WAITS: " waits"}.get(look, "")
    arms = f"{decision.control} → {decision.candidate}"
    taken = ", already taken" if decision.taken else ""
    needs = remains(decision, report.provenance.counts.queries)
    commands = tuple(dict.fromkeys(line for need in needs for line in need.commands))
    draws = f"The {counted(len(commands), 'command')}" if commands[1:] else "The command"
    blocks: Iterable[doc.Block | None] = (
        doc.Text(f"{arms}{taken}", "arms"),
        doc.Text(gloss(decision), "gloss") if gloss(decision) else None,
        doc.Text(answer(decision), "answer"),
        *(doc.Text(said, "measured") for said in (gain(report, decision), latency(report, decision))
          if said),
        None if gain(report, decision) else doc.Text(effect(report, decision.step), "instead"),
        doc.Items(tuple(need.words for need in needs), "What remains", "remains"),
        doc.Section(draws, (doc.CodeBlock(commands),), kind="more", fold="closed")
        if commands else None,
        _strip(report, decision, target),
        *_because(decision),
        doc.Link("query by query", explore_link(
            report.dataset, decision.control, decision.candidate)),
    )  # fmt: skip
    outcome = decision.outcome.value.upper() + beside
    return doc.Card(decision.step, outcome, tuple(filter(None, blocks)), look.value)


def error_budget(policy: Policy) -> str:
    """Describe the errors allowed over all attempts, and whether a log counts them."""
    said = (
        f"Error budget: {percent(policy.alpha)} false promotion at each control, over"
        f" {many(policy.attempts, 'planned attempt')} of {percent(policy.level)}."
    )
    if policy.declared:
        said += f" Attempts are declared, not counted: {policy.declared}."
    if granted := policy.premises.model_dump(exclude_none=True):
        each = " ".join(f"({key}) {why}." for key, why in granted.items())
        said += f" The policy takes for granted, unchecked: {each}"
    return said


def _strip(report: ReportInput, decision: StepDecision, target: str) -> doc.Section | doc.Text:
    if not decision.findings:
        return doc.Text("No gate judged this step, so it cannot be taken.", "instead")
    passes = sides(report.judged_by, decision.step)
    stripes = tuple(
        doc.Stripe(one.gate, one.verdict.value, f"#{target}-{at}", bar(one),
               allowed(one, passes.get(one.gate)))
        for at, one in enumerate(decision.findings)
    )  # fmt: skip
    strip = doc.Strip(f"Gates of {decision.step}, each against its bound", stripes)
    fold: Literal["open", "closed"] = "open" if decision.blocking else "closed"
    return doc.Section(counts(decision), (strip,), kind="gates-of", fold=fold)


def _because(decision: StepDecision) -> Iterator[doc.Block]:
    """Yield why a step is blocked: what each gate measured, or once what kept several from it."""
    said = because(decision.blocking, decision.control)
    if said:
        yield doc.Items(said[:REASONS], kind="because")
    if rest := said[REASONS:]:
        yield doc.Section(
            f"and {len(rest)} more", (doc.Items(rest, kind="because"),), "", "more", "closed"
        )


def because(blocking: Sequence[Finding], control: str) -> tuple[str, ...]:
    """List what each gate measured; gates that had nothing to measure are told by their reason."""
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for one in blocking:
        key = (one.verdict.value, one.reason, *([one.gate] if one.estimate else []))
        alike.setdefault(key, []).append(one)
    return tuple(
        f"{SIGNS[first.verdict]} {first.gate}{f' and {len(rest)} more' if rest else ''}:"
        f" {_why(first, control)}"
        for first, *rest in alike.values()
    )


def _why(finding: Finding, control: str) -> str:
    if finding.estimate is None:
        return finding.reason.removesuffix(".")
    shown = measured(finding)
    bound = finding.bound.replace("the control's", f"{control}'s")
    return f"{shown.text} {shown.note}, required: {bound}"


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
SIGNS = {Verdict.FAIL: "✕", Verdict.INCONCLUSIVE: "?"}
IS = {Verdict.FAIL: "fails", Verdict.INCONCLUSIVE: "is inconclusive"}
ARE = {Verdict.FAIL: "fail", Verdict.INCONCLUSIVE: "are inconclusive"}
BLOCKED = frozenset({Tone.ROLLBACK, Tone.HOLD, Tone.UNSURE})


def headline(decisions: Sequence[StepDecision], seen: Mapping[str, str]) -> str:
    """Return the answer in one sentence; ``seen`` is what was measured, by step."""
    named = {}
    for one in decisions:
        shown = seen.get(one.step, "") if tone(one) is Tone.PROMOTE else ""
        beside = "; ".join(filter(None, (gloss(one), shown)))
        named[one] = f"{one.step} ({beside})" if beside else one.step
    parts = [
        f"{word} {listed(names)}"
        for word in dict.fromkeys(SAID.values())
        if (names := [named[one] for one in decisions if SAID[tone(one), one.taken] == word])
    ]
    said = "; ".join(parts)
    blocked = [one for one in decisions if tone(one) in BLOCKED and one.blocking]
    why = f": {_blocked(blocked[0])}" if len(blocked) == 1 else ""
    return f"{said[:1].upper()}{said[1:]}{why}." if said else ""


def _blocked(decision: StepDecision) -> str:
    """Describe the gate that is hardest to settle, its bound, and how many more block."""
    first = hardest(decision.blocking)
    rest = [one for one in decision.blocking if one is not first]
    alike = [
        one for one in rest
        if first.estimate is None and (one.verdict, one.reason) == (first.verdict, first.reason)
    ]  # fmt: skip
    others = Counter(one.verdict for one in rest if one not in alike)
    words = {Verdict.FAIL: "failed", Verdict.INCONCLUSIVE: "inconclusive"}
    more = [f"{others[verdict]} more {word}" for verdict, word in words.items() if others[verdict]]
    subject = f"{first.gate} {IS[first.verdict]}"
    if alike:
        subject = f"{first.gate} and {len(alike)} more {ARE[first.verdict]}"
    and_more = f"; {listed(more)}" if more else ""
    return f"{subject} ({_why(first, decision.control)}{and_more})"


NO_HELP = re.compile(r"more queries will (?:hardly|not) help")
HOPELESS = "another candidate, or another bound and its reason: more queries will hardly help"
SLICE = re.compile(r"\(([\d,]{1,15}) of ([\d,]{1,15}) queries\)")
MORE = re.compile(r"(?<![\d,])([\d,]{1,15}) more (?:\w{1,30} )?quer(?:y|ies)\b")
QUERIES = re.compile(r"(?<![\d,])([\d,]{1,15}) (?:\w{1,30} )?quer(?:y|ies)\b")
NOW = re.compile(r"\(now ([\d,]{1,15})\)")
POOL = re.compile(r"judge [^:]{0,200}: (harness pool [^;]*? --size (\d{1,15}) --out \S{1,100})")
SIZE = re.compile(r" --size \d{1,15}")


class RemainingWork(NamedTuple):
    """One thing that remains."""

    words: str
    commands: tuple[str, ...] = ()
    """What to type for it, where the words have no room for that."""


class _Queries(NamedTuple):
    """Queries that one gate asks for, and those that it has."""

    gate: str
    needed: int
    now: int

    @property
    def times(self) -> float:
        """How many times as many it needs: gates on a slice and on all queries compare by it."""
        return self.needed / max(self.now, 1)


def remains(decision: StepDecision, queries: int) -> tuple[RemainingWork, ...]:
    """Return all that a step needs; ``queries`` is the size of the query set."""
    before = [f"the step {decision.blocked_by} first"] if decision.blocked_by else []
    return (*_remains(decision, queries), *map(RemainingWork, before))


def hardest(blocking: Sequence[Finding]) -> Finding:
    """Return the first gate that fails, or the open one with the largest need of queries."""
    failed = [one for one in blocking if one.verdict is Verdict.FAIL]
    if failed:
        return failed[0]
    return max(blocking, key=lambda one: _times(_queries(one, 0)) if one.estimate else 0.0)


def _remains(decision: StepDecision, queries: int) -> Iterator[RemainingWork]:
    failed = [one.gate for one in decision.findings if one.verdict is Verdict.FAIL]
    if decision.outcome is Outcome.ROLLBACK:
        yield RemainingWork("take the step back")
        return
    if failed:
        rest = f" and {len(failed) - 1} more" if failed[1:] else ""
        yield RemainingWork(f"a candidate that passes {failed[0]}{rest}")
        return
    open_ = [one for one in decision.findings if one.verdict is Verdict.INCONCLUSIVE]
    if any(NO_HELP.search(one.remedy) for one in open_):
        yield RemainingWork(HOPELESS)
        return
    if most := max((_queries(one, queries) for one in open_), key=_times, default=None):
        every = most.needed if most.now == queries else math.ceil(most.times * queries)
        said = f"about {counted(every, 'query')} like these (now {queries:,})"
        if most.now != queries:
            said += f", {most.needed:,} of them for {most.gate} (now {most.now:,})"
        yield RemainingWork(said)
    largest: dict[str, tuple[int, str]] = {}  # a larger sample holds a smaller one
    for command, size in (found for one in open_ for found in POOL.findall(one.remedy)):
        kind = SIZE.sub("", command)
        largest[kind] = max(largest.get(kind, (0, "")), (int(size), command))
    if samples := sorted(largest.values(), reverse=True):
        what = f"judged samples of {listed(f'{size:,}' for size, _ in samples)} unjudged hits"
        if len(samples) == 1:
            what = f"a judged sample of {counted(samples[0][0], 'unjudged hit')}"
        commands = tuple(command for _, command in samples)
        yield RemainingWork(f"{what} (enough if none is relevant)", commands)
    others = [
        one.remedy.removesuffix(".")
        for one in open_
        if one.remedy and not POOL.search(one.remedy) and _queries(one, 1) is None
    ]
    yield from map(RemainingWork, dict.fromkeys(others))


def _queries(finding: Finding, queries: int) -> _Queries | None:
    """Read how many queries a gate asks for; None where it asks for none."""
    remedy = "" if finding.timed else finding.remedy
    asked = [
        _Queries(finding.gate, _whole(needed), _whole(now)) for now, needed in SLICE.findall(remedy)
    ]
    rest = SLICE.sub("", remedy)
    said = NOW.search(rest)
    known = finding.estimate.n if finding.estimate else queries
    now = _whole(said.group(1)) if said else known
    asked += [_Queries(finding.gate, now + _whole(more), now) for more in MORE.findall(rest)]
    asked += [_Queries(finding.gate, _whole(all_), now) for all_ in QUERIES.findall(rest)]
    return max(asked, key=_times, default=None)


def _times(found: _Queries | None) -> float:
    return found.times if found else 0.0


def _whole(digits: str) -> int:
    return int(digits.replace(",", "") or 0)


def listed(names: Iterable[str]) -> str:
    """Join names as in a sentence."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
