"""How the evidence of a decision was kept: pins, promotions, signatures, chain of custody."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.core.evidence import ArmResult, Evidence
from harness.core.files import scratch
from harness.core.formats import json_file
from harness.core.gate import Finding, Outcome, StepDecision, Verdict
from harness.core.names import Inputs
from harness.core.printable import many
from harness.core.reading import text_of
from harness.core.run import Status
from harness.corpus import tuning
from harness.corpus.prepared import Inventory, Prepared, changes
from harness.corpus.tuning import Leak, leak
from harness.policy.decision import not_as_pinned, of_gates, tuned_on
from harness.policy.looks import looked, looks_by_step, told
from harness.policy.model import Accepted, Gate, Policy, Step
from harness.policy.pins import Pin, read
from harness.policy.pins import pin as pin_beside
from harness.report.page.custody import Coverage, Custody, Pinned, Since
from harness.stages import experiments
from harness.stages.evidence import Subject
from harness.stages.experiments import Log, inputs, race_settings, stock
from harness.stages.imports import load_folder
from harness.stages.layout import Layout


def judged_on(layout: Layout, policy: Policy, policy_file: Path, inventory: Inventory) -> Inputs:
    """Give the digests of all that ``policy`` looks at in ``layout``."""
    return inputs(
        layout,
        [arm for arm in policy.arms if layout.run(arm).is_file()],
        inventory,
        policy=digest.of_file(policy_file),
        seeds={"policy": policy.rules.seed},
        loaded=policy.loaded,
    )


def note_judged(
    layout: Layout,
    policy: Policy,
    policy_file: Path,
    decisions: Sequence[StepDecision],
    at: datetime,
    *,
    decided: bool,
) -> None:
    """Add what a policy said of the evidence at hand to the log.

    ``decided`` tells whether it left a decision; then the caller holds ``layout.experiments``.
    """
    inventory = stock(layout)
    found = judged_on(layout, policy, policy_file, inventory)
    steps = [
        looked(policy, step, found, decision.outcome.value)
        for step, decision in zip(policy.steps, decisions, strict=True)
    ]
    experiments.add(
        layout,
        "gate" if decided else "decide",
        at,
        policy=policy.name,
        inputs=found,
        inventory=inventory,
        steps=steps,
        decision=digest.of_file(layout.decision) if decided else None,
    )


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
    return custody(layout, subject, arms, experiments.before_decision(layout, number))


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
            before = experiments.inventory_of(layout, one)
            said = changes(before, inventory).said if before else ("not known, it was not kept",)
            return Since(one.at.isoformat(timespec="seconds"), said)
    return None


def pin(layout: Layout, policy_file: Path, *, at: datetime, by: str) -> Pin:
    """Pin queries, judgements and race settings in ``layout``.

    Raises:
        BadFile: the data were not prepared, or a file cannot be read.
    """
    name = layout.root.name
    return pin_beside(policy_file, name, stock(layout), race_settings(layout), at=at, by=by)


class Folder(NamedTuple):
    """A folder in BEIR layout, as ``harness run`` takes it."""

    path: Path
    split: str
    forms: bool


def pin_folder(folder: Folder, policy_file: Path, *, at: datetime, by: str) -> Pin:
    """Pin queries and judgements of a folder in BEIR layout, before anything was run on it.

    Raises:
        BadFile, DatasetError: it is not one.
    """
    with scratch() as place:
        load_folder(folder.path, folder.split, place / "data", forms=folder.forms)
        data = Prepared.open(place / "data")
        inventory = Inventory.of(data.queries(), data.qrels())
    return pin_beside(policy_file, folder.path.resolve().name, inventory, {}, at=at, by=by)


HINT = "Bring back the decision that the step was taken by, or take the step back in the policy"
PREFIX = 12


class _Said(NamedTuple):
    path: Path
    control: str
    candidate: str
    outcome: str
    fingerprint: str
    """Of the candidate's index."""


def check_accepted(policy: Policy, dataset: str, evidence: Mapping[str, Evidence]) -> None:
    """Hold every step that was taken against the decision that the policy says it was taken by.

    Raises:
        BadFile: the decision is missing, or does not speak of the step on this data set.
        EvidenceError: it is not the one whose digest the policy names; it was about other arms or
            did not promote. Or the next step's control has another index than it accepted.
    """
    said = {
        step.name: _promoted(step, _read(step, step.accepted, dataset))
        for step in policy.steps
        if step.taken and step.accepted
    }
    for at, step in enumerate(policy.steps):
        before = policy.accepting(at)
        if before and before.name in said and step.name in evidence:
            _same_index(before, said[before.name], step, evidence[step.name])


