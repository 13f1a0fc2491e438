"""No kind of query may be harmed behind the mean of all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import Field

from harness.core.evidence import Evidence
from harness.core.gate import Finding, Verdict
from harness.core.scores import Estimate
from harness.gates.base.paired import Comparison, compare
from harness.gates.base.queries import SampleSettings, too_few
from harness.gates.base.rules import Rules, Share, signed
from harness.stats.holm import adjusted

NAMED = 3
"""Slices that the reason names, beside those that are harmed or lost queries."""


class Settings(SampleSettings):
    """No slice may surely lose more than ``margin``; ``min_queries`` holds for each slice."""

    slice: None = None
    slices: tuple[str, ...] = Field(default=(), strict=False)
    """Those to look at; empty for every slice of the query set."""
    margin: Share

    @property
    def bound(self) -> str:
        return f"no slice surely loses more than {self.margin:g} of {self.measure}"

    @property
    def limit(self) -> float:
        return -self.margin


@dataclass(frozen=True, slots=True, eq=False)
class _Slice:
    name: str
    estimate: Estimate
    p_value: float
    p_with_lost: float
    losses: str


def judge(name: str, settings: Settings, evidence: Evidence, rules: Rules) -> Finding:
    """FAIL where a slice is harmed at the level of the policy, Holm-corrected over the slices.

    The p-value of a slice is of "the loss is the margin", against "it is greater". A slice that
    is too small, or is harmed only if its lost queries count as -1 each, is INCONCLUSIVE. This
    looks for harm; that a slice is as good is for ``non_inferior`` to show.
    """
    found: list[_Slice] = []
    small: list[str] = []
    for label in sorted(settings.slices or evidence.slices):
        own = settings.model_copy(update={"slice": label})
        compared = compare(evidence, own, versus=None)
        if too_few(name, own, compared.paired.query_ids, evidence):
            small.append(f"{label} ({len(compared.paired.query_ids)})")
        else:
            found.append(_measured(label, compared, settings, rules))
    if not found:
        return settings.undecided(
            name,
            f"{len(small)} slices, none with {settings.min_queries} independent queries",
            "name slices in the query set, and judge enough queries of each",
        )
    level = 1 - rules.confidence
    p_values = adjusted(np.array([one.p_value for one in found]))
    harmed = p_values <= level
    perhaps = adjusted(np.array([one.p_with_lost for one in found])) <= level
    if harmed.any():
        verdict = Verdict.FAIL
    else:
        verdict = Verdict.INCONCLUSIVE if small or perhaps.any() else Verdict.PASS
    in_order = np.argsort([one.estimate.value for one in found], kind="stable")
    worst = int(in_order[0])
    named = [
        at for rank, at in enumerate(in_order) if rank < NAMED or harmed[at] or found[at].losses
    ]
    said = ", ".join(
        f"{found[at].name} {signed(found[at].estimate)}"
        f" (p {p_values[at]:.3g}{', harmed' if harmed[at] else ''}){found[at].losses}"
        for at in named
    )
    said += f", and {len(found) - len(named)} more" if len(found) > len(named) else ""
    return settings.finding(
        name,
        verdict,
        f"{settings.measure} by slice, worst first: {said}"
        + (f"; too small: {', '.join(small)}" if small else ""),
        estimate=found[worst].estimate,
        settle=f"judge {settings.min_queries} independent queries of {', '.join(small)}"
        if small
        else "no failures: find out why queries were lost and replay",
        p_value=float(p_values.min()),
    )


def _measured(label: str, compared: Comparison, settings: Settings, rules: Rules) -> _Slice:
    shift = -settings.margin
    p_value = compared.p_value(shift, "less", rules)
    return _Slice(
        label,
        compared.estimate(rules),
        p_value,
        compared.p_with_lost(-1.0, shift, "less", rules) if compared.paired.lost else p_value,
        compared.losses,
    )
