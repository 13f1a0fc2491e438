"""Verdicts, and what each gate measured, as printed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from harness.core.gate import Finding, Outcome, StepDecision, Verdict
from harness.core.scores import Estimate
from harness.corpus.runs import Means
from harness.report.doc import Cell, Section, TableBlock, Text, table
from harness.report.page.remains import remains
from harness.report.rounding import in_unit, interval

TONES = {Outcome.PROMOTE: "good", Outcome.HOLD: "open", Outcome.ROLLBACK: "bad"}


def section(dataset: str, decisions: Iterable[StepDecision]) -> Section:
    """Show what may be done, and why not where it may not."""
    blocks = []
    for found in decisions:
        word = found.outcome.upper()
        if found.verdict is Verdict.INCONCLUSIVE:
            word += " (inconclusive)"
        line = f"  {found.step:<10} {word}  {found.control} -> {found.candidate}"
        blocks.append(Text(line, TONES[found.outcome]))
        waits = [f"waits for the step {found.blocked_by}"] if found.blocked_by else []
        lines = (*waits, *_remains(found), *blocking_lines(found.blocking))
        blocks += [Text(f"{'':13}{line}") for line in lines]
    return Section(dataset, tuple(blocks))


def _remains(found: StepDecision) -> Iterator[str]:
    """Write once what all open gates of a step together need, where there are several."""
    if found.verdict is Verdict.INCONCLUSIVE and len(found.blocking) > 1:
        queries = max((one.estimate.n for one in found.findings if one.estimate), default=1)
        alone = replace(found, blocked_by="")
        if needs := [need.words for need in remains(alone, queries)]:
            yield f"what remains: {'; '.join(needs)}"


def blocking_lines(blocking: Iterable[Finding]) -> Iterator[str]:
    """Write what each gate measured and requires, why, and what leads to a decision.

    Neighbours for which nothing was measured, for one reason, are written together.
    """
    for _, alike in groupby(blocking, key=_said):
        finding, *others = alike
        gates = ", ".join([finding.gate, *(one.gate for one in others)])
        named = f"{finding.verdict.upper()}: {gates}"
        if finding.estimate is None:
            yield f"{named}: {finding.reason}"
        else:
            value = in_unit(finding.estimate.value, finding.unit)
            ends = interval(finding.estimate, finding.unit)
            yield f"{named}: {value} {ends}; required: {finding.bound}"
            yield f"  {finding.reason}"
        if finding.remedy:
            yield f"  to reach a decision: {finding.remedy}"


def _said(finding: Finding) -> tuple[str, ...]:
    alone = "" if finding.estimate is None else finding.gate
    return finding.verdict, finding.reason, finding.remedy, alone


def leaderboard(means: Means, measures: Sequence[str]) -> TableBlock:
    """Show the mean of each measure for each arm, best first by the first measure.

    The number of queries stands beside a mean that is of fewer than another's.
    """
    first = measures[0]
    ordered = sorted(
        means.items(),
        key=lambda row: (-row[1][first].value if first in row[1] else math.inf, row[0]),
    )
    most = {m: max((row[m].n for row in means.values() if m in row), default=0) for m in measures}
    rows: list[list[Cell]] = []
    for arm, of in ordered:
        rows.append([Cell(arm), *(_mean(of.get(m), most[m]) for m in measures)])
    return table("", ("arm", *measures), rows)


def _mean(estimate: Estimate | None, most: int) -> Cell:
    if estimate is None:
        return Cell("-")
    few = f"(n {estimate.n:,} of {most:,})" if estimate.n < most else ""
    return Cell(f"{estimate.value:.4f}", few)
