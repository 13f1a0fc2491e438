"""Decisions as one document: the answer of each data set, and all that it rests on."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from harness.core.evidence import Evidence
from harness.core.gate import StepDecision
from harness.report import doc
from harness.report.html import explore_link
from harness.report.inputs import ReportInput
from harness.report.page import cards, figures, tables
from harness.report.rounding import minute

LISTED = 10
"""Queries listed in each direction of each comparison; the explorer has every query."""
OPEN = "quality"
"""The one part that is not folded."""
LEGEND = (
    "In each line, the upright stroke is the gate's bound, the shaded side is where it passes, and"
    " the bar is the measured interval: ✓ passes, ✕ fails, ? inconclusive. Each line has a scale of"
    " its own."
)
GATES = (
    "A step is promoted only if every one of its gates passes. An inconclusive gate is not a pass:"
    " the interval lies on both sides of its bound, or there was too little to measure."
)
QUALITY = (
    "Mean over the queries that the measure is defined for, with its interval. Overlapping"
    " intervals do not mean equal: differences are paired by query."
)
TRAFFIC = (
    "A mean over the traffic weighs each query by its requests. It is over the requests whose"
    " queries have a value. Its interval is for the log that the queries were sampled from."
)
AGREEMENT = (
    "How alike the two rankings are, without judgements. It says that results change, not whether"
    " for better or worse. A/A is the control run twice: what a perfect candidate would show."
)
LATENCY = (
    "From the typed text to the hits shown, to texts that the process had not seen; arms"
    " interleaved, in several processes of one machine: {}. No time is compared with one of another"
    " day. A/A is an arm in some processes against itself in the others: what the noise of the"
    " machine alone does."
)
FOREST = (
    "Candidate minus control, by measure and by slice. A full mark: the whole interval lies on one"
    " side of no difference. The diamond is the mean over all queries. A short upright line: the"
    " bound of a gate."
)
PAIRED = "Candidate minus control, one bar a query; the band is the interval of the mean."
RATIOS = (
    "Time of candidate over control. A/A is an arm in some processes against itself in others: a"
    " ratio no further from 1 than these says nothing. A short upright line: the bound of a gate."
)


def document(reports: Sequence[ReportInput]) -> doc.Section:
    """Describe all that is known of each data set, the answers first."""
    decided = any(report.decisions for report in reports)
    title = "May the search engine be replaced?" if decided else "How the search engines compare"
    answers = (
        doc.Section(report.dataset, tuple(_answered(report, f"d{at}")), kind="answer")
        for at, report in enumerate(reports)
    )
    details = (_details(report, f"d{at}") for at, report in enumerate(reports))
    return doc.Section(title, (*answers, *details))


def _answered(report: ReportInput, prefix: str) -> Iterator[doc.Block]:
    of, policy = report.provenance, report.policy
    if not report.decisions:
        yield doc.Text(
            "No policy was named, so nothing is decided here: the arms are only compared. Measured"
            f" {minute(of.decided_at)}.",
            "about",
        )
        yield tables.leaderboard(report)
        return
    seen = {
        one.step: ", ".join(filter(None, (cards.gain(report, one), cards.latency(report, one))))
        for one in report.decisions
    }
    yield doc.Text(cards.headline(report.decisions, seen), "headline")
    until = f", valid until {minute(of.expires_at)}" if of.expires_at else ""
    yield doc.Text(
        f"Policy {policy.name if policy else ''}, version {policy.version if policy else ''}."
        f" Decided {minute(of.decided_at)}{until}. Starting from {report.decisions[0].control}.",
        "about",
    )
    shown = enumerate(report.decisions)
    yield doc.Cards(tuple(cards.card(report, one, f"{prefix}-{at}") for at, one in shown))
    yield doc.Text(LEGEND, "legend")
    if report.custody:
        yield doc.Items(
            tuple(tables.kept_lines(report.custody)), "How the evidence was kept", "kept"
        )


def _details(report: ReportInput, prefix: str) -> doc.Section:
    described = cards.merged(report)
    parts = (
        ("Gates", "gates", _gates(report, prefix)),
        ("Quality", "quality", _quality(report, described, prefix)),
        ("Agreement", "agreement", _agreement(described)),
        ("Latency", "latency", _latency(described, prefix)),
        ("Queries that moved", "queries", _queries(described)),
        ("Provenance", "provenance", _provenance(report)),
    )
    inside: list[doc.Block] = []
    for title, name, blocks in parts:
        if name == "queries":
            inside += (replace(one(prefix), fold="closed") for one in report.beside)
        if name != "gates" or report.decisions:
            fold: Literal["open", "closed"] = "open" if name == OPEN else "closed"
            inside.append(doc.Section(title, tuple(blocks), f"{prefix}-{name}", "", fold))
    if report.history:
        inside.append(doc.Link("Earlier decisions", report.history))
    return doc.Section(f"{report.dataset} in detail", tuple(inside), prefix, "dataset")


def _figure(drawn: str | None, caption: str) -> tuple[doc.Figure, ...]:
    return (doc.Figure(drawn, caption),) if drawn else ()


def _gates(report: ReportInput, prefix: str) -> Iterator[doc.Block]:
    yield doc.Text(GATES, "lead")
    for at, decision in enumerate(report.decisions):
        anchor = f"{prefix}-{at}"
        table = gate_table(decision, anchor)
        rest = doc.Items(cards.sure(report, decision), "How far this can be trusted")
        yield doc.Section(f"{decision.step}: {decision.outcome.value.upper()}", (table, rest))
    if report.judged_by:
        budget = doc.Text(cards.error_budget(report.judged_by))
        yield doc.Section("How far these verdicts can be trusted", (budget,))


def gate_table(decision: StepDecision, anchor: str) -> doc.TableBlock:
    """Show what each gate measured and why it says what it says; what several say stands once."""
    first: dict[tuple[str, str], str] = {}
    rows: list[tuple[doc.Value, ...]] = []
    for one in decision.findings:
        said = first.setdefault((one.reason, one.remedy), one.gate)
        why = doc.Cell(f"as of {said}")
        if said == one.gate:
            settle = f"To reach a decision: {one.remedy}" if one.remedy else ""
            why = doc.Cell(_sentence(one.reason), _sentence(settle))
        rows.append((
            doc.Cell(one.gate, f"{one.rule}, timed" if one.timed else one.rule),
            doc.Cell(one.verdict.value, tone=one.verdict.value),
            doc.Cell(one.bound),
            cards.measured(one),
            doc.Num(one.estimate.n, "count") if one.estimate else doc.Cell(""),
            doc.Cell("") if one.p_value is None else doc.Num(one.p_value, "p"),
            why,
        ))  # fmt: skip
    header = ("gate", "verdict", "bound", "measured", "n", "p", "why")
    caption = f"Gates of {decision.step}: {decision.control} → {decision.candidate}"
    return doc.TableBlock(caption, header, tuple(rows), "gate-table", anchor)


def _sentence(text: str) -> str:
    return f"{text.removesuffix('.')}." if text else ""


def _quality(report: ReportInput, described: ReportInput, prefix: str) -> Iterator[doc.Block]:
    yield doc.Text(QUALITY, "lead")
    if report.decisions:
        yield tables.leaderboard(report)
    if (traffic := tables.traffic(described)).rows:
        yield from (traffic, doc.Text(TRAFFIC))
    if described.evidence:
        yield tables.differences(described)
        if (unjudged := tables.unjudged(described)).rows:
            yield unjudged
    for at, (name, evidence) in enumerate(described.evidence.items()):
        said = " ".join(
            filter(None, (cards.effect(described, name), cards.independence(described, name)))
        )
        forest = figures.draw_differences(described, name, f"{prefix}-{at}-forest")
        pairs = cards.paired(evidence, described.measure)
        mean = described.differences.get(name, {}).get(described.measure)
        drawn = figures.paired_differences(f"{prefix}-{at}-pairs", pairs, mean) if pairs else None
        inside: tuple[doc.Block, ...] = (
            doc.Text(said),
            *_figure(forest, FOREST),
            *_figure(drawn, PAIRED),
        )
        yield doc.Section(_named(name, evidence), inside)
    if not report.slice_means:
        yield doc.Text("No slices were measured.", "instead")
        return
    yield tables.by_slice(report)
    if (differences := tables.slice_differences(described)).rows:
        yield differences


def _named(name: str, evidence: Evidence) -> str:
    return f"{name}: {evidence.control.arm} → {evidence.candidate.arm}"


def _agreement(report: ReportInput) -> Iterator[doc.Block]:
    yield doc.Text(AGREEMENT, "lead")
    for name, evidence in report.evidence.items():
        shown = tables.agreement(evidence), tables.classes(evidence)
        yield doc.Section(_named(name, evidence), shown)
    if not report.evidence:
        yield doc.Text("No two arms were compared.", "instead")


def _latency(report: ReportInput, prefix: str) -> Iterator[doc.Block]:
    found = report.latency
    if found is None:
        yield doc.Text("No race was run, so nothing is said about time.", "instead")
    else:
        yield doc.Text(LATENCY.format(found.race.machine), "lead")
        yield from (figures.percentiles(found), figures.conditions(found))
        drawn = figures.latency_curves(f"{prefix}-curves", found)
        said = "Share of answers within a time, each arm's own line and mark."
        missing = "No arm's rankings were verified in the race, so no curve is shown."
        yield from _figure(drawn, said) if drawn else (doc.Text(missing, "instead"),)
        yield from _figure(figures.draw_ratios(report, f"{prefix}-ratios"), RATIOS)
        yield figures.ratios(report, found)


def _queries(report: ReportInput) -> Iterator[doc.Block]:
    dataset = report.dataset
    for name, evidence in report.evidence.items():
        link = explore_link(dataset, evidence.control.arm, evidence.candidate.arm)
        every = doc.Link("Every query with both rankings, and any two arms", link)
        inside = (*tables.movers(report, name, LISTED), every)
        yield doc.Section(_named(name, evidence), inside)
    if not report.evidence:
        yield doc.Text("No two arms were compared.", "instead")


def _provenance(report: ReportInput) -> Iterator[doc.Block]:
    facts = tuple((doc.Cell(what), doc.Cell(value)) for what, value in tables.provenance(report))
    yield doc.TableBlock("Where the numbers come from", ("what", "value"), facts, "facts")
    yield tables.manifests(report)
    if report.provenance.commands:
        yield doc.Section("To reproduce it", (doc.CodeBlock(report.provenance.commands),))
    else:
        yield doc.Text("No commands were recorded.", "instead")
