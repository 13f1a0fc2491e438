"""Old evidence under another policy: no query is run again, and no decision is written."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from harness.core.errors import EvidenceError
from harness.core.gate import StepDecision
from harness.corpus.score_table import read_scores
from harness.policy.decide import decide as judge
from harness.policy.looks import looks_by_step
from harness.policy.model import Policy
from harness.policy.pairwise import for_candidates
from harness.policy.reservations import over_budget, tuned_on
from harness.stages.compare.stage import read_agreement
from harness.stages.compare.ties import tie_ends
from harness.stages.custody.chain_of_custody import drifted, leaks, pin_of
from harness.stages.custody.freshness import check_replayed
from harness.stages.custody.policy_match import held_to
from harness.stages.custody.promotion import check_accepted
from harness.stages.evidence import gathered, pairs_of, sides
from harness.stages.experiments import log as experiment_log
from harness.stages.experiments.inputs import stock
from harness.stages.experiments.notes import judged_on, note_judged
from harness.stages.layout import Layout
from harness.stages.race.stage import read_race


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
    with experiment_log.writing(layout):
        log = experiment_log.read(layout).experiments
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
