"""All five files of a report, written from one input; the one in Markdown is made here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.core import files
from harness.core.printable import printable
from harness.report.decision.ci import to_junit
from harness.report.decision.decision_json import to_json
from harness.report.doc import Table
from harness.report.explorer import to_explorer
from harness.report.html import PAGE
from harness.report.inputs import ReportInput
from harness.report.page import custody, figures, tables
from harness.report.page.cards import card, gate_rows, headline, merged
from harness.report.page.queries import Moved, movers
from harness.report.page.tables import traffic, unjudged
from harness.report.page.view import to_page
from harness.report.rounding import markdown, markdown_rows

WORST = 10
TEXT = 100


class Written(NamedTuple):
    """Where the files of a report are."""

    page: Path
    explorer: Path
    markdown: Path
    decision: Path
    junit: Path


def write_reports(reports: Sequence[ReportInput], out: Path) -> Written:
    """Write the two pages, ``report.md``, ``decision.json`` and ``junit.xml`` into ``out``."""
    written = Written(
        out / "index.html", out / PAGE, out / "report.md", out / "decision.json", out / "junit.xml"
    )
    for name, text in texts(reports).items():
        files.write_text(out / name, text)
    return written


def texts(reports: Sequence[ReportInput]) -> dict[str, str]:
    """Give the text of each file of a report, by its name; the same input gives the same bytes."""
    return {
        "index.html": to_page(reports),
        PAGE: to_explorer(reports),
        "report.md": to_markdown(reports),
        "decision.json": files.json_text(to_json(reports)),
        "junit.xml": to_junit(reports),
    }


def _table(table: Table, level: int) -> Iterator[str]:
    yield f"{'#' * level} {markdown(table.caption)}"
    yield ""
    if table.rows:
        rows = [[" ".join(filter(None, (c.text, c.note))) for c in row] for row in table.rows]
        yield from markdown_rows(table.header, rows)
    else:
        yield "Nothing was measured."
        yield ""


def _steps(report: ReportInput) -> Iterator[str]:
    for decision in report.decisions:
        shown = card(report, decision)
        yield f"### {markdown(decision.step)}: {shown.outcome.value.upper()}"
        yield ""
        arms = f"{markdown(shown.control)} → {markdown(shown.candidate)}"
        yield f"{arms}. **{markdown(shown.answer)}** {markdown(shown.counts)}."
        yield ""
        yield markdown(" ".join((shown.effect, *shown.sure)))
        yield ""
        header = ("gate", "verdict", "bound", "measured", "interval", "n", "p", "why")
        rows = []
        for row in gate_rows(decision):
            remedy = f"To reach a decision: {row.remedy}" if row.remedy else ""
            parts = (row.reason, remedy)
            why = " ".join(f"{part.removesuffix('.')}." for part in parts if part)
            verdict = row.verdict.value.upper()
            measured = (row.value, row.interval, row.n, row.p_value)
            rows.append((row.gate, verdict, row.bound, *measured, why))
        if rows:
            yield from markdown_rows(header, rows)


def _trust(report: ReportInput) -> Iterator[str]:
    if report.trust is None:
        return
    yield "### How far these verdicts can be trusted"
    yield ""
    yield markdown(report.trust.together)
    yield ""


def _worst(report: ReportInput) -> Iterator[str]:
    for name, found in movers(report, WORST).items():
        yield f"### Queries that lost most: {markdown(name)}"
        yield ""

        def row(moved: Moved) -> tuple[str, ...]:
            values = moved.control.value, moved.candidate.value, moved.difference
            return (moved.query_id, moved.text[:TEXT], ", ".join(moved.slices), *values)

        if found.worse:
            header = ("query", "text", "slices", "control", "candidate", "difference")
            yield from markdown_rows(header, [row(moved) for moved in found.worse])
        else:
            yield markdown(found.instead or f"No query lost {report.measure}.")
            yield ""


def _code(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"    {printable(line).replace(chr(10), ' ')}"
    yield ""


def _kept(report: ReportInput) -> Iterator[str]:
    if report.custody:
        yield from (f"- {markdown(line)}" for line in custody.lines(report.custody))
        yield ""


def _dataset(report: ReportInput) -> Iterator[str]:
    yield f"## {markdown(report.provenance.dataset)}"
    yield ""
    if not report.decisions:
        yield "No policy was named, so nothing is decided: the arms are only compared."
        yield ""
    yield from _kept(report)
    yield from _steps(report)
    yield from _trust(report)
    yield from _table(tables.leaderboard(report), 3)
    if report.evidence:
        yield from _table(tables.differences(report), 3)
        yield from _table(unjudged(merged(report)), 3)
    if report.traffic:
        yield from _table(traffic(merged(report)), 3)
    if report.slice_means:
        yield from _table(tables.by_slice(report), 3)
    described = merged(report)
    if described.slice_differences:
        yield from _table(tables.slice_differences(described), 3)
    for name, evidence in report.evidence.items():
        yield f"### Agreement: {markdown(name)}"
        yield ""
        yield from _table(tables.agreement(evidence), 4)
        yield from _table(tables.classes(evidence), 4)
    yield "### Latency"
    yield ""
    if report.latency is None:
        yield "No race was run, so nothing is said about time."
        yield ""
    else:
        yield from _table(figures.percentiles(report.latency), 4)
        yield from _table(figures.conditions(report.latency), 4)
        if (budgets := figures.budgets(report)).rows:
            yield from _table(budgets, 4)
        yield from _table(figures.ratios(report, report.latency), 4)
    yield from _worst(report)
    yield "### Provenance"
    yield ""
    yield from markdown_rows(("what", "value"), tables.provenance(report))
    yield from _table(tables.manifests(report), 4)
    yield from _code(report.provenance.commands)


def to_markdown(reports: Sequence[ReportInput]) -> str:
    """Give the decisions of all datasets as GitHub-flavoured Markdown."""
    lines = ["# May the search engine be replaced?", ""]
    decided = [(report, card(report, d)) for report in reports for d in report.decisions]
    for report in reports:
        cards = [shown for of, shown in decided if of is report]
        if said := headline(cards):
            lines += [f"{markdown(report.provenance.dataset)}: **{markdown(said)}**", ""]
    if decided:
        rows = [
            (
                report.provenance.dataset,
                shown.step,
                f"{shown.outcome.value.upper()}. {shown.answer}",
                "; ".join(filter(None, (shown.gain, shown.latency))),
                "; ".join(need.words for need in shown.remains) or "nothing",
            )
            for report, shown in decided
        ]
        lines += markdown_rows(("dataset", "step", "outcome", "measured", "what remains"), rows)
    for report in reports:
        lines += _dataset(report)
    return "\n".join(lines).rstrip() + "\n"
