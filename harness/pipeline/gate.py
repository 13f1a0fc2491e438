"""Stage ``gate``: judge every step of the policy, and write the decision with its evidence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.errors import BadFile, EvidenceError
from harness.core.evidence import Evidence
from harness.core.files import json_text, write_text
from harness.core.formats import json_file, moment_of
from harness.core.gate import StepDecision
from harness.core.parts import kinds
from harness.corpus.clusters import CLUSTERS
from harness.corpus.prepared import CORPUS, MANIFEST, QRELS, QUERIES
from harness.corpus.tuning import Leak
from harness.pipeline import experiments, pins, receipts
from harness.pipeline.compare import read_agreement, tie_ends
from harness.pipeline.evidence import (
    ReportSubject,
    assemble,
    evidence_of,
    gathered,
    measured,
    pairs_of,
    sides,
)
from harness.pipeline.experiments import ExperimentLog, stock
from harness.pipeline.layout import Layout
from harness.pipeline.race import read_race
from harness.pipeline.receipts import Replayed, replayed
from harness.policy.age import check_age, check_past
from harness.policy.decision import decide as judge
from harness.policy.decision import tuned_on
from harness.policy.load import for_candidates, load_policy
from harness.policy.looks import Looks, looks_by_step
from harness.policy.model import Policy
from harness.policy.pins import path_of
from harness.report.ci import to_junit
from harness.report.decision import from_json, steps_json, to_json, without_times
from harness.report.inputs import ReportInput
from harness.report.page.custody import Custody, Pinned


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """All that a decision follows from, beside its policy and its time."""

    evidence: Mapping[str, Evidence]
    ends: tuple[Mapping[str, Evidence], ...]
    """The same, with ties of imported runs settled otherwise."""
    replayed: Mapping[str, Replayed]
    accepted: Mapping[str, pins.Accepting]
    """What the decisions said by which steps were taken, by step."""
    pinned: Pinned | None
    pin: str
    tuned: tuple[Leak, ...]
    looks: Mapping[str, Looks]


def decide(measured: Measured, policy: Policy, now: datetime) -> tuple[StepDecision, ...]:
    """Judge every step. Nothing is read or written: the same evidence gives the same decision."""
    for arm in policy.arms:
        if arm in measured.replayed:
            measured.replayed[arm].check(now, policy.evidence_days)
    pins.check_accepted(policy, measured.accepted, measured.evidence)
    return judge(
        policy,
        measured.evidence,
        now=now,
        ends=measured.ends,
        reservations=(
            *pins.drifted(measured.pinned, measured.pin),
            *tuned_on(policy, measured.tuned),
        ),
        looks=measured.looks,
    )


def _measured(
    layout: Layout, policy: Policy, evidence: Mapping[str, Evidence], kept: Custody
) -> Measured:
    return Measured(
        evidence,
        tie_ends(layout, policy, evidence),
        {arm: replayed(layout, arm) for arm in policy.arms},
        pins.accepted_in(policy, layout.root.name),
        kept.pinned,
        kept.command,
        kept.tuned,
        kept.looks,
    )


DETERMINISTIC = ("dataset", "policy", "steps")
STATED = ("packages", "python", "code_version", "machine")
"""Of the provenance: facts of the day and place of the decision."""


def gate(layout: Layout, subject: ReportSubject, *, now: datetime) -> ReportInput:
    """Write ``decision.json`` and ``junit.xml``, and what of them does not rest on a clock.

    What was decided, and all that it was decided from, is given back for a page.

    ``now`` is the time of the decision, aware of its zone: evidence is as old as it is then.

    An earlier decision is taken away first: where this one cannot be made, none is left.
    """
    for stale in (layout.signature, layout.decision_receipt, layout.decision, layout.junit):
        stale.unlink(missing_ok=True)
    if subject.policy is None or subject.policy_file is None:
        raise EvidenceError("there is nothing to judge by; name a policy")
    with experiments.writing(layout):
        report = decided(layout, subject, experiments.read(layout), now)
        for path, text in texts(layout, report).items():
            write_text(path, text)
        files = rests_on(layout, subject.arms, subject.policy_file)
        receipts.write(layout.decision_receipt, dict.fromkeys(files))
        told = subject.policy, subject.policy_file, report.decisions, now
        pins.note_judged(layout, *told, decided=True)
    return report


def decided(
    layout: Layout, subject: ReportSubject, log: ExperimentLog, now: datetime
) -> ReportInput:
    """Decide on the evidence in ``layout`` at the time ``now``, after what ``log`` has."""
    if subject.policy is None:
        raise EvidenceError("there is nothing to judge by; name a policy")
    evidence = evidence_of(layout, subject)
    kept = pins.custody(layout, subject, measured(layout, subject, evidence), log)
    decisions = decide(_measured(layout, subject.policy, evidence, kept), subject.policy, now)
    return assemble(layout, subject, evidence, decisions, now, custody=kept)


def texts(layout: Layout, report: ReportInput) -> dict[Path, str]:
    """Return the text of each file of a decision: the decision, its JUnit file, its findings."""
    written = to_json([report])
    steady = without_times(written)["datasets"][0]
    return {
        layout.decision: json_text(written),
        layout.findings: json_text({key: steady[key] for key in DETERMINISTIC}),
        layout.junit: to_junit([report]),
    }


NAMES = ("gate", "step", "name", "dataset", "model")
"""Keys by which an element of a list is known."""
FIRST = ("datasets", "steps", "findings", "gate", "verdict", "estimate", "bound")
"""Keys that are looked at before the others: a gate first, and of it what it decides."""
ABSENT = "nothing"
LONGEST = 200


class StoredDifference(NamedTuple):
    """One value that was stored, and what is derived in its place; both as JSON."""

    where: str
    """From the outside in, e.g. ``steps.tantivy.findings.Quality.verdict``."""
    stored: str
    derived: str

    def __str__(self) -> str:
        """Write it as one clause."""
        return f"{self.where}: stored {self.stored}, derived {self.derived}"


def first_difference(stored: Any, derived: Any) -> StoredDifference | None:  # noqa: ANN401  of JSON
    """Return the first value in which the two differ; None where they are equal."""
    return None if stored is derived else next(_differences("", stored, derived), None)


def _differences(where: str, stored: Any, derived: Any) -> Iterator[StoredDifference]:  # noqa: ANN401
    if isinstance(stored, Mapping) and isinstance(derived, Mapping):
        for key in sorted({*stored, *derived}, key=_place):
            pair = stored.get(key, ABSENT), derived.get(key, ABSENT)
            yield from _differences(f"{where}.{key}".lstrip("."), *pair)
    elif _is_list(stored) and _is_list(derived):
        for at, pair in enumerate(zip_longest(stored, derived, fillvalue=ABSENT)):
            yield from _differences(f"{where}.{_name(pair, at)}", *pair)
    elif stored != derived or type(stored) is not type(derived):
        yield StoredDifference(where, _short(stored), _short(derived))


def _place(key: str) -> tuple[int, str]:
    return (FIRST.index(key) if key in FIRST else len(FIRST), key)


def _is_list(value: Any) -> bool:  # noqa: ANN401  of JSON
    return isinstance(value, Sequence) and not isinstance(value, str)


def _name(pair: Sequence[Any], at: int) -> str:
    named = (one[key] for one in pair if isinstance(one, Mapping) for key in NAMES if key in one)
    return str(next((name for name in named if isinstance(name, str)), at))


def _short(value: Any) -> str:  # noqa: ANN401  of JSON
    text = value if value == ABSENT else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def as_stated(report: ReportInput, stated: Mapping[str, Any]) -> ReportInput:
    """Replace today's facts of day and place by those of a decision."""
    facts = {fact: stated[fact] for fact in STATED}
    return replace(report, provenance=replace(report.provenance, **facts))