def _promoted(step: Step, said: _Said) -> _Said:
    arms = said.control, said.candidate
    if arms != (step.control, step.candidate):
        raise EvidenceError(
            f"{said.path}: decided on {' -> '.join(arms)}, and step {step.name} is"
            f" {step.control} -> {step.candidate}. {HINT}"
        )
    if said.outcome != Outcome.PROMOTE:
        raise EvidenceError(
            f"{said.path}: says {said.outcome} of step {step.name}, which the policy calls taken."
            f" {HINT}"
        )
    return said


def _read(step: Step, accepted: Accepted, dataset: str) -> _Said:
    path = accepted.path
    if not path.is_file():
        raise BadFile(path, f"is gone, and step {step.name} was taken by it", HINT)
    if (found := digest.of_file(path)) != accepted.sha256:
        raise EvidenceError(
            f"{path}: is {found[:PREFIX]}, and step {step.name} was taken by"
            f" {accepted.sha256[:PREFIX]}. {HINT}"
        )
    try:
        written: Any = json_file(path)
        about = next(one for one in written["datasets"] if one["dataset"] == dataset)
        said = next(one for one in about["steps"] if one["step"] == step.name)
        arm = about["provenance"]["arms"][said["candidate"]]
        return _Said(path, said["control"], said["candidate"], said["outcome"], arm["fingerprint"])
    except (ValueError, KeyError, TypeError) as exc:
        raise BadFile(path, f"is not a decision ({exc!r})", HINT) from exc
    except StopIteration:
        raise BadFile(path, f"says nothing of step {step.name} on {dataset}", HINT) from None


def _same_index(step: Step, said: _Said, later: Step, found: Evidence) -> None:
    measured = found.control.manifest.fingerprint
    if measured != said.fingerprint:
        raise EvidenceError(
            f"step {later.name} is judged against {later.control} {measured[:PREFIX]}, and the"
            f" decision that step {step.name} was taken by accepted {said.fingerprint[:PREFIX]};"
            " its engine, settings or documents differ. Bring them back, or decide that step anew"
        )


DIGITS = 9
"""``decision.json`` keeps ten significant digits."""
TOUCH = 10**-DIGITS
"""An end of an interval as near as this to its bound, in parts of it, lies on it."""


def held_to(policy: Policy, decisions: Sequence[StepDecision]) -> None:
    """Compare what was decided with what the policy asks for.

    Raises:
        EvidenceError: a step or a gate is missing, is about other arms, or was judged by another
            rule or under another bound. Or it passed although its own interval reaches over the
            bound or lies beyond it, or on fewer queries than the policy asks for.
    """
    steps = [(step.name, step.control, step.candidate, step.taken) for step in policy.steps]
    decided = [(one.step, one.control, one.candidate, one.taken) for one in decisions]
    if steps != decided:
        raise EvidenceError(
            f"the policy {policy.name} has the steps {steps}, decided were {decided}; judge again"
        )
    for step, decision in zip(policy.steps, decisions, strict=True):
        asked = [gate.name for gate in step.gates]
        findings = of_gates(decision)
        judged = [finding.gate for finding in findings]
        if asked != judged:
            raise EvidenceError(
                f"the step {step.name} has the gates {asked}, judged were {judged}; judge again"
            )
        for gate, finding in zip(step.gates, findings, strict=True):
            _same_bound(step.name, gate, finding)
            if finding.verdict is Verdict.PASS:
                _sure(step.name, gate, finding)
                _enough(step.name, gate, finding)


def _same_bound(step: str, gate: Gate, finding: Finding) -> None:
    asked = gate.rule.name, gate.settings.bound, _rounded(gate.settings.limit)
    judged = finding.rule, finding.bound, _rounded(finding.limit)
    if asked != judged:
        raise EvidenceError(
            f"the gate {gate.name!r} of step {step} was judged by {judged[0]} ({judged[1]}), but"
            f" the policy asks for {asked[0]} ({asked[1]}); judge again by the policy"
        )


