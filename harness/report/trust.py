"""How far verdicts can be trusted: what they may err by account, and how often they were wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.core.scores import Estimate
from harness.policy.model import Policy
from harness.policy.tried import Selftest, Tried
from harness.report.rounding import for_json, number, percent
from harness.report.tables import Cell, Table

TOO_LARGE = "unknown: too large to be planted"


@dataclass(frozen=True, slots=True)
class Trust:
    """What is known of the judge, beside what it says."""

    policy: Policy
    selftest: Selftest | None
    """None where none of this evidence and this policy is there."""
    command: str
    """What to type for a selftest."""

    def step(self, name: str) -> str:
        """Say how often a step may be promoted wrongly; empty where the policy has no such step."""
        own = {step.name: step for step in self.policy.steps}
        if name not in own:
            return ""
        alpha = self.alphas[name]
        times = "once" if own[name].attempts == 1 else f"{own[name].attempts} times"
        return f"Promoted wrongly with a chance of at most {percent(alpha)} (judged {times})."

    @property
    def alphas(self) -> dict[str, float]:
        """Chance that each step is promoted wrongly, by its name."""
        names = (step.name for step in self.policy.steps)
        return dict(zip(names, self.policy.account.by_stage, strict=True))

    @property
    def together(self) -> str:
        """Say what all steps may err together, and whether an engine that knows nothing lost."""
        allowed = self.policy.alpha
        limit = "the policy sets no limit" if allowed is None else f"allowed {percent(allowed)}"
        how = "waiting for each other" if self.policy.chained else "each for itself"
        said = (
            f"All steps together, {how}: a wrong promotion with a chance of at most"
            f" {percent(self.policy.account.together)} ({limit})."
        )
        if self.selftest is None:
            return f"{said} How often these gates are wrong was not tried; run: {self.command}"
        lost = "An engine that knows nothing loses, as it must."
        passed = "INVALID: an engine that knows nothing passes, so no verdict may be believed."
        return f"{said} {lost if self.selftest.valid else passed}"

    def gate(self, step: str, gate: str) -> str:
        """Say how often a gate was wrong; empty where it was not tried."""
        found = self.selftest.of(step, gate) if self.selftest else None
        if found is None:
            return ""
        wrong = f"Selftest: passes wrongly {_rate(found.false_promote)}"
        return f"{wrong}, holds wrongly {_rate(found.false_hold)}, sees {_loss(found)}"


def rates(found: Selftest, command: str) -> Table:
    """Show how often each gate was wrong where the truth was known."""
    rows = tuple(
        (
            Cell(f"{one.step}: {one.gate}", f"{one.what}, {one.queries:,} queries"),
            _cell(one.false_promote),
            _cell(one.false_hold),
            Cell(_loss(one), f"in {percent(one.seen.value)} of the trials" if one.seen else ""),
        )
        for one in found.gates
    )
    allowed = f"{found.trials} trials a rate; passes wrongly: {percent(found.level)} is allowed"
    header = ("gate", "passes wrongly", "holds wrongly", "smallest loss seen")
    return Table(f"How often gates are wrong ({allowed}; {command})", header, rows)


def nulls(found: Selftest) -> Table:
    """Show what became of engines that know nothing, and of the control itself, as candidates."""
    rows = tuple(
        (
            Cell(f"{null.step}: {null.model}"),
            Cell(", ".join(f"{gate}: {said}" for gate, said in null.verdicts.items())),
            Cell("yes" if null.as_it_should else "NO"),
        )
        for null in found.nulls
    )
    return Table("Engines that must lose", ("as the candidate", "gates", "as it should"), rows)


def as_json(trust: Trust | None) -> dict[str, Any] | None:
    """Give all of it for machines; None where nothing was decided."""
    if trust is None:
        return None
    found = trust.selftest
    return {
        "alpha": {
            "level": for_json(trust.policy.account.level),
            "allowed": for_json(trust.policy.alpha),
            "together": for_json(trust.policy.account.together),
            "steps": {
                step.name: {"alpha": for_json(trust.alphas[step.name]), "attempts": step.attempts}
                for step in trust.policy.steps
            },
        },
        "command": trust.command,
        "selftest": None
        if found is None
        else {
            "valid": found.valid,
            "trials": found.trials,
            "seed": found.seed,
            "power": for_json(found.power),
            "gates": [
                {
                    "step": one.step,
                    "gate": one.gate,
                    "what": one.what,
                    "queries": one.queries,
                    "limit": for_json(one.limit),
                    "false_promote": _estimate(one.false_promote),
                    "false_hold": _estimate(one.false_hold),
                    "smallest_loss": for_json(one.smallest_loss),
                    "seen": _estimate(one.seen),
                }
                for one in found.gates
            ],
            "nulls": [
                {
                    "step": null.step,
                    "model": null.model,
                    "verdicts": null.verdicts,
                    "as_it_should": null.as_it_should,
                }
                for null in found.nulls
            ],
        },
    }


def _estimate(found: Estimate | None) -> dict[str, Any] | None:
    if found is None:
        return None
    ends = {"low": for_json(found.low), "high": for_json(found.high)}
    return {"value": for_json(found.value), **ends, "n": found.n}


def _rate(found: Estimate | None) -> str:
    return f"{percent(found.value)} {_ends(found)}" if found else TOO_LARGE


def _cell(found: Estimate | None) -> Cell:
    return Cell(percent(found.value), _ends(found)) if found else Cell(TOO_LARGE)


def _ends(found: Estimate) -> str:
    return f"[{percent(found.low)}, {percent(found.high)}]"


def _loss(found: Tried) -> str:
    if found.smallest_loss is None:
        return "no loss that can be planted"
    return f"a loss of {number(found.smallest_loss)}"
