"""Stage ``gate``: judge every step of the policy, and write the decision with its evidence."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError
from harness.core.evidence import Evidence
from harness.core.files import json_text, write_text
from harness.core.formats import json_file, moment_of
from harness.core.gate import Outcome, StepDecision
from harness.core.parts import kinds
from harness.core.run import Status
from harness.corpus.clusters import CLUSTERS
from harness.corpus.prepared import CORPUS, MANIFEST, QRELS, QUERIES, Inventory, changes
from harness.pipeline import experiments, receipts
from harness.pipeline.compare import read_agreement, tie_ends
from harness.pipeline.evidence import (
    DecisionSubject,
    Measured,
    ReportSubject,
    assemble,
    measured,
    pairs_of,
)
from harness.pipeline.experiments import ExperimentLog
from harness.pipeline.layout import File, Layout
from harness.policy.decision import decide as judge
from harness.policy.decision import not_as_pinned, tuned_on
from harness.policy.load import for_arms, load_policy
from harness.policy.looks import looked, looks, told
from harness.policy.model import AcceptedDecision, Policy, Step
from harness.policy.validity import check_age, check_past, path_of, read_pins
from harness.report.ci import to_junit
from harness.report.decision import from_json, steps_json, to_json, without_times
from harness.report.inputs import Custody, JudgementCoverage, PinPart, ReportInput, SincePart


def decide(
    found: Measured, kept: Custody, policy: Policy, now: datetime
) -> tuple[StepDecision, ...]:
    """Judge every step. Nothing is read or written: the same evidence gives the same decision."""
    for arm in policy.arms:
        if arm in found.replayed:
            found.replayed[arm].check(now, policy.evidence_days)
    check_accepted(policy, found.dataset, found.evidence)
    pin, reservations = kept.pin, tuned_on(policy, kept.tuned)
    if pin.differences:
        at = pin.pinned_at or ""
        drifted = not_as_pinned(pin.differences, pinned_at=at, again=pin.command)
        reservations = drifted, *reservations
    return judge(
        policy,
        found.evidence,
        now=now,
        ends=tie_ends(found.data, policy, found.evidence),
        reservations=reservations,
        looks=kept.looks,
    )


DETERMINISTIC = ("dataset", "policy", "steps")
STATED = ("packages", "python", "code_version", "machine")
"""Of the provenance: facts of the day and place of the decision."""


def gate(layout: Layout, subject: ReportSubject, *, now: datetime) -> ReportInput:
    """Judge at the time ``now``, and write the decision in the place of any earlier one."""
    for stale in (layout.decision_receipt, layout.decision, layout.junit):
        stale.unlink(missing_ok=True)
    with experiments.writing(layout):
        found = measured(layout, subject)
        report = decided(found, subject, experiments.read(layout), now)
        for file, text in texts(report).items():
            write_text(file.at(layout), text)
        files = rests_on(layout, subject.arms, subject.policy_file)
        receipts.write(layout.decision_receipt, dict.fromkeys(files))
        _note(layout, found, subject, report.decisions, now, decision=layout.decision)
    return report


def decided(
    found: Measured, subject: ReportSubject, log: ExperimentLog, now: datetime
) -> ReportInput:
    """Decide on this evidence at the time ``now``, after what ``log`` has."""
    kept = custody(found, subject, log)
    decisions = decide(found, kept, subject.judged_by[0], now)
    return assemble(found, subject, decisions, now, custody=kept)


def _note(
    layout: Layout,
    found: Measured,
    wanted: DecisionSubject,
    decisions: Sequence[StepDecision],
    at: datetime,
    *,
    decision: Path | None,
) -> None:
    """Add what a policy said of the evidence at hand to the log."""
    if (policy := wanted.policy) is None:
        return
    pairs = zip(policy.steps, decisions, strict=True)
    experiments.add(
        layout,
        "gate" if decision else "decide",
        at,
        policy=policy.name,
        inputs=found.inputs,
        inventory=found.inventory,
        steps=[looked(policy, step, found.inputs, one) for step, one in pairs],
        decision=digest.of_file(decision) if decision else None,
    )


def texts(report: ReportInput) -> dict[File[Any], str]:
    """Return the text of each file of a decision: the decision, its JUnit file, its findings."""
    written = to_json([report])
    steady = without_times(written)["datasets"][0]
    return {
        Layout.decision: json_text(written),
        Layout.findings: json_text({key: steady[key] for key in DETERMINISTIC}),
        Layout.junit: to_junit([report]),
    }


NAMES = ("gate", "step", "name", "dataset", "model")
FIRST = ("datasets", "steps", "findings", "gate", "verdict", "estimate", "bound")
"""Keys that are looked at before the others: a gate first, and of it what it decides."""
ABSENT = "nothing"
LONGEST = 200


def first_difference(stored: Any, derived: Any, where: str = "") -> str:  # noqa: ANN401  of JSON
    """Name the first value in which the two differ, from the outside in; empty where none does."""
    if isinstance(stored, Mapping) and isinstance(derived, Mapping):
        keys = sorted(
            {*stored, *derived},
            key=lambda key: (FIRST.index(key) if key in FIRST else len(FIRST), key),
        )
        each = [(key, stored.get(key, ABSENT), derived.get(key, ABSENT)) for key in keys]
    elif isinstance(stored, list | tuple) and isinstance(derived, list | tuple):
        pairs = zip_longest(stored, derived, fillvalue=ABSENT)
        each = [(_name(pair, at), *pair) for at, pair in enumerate(pairs)]
    elif stored == derived and type(stored) is type(derived):
        return ""
    else:
        return f"{where}: stored {_short(stored)}, derived {_short(derived)}"
    found = (first_difference(one, two, f"{where}.{key}".lstrip(".")) for key, one, two in each)
    return next(filter(None, found), "")


def _name(pair: Sequence[Any], at: int) -> str:
    named = (one[key] for one in pair if isinstance(one, Mapping) for key in NAMES if key in one)
    return str(next((name for name in named if isinstance(name, str)), at))


def _short(value: Any) -> str:  # noqa: ANN401  of JSON
    text = value if value == ABSENT else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision that was written, with the evidence that is there now."""

    decisions: tuple[StepDecision, ...]
    decided_at: datetime
    about: Mapping[str, Any]
    found: Measured
    kept: Custody

    def report(self, subject: ReportSubject) -> ReportInput:
        """Assemble what its pages say, with its own day and machine."""
        one = assemble(self.found, subject, self.decisions, self.decided_at, custody=self.kept)
        return as_stated(one, self.about["provenance"])