def _sure(step: str, gate: Gate, finding: Finding) -> None:
    """Hold a PASS against its own interval: it must lie on the side where the rule passes."""
    found, limit, side = finding.estimate, finding.limit, gate.settings.passes
    if side is None or limit is None:
        return
    if found is None:
        raise EvidenceError(
            f"the gate {finding.gate!r} of step {step} passed and measured nothing"
            f" ({finding.bound}); fix the rule {finding.rule}"
        )
    touch = TOUCH * max(1.0, abs(limit))
    floor = {"above": limit, "below": -math.inf, "within": -limit}[side] - touch
    ceiling = {"above": math.inf, "below": limit, "within": limit}[side] + touch
    if not floor <= found.low <= found.high <= ceiling:
        wholly = found.high < floor or found.low > ceiling
        raise EvidenceError(
            f"the gate {finding.gate!r} of step {step} passed, but its interval [{found.low:g},"
            f" {found.high:g}] {'lies beyond' if wholly else 'reaches over'} the bound {limit:g}"
            f" ({finding.bound}); fix the rule {finding.rule}"
        )


def _enough(step: str, gate: Gate, finding: Finding) -> None:
    """Hold a PASS against the evidence that the policy waits for."""
    found, required = finding.estimate, gate.settings.required_queries
    if found is not None and found.n < required:
        raise EvidenceError(
            f"the gate {finding.gate!r} of step {step} passed on {many(found.n, 'query')}, before"
            f" the {required} that the policy waits for were there; fix the rule {finding.rule}"
        )


def _rounded(limit: float | None) -> str | None:
    return None if limit is None else f"{limit:.{DIGITS}g}"


NAMESPACE = "search-harness-decision"
"""A signature made for something else does not count."""


def sign(layout: Layout, key: Path) -> Path:
    """Sign the receipt of the decision in ``layout`` with the private ``key``; give the signature.

    ssh-keygen asks for the passphrase of a key that has one; an agent is used where one runs.

    Raises:
        EvidenceError: nothing was decided.
        BadFile: the key cannot be used.
        HarnessError: OpenSSH is not installed.
    """
    receipt = _receipt(layout)
    layout.signature.unlink(missing_ok=True)
    made = _ssh_keygen("-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(receipt))
    if made.returncode:
        hint = "Name a private key of OpenSSH, or a public one whose private one an agent holds"
        raise BadFile(key, f"did not sign ({made.stderr.strip()})", hint)
    return layout.signature


def signed_by(layout: Layout, allowed: Path) -> str:
    """Give who signed the decision in ``layout``, of those in the file ``allowed``.

    ``allowed`` is a list of allowed signers as ssh-keygen(1) has it: a name and a public key a
    line.

    Raises:
        EvidenceError: it is unsigned, was changed since it was signed, or by none of these.
        HarnessError: OpenSSH is not installed.
    """
    receipt = _receipt(layout)
    if not layout.signature.is_file():
        raise EvidenceError(f"{layout.signature}: the decision is unsigned. Run: harness sign")
    if not allowed.is_file():
        raise BadFile(allowed, "missing file", "Write a name and a public key a line")
    about = ("-f", str(allowed), "-s", str(layout.signature))
    found = _ssh_keygen("-Y", "find-principals", *about)
    names = found.stdout.split()
    if found.returncode or not names:
        raise EvidenceError(f"{layout.signature}: is by a key that {allowed} does not name")
    text = text_of(receipt)
    words = ("-Y", "verify", *about, "-I", names[0], "-n", NAMESPACE)
    if _ssh_keygen(*words, given=text).returncode:
        raise EvidenceError(
            f"{layout.signature}: does not fit {receipt}, which was written anew since it was"
            " signed. Look at what changed, and sign again: harness sign"
        )
    return names[0]


def _receipt(layout: Layout) -> Path:
    if not layout.decision_receipt.is_file():
        raise EvidenceError(f"{layout.decision_receipt}: nothing was decided. Run: harness gate")
    return layout.decision_receipt


def _ssh_keygen(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise HarnessError("ssh-keygen is not on the path; install OpenSSH 8.2 or later")
    return subprocess.run(  # noqa: S603  our own words
        [program, *words], input=given, capture_output=True, text=True, check=False
    )
