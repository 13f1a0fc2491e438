"""What a decision rests on, counted a second time by other code than ours.

The first implementation cannot convict itself. Here every value of every arm comes from
ir-measures, every overlap and rank correlation counted by hand. The number of each gate on
a mean difference comes from those values, added up by hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.errors import EvidenceError
from harness.core.formats import moment_of
from harness.core.gate import Finding, StepDecision
from harness.core.scores import Estimate
from harness.corpus.prepared import Prepared
from harness.gates import equivalent, non_inferior, superior
from harness.policy.age import SLACK, check_past
from harness.policy.pins import read
from harness.policy.reservations import of_gates
from harness.stages.custody.crosscheck import check_agreements, check_values
from harness.stages.experiments import log as experiment_log
from harness.stages.experiments.log import HINT
from harness.stages.judging.taken_in import samples_in
from harness.stages.layout import Layout
from harness.stages.report.assemble import Subject
from harness.stages.score.stage import slices

SAME = 1e-8
"""``decision.json`` keeps ten significant digits."""
Differences = non_inferior.Settings | superior.Settings | equivalent.Settings
"""Gates whose number is a mean difference of one measure."""


class Recounted(NamedTuple):
    """What was counted twice."""

    values: int
    comparisons: int
    """Queries of pairs of runs."""
    gates: int


def recount(layout: Layout, subject: Subject, decisions: Sequence[StepDecision]) -> Recounted:
    """Count values, agreements and differences again, and compare them with what is written.

    The number of a gate that a judged sample moves is not counted here; it is derived again alone.

    Raises:
        EvidenceError: one is another, or stands where there is none, or the reverse.
    """
    second = check_values(layout)
    compared = check_agreements(layout, subject.pairs.values())
    members = slices(Prepared.open(layout.data).queries())
    gates, sampled = 0, samples_in(layout)
    steps = subject.policy.steps if subject.policy else ()
    for step, decision in zip(steps, decisions, strict=True):
        for gate, finding in zip(step.gates, of_gates(decision), strict=True):
            settings = gate.settings
            if isinstance(settings, Differences) and finding.estimate:
                versus = settings.versus if isinstance(settings, superior.Settings) else None
                arms = versus or step.control, step.candidate
                if (*arms, settings.measure) in sampled:
                    continue
                inside = members.get(settings.slice, frozenset()) if settings.slice else None
                both = [second[arm][settings.measure].by_query for arm in arms]
                _same_difference(step.name, finding, finding.estimate, both, inside)
                gates += 1
    values = sum(len(one.query_ids) for of in second.values() for one in of.values())
    return Recounted(values, compared, gates)


def _same_difference(
    step: str,
    finding: Finding,
    said: Estimate,
    values: Sequence[Mapping[str, float]],
    inside: frozenset[str] | None,
) -> None:
    """Add up the differences of one gate, and hold its number and the ends around it."""
    control, candidate = values
    shared = control.keys() & candidate.keys()
    counted = shared if inside is None else shared & inside
    mean = math.fsum(candidate[q] - control[q] for q in counted) / max(len(counted), 1)
    if abs(mean - said.value) > SAME or not said.low <= said.value <= said.high:
        raise EvidenceError(
            f"gate {finding.gate!r} of step {step}: says {said.value:g} [{said.low:g},"
            f" {said.high:g}], but {len(counted)} differences of ir-measures have a mean of"
            f" {mean:g}; the gate cannot be believed: correct the rule {finding.rule}"
        )


def check_times(layout: Layout, about: Mapping[str, Any], subject: Subject) -> None:
    """Refuse a decision whose time is not its log line's, or that has a time of the future below.

    ``about`` is what it says of its one data set. Replays, race, load test and traffic are held
    where they are read.

    Raises:
        EvidenceError: as said; the message names the file and what to do.
    """
    decided_at = moment_of(about["provenance"]["decided_at"])
    number = int(about["record"]["number"])
    experiment_log.before_decision(layout, number)
    path, log = layout.log, experiment_log.read(layout)
    logged = log.experiments[number - 1].at
    if abs(logged - decided_at) > SLACK:
        raise EvidenceError(
            f"{layout.decision}: was decided at {decided_at.isoformat()}, and line {number} of"
            f" {path}, which is of it, is of {logged.isoformat(timespec='seconds')}. Decide anew:"
            f" harness gate --dataset {layout.root.name}"
        )
    for one in log.experiments:
        _past(f"{path}:{one.number}", one.at, HINT)
    for file, at in _stated(layout, subject):
        _past(str(file), at, "Bring the file back as it was, or make it anew")


def _stated(layout: Layout, subject: Subject) -> Iterator[tuple[Path, datetime]]:
    """Yield when evidence was pinned."""
    if subject.policy is None or subject.policy_file is None:
        return
    if pin := read(subject.policy_file).datasets.get(layout.root.name):
        yield from ((subject.policy_file, made.at) for made in pin.made)


def _past(where: str, at: datetime, hint: str) -> None:
    try:
        check_past(at)
    except EvidenceError as exc:
        raise EvidenceError(f"{where}: {exc}. {hint}") from exc
