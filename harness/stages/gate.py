"""Stage ``gate``: judge every step of the policy, and write the decision with its evidence."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from harness.core.errors import BadFile, EvidenceError
from harness.core.files import write_json, write_text
from harness.core.formats import json_file, moment_of
from harness.core.gate import StepDecision
from harness.corpus.clusters import CLUSTERS
from harness.corpus.prepared import CORPUS, MANIFEST, QRELS, QUERIES
from harness.corpus.runs import read_scores
from harness.policy.age import check_age, check_past
from harness.policy.decision import decide as judge
from harness.policy.decision import over_budget, tuned_on
from harness.policy.load import for_candidates, load_policy
from harness.policy.looks import looks_by_step
from harness.policy.model import Policy
from harness.policy.pins import path_of
from harness.policy.selftest import Tried, selftest
from harness.report.decision.ci import to_junit
from harness.report.decision.decision_json import from_json, to_json, without_times
from harness.report.inputs import ReportInput
from harness.stages import experiments
from harness.stages.compare import read_agreement, tie_ends
from harness.stages.custody import receipts
from harness.stages.custody.pins import (
    check_accepted,
    custody,
    drifted,
    held_to,
    judged_on,
    leaks,
    note_judged,
    pin_of,
    reservations,
)
from harness.stages.custody.receipts import check_replayed
from harness.stages.custody.recount import check_agreements, check_values
from harness.stages.evidence import Subject, evidence_of, gathered, measured, pairs_of, sides
from harness.stages.experiments import stock
from harness.stages.judging.pool import labels_in
from harness.stages.layout import Layout
from harness.stages.load.files import receipt_of, trials_of
from harness.stages.race import read_race
from harness.stages.report_inputs import assemble
from harness.stages.shadow.traffic import taken_in


def try_gates(layout: Layout, policy: Policy, *, trials: int) -> tuple[Tried, ...]:
    """Try the gates of ``policy`` on the runs in ``layout``.

    Raises:
        EvidenceError: an arm was not measured or a pair not compared, or something was changed
            since; or there are too few queries.
    """
    arms = sides(layout, policy.arms)
    evidence = gathered(layout, pairs_of(policy), arms, None, policy.clusters)
    return selftest(policy, evidence, trials=trials)


def check_kernels(layout: Layout, policy: Policy) -> tuple[int, int]:
    """Count how many values and pairs of rankings other code gave as they are in ``layout``.

    Raises:
        EvidenceError: one is another; or an arm was not measured.
    """
    second = check_values(layout)
    values = sum(len(one.query_ids) for of in second.values() for one in of.values())
    return values, check_agreements(layout, pairs_of(policy).values())


DETERMINISTIC = ("dataset", "policy", "steps")


def gate(layout: Layout, subject: Subject, *, now: datetime) -> ReportInput:
    """Write ``decision.json`` and ``junit.xml``, and what of them does not rest on a clock.

    What was decided, and all that it was decided from, is given back for a page.

    ``now`` is the time of the decision, aware of its zone: evidence is as old as it is then.

    An earlier decision is taken away first: where this one cannot be made, none is left.

    Raises:
        EvidenceError: the policy is missing; evidence is missing, stale or about other arms; or a
            gate was judged under another bound than the policy's.
    """
    for stale in (layout.signature, layout.decision_receipt, layout.decision, layout.junit):
        stale.unlink(missing_ok=True)
    if subject.policy is None or subject.policy_file is None:
        raise EvidenceError("there is nothing to judge by; name a policy")
    with experiments.writing(layout):
        return _judged(layout, subject, subject.policy, subject.policy_file, now)


def _judged(
    layout: Layout, subject: Subject, policy: Policy, policy_file: Path, now: datetime
) -> ReportInput:
    """Judge, write what was decided, and add it to the log of experiments."""
    evidence = evidence_of(layout, subject)
    check_replayed(layout, policy.arms, now=now, evidence_days=policy.evidence_days)
    check_accepted(policy, layout.root.name, evidence)
    kept = custody(layout, subject, measured(layout, subject, evidence), experiments.read(layout))
    decisions = judge(
        policy,
        evidence,
        now=now,
        ends=tie_ends(layout, policy, evidence),
        reservations=reservations(policy, kept),
        spent=over_budget(policy, kept.looks),
    )
    held_to(policy, decisions)
    report = assemble(layout, subject, evidence, decisions, now, custody=kept)
    written = to_json([report])
    steady = without_times(written)["datasets"][0]
    write_json(layout.decision, written)
    write_text(layout.junit, to_junit([report]))
    write_json(layout.findings, {key: steady[key] for key in DETERMINISTIC})
    files = rests_on(layout, subject.arms, policy_file)
    receipts.write(layout.decision_receipt, dict.fromkeys(files))
    note_judged(layout, policy, policy_file, decisions, now, decided=True)
    return report


def check_decision(
    layout: Layout, subject: Subject, decisions: tuple[StepDecision, ...], decided_at: datetime
) -> None:
    """Hold a decision that was read against the policy and the evidence, as they are now.

    Raises:
        EvidenceError: one of them was changed since, or the decision itself was, or it expired.
    """
    hint = f"Run: harness gate --dataset {layout.root.name}"
    files = rests_on(layout, subject.arms, subject.policy_file)
    receipts.check(layout.decision_receipt, files, hint)
    if subject.policy:
        held_to(subject.policy, decisions)
        days = subject.policy.evidence_days
        try:
            check_age(decided_at.isoformat(), now=datetime.now(UTC), evidence_days=days)
        except EvidenceError as exc:
            raise EvidenceError(f"{layout.decision}: expired: {exc}. {hint}") from exc


def rests_on(layout: Layout, arms: Iterable[str], policy: Path | None) -> Iterable[Path]:
    """Yield the decision and every file that it was made from."""
    yield from (layout.decision, layout.findings, layout.junit)
    yield from (layout.score_receipt, layout.compare_receipt)
    if policy:
        yield policy
        if path_of(policy).is_file():
            yield path_of(policy)
        judged_by = load_policy(policy)
        if judged_by.loaded and trials_of(layout).is_file():
            yield from (receipt_of(layout), trials_of(layout))
    if layout.race_receipt.is_file():
        yield from (layout.race_receipt, layout.times)
    yield from taken_in(layout)
    yield from labels_in(layout)
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
    """Read what was decided, and when.

    Raises:
        BadFile: the decision is missing, it is not one that ``gate`` wrote, or it is of the future.
    """
    path = layout.decision
    hint = f"Run: harness gate --dataset {layout.root.name}"
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


def decide(
    layout: Layout,
    policy: Policy,
    policy_file: Path,
    *,
    control: str,
    now: datetime,
) -> tuple[StepDecision, ...]:
    """Judge what was measured in ``layout`` by ``policy``, and note in the log that it was done.

    ``now`` is aware of its zone; evidence is as old as it is then. With ``control``, a name that
    is not empty, the policy's one step judges every other arm that was measured. A step whose
    arms were never compared is INCONCLUSIVE, and says so. A gate answers only where it does so for
    every order of equal scores of imported runs.

    Raises:
        BadFile: nothing was scored or compared.
        EvidenceError: evidence is stale or was changed since, the control was not measured, or
            the policy has more than one step beside a ``control``.
    """
    arms = tuple(arm for (arm,) in read_scores(layout.per_query, ["arm"]))
    if control:
        if control not in arms:
            raise EvidenceError(f"no arm {control} was measured, only {', '.join(arms)}")
        policy = for_candidates(policy, control, [arm for arm in arms if arm != control])
    compared = read_agreement(layout)
    pairs = {step: pair for step, pair in pairs_of(policy).items() if pair in compared}
    measured = sides(layout, arms)
    named = [arm for arm in policy.arms if arm in arms]
    check_replayed(layout, named, now=now, evidence_days=policy.evidence_days)
    evidence = gathered(layout, pairs, measured, read_race(layout), policy.clusters)
    check_accepted(policy, layout.root.name, evidence)
    ends = tie_ends(layout, policy, evidence)
    drift = pin_of(layout, policy_file)
    again = f"harness policy pin {policy_file}"
    with experiments.writing(layout):
        log = experiments.read(layout).experiments
        on = judged_on(layout, policy, policy_file, stock(layout))
        decisions = judge(
            policy,
            evidence,
            now=now,
            ends=ends,
            reservations=(
                *(drifted(drift, again) if drift else ()),
                *tuned_on(policy, leaks(layout, named)),
            ),
            spent=over_budget(policy, looks_by_step(log, policy, on)),
        )
        held_to(policy, decisions)
        note_judged(layout, policy, policy_file, decisions, now, decided=False)
    return decisions
