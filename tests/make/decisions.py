"""Decisions of a migration."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.core import digest
from harness.core.gate import Outcome, Verdict
from harness.migrate.standing import CurrentDecision, DecisionRecord, Said
from harness.policy.load import load_policy
from harness.policy.model import Policy

FILE = Path(__file__).resolve().parents[2] / "policy" / "mail.toml"
POLICY = load_policy(FILE)
SHA256 = digest.of_file(FILE)
MONTH = datetime(2026, 3, 1, tzinfo=UTC)
GATE = "Quality of the first page"
SETUP = {arm: digest.of_json(arm) for arm in POLICY.arms}


def day(number: int, hour: int = 9) -> datetime:
    """Return an hour of the month; days count from 1."""
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
        control, candidate = step.control, step.candidate
        made = Said(
            step=step.name, control=control, candidate=candidate, verdict=verdict,
            outcome=Outcome.PROMOTE if promoted else Outcome.HOLD, waits_for=blocked_by,
            failed=(GATE,) if word == "fail" else (), open=(GATE,) if word == "open" else (),
            control_setup=SETUP[control], candidate_setup=SETUP[candidate], compared=600,
            replayed_at=day(replayed or number, 5),
        )  # fmt: skip
        steps.append(made)
        blocked_by = blocked_by or ("" if promoted else step.name)
    return DecisionRecord(
        sha256=digest.of_json([number, raced, replayed, said]), decided_at=day(number, 6),
        raced_at=day(raced, 5) if raced else None, policy_sha256=SHA256, steps=tuple(steps),
    )  # fmt: skip


def evidence(decided: DecisionRecord | None, refused: str = "") -> CurrentDecision:
    """Return a decision that was held, or was refused."""
    return CurrentDecision(decided, refused, SHA256)


def of_gate(file: Path, gate: str) -> Any:  # noqa: ANN401  what json gives back
    """Return the finding of one gate, of a decision with one data set and one step."""
    written = json.loads(file.read_text())
    (step,) = written["datasets"][0]["steps"]
    return next(found for found in step["findings"] if found["gate"] == gate)
