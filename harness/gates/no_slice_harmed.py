"""No slice may lose more than its margin, whatever the mean of all queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.printable import many
from harness.core.scores import Estimate
from harness.gates.base.completions import Bound
from harness.gates.base.differences import LESS, PairedComparison, compare
from harness.gates.base.queries import SampleSettings, too_few
from harness.gates.base.rules import Margin, Rules, Where, above, signed
from harness.stats.significance import adjusted

NAMED = 3
"""Slices that the reason lists, in addition to those that did not pass."""


class NoSliceHarmedSettings(SampleSettings):
    """Each slice must lose less than its margin; ``min_queries`` applies to each slice."""

    slice: None = None
    slices: tuple[str, ...] = Field(default=(), strict=False)
    """Slices to judge; empty for every slice of the query set."""
    margin: Margin
    margins: Mapping[str, Margin] = Field(default_factory=dict)
    """Margins of single slices, by name."""

    @model_validator(mode="after")
    def _looked_at(self) -> Self:
        unknown = sorted(set(self.margins) - set(self.slices)) if self.slices else []
        if unknown:
            raise ValueError(f"margins names {', '.join(unknown)}, and slices does not")
        return self

    def margin_of(self, name: str) -> float:
        """Return the margin of a slice."""
        return self.margins.get(name, self.margin)

    @property
    def bound(self) -> str:
        own = "".join(f", {name} less than {margin:g}" for name, margin in self.margins.items())
        return f"each slice loses less than {self.margin:g} of {self.measure}{own}"

    @property
    def limit(self) -> float | None:
        return None if self.margins else -self.margin

    @property
    def passes(self) -> Where | None:
        return None if self.margins else "above"


@dataclass(frozen=True, slots=True, eq=False)
class _Slice:
    name: str
    limit: float
    compared: PairedComparison
    estimate: Estimate
    p_harmed: float
    """Of "it loses no more than its margin"."""
    passes: bool
    empty: str
    """Why a PASS would mean nothing; empty where it would mean something."""

    def settled(self, rules: Rules) -> tuple[str, Cause]:
        """Describe what would settle it, and why it is open."""
        if self.empty:
            return f"{self.name}: {LESS}", Cause.EMPTY
        unpaired = self.compared.paired.unpaired
        if unpaired and above(self.estimate, self.limit) is Verdict.PASS:
            return f"{self.name}: {self.compared.answers}", Cause.UNANSWERED
        remedy, cause = self.compared.settled(Bound(self.limit), rules)
        return f"{self.name}: {remedy}", cause

    def unjudged(self, rules: Rules) -> str:
        """Describe what the unjudged hits do to its verdict; empty where all are judged."""
        return self.compared.unjudged(Bound(self.limit), rules)


def judge(name: str, settings: NoSliceHarmedSettings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the interval of each slice shows a loss below its margin.

    A slice passes as in ``non_inferior``, with each lost query counted as -1. FAIL where the
    interval of one lies below its margin, and its p-value does so too after Holm's correction for
    the number of slices. A slice that is too small, or whose control has at most its margin to
    lose, is INCONCLUSIVE and named.
    """
    found: list[_Slice] = []
    small: list[str] = []
    for label in sorted(settings.slices or evidence.slices):
        own = settings.model_copy(update={"slice": label})
        compared = compare(evidence, own, versus=None)
        if too_few(name, own, compared.paired.query_ids, evidence):
            small.append(
                f"{label} ({len(compared.paired.query_ids)} of {settings.required_queries} queries)"
            )
        else:
            found.append(_measured(label, compared, -settings.margin_of(label), rules))
    if not found:
        return settings.undecided(
            name,
            Cause.TOO_FEW,
            f"{many(len(small), 'slice')}, none with"
            f" {many(settings.required_queries, 'independent query')}",
            "name slices in the query set, and judge enough queries of each",
        )
    p_values = adjusted(np.array([one.p_harmed for one in found]))
    level = (1 - rules.confidence) / 2
    harmed = [
        above(one.estimate, one.limit) is Verdict.FAIL and p_value <= level
        for one, p_value in zip(found, p_values, strict=True)
    ]
    verdict = Verdict.FAIL if any(harmed) else Verdict.INCONCLUSIVE
    if verdict is not Verdict.FAIL and not small and all(one.passes for one in found):
        verdict = Verdict.PASS
    open_ = [one for one, bad in zip(found, harmed, strict=True) if not (one.passes or bad)]
    remedies = [one.settled(rules) for one in open_]
    causes = {cause for _, cause in remedies}
    return settings.finding(
        name,
        verdict,
        f"{settings.measure} by slice, worst first: {_said(found, harmed, rules)}"
        + (f"; too small: {', '.join(small)}" if small else ""),
        estimate=min(found, key=lambda one: one.estimate.low - one.limit).estimate,
        remedy="; ".join([*small, *(remedy for remedy, _ in remedies)]),
        p_value=float(p_values.min()),
        cause=Cause.TOO_FEW if small and not open_ else causes.pop() if len(causes) == 1 else None,
    )


def _measured(label: str, compared: PairedComparison, limit: float, rules: Rules) -> _Slice:
    estimate = compared.estimate(rules)
    worst = compared.with_unpaired(-1.0, rules) if compared.paired.unpaired else estimate
    kept = above(worst, limit)
    empty = compared.empty_pass(kept, estimate, -limit)
    return _Slice(
        label,
        limit,
        compared,
        estimate,
        compared.p_below(limit, rules),
        kept is Verdict.PASS and not empty,
        empty,
    )


def _said(found: Sequence[_Slice], harmed: Sequence[bool], rules: Rules) -> str:
    """Name the worst slices, and all that did not pass."""
    order = sorted(range(len(found)), key=lambda at: found[at].estimate.value)
    named = [at for rank, at in enumerate(order) if rank < NAMED or not found[at].passes]
    said = ", ".join(
        f"{found[at].name} {signed(found[at].estimate)}"
        + (" (harmed)" if harmed[at] else "" if found[at].passes else " (open)")
        + found[at].compared.losses
        + found[at].unjudged(rules)
        + (f"; {found[at].empty}" if found[at].empty else "")
        for at in named
    )
    return said + (f", and {len(found) - len(named)} more" if len(found) > len(named) else "")
