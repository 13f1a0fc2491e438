"""Verdicts, and what each gate measured, on the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.markup import escape
from rich.table import Table

from harness.cli.app import out
from harness.core.gate import Finding, Outcome, StepDecision, Verdict
from harness.core.scores import Estimate
from harness.corpus.runs import Means
from harness.report.rounding import in_unit, interval_in

COLOURS = {Outcome.PROMOTE: "green", Outcome.HOLD: "yellow", Outcome.ROLLBACK: "red"}


def show(dataset: str, decisions: Iterable[StepDecision]) -> None:
    """Print what may be done, and why not where it may not."""
    out.print(f"\n[bold]{escape(dataset)}[/bold]")
    for found in decisions:
        word = found.outcome.upper()
        if found.verdict is Verdict.INCONCLUSIVE:
            word += " (inconclusive)"
        arms = f"{found.control} -> {found.candidate}"
        out.print(f"  {found.step:<10} [{COLOURS[found.outcome]}]{word}[/]  {escape(arms)}")
        if found.blocked_by:
            out.print(f"             waits for the step {found.blocked_by}")
        for line in blocking_lines(found.blocking):
            out.print(f"             {escape(line)}")


def blocking_lines(blocking: Iterable[Finding]) -> Iterator[str]:
    """Say what each gate measured and requires, why, and what leads to a decision.

    Neighbours for which nothing was measured, for one reason, are said together.
    """
    for _, alike in groupby(blocking, key=_said):
        finding, *others = alike
        gates = ", ".join([finding.gate, *(one.gate for one in others)])
        named = f"{finding.verdict.upper()}: {gates}"
        if finding.estimate is None:
            yield f"{named}: {finding.reason}"
        else:
            value = in_unit(finding.estimate.value, finding.unit)
            ends = interval_in(finding.estimate, finding.unit)
            yield f"{named}: {value} {ends}; required: {finding.bound}"
            yield f"  {finding.reason}"
        if finding.remedy:
            yield f"  to reach a decision: {finding.remedy}"


def _said(finding: Finding) -> tuple[str, ...]:
    alone = "" if finding.estimate is None else finding.gate
    return finding.verdict, finding.reason, finding.remedy, alone


def leaderboard(means: Means, measures: Sequence[str]) -> None:
    """Print the mean of each measure for each arm, best first by the first measure.

    The number of queries stands beside a mean that is of fewer than another's.
    """
    table = Table("arm", *measures, box=None, padding=(0, 1, 0, 0))
    first = measures[0]
    ordered = sorted(
        means.items(),
        key=lambda row: (-row[1][first].value if first in row[1] else math.inf, row[0]),
    )
    most = {m: max((row[m].n for row in means.values() if m in row), default=0) for m in measures}
    for arm, by_measure in ordered:
        shown = [_mean(by_measure.get(m), most.get(m, 0)) for m in measures]
        table.add_row(escape(arm), *shown)
    out.print(table)


def _mean(estimate: Estimate | None, most: int) -> str:
    if estimate is None:
        return "-"
    return f"{estimate.value:.4f}" + (
        f" (n {estimate.n:,} of {most:,})" if estimate.n < most else ""
    )