def stored(layout: Layout, subject: ReportSubject) -> StoredDecision:
    """Read a decision, and the evidence beside it."""
    decisions, decided_at = read_decision(layout)
    (about,) = json_file(layout.decision)["datasets"]
    found = measured(layout, subject)
    log = experiments.before_decision(layout, int(about["record"]["number"]))
    return StoredDecision(decisions, decided_at, about, found, custody(found, subject, log))


def as_stated(report: ReportInput, stated: Mapping[str, Any]) -> ReportInput:
    """Replace today's facts of day and place by those of a decision."""
    facts = {fact: stated[fact] for fact in STATED}
    return replace(report, provenance=report.provenance.model_copy(update=facts))


def check_decision(layout: Layout, subject: ReportSubject, *, now: datetime) -> StoredDecision:
    """Decide again on policy and evidence as they are now, and compare with what is stored."""
    _, decided_at = read_decision(layout)
    hint = layout.remedy(Layout.decision)
    files = rests_on(layout, subject.arms, subject.policy_file)
    receipts.check(layout.decision_receipt, files, hint)
    policy, _ = subject.judged_by
    try:
        check_age(decided_at.isoformat(), now=now, evidence_days=policy.evidence_days)
    except EvidenceError as exc:
        raise EvidenceError(f"{layout.decision}: expired: {exc}. {hint}") from exc
    one = stored(layout, subject)
    decisions, again = one.decisions, decide(one.found, one.kept, policy, decided_at)
    if found := first_difference(steps_json(decisions), steps_json(again)):
        raise EvidenceError(f"{layout.decision}: {found}. {hint}")
    return one


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
    decisions = tuple(found for _, found in from_json(written, path))
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
        policy = for_arms(policy, [arm for arm in arms if arm != control], control)
    compared = read_agreement(layout)
    wanted = DecisionSubject(
        pairs={step: pair for step, pair in pairs_of(policy).items() if pair in compared},
        arms=arms,
        policy=policy,
        policy_file=policy_file,
        pin=f"harness policy pin {policy_file}",
    )
    with experiments.writing(layout):
        found = measured(layout, wanted)
        kept = custody(found, wanted, experiments.read(layout))
        decisions = decide(found, kept, policy, now)
        _note(layout, found, wanted, decisions, now, decision=None)
    return decisions


TAKEN = "Bring back the decision that the step was taken by, or take the step back in the policy"
PREFIX = 12


