"""Decisions of a migration, and what holds of any decision."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.core import digest
from harness.core.errors import EvidenceError
from harness.core.gate import Finding, Outcome, StepDecision, Verdict
from harness.migrate.standing import CurrentDecision, DecisionRecord, Said
from harness.policy.decision import BUDGET, PINNED, PREMISES, TUNED
from harness.policy.load import load_policy
from harness.policy.model import Gate, Policy
from tests.make.forging import same

FILE = Path(__file__).resolve().parents[2] / "policy" / "mail.toml"
POLICY = load_policy(FILE)
SHA256 = digest.of_file(FILE)
MONTH = datetime(2026, 3, 1, tzinfo=UTC)
GATE = "Quality of the first page"
SETUP = {arm: digest.of_json(arm) for arm in POLICY.arms}


def day(number: int, hour: int = 9) -> datetime:
    """Give an hour of the month; days count from 1."""
    return MONTH + timedelta(days=number - 1, hours=hour)


def decision(
    number: int, *, policy: Policy = POLICY, raced: int = 0, replayed: int = 0, **said: str
) -> DecisionRecord:
    """Decide at six of a day; a step that is not named passes, ``fail`` and ``open`` do not."""
    steps = []
    blocked_by = ""
    for step in policy.steps:
        word = said.get(step.name, "pass")
        verdict = {"pass": Verdict.PASS, "fail": Verdict.FAIL}.get(word, Verdict.INCONCLUSIVE)
        promoted = verdict is Verdict.PASS and not blocked_by
        steps.append(
            Said(
                step=step.name,
                control=step.control,
                candidate=step.candidate,
                verdict=verdict,
                outcome=Outcome.PROMOTE if promoted else Outcome.HOLD,
                waits_for=blocked_by,
                failed=(GATE,) if word == "fail" else (),
                open=(GATE,) if word == "open" else (),
                control_setup=SETUP[step.control],
                candidate_setup=SETUP[step.candidate],
                compared=600,
                replayed_at=day(replayed or number, 5),
            )
        )
        blocked_by = blocked_by or ("" if promoted else step.name)
    made = day(number, 6)
    return DecisionRecord(
        sha256=digest.of_json([number, raced, replayed, said]),
        decided_at=made,
        raced_at=day(raced, 5) if raced else None,
        policy_sha256=SHA256,
        steps=tuple(steps),
    )


def evidence(decided: DecisionRecord | None, refused: str = "") -> CurrentDecision:
    """Give a decision that was held, or was refused."""
    return CurrentDecision(decided, refused, SHA256)


def of_gate(file: Path, gate: str) -> Any:  # noqa: ANN401  what json gives back
    """Give the finding of one gate, of a decision with one data set and one step."""
    written = json.loads(file.read_text())
    (step,) = written["datasets"][0]["steps"]
    return next(found for found in step["findings"] if found["gate"] == gate)


RESERVATIONS = frozenset({PINNED, BUDGET, TUNED, PREMISES})
TOUCH = 1e-9
"""An end of an interval as near as this to its bound, in parts of it, lies on it."""


def held_to(policy: Policy, decisions: Sequence[StepDecision]) -> None:
    """Compare what was decided with what the policy asks for: steps, gates, rules and bounds.

    A PASS lies where its rule passes, and has the queries that the policy waits for.
    """
    steps = [(step.name, step.control, step.candidate, step.taken) for step in policy.steps]
    decided = [(one.step, one.control, one.candidate, one.taken) for one in decisions]
    if steps != decided:
        raise EvidenceError(f"the policy has the steps {steps}, decided were {decided}")
    for step, decision in zip(policy.steps, decisions, strict=True):
        findings = [one for one in decision.findings if one.rule not in RESERVATIONS]
        asked = [(gate.name, gate.rule.name, gate.settings.bound) for gate in step.gates]
        judged = [(finding.gate, finding.rule, finding.bound) for finding in findings]
        if asked != judged:
            raise EvidenceError(f"{step.name} has the gates {asked}, judged were {judged}")
        for gate, finding in zip(step.gates, findings, strict=True):
            if not same(finding.limit, gate.settings.limit, TOUCH):
                raise EvidenceError(f"{gate.name!r} was judged at another bound: {finding.limit}")
            if finding.verdict is Verdict.PASS:
                _check_pass(gate, finding)


def _check_pass(gate: Gate, finding: Finding) -> None:
    found, limit, side = finding.estimate, finding.limit, gate.settings.passes
    if side is not None and limit is not None:
        if found is None:
            raise EvidenceError(f"the gate {finding.gate!r} passed and measured nothing")
        touch = TOUCH * max(1.0, abs(limit))
        floor = {"above": limit, "below": -math.inf, "within": -limit}[side] - touch
        ceiling = {"above": math.inf, "below": limit, "within": limit}[side] + touch
        if not floor <= found.low <= found.high <= ceiling:
            raise EvidenceError(
                f"the gate {finding.gate!r} passed, but its interval [{found.low:g},"
                f" {found.high:g}] is not wholly on the side of {limit:g} where it passes"
            )
    required = gate.settings.required_queries
    if found is not None and found.n < required:
        raise EvidenceError(
            f"the gate {finding.gate!r} passed on {found.n} queries, before the {required} that"
            " the policy waits for were there"
        )