def check_decision(layout: Layout, subject: ReportSubject, *, now: datetime) -> None:
    """Decide again on policy and evidence as they are now, and compare with what is stored."""
    decisions, decided_at = read_decision(layout)
    hint = layout.remedy(Layout.decision)
    files = rests_on(layout, subject.arms, subject.policy_file)
    receipts.check(layout.decision_receipt, files, hint)
    if subject.policy is None:
        return
    days = subject.policy.evidence_days
    try:
        check_age(decided_at.isoformat(), now=now, evidence_days=days)
    except EvidenceError as exc:
        raise EvidenceError(f"{layout.decision}: expired: {exc}. {hint}") from exc
    evidence = evidence_of(layout, subject)
    kept = pins.custody(layout, subject, measured(layout, subject, evidence), pins.before(layout))
    again = decide(_measured(layout, subject.policy, evidence, kept), subject.policy, decided_at)
    if found := first_difference(*(steps_json(of) for of in (decisions, again))):
        raise EvidenceError(f"{layout.decision}: {found}. {hint}")


def rests_on(layout: Layout, arms: Iterable[str], policy: Path | None) -> Iterable[Path]:
    """Yield the decision and every file that it was made from."""
    yield from (layout.decision, layout.findings, layout.junit)
    yield from (layout.score_receipt, layout.compare_receipt)
    if policy:
        yield policy
        if path_of(policy).is_file():
            yield path_of(policy)
    if layout.race_receipt.is_file():
        yield from (layout.race_receipt, layout.times)
    needed = load_policy(policy).beside if policy else ()
    for kind in kinds():
        if kind.always or kind.name in needed:
            yield from kind.artifacts(layout)
    yield from (layout.data / name for name in (MANIFEST, CORPUS, QUERIES, QRELS, CLUSTERS))
    for arm in arms:
        yield from (layout.manifest(arm), layout.run_receipt(arm))
        yield from (layout.run(arm), layout.again(arm))
        for noted in (layout.replayed(arm), layout.tuning(arm)):
            if noted.is_file():
                yield noted
    yield from (layout.per_query, layout.scores, layout.slices)
    yield from (layout.agreement, layout.classes, layout.differences)