def custody(found: Measured, wanted: DecisionSubject, log: ExperimentLog) -> Custody:
    """Assemble what a decision on this evidence must say of its keeping."""
    (policy, file), inventory = wanted.judged_by, found.inventory
    pinned = read_pins(file).datasets
    pin = PinPart(command=wanted.pin, pinned_at=None, times=0, differences=())
    if own := pinned.get(found.dataset):
        pin = PinPart(
            command=wanted.pin,
            pinned_at=own.made[-1].at.date().isoformat(),
            times=len(own.made),
            differences=own.differences(found.inventory, found.race_settings),
        )
    return Custody(
        coverage=_coverage(found),
        pin=pin,
        number=len(log.lines) + 1,
        previous=log.head,
        since=_since(log, inventory),
        looks={
            step.name: looks(log.experiments, policy, step, found.inputs) for step in policy.steps
        },
        earlier=told(log.experiments),
        unprobed=tuple(
            arm for arm in policy.arms if arm in found.arms and found.arms[arm].index_sha256 is None
        ),
        pinned_names=tuple(sorted(pinned.keys() - {found.dataset})),
        tuned=found.tuned,
        tuned_reason=policy.tuned_reason,
        raced=found.race is not None,
    )


def _coverage(found: Measured) -> JudgementCoverage:
    data = found.data
    asked, judged = found.inventory.queries.keys(), found.inventory.judgements.keys()
    unanswered = {
        arm: int((side.run.status != Status.ANSWERED).sum())
        for arm, side in sorted(found.arms.items())
    }
    return JudgementCoverage(
        queries=len(asked),
        judged=len(asked & judged),
        negative=len(asked & frozenset(data.qrels().negative)),
        strangers=len(judged - asked),
        unanswered={arm: count for arm, count in unanswered.items() if count},
        left_out=data.manifest.left_out,
        own=len(data.ids().own),
    )


def _since(log: ExperimentLog, inventory: Inventory) -> SincePart | None:
    """Compare with the last decision that was made on other queries or judgements."""
    for one in reversed(log.experiments):
        if one.decision and one.inputs.inventory != inventory.sha256:
            before = log.inventory_of(one)
            said = changes(before, inventory) if before else ("not known, it was not kept",)
            return SincePart(at=one.at.isoformat(timespec="seconds"), changes=said)
    return None


def check_accepted(policy: Policy, dataset: str, evidence: Mapping[str, Evidence]) -> None:
    """Check every step that was taken against the decision that the policy says it was taken by."""
    accepted = {
        step.name: _fingerprint_accepted(step, step.accepted, dataset)
        for step in policy.steps
        if step.taken and step.accepted
    }
    for at, later in enumerate(policy.steps):
        earlier = policy.accepting(at)
        if earlier is None or earlier.name not in accepted or later.name not in evidence:
            continue
        said = accepted[earlier.name]
        measured = evidence[later.name].control.manifest.fingerprint
        if measured != said:
            raise EvidenceError(
                f"step {later.name} is judged against {later.control} {measured[:PREFIX]}, and the"
                f" decision that step {earlier.name} was taken by accepted {said[:PREFIX]}; its"
                " engine, settings or documents differ. Bring them back, or decide that step anew"
            )


def _fingerprint_accepted(step: Step, accepted: AcceptedDecision, dataset: str) -> str:
    """Read which index the decision that a step was taken by accepted."""
    path = accepted.path
    if not path.is_file() or digest.of_file(path) != accepted.sha256:
        problem = f"is not the file {accepted.sha256[:PREFIX]} that step {step.name} was taken by"
        raise BadFile(path, problem, TAKEN)
    try:
        about = next(one for one in json_file(path)["datasets"] if one["dataset"] == dataset)
        said = next(one for one in about["steps"] if one["step"] == step.name)
        decided = said["control"], said["candidate"], said["outcome"]
        fingerprint = str(about["provenance"]["arms"][said["candidate"]]["fingerprint"])
    except (ValueError, KeyError, TypeError, StopIteration) as exc:
        problem = f"is not a decision on step {step.name} of {dataset} ({exc!r})"
        raise BadFile(path, problem, TAKEN) from exc
    if decided != (step.control, step.candidate, Outcome.PROMOTE):
        problem = f"did not promote {step.control} -> {step.candidate} in step {step.name}"
        raise BadFile(path, f"{problem}, but says {' '.join(map(str, decided))}", TAKEN)
    return fingerprint
