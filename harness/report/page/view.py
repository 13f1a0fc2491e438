"""One data set of the page in words, tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from markupsafe import Markup

from harness.core.evidence import Evidence
from harness.core.gate import StepDecision
from harness.core.printable import one_line, printable
from harness.report.doc import Table
from harness.report.html import TEMPLATES, environment, script_source
from harness.report.inputs import Links, LoadReport, ReportInput
from harness.report.load import load_curve, notes, response
from harness.report.page import custody, figures, forest, tables
from harness.report.page.cards import (
    Card,
    GateRow,
    card,
    effect,
    gate_rows,
    headline,
    independence,
    merged,
    paired,
    sides,
)
from harness.report.page.figures import latency_curves
from harness.report.page.queries import QUERY, Moved, movers
from harness.report.page.tables import by_slice, slice_differences, traffic, unjudged
from harness.report.rounding import for_json, minute

SIDE_BY_SIDE = 10
"""Queries shown with both rankings, in each direction of each comparison."""
LISTED = 1_000
"""Losses in the table, and gains; the explorer has every query."""
ALIKE = "Jaccard@10"
FIGURE_MEASURES = 4


@dataclass(frozen=True, slots=True)
class GatesView:
    """One step in detail."""

    card: Card
    rows: tuple[GateRow, ...]
    figure: Markup


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """One comparison in detail; ``number`` makes its ids unique on the page."""

    name: str
    number: int
    control: str
    candidate: str
    effect: str
    forest: Markup
    differences: Markup
    agreement: Table
    classes: Table
    alike: Markup
    moved: tuple[Moved, ...]
    unmoved: str
    slices: tuple[str, ...]
    queries: tuple[Mapping[str, Any], ...]
    """Queries with their values, for the script: at most ``LISTED`` losses and as many gains."""
    valued: int
    """Queries with a value in both arms."""


@dataclass(frozen=True, slots=True)
class DatasetView:
    """One dataset's part of the page, in words."""

    number: int
    dataset: str
    policy: str
    decided_at: str
    expires_at: str
    start: str
    """Where the migration begins."""
    kept: tuple[str, ...]
    """How the evidence was kept, a line each."""
    headline: str
    """The answer in one sentence; empty where nothing is decided."""
    cards: tuple[Card, ...]
    gates: tuple[GatesView, ...]
    leaderboard: Table
    quality: Markup
    differences: Table
    traffic: Table
    unjudged: Table
    by_slice: Table
    slice_differences: Table
    slices: Markup
    comparisons: tuple[ComparisonView, ...]
    percentiles: Table | None
    conditions: Table | None
    budgets: Table
    ratios: Table | None
    ratio_forest: Markup
    curves: Markup
    machine: str
    load: LoadView | None
    links: Links
    provenance: tuple[tuple[str, str], ...]
    manifests: Table
    commands: tuple[str, ...]
    together: str
    """What all verdicts may err; empty where nothing was decided."""


def _markup(figure: str | None) -> Markup:
    return Markup(figure or "")  # noqa: S704  our own figure, its texts are escaped


def _gates(report: ReportInput, decision: StepDecision, prefix: str) -> GatesView:
    passes = sides(report.trust.policy if report.trust else None, decision.step)
    return GatesView(
        card(report, decision),
        gate_rows(decision),
        _markup(figures.gates(f"{prefix}-gates", decision.findings, passes)),
    )


def _queries(report: ReportInput, evidence: Evidence) -> tuple[Mapping[str, Any], ...]:
    """List queries that have a value in both arms from the largest loss to the largest gain.

    Of more than twice ``LISTED``, those between the ``LISTED`` at either end are left out.
    """
    pairs = paired(evidence, report.measure)
    if pairs is None:
        return ()
    alike = evidence.agreement.scores.get(ALIKE)
    overlap = alike.by_query if alike else {}
    values = zip(pairs.query_ids, pairs.control.tolist(), pairs.candidate.tolist(), strict=True)
    rows = sorted((new - old, query_id, old, new) for query_id, old, new in values)
    return tuple(
        {
            "id": printable(query_id),
            "text": one_line(report.queries[query_id].text, QUERY),
            "slices": [one_line(name, QUERY) for name in report.queries[query_id].slices],
            "control": for_json(control),
            "candidate": for_json(candidate),
            "difference": for_json(difference),
            "alike": for_json(overlap.get(query_id)),
        }
        for difference, query_id, control, candidate in [
            *rows[:LISTED],
            *rows[max(LISTED, len(rows) - LISTED) :],
        ]
    )


