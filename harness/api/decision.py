"""Verdicts of a policy on the evidence of a folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness.api.comparison import Shown
from harness.core.formats import json_file
from harness.core.gate import StepDecision
from harness.pipeline import gate
from harness.pipeline.layout import left_by_run
from harness.policy.decision import exit_code
from harness.policy.load import load_policy
from harness.report.doc import Block, Section
from harness.report.page.view import gate_table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, repr=False)
class Decided(Shown):
    """Every step of a policy, with the findings of its gates."""

    policy: str
    """Name of the policy."""
    steps: tuple[StepDecision, ...]

    @property
    def exit_code(self) -> int:
        """Exit code: 0 if every step may be taken, 1 if a gate fails, 3 if any is open."""
        return exit_code(self.steps)

    def frame(self) -> pd.DataFrame:
        """Return a frame, a row for each gate: verdict, estimate, interval, bound, unrounded."""
        import pandas as pd

        return pd.DataFrame([
            {
                "step": step.step,
                "outcome": step.outcome.value,
                "gate": found.gate,
                "verdict": found.verdict.value,
                "cause": found.cause.value,
                "estimate": found.estimate.value if found.estimate else None,
                "low": found.estimate.low if found.estimate else None,
                "high": found.estimate.high if found.estimate else None,
                "limit": found.limit,
                "unit": found.unit,
                "reason": found.reason,
                "settle": found.remedy,
            }
            for step in self.steps
            for found in step.findings
        ])

    def __repr__(self) -> str:
        return "\n".join(
            "\n".join([
                _decision_title(step),
                *(f"  {f.verdict.upper()}: {f.gate}" for f in step.findings),
            ])
            for step in self.steps
        )

    def blocks(self) -> Iterable[Block]:
        """Return a table of gates for each step."""
        for step in self.steps:
            waits = f"; waits for {step.blocked_by}" if step.blocked_by else ""
            yield Section(f"{_decision_title(step)}{waits}", (gate_table(step, ""),))


def decide(policy: str | Path, out: str | Path, *, control: str = "") -> Decided:
    """Judge what ``harness run --out`` left in ``out``, as ``harness gate`` does.

    With ``control`` the policy's one step judges every other arm. No index is opened and no
    decision is written; the folder's experiment log gets a line. Runs alone are not enough, because
    only the folder records which engine answered, and when.

    Raises:
        BadPolicy: the policy is malformed.
        BadFile: ``harness run`` did not write the folder.
        EvidenceError: evidence is stale, was changed since, or is of other arms.
    """
    judged_by = load_policy(Path(policy))
    layout = left_by_run(Path(out))
    steps = gate.decide_again(
        layout, judged_by, Path(policy), control=control, now=datetime.now(UTC)
    )
    return Decided(judged_by.name, steps)


def log_to_mlflow(out: str | Path) -> None:
    """Log what ``harness run --out`` left in ``out`` to the active run of MLflow, or to a new one.

    Metrics are ``ARM.MEASURE.mean``, ``.low`` and ``.high``, with ``_at_`` for ``@``; tags are
    ``STEP.verdict`` and ``STEP.outcome``. The files of the folder are artifacts, in its name.

    Raises:
        FileNotFoundError: ``harness run`` did not write the folder.
        ModuleNotFoundError: MLflow is not installed.
    """
    import mlflow

    folder = Path(out)
    for arm, of in json_file(folder / "scores.json").items():
        for measure, row in of.items():
            written = f"{arm}.{measure}".replace("@", "_at_")
            name = "".join(c if c.isalnum() or c in "._-" else "_" for c in written)
            ends = (end for end in ("mean", "low", "high") if row[end] is not None)
            mlflow.log_metrics({f"{name}.{end}": row[end] for end in ends})
    if (decision := folder / "decision.json").exists():
        for step in json_file(decision)["datasets"][0]["steps"]:
            mlflow.set_tags({f"{step['step']}.{key}": step[key] for key in ("verdict", "outcome")})
    for file in sorted(path for path in folder.iterdir() if path.is_file()):
        mlflow.log_artifact(str(file), folder.name)


def _decision_title(step: StepDecision) -> str:
    return f"{step.step}: {step.outcome.upper()} ({step.control} → {step.candidate})"
