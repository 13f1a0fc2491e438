"""Whether the conditions of the evidence allow a gate to be judged.

Two arms with different numbers of requested hits, or different time limits, cannot be compared:
their difference may come from the conditions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from harness.core.evidence import ArmResult, Evidence
from harness.core.printable import many
from harness.core.run import Conditions, Run, Status
from harness.gates.base.rules import GateSettings
from harness.policy.demands import Demands

CUT_SHARE = 0.05
"""Lists of which so many end at the longest one's length were cut there, not ended there."""
REPLAY = "replay both arms with one replay.k and one replay.time_limit_s, then score and compare"


class Unmet(NamedTuple):
    """A condition that the evidence does not meet."""

    reason: str
    remedy: str


def unmet(settings: GateSettings, evidence: Evidence, demands: Demands) -> Unmet | None:
    """Give the first condition that is not met; None if all are met.

    Gates on times and on live traffic have other conditions and are not checked here.
    """
    if settings.timed:
        return None
    others = [evidence.others[arm] for arm in settings.arms if arm in evidence.others]
    sides = (evidence.control, evidence.candidate, *others)
    checks = (
        _unlike(sides),
        _too_shallow(sides, settings.deepest, demands.k),
        _too_patient(sides, demands.time_limit_s),
        _cut(sides, settings.deepest),
        _other_depth(evidence, demands.depth),
    )
    return next((found for check in checks for found in check), None)


def _unlike(sides: tuple[ArmResult, ...]) -> Iterator[Unmet]:
    known = {side.arm: side.run.conditions for side in sides if side.run.conditions}
    if len(set(known.values())) > 1:
        said = "; ".join(f"{arm}: {_said(found)}" for arm, found in known.items())
        yield Unmet(f"the arms were not asked alike ({said})", REPLAY)


def _said(conditions: Conditions) -> str:
    return f"{many(conditions.k, 'hit')} within {conditions.time_limit_s:g} s"


def _too_shallow(sides: tuple[ArmResult, ...], deepest: int, wanted: int | None) -> Iterator[Unmet]:
    for side in sides:
        found = side.run.conditions
        if wanted is not None and (found is None or found.k < wanted):
            said = (
                f"asked for {many(found.k, 'hit')}" if found else "imported and does not say its k"
            )
            yield Unmet(
                f"{side.arm} was {said}; the policy demands {wanted} (policy.evidence.k)", REPLAY
            )
        if found is not None and found.k < deepest:
            yield Unmet(
                f"{side.arm} returned {many(found.k, 'hit')} a query, and the gate looks at"
                f" {deepest}: the end of its lists is not a miss",
                f"raise replay.k to {deepest}, and {REPLAY}",
            )


def _too_patient(sides: tuple[ArmResult, ...], wanted: float | None) -> Iterator[Unmet]:
    for side in sides:
        found = side.run.conditions
        if wanted is not None and (found is None or found.time_limit_s > wanted):
            said = f"of {found.time_limit_s:g} s" if found else "that was not recorded"
            yield Unmet(
                f"{side.arm} was replayed with a time limit {said}; the policy demands {wanted:g} s"
                " (policy.evidence.time_limit_s)",
                REPLAY,
            )


def _cut(sides: tuple[ArmResult, ...], deepest: int) -> Iterator[Unmet]:
    """Find imported runs whose lists were cut before the gate's depth, and another arm's not."""
    longest = max(int(side.run.lengths.max(initial=0)) for side in sides)
    for side in sides:
        cut = None if side.run.conditions else _cut_at(side.run)
        if cut is not None and cut < min(deepest, longest, side.manifest.documents):
            yield Unmet(
                f"the lists of {side.arm} were cut at {many(cut, 'hit')}, those of another arm go"
                f" to {longest}, and the gate looks at {deepest}",
                f"import a run of {side.arm} with {many(deepest, 'hit')} a query",
            )


def _cut_at(run: Run) -> int | None:
    """Length at which lists were cut; None where they seem to end by themselves."""
    lengths = run.lengths[run.status == Status.ANSWERED]
    top = int(lengths.max(initial=0))
    return top if top and float(np.mean(lengths == top)) >= CUT_SHARE else None


def _other_depth(evidence: Evidence, wanted: int | None) -> Iterator[Unmet]:
    for found in (evidence.agreement, evidence.noise):
        if wanted is not None and found.depth != wanted:
            said = "an unknown depth" if found.depth is None else f"a depth of {found.depth}"
            yield Unmet(
                f"RBO, the taus and the classes were computed at {said}; the policy demands"
                f" {wanted} (policy.evidence.depth)",
                f"put {wanted} last in compare.depths, and run harness compare",
            )