def _comparisons(report: ReportInput, prefix: str) -> tuple[ComparisonView, ...]:
    found = movers(report, SIDE_BY_SIDE)
    views = []
    for at, (name, evidence) in enumerate(report.evidence.items()):
        pairs = paired(evidence, report.measure)
        mean = report.differences.get(name, {}).get(report.measure)
        rows = _queries(report, evidence)
        drawn = figures.paired_differences(f"{prefix}-{at}-pairs", pairs, mean) if pairs else None
        views.append(
            ComparisonView(
                name=name,
                number=at,
                control=evidence.control.arm,
                candidate=evidence.candidate.arm,
                effect=" ".join(filter(None, (effect(report, name), independence(report, name)))),
                forest=_markup(forest.draw_differences(report, name, f"{prefix}-{at}-forest")),
                differences=_markup(drawn),
                agreement=tables.agreement(evidence),
                classes=tables.classes(evidence),
                alike=_markup(figures.agreement(f"{prefix}-{at}-alike", evidence, ALIKE)),
                moved=(*found[name].worse, *found[name].better),
                unmoved=found[name].instead,
                slices=tuple(sorted({part for row in rows for part in row["slices"]})),
                queries=rows,
                valued=len(pairs.query_ids) if pairs else 0,
            )
        )
    return tuple(views)


def view(report: ReportInput, number: int) -> DatasetView:
    """Put one dataset into words and figures; ``number`` makes its ids unique on the page."""
    prefix = f"d{number}"
    policy, described = report.policy, merged(report)
    latency = described.latency
    order = tables.best_first(report.means, report.measure)
    measures = tables.measures_of(report.means, report.measure)[:FIGURE_MEASURES]
    slices = figures.slice_means(f"{prefix}-slices", report.slice_means, report.measure, order)
    drawn = latency_curves(f"{prefix}-curves", latency) if latency else None
    cards = tuple(card(report, decision) for decision in report.decisions)
    return DatasetView(
        number=number,
        dataset=report.provenance.dataset,
        policy=f"{policy.name}, version {policy.version}" if policy else "",
        decided_at=minute(report.provenance.decided_at),
        expires_at=minute(report.provenance.expires_at or ""),
        start=report.decisions[0].control if report.decisions else "",
        kept=custody.lines(report.custody) if report.custody else (),
        headline=headline(cards),
        cards=cards,
        gates=tuple(
            _gates(report, decision, f"{prefix}-{at}")
            for at, decision in enumerate(report.decisions)
        ),
        leaderboard=tables.leaderboard(report),
        quality=_markup(figures.means(f"{prefix}-means", report.means, measures)),
        differences=tables.differences(described),
        traffic=traffic(described),
        unjudged=unjudged(described),
        by_slice=by_slice(report),
        slice_differences=slice_differences(described),
        slices=_markup(slices),
        comparisons=_comparisons(described, prefix),
        percentiles=figures.percentiles(latency) if latency else None,
        conditions=figures.conditions(latency) if latency else None,
        budgets=figures.budgets(report),
        ratios=figures.ratios(described, latency) if latency else None,
        ratio_forest=_markup(forest.draw_ratios(described, f"{prefix}-ratios")),
        curves=_markup(drawn),
        machine=latency.race.machine if latency else "",
        load=load_view(report.load, f"{prefix}-load") if report.load else None,
        links=report.links,
        provenance=tables.provenance(report),
        manifests=tables.manifests(report),
        commands=report.provenance.commands,
        together=report.trust.together if report.trust else "",
    )


@dataclass(frozen=True, slots=True)
class LoadView:
    """The last load in short."""

    table: Table
    curve: Markup
    notes: tuple[str, ...]
    loaded_at: str


def load_view(report: LoadReport, figure: str) -> LoadView:
    """Show the highest rate that every arm bore, and the curve over all rates."""
    return LoadView(
        highest_shared(report),
        Markup(load_curve(figure, report) or ""),  # noqa: S704  our own figure, its texts are escaped
        notes(report),
        report.loaded_at,
    )


def highest_shared(report: LoadReport) -> Table:
    """Keep of the response times those at the highest rate at which every arm has some."""
    shared = [
        rate
        for rate in report.rates
        if all((found := report.point(arm, rate)) and found.overall.count for arm in report.arms)
    ]
    kept = tuple(point for point in report.points if shared and point.rate == shared[-1])
    return response(replace(report, points=kept))


def to_page(reports: Sequence[ReportInput]) -> str:
    """Give the page of all datasets; the same bytes for the same input."""
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    views = tuple(map(view, reports, range(len(reports))))
    render = partial(environment().get_template("page.html.j2").render, datasets=views)
    text = render(
        script=Markup(script),  # noqa: S704  our own file
        style=Markup(style),  # noqa: S704  our own file
        script_source=Markup(script_source(script)),  # noqa: S704  our own digest
    )
    return text.rstrip() + "\n"
