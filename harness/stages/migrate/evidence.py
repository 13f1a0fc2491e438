"""What a migration may rest on: the decision at hand, and days on which arms were compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.agreement.classes import UNCOMPARED
from harness.core import digest
from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.core.formats import json_file, moment_of
from harness.core.gate import StepDecision, Verdict
from harness.core.reading import Malformed
from harness.policy.migration.events import Day, Decided, Said
from harness.policy.migration.status import CurrentDecision
from harness.policy.model import Step
from harness.shadow.log.record import Observation
from harness.shadow.log.streams import files, records
from harness.stages.gate import read_decision
from harness.stages.layout import Layout

NANOSECONDS = 1_000_000_000
SETUP = ("engine", "version", "settings_sha256")
"""Of a manifest, what an engine is beside its documents."""


def evidence(layout: Layout, policy_file: Path, held: Callable[[], object]) -> CurrentDecision:
    """Read the decision in ``layout``; ``held`` counts the digests below it again.

    Nothing is raised for a decision that is not to be believed: it is said why.
    """
    policy_sha256 = digest.of_file(policy_file)
    if not layout.decision.is_file():
        return CurrentDecision(None, "", policy_sha256)
    refused = ""
    try:
        held()
    except HarnessError as exc:
        refused = str(exc)
    try:
        return CurrentDecision(decided(layout), refused, policy_sha256)
    except HarnessError as exc:
        return CurrentDecision(None, refused or str(exc), policy_sha256)


def decided(layout: Layout) -> Decided:
    """Read what the decision says of each step.

    Raises:
        BadFile: there is none, or it is not one that stage ``gate`` wrote.
        EvidenceError: no policy decided it.
    """
    decisions, decided_at = read_decision(layout)
    about = json_file(layout.decision)["datasets"][0]
    if about["policy"] is None:
        raise EvidenceError(f"{layout.decision}: no policy decided it; run harness gate")
    try:
        return _decided(layout, about, decisions, decided_at)
    except (Malformed, ValidationError) as exc:
        said = exc.errors()[0]["msg"] if isinstance(exc, ValidationError) else exc
        hint = f"Run: harness gate --dataset {layout.root.name}"
        raise BadFile(layout.decision, f"it is not what was decided ({said})", hint) from exc


def _decided(
    layout: Layout,
    about: Mapping[str, Any],
    decisions: Iterable[StepDecision],
    decided_at: datetime,
) -> Decided:
    arms = {name: _setup(row) for name, row in about["provenance"]["arms"].items()}
    compared = {one["name"]: _compared(one["agreement"]["classes"]) for one in about["comparisons"]}
    replays = about["provenance"].get("replayed_at", {})
    raced_at = about["latency"]["raced_at"] if about["latency"] else None
    return Decided(
        sha256=digest.of_file(layout.decision),
        decided_at=decided_at,
        raced_at=moment_of(raced_at) if raced_at else None,
        policy_sha256=about["policy"]["sha256"],
        steps=tuple(
            _said(one, arms, compared.get(one.step, 0), _earlier(replays, one)) for one in decisions
        ),
    )


def _setup(manifest: Mapping[str, Any]) -> str:
    return digest.of_json([manifest[key] for key in SETUP])


def _compared(classes: Mapping[str, int]) -> int:
    return sum(count for name, count in classes.items() if name not in UNCOMPARED)


def _earlier(replays: Mapping[str, str], one: StepDecision) -> datetime | None:
    """Give when the first of a step's arms was asked; None where it is not known of both."""
    if not {one.control, one.candidate} <= replays.keys():
        return None
    return min(moment_of(replays[arm]) for arm in (one.control, one.candidate))


def _said(
    one: StepDecision, arms: Mapping[str, str], compared: int, replayed_at: datetime | None
) -> Said:
    gates = {
        verdict: tuple(finding.gate for finding in one.findings if finding.verdict is verdict)
        for verdict in Verdict
    }
    return Said(
        step=one.step,
        control=one.control,
        candidate=one.candidate,
        verdict=one.verdict,
        outcome=one.outcome,
        waits_for=one.blocked_by,
        failed=gates[Verdict.FAIL],
        open=gates[Verdict.INCONCLUSIVE],
        control_setup=arms[one.control],
        candidate_setup=arms[one.candidate],
        compared=compared,
        replayed_at=replayed_at,
    )


def replayed(decision: Decided) -> tuple[Day, ...]:
    """Give the day on which a decision was requested for each step's arms.

    Deciding once more on another day makes no day of it; nor does a replay that has no date.
    """
    found = {
        (said.control, said.candidate): Day(
            day=said.replayed_at.astimezone(UTC).date(),
            control=said.control,
            candidate=said.candidate,
            pairs=said.compared,
            source="replay",
        )
        for said in decision.steps
        if said.compared and said.replayed_at
    }
    return tuple(found.values())


def live(folders: Iterable[Path]) -> Iterator[Observation]:
    """Yield what the shadow streams in ``folders`` hold.

    Raises:
        BadFile: a folder has none, or a line is not a record.
    """
    for folder in folders:
        if not files(folder, Observation):
            raise BadFile(folder, "holds no shadow streams", "Name a folder that a shadow wrote")
        yield from records(folder, Observation)


def streamed(observations: Iterable[Observation], step: Step) -> tuple[Day, ...]:
    """Count the pairs that a shadow of live queries compared, by day (UTC), for ``step``.

    Raises:
        EvidenceError: an arm was compared with itself, or with one that does not say who it is.
    """
    pairs: Counter[date] = Counter()
    for seen in observations:
        if not seen.compared or seen.control is None or seen.candidate is None:
            continue
        who = seen.control.served_by, seen.candidate.served_by
        if "" in who or who[0] == who[1]:
            raise EvidenceError(
                f"attempt {seen.number} of {seen.writer}: control and candidate are both"
                f" {who[0][:12] or 'unknown'}; a comparison of an engine with itself says"
                f" nothing about {step.name}"
            )
        pairs[datetime.fromtimestamp(seen.at // NANOSECONDS, UTC).date()] += 1
    return tuple(
        Day(
            day=day,
            control=step.control,
            candidate=step.candidate,
            pairs=count,
            source="streams",
        )
        for day, count in sorted(pairs.items())
    )
