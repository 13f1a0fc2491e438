"""What is known of how the evidence of a decision was kept, from pins, log and evidence at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.core.errors import BadFile, EvidenceError
from harness.core.evidence import ArmResult
from harness.core.formats import json_file
from harness.core.gate import Finding
from harness.core.run import Status
from harness.corpus import tuning
from harness.corpus.inventory import Inventory, changes
from harness.corpus.prepared import Prepared
from harness.corpus.tuning import Leak, leak
from harness.policy.looks import looks_by_step, told
from harness.policy.model import Policy
from harness.policy.pins import read
from harness.policy.reservations import not_as_pinned, tuned_on
from harness.report.page.custody import Coverage, Custody, Pinned, Since
from harness.stages.experiments import log as experiment_log
from harness.stages.experiments.inputs import race_settings, stock
from harness.stages.experiments.log import Log
from harness.stages.experiments.notes import judged_on
from harness.stages.layout import Layout
from harness.stages.report.assemble import Subject


def custody(layout: Layout, subject: Subject, arms: Mapping[str, ArmResult], log: Log) -> Custody:
    """Put together what a decision on the evidence in ``layout`` must say of its keeping.

    ``log`` has the experiments before it.

    Raises:
        EvidenceError: nothing is to be judged by.
        BadFile: pins, or what the log keeps, cannot be read.
    """
    data = Prepared.open(layout.data)
    policy, file, inventory = subject.policy, subject.policy_file, stock(layout)
    if policy is None or file is None:
        raise EvidenceError("there is nothing to judge by; name a policy")
    now = judged_on(layout, policy, file, inventory)
    seen = looks_by_step(log.experiments, policy, now)
    return Custody(
        coverage=_coverage(inventory, data, arms),
        pinned=pin_of(layout, file),
        command=subject.pin,
        number=len(log.lines) + 1,
        previous=log.head,
        since=_since(layout, log, inventory),
        looks=seen,
        earlier=told(log.experiments),
        unprobed=tuple(
            arm for arm in policy.arms if arm in arms and arms[arm].index_sha256 is None
        ),
        pinned_names=tuple(sorted(read(file).datasets.keys() - {layout.root.name})),
        tuned=leaks(layout, policy.arms),
        tuned_reason=policy.tuned_reason,
        raced=layout.race_receipt.is_file(),
    )


def of_decision(layout: Layout, subject: Subject, arms: Mapping[str, ArmResult]) -> Custody:
    """Put together what the decision in ``layout`` said of its keeping.

    Raises:
        BadFile: as ``custody``, or the decision does not name its line of the log.
        EvidenceError: the log has no such line.
    """
    try:
        written = json_file(layout.decision)
        number = int(written["datasets"][0]["record"]["number"])
    except (OSError, ValueError, KeyError, TypeError) as exc:
        hint = f"Decide anew: harness gate --dataset {layout.root.name}"
        raise BadFile(layout.decision, f"names no line of the log ({exc!r})", hint) from exc
    return custody(layout, subject, arms, experiment_log.before_decision(layout, number))


def reservations(policy: Policy, found: Custody) -> tuple[Finding, ...]:
    """Say what keeps every step from being promoted, whatever its gates say."""
    drift = drifted(found.pinned, found.command) if found.pinned else ()
    return (*drift, *tuned_on(policy, found.tuned))


def leaks(layout: Layout, arms: Iterable[str]) -> tuple[Leak, ...]:
    """Count for each tuned arm the judged queries in ``layout`` that its tuning has seen.

    Raises:
        BadFile: the record of an arm is invalid.
    """
    data = Prepared.open(layout.data)
    judged = data.qrels().grades.keys()
    queries = [query for query in data.queries() if query.query_id in judged]
    records = ((arm, layout.tuning(arm)) for arm in arms)
    return tuple(leak(arm, tuning.read(path), queries) for arm, path in records if path.is_file())


def drifted(pinned: Pinned, again: str) -> tuple[Finding, ...]:
    """Say that evidence is not as pinned; nothing where it is. ``again`` is what pins it anew."""
    if not pinned.differences:
        return ()
    return (not_as_pinned(pinned.differences, pinned_at=pinned.at, again=again),)


def pin_of(layout: Layout, policy_file: Path) -> Pinned | None:
    """Compare the evidence in ``layout`` with what ``policy_file`` is pinned to, if it is.

    Raises:
        BadFile: the pins cannot be read.
    """
    pin = read(policy_file).datasets.get(layout.root.name)
    if pin is None:
        return None
    at = pin.made[-1].at.date().isoformat()
    return Pinned(at, len(pin.made), pin.differences(stock(layout), race_settings(layout)))


def _coverage(inventory: Inventory, data: Prepared, arms: Mapping[str, ArmResult]) -> Coverage:
    asked, judged = inventory.queries.keys(), inventory.judgements.keys()
    unanswered = {
        arm: int((side.run.status != Status.ANSWERED).sum()) for arm, side in sorted(arms.items())
    }
    return Coverage(
        queries=len(asked),
        judged=len(asked & judged),
        negative=len(asked & frozenset(data.qrels().negative)),
        strangers=len(judged - asked),
        unanswered={arm: count for arm, count in unanswered.items() if count},
        left_out=data.manifest.left_out,
        own=len(data.ids().own),
    )


def _since(layout: Layout, log: Log, inventory: Inventory) -> Since | None:
    """Compare with the last decision that was made on other queries or judgements."""
    for one in reversed(log.experiments):
        if one.decision and one.inputs.inventory != inventory.sha256:
            before = experiment_log.inventory_of(layout, one)
            said = changes(before, inventory).said if before else ("not known, it was not kept",)
            return Since(one.at.isoformat(timespec="seconds"), said)
    return None
