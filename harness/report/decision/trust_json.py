"""What is known of the judge, for machines: its error budget, and what its selftest measured."""

from __future__ import annotations

from typing import Any

from harness.core.scores import Estimate
from harness.policy.selftest.operating import Curve, OperatingCharacteristic, Selftest
from harness.report.page.trust import Trust
from harness.report.rounding import for_json


def as_json(trust: Trust | None) -> dict[str, Any] | None:
    """Give all of it for machines; None where nothing was decided."""
    if trust is None:
        return None
    found = trust.selftest
    return {
        "alpha": {
            "level": for_json(trust.policy.error_budget.level),
            "allowed": for_json(trust.policy.alpha),
            "together": for_json(trust.policy.error_budget.together),
            "steps": {
                step.name: {"alpha": for_json(trust.alphas[step.name]), "attempts": step.attempts}
                for step in trust.policy.steps
            },
        },
        "command": trust.command,
        "selftest": None if found is None else _selftest(found),
    }


def _selftest(found: Selftest) -> dict[str, Any]:
    return {
        "valid": found.valid,
        "trials": found.trials,
        "seed": found.seed,
        "power": for_json(found.power),
        "gates": [_gate(one, found.level) for one in found.gates],
        "curves": [_curve(one) for one in found.curves],
        "nulls": [
            {
                "step": null.step,
                "model": null.model,
                "verdicts": null.verdicts,
                "as_it_should": null.as_it_should,
            }
            for null in found.nulls
        ],
    }


def _gate(one: OperatingCharacteristic, level: float) -> dict[str, Any]:
    return {
        "step": one.step,
        "gate": one.gate,
        "what": one.what,
        "queries": one.queries,
        "limit": for_json(one.limit),
        "false_promote": _estimate(one.false_promote),
        "planted": [
            {"pattern": it.pattern, "assumed": it.assumed, "promoted": _estimate(it.promoted)}
            for it in one.planted
        ],
        "convicted": one.convicted(level) is not None,
        "false_hold": _estimate(one.false_hold),
        "smallest_loss": for_json(one.smallest_loss),
        "seen": _estimate(one.seen),
    }


def _curve(curve: Curve) -> dict[str, Any]:
    points = [
        {
            "times": for_json(it.times),
            "truth": for_json(it.truth),
            "promoted": _estimate(it.promoted),
        }
        for it in curve.points
    ]
    named = {"step": curve.step, "gate": curve.gate, "what": curve.what, "gates": curve.gates}
    return {**named, "points": points}


def _estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    ends = {"low": for_json(estimate.low), "high": for_json(estimate.high)}
    return {"value": for_json(estimate.value), **ends, "n": estimate.n}