def read_decision(layout: Layout) -> tuple[tuple[StepDecision, ...], datetime]:
    """Read what was decided, and when."""
    path = layout.decision
    hint = layout.remedy(Layout.decision)
    try:
        written = json_file(path)
    except FileNotFoundError:
        raise BadFile(path, "nothing was decided yet", hint) from None
    except ValueError as exc:
        raise BadFile(path, f"not JSON ({exc})", hint) from exc
    decisions = tuple(found.decision for found in from_json(written, path))
    decided_at = written["datasets"][0]["provenance"]["decided_at"]
    try:
        check_past(decided_at)
    except EvidenceError as exc:
        raise BadFile(path, str(exc), hint) from exc
    return decisions, moment_of(decided_at)


def decide_again(
    layout: Layout, policy: Policy, policy_file: Path, *, control: str, now: datetime
) -> tuple[StepDecision, ...]:
    """Judge what was measured in ``layout`` by ``policy``, and note in the log that it was done."""
    arms = tuple(arm for (arm,) in layout.read(Layout.per_query))
    if control:
        if control not in arms:
            raise EvidenceError(f"no arm {control} was measured, only {', '.join(arms)}")
        policy = for_candidates(policy, control, [arm for arm in arms if arm != control])
    compared = read_agreement(layout)
    pairs = {step: pair for step, pair in pairs_of(policy).items() if pair in compared}
    evidence = gathered(layout, pairs, sides(layout, arms), read_race(layout), policy.clusters)
    with experiments.writing(layout):
        log = experiments.read(layout).experiments
        on = pins.judged_on(layout, policy, policy_file, stock(layout))
        found = Measured(
            evidence,
            tie_ends(layout, policy, evidence),
            {arm: replayed(layout, arm) for arm in policy.arms if arm in arms},
            pins.accepted_in(policy, layout.root.name),
            pins.pin_of(layout, policy_file),
            f"harness policy pin {policy_file}",
            pins.leaks(layout, [arm for arm in policy.arms if arm in arms]),
            looks_by_step(log, policy, on),
        )
        decisions = decide(found, policy, now)
        pins.note_judged(layout, policy, policy_file, decisions, now, decided=False)
    return decisions
