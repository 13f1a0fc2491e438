"""How the evidence of a decision was kept (pins, promotions, signatures), and plans of one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.core.evidence import ArmResult, Evidence
from harness.core.files import scratch
from harness.core.formats import json_file
from harness.core.gate import Finding, Outcome, StepDecision
from harness.core.names import ExperimentInputs
from harness.core.reading import text_of
from harness.core.run import Status
from harness.core.scores import Clustering
from harness.corpus import tuning
from harness.corpus.prepared import Inventory, Prepared, changes
from harness.corpus.tuning import Leak, leak
from harness.pipeline import experiments
from harness.pipeline.compare import read_agreement
from harness.pipeline.evidence import ReportSubject, gathered, pairs_of, sides
from harness.pipeline.experiments import ExperimentLog, inputs, race_settings, stock
from harness.pipeline.imports import load_folder
from harness.pipeline.layout import Layout
from harness.pipeline.race import read_race
from harness.pipeline.score import slices
from harness.policy.decision import not_as_pinned
from harness.policy.load import for_candidates
from harness.policy.looks import looked, looks_by_step, told
from harness.policy.model import AcceptedDecision, Policy, Step
from harness.policy.pins import Pin, read
from harness.policy.pins import pin as pin_beside
from harness.policy.plan import AtHand, Raced
from harness.report.page.custody import Custody, JudgementCoverage, Pinned, Since


def judged_on(
    layout: Layout, policy: Policy, policy_file: Path, inventory: Inventory
) -> ExperimentInputs:
    """Return the digests of all that ``policy`` looks at in ``layout``."""
    return inputs(
        layout,
        [arm for arm in policy.arms if layout.run(arm).is_file()],
        inventory,
        policy=digest.of_file(policy_file),
        seeds={"policy": policy.rules.seed},
        beside=policy.beside,
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
    """Add what a policy said of the evidence at hand to the log."""
    inventory = stock(layout)
    found = judged_on(layout, policy, policy_file, inventory)
    steps = [
        looked(policy, step, found, decision)
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


def custody(
    layout: Layout, subject: ReportSubject, arms: Mapping[str, ArmResult], log: ExperimentLog
) -> Custody:
    """Assemble what a decision on the evidence in ``layout`` must say of its keeping."""
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


def of_decision(layout: Layout, subject: ReportSubject, arms: Mapping[str, ArmResult]) -> Custody:
    """Assemble what the decision in ``layout`` said of its keeping."""
    return custody(layout, subject, arms, before(layout))


def before(layout: Layout) -> ExperimentLog:
    """Read the log as it was before the decision in ``layout``."""
    number = int(json_file(layout.decision)["datasets"][0]["record"]["number"])
    return experiments.before_decision(layout, number)


def leaks(layout: Layout, arms: Iterable[str]) -> tuple[Leak, ...]:
    """Count for each tuned arm the judged queries in ``layout`` that its tuning has seen."""
    data = Prepared.open(layout.data)
    judged = data.qrels().grades.keys()
    queries = [query for query in data.queries() if query.query_id in judged]
    records = ((arm, layout.tuning(arm)) for arm in arms)
    return tuple(leak(arm, tuning.read(path), queries) for arm, path in records if path.is_file())


def drifted(pinned: Pinned | None, again: str) -> tuple[Finding, ...]:
    """State that evidence is not as pinned; nothing where it is. ``again`` is what pins it anew."""
    if pinned is None or not pinned.differences:
        return ()
    return (not_as_pinned(pinned.differences, pinned_at=pinned.at, again=again),)


def pin_of(layout: Layout, policy_file: Path) -> Pinned | None:
    """Compare the evidence in ``layout`` with what ``policy_file`` is pinned to, if it is."""
    pin = read(policy_file).datasets.get(layout.root.name)
    if pin is None:
        return None
    at = pin.made[-1].at.date().isoformat()
    return Pinned(at, len(pin.made), pin.differences(stock(layout), race_settings(layout)))


def _coverage(
    inventory: Inventory, data: Prepared, arms: Mapping[str, ArmResult]
) -> JudgementCoverage:
    asked, judged = inventory.queries.keys(), inventory.judgements.keys()
    unanswered = {
        arm: int((side.run.status != Status.ANSWERED).sum()) for arm, side in sorted(arms.items())
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


def _since(layout: Layout, log: ExperimentLog, inventory: Inventory) -> Since | None:
    """Compare with the last decision that was made on other queries or judgements."""
    for one in reversed(log.experiments):
        if one.decision and one.inputs.inventory != inventory.sha256:
            before = experiments.inventory_of(layout, one)
            said = changes(before, inventory).said if before else ("not known, it was not kept",)
            return Since(one.at.isoformat(timespec="seconds"), said)
    return None


def pin(layout: Layout, policy_file: Path, *, at: datetime, by: str) -> Pin:
    """Pin queries, judgements and race settings in ``layout``."""
    name = layout.root.name
    return pin_beside(policy_file, name, stock(layout), race_settings(layout), at=at, by=by)


class BeirFolder(NamedTuple):
    """A folder in BEIR layout, as ``harness run`` takes it."""

    path: Path
    split: str
    forms: bool


def pin_folder(folder: BeirFolder, policy_file: Path, *, at: datetime, by: str) -> Pin:
    """Pin queries and judgements of a folder in BEIR layout, before anything was run on it."""
    with _loaded(folder) as data:
        inventory = Inventory.of(data.queries(), data.qrels())
    return pin_beside(policy_file, folder.path.resolve().name, inventory, {}, at=at, by=by)


@contextmanager
def _loaded(folder: BeirFolder) -> Iterator[Prepared]:
    with scratch() as place:
        load_folder(folder.path, folder.split, place / "data", forms=folder.forms)
        yield Prepared.open(place / "data")


HINT = "Bring back the decision that the step was taken by, or take the step back in the policy"
PREFIX = 12


class Accepting(NamedTuple):
    """What a decision says of the step that was taken by it."""

    path: Path
    control: str
    candidate: str
    outcome: str
    fingerprint: str


def accepted_in(policy: Policy, dataset: str) -> dict[str, Accepting]:
    """Read the decisions by which steps of ``policy`` were taken, by step."""
    return {
        step.name: _accepting(step, step.accepted, dataset)
        for step in policy.steps
        if step.taken and step.accepted
    }


def _accepting(step: Step, accepted: AcceptedDecision, dataset: str) -> Accepting:
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
        of = said["control"], said["candidate"], said["outcome"]
        return Accepting(path, *of, arm["fingerprint"])
    except (ValueError, KeyError, TypeError) as exc:
        raise BadFile(path, f"is not a decision ({exc!r})", HINT) from exc
    except StopIteration:
        raise BadFile(path, f"says nothing of step {step.name} on {dataset}", HINT) from None


def check_accepted(
    policy: Policy, accepted: Mapping[str, Accepting], evidence: Mapping[str, Evidence]
) -> None:
    """Check every step that was taken against the decision that the policy says it was taken by."""
    for step in policy.steps:
        if (said := accepted.get(step.name)) is None:
            continue
        if (said.control, said.candidate) != (step.control, step.candidate):
            raise EvidenceError(
                f"{said.path}: decided on {said.control} -> {said.candidate}, and step {step.name}"
                f" is {step.control} -> {step.candidate}. {HINT}"
            )
        if said.outcome != Outcome.PROMOTE:
            raise EvidenceError(
                f"{said.path}: says {said.outcome} of step {step.name}, which the policy calls"
                f" taken. {HINT}"
            )
    for at, later in enumerate(policy.steps):
        earlier = policy.accepting(at)
        if earlier is None or earlier.name not in accepted or later.name not in evidence:
            continue
        said = accepted[earlier.name]
        measured = evidence[later.name].control.manifest.fingerprint
        if measured != said.fingerprint:
            raise EvidenceError(
                f"step {later.name} is judged against {later.control} {measured[:PREFIX]}, and the"
                f" decision that step {earlier.name} was taken by accepted"
                f" {said.fingerprint[:PREFIX]}; its engine, settings or documents differ. Bring"
                " them back, or decide that step anew"
            )


NAMESPACE = "search-harness-decision"
"""A signature made for something else does not count."""


def sign(layout: Layout, key: Path) -> Path:
    """Sign the receipt of the decision with the private ``key``; return the signature."""
    receipt = _receipt(layout)
    layout.signature.unlink(missing_ok=True)
    made = _ssh_keygen("-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(receipt))
    if made.returncode:
        hint = "Name a private key of OpenSSH, or a public one whose private one an agent holds"
        raise BadFile(key, f"did not sign ({made.stderr.strip()})", hint)
    return layout.signature


def signed_by(layout: Layout, allowed: Path) -> str:
    """Return who signed the decision in ``layout``, of those in the file ``allowed``."""
    receipt = _receipt(layout)
    if not layout.signature.is_file():
        raise EvidenceError(
            f"{layout.signature}: the decision is unsigned. Run: harness sign --key FILE"
        )
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
            " signed. Look at what changed, and sign again: harness sign --key FILE"
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


class Ground(NamedTuple):
    """What a policy is planned on."""

    dataset: str
    at_hand: AtHand
    inventory: Inventory
    pilots: Mapping[str, Evidence]


def ground(layout: Layout, policy: Policy, race: Raced | None) -> Ground:
    """Read the query set in ``layout``, and the runs of steps whose two arms were compared."""
    data = Prepared.open(layout.data)
    return Ground(
        layout.root.name,
        at_hand(data, policy.clusters, raced(layout) or race),
        Inventory.of(data.queries(), data.qrels()),
        _pilots(layout, policy),
    )


def ground_of_folder(folder: BeirFolder, policy: Policy, race: Raced | None) -> Ground:
    """Read a query set in BEIR layout, before anything was run on it."""
    with _loaded(folder) as data:
        inventory = Inventory.of(data.queries(), data.qrels())
        known = at_hand(data, policy.clusters, race)
        return Ground(folder.path.resolve().name, known, inventory, {})


def at_hand(data: Prepared, how: Clustering, race: Raced | None) -> AtHand:
    """Count what prepared data has for gates to be judged on."""
    queries = data.queries()
    ids = (query.query_id for query in queries)
    return AtHand.of(ids, data.qrels(), slices(queries), data.clusters(how), race)


def raced(layout: Layout) -> Raced | None:
    """Return the size of the race in ``layout``; None where none was run."""
    race = read_race(layout)
    if race is None:
        return None
    return Raced(min(len(times) for times in race.elapsed_ns.values()), len(race.query_ids))


def for_control(layout: Layout, policy: Policy, control: str) -> Policy:
    """Plan the one step of a policy for every arm that was compared with ``control``."""
    others = [two for one, two in read_agreement(layout) if one == control != two]
    return for_candidates(policy, control, others)


def _pilots(layout: Layout, policy: Policy) -> dict[str, Evidence]:
    """Return evidence of the steps whose arms were scored and compared."""
    if not (layout.score_receipt.is_file() and layout.compare_receipt.is_file()):
        return {}
    compared = read_agreement(layout)
    pairs = {step: pair for step, pair in pairs_of(policy).items() if pair in compared}
    arms = sides(layout, [arm for (arm,) in layout.read(Layout.per_query)])
    return gathered(layout, pairs, arms, None, policy.clusters)
