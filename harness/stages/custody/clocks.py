"""Every time that a decision rests on, compared with the log of experiments and today's clock.

What expires rests on times that are stored as they were stated. Whoever moves one into the future
makes old evidence young for as long; so none may be later than now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.core.errors import EvidenceError
from harness.policy.age import SLACK, check_past
from harness.policy.pins import read
from harness.policy.plan.registration import cited
from harness.stages.experiments import log as experiment_log
from harness.stages.experiments.log import HINT
from harness.stages.layout import Layout
from harness.stages.report.assemble import Subject


def check_times(layout: Layout, about: Mapping[str, Any], subject: Subject) -> None:
    """Refuse a decision whose time is not its log line's, or that has a time of the future below.

    ``about`` is what it says of its one data set. Replays, race, load test and traffic are held
    where they are read.

    Raises:
        EvidenceError: as said; the message names the file and what to do.
    """
    decided_at = datetime.fromisoformat(about["provenance"]["decided_at"])
    number = int(about["record"]["number"])
    experiment_log.before_decision(layout, number)
    path, log = layout.experiments / experiment_log.FILE, experiment_log.read(layout)
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
    """Yield when evidence was pinned, and the plan registered."""
    if subject.policy is None or subject.policy_file is None:
        return
    if pin := read(subject.policy_file).datasets.get(layout.root.name):
        yield from ((subject.policy_file, made.at) for made in pin.made)
    found = cited(subject.policy, subject.policy_file, layout.root.name)
    if found and found.registration:
        yield found.file, found.registration.at


def _past(where: str, at: datetime, hint: str) -> None:
    try:
        check_past(at)
    except EvidenceError as exc:
        raise EvidenceError(f"{where}: {exc}. {hint}") from exc
