"""Verdicts, and what each gate measured, as printed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from harness.core.gate import Finding, Outcome, StepDecision, Verdict
from harness.core.scores import Estimate
from harness.corpus.runs import Means
from harness.report.doc import Cell, Section, TableBlock, Text, table
from harness.report.page.cards import outcome_word, remains
from harness.report.page.tables import best_first
from harness.report.rounding import in_unit, interval

TONES = {Outcome.PROMOTE: "good", Outcome.HOLD: "open", Outcome.ROLLBACK: "bad"}


def section(dataset: str, decisions: Iterable[StepDecision]) -> Section:
    """Show what may be done, and why not where it may not."""
    blocks = []
    for found in decisions:
        word, arms = outcome_word(found), f"{found.control} -> {found.candidate}"
        line = f"  {found.step:<10} {word}  {arms}"
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
    """Write what each gate measured and requires; neighbours of one reason stand together."""

    def said(finding: Finding) -> tuple[str, ...]:
        alone = "" if finding.estimate is None else finding.gate
        return finding.verdict, finding.reason, finding.remedy, alone

    for _, alike in groupby(blocking, key=said):
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


def located(
    decisions: Iterable[StepDecision], dataset: str, place: str
) -> tuple[StepDecision, ...]:
    """Return decisions whose remedies name what a run left: by ``--from``, raced by the run."""
    found = tuple(decisions)
    if not place.startswith("--from "):
        return found
    named = {
        f" --dataset {dataset}": f" {place}",
        "harness pool --control": f"harness pool {place} --control",
        "harness race": "the same harness run with --race",
    }

    def here(one: Finding) -> Finding:
        remedy = one.remedy
        for project, run in named.items():
            remedy = remedy.replace(project, run)
        return replace(one, remedy=remedy)

    return tuple(replace(one, findings=tuple(map(here, one.findings))) for one in found)


def leaderboard(means: Means, measures: Sequence[str]) -> TableBlock:
    """Show the mean of each measure for each arm, best first by the first measure.

    The number of queries stands beside a mean that is of fewer than another's.
    """
    most = {m: max((row[m].n for row in means.values() if m in row), default=0) for m in measures}

    def mean(found: Estimate | None, most: int) -> Cell:
        if found is None:
            return Cell("-")
        return Cell(f"{found.value:.4f}", f"(n {found.n:,} of {most:,})" if found.n < most else "")

    rows = (
        [Cell(arm), *(mean(means[arm].get(m), most[m]) for m in measures)]
        for arm in best_first(means, measures[0])
    )
    return table("", ("arm", *measures), rows)
