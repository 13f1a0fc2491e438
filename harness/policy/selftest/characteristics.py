"""The operating characteristic of one gate: its error rates, and the smallest loss it detects.

A rate whose interval lies above the level is a suspicion. Because many rates are tested, it is
measured again, with four times the trials and other draws, and that rate counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.clusters import codes
from harness.core.evidence import Evidence
from harness.core.printable import many
from harness.core.scores import Estimate
from harness.gates.base.rules import Rules
from harness.policy.model import Gate, Step
from harness.policy.selftest.operating import Curve, OperatingCharacteristic, Planted, Point
from harness.policy.selftest.planted import ASSUMED, NEARLY_ALL, Pattern, draw, masked
from harness.policy.selftest.requirements import Bools, Requirement, requirements
from harness.stats.bounded import chance_above
from harness.stats.proportion import share

TIMES = (0.0, 0.5, 1.0, 2.0)
"""Truths, as multiples of the bound."""
AGAIN = 4
"""Times the trials of a suspicion."""
FINE = 1.05
"""Losses nearer than this factor are one loss."""
FEW = 2
"""The smallest loss is looked for with half of the trials."""
TINY = 1e-6
LOUDER, TRIES = 1.08, 6
"""How much a loss grows, and how often, until it is seen often enough."""


def characteristic(
    step: Step,
    gate: Gate,
    evidence: Evidence,
    rules: Rules,
    *,
    trials: int,
    alone: Estimate | None,
) -> OperatingCharacteristic | None:
    """Try a gate on means; None where its rule looks elsewhere, or no mean has enough queries.

    Each mean that it requires is tried by itself, for a gate that asks for several is wrong no
    more often than the worst of them. ``alone`` is how often it passed where nothing differs.

    Raises:
        EvidenceError: no trial.
    """
    usable = [one for one in requirements(gate, evidence) if one.enough]
    if not usable:
        return None
    tried = [_planted(one, rules, trials, of=len(usable)) for one in usable]
    patterns = [pattern for pattern in Pattern if any(pattern in found for found in tried)]
    planted = tuple(
        max((found[pattern] for found in tried if pattern in found), key=_value)
        for pattern in patterns
    )
    first = min(usable, key=lambda one: len(one.compared.paired.query_ids))
    held = _twice(first, rules, trials) if first.limit > 0 else alone
    loss, seen = _smallest(first, rules, trials)
    return OperatingCharacteristic(
        step=step.name,
        gate=gate.name,
        what=first.what
        if len(usable) == 1
        else f"{gate.settings.unit} on {many(len(usable), 'slice')}",
        queries=len(first.compared.paired.query_ids),
        limit=first.limit,
        planted=planted,
        false_hold=held and _complement(held),
        smallest_loss=loss,
        seen=seen,
    )


def _value(planted: Planted) -> float:
    return planted.promoted.value


def _planted(one: Requirement, rules: Rules, trials: int, *, of: int) -> dict[Pattern, Planted]:
    """Measure how often one requirement passes at its limit, by pattern."""
    level = (1 - rules.confidence) / 2
    where = f" ({one.what})" if of > 1 else ""
    found = {}
    for pattern in Pattern:
        rate = _passed(one, pattern, one.limit, rules, trials)
        if rate is None:
            continue
        if rate.low > level and pattern not in ASSUMED:
            other = replace(rules, seed=rules.seed + 1)
            rate = _passed(one, pattern, one.limit, other, AGAIN * trials) or rate
        found[pattern] = Planted(f"{pattern}{where}", rate, pattern in ASSUMED)
    return found


def _passed(
    one: Requirement, pattern: Pattern, truth: float, rules: Rules, trials: int
) -> Estimate | None:
    drawn = draw(pattern, one.values, truth, trials=trials, seed=rules.seed)
    if drawn is None:
        return None
    said = one.passed(drawn.differences, rules, seed=rules.seed, clusters=drawn.clusters)
    return share(int(said.sum()), trials, confidence=rules.confidence)


def _twice(one: Requirement, rules: Rules, trials: int) -> Estimate | None:
    """Measure how often a gain of twice the limit passes."""
    return _passed(one, Pattern.SCATTERED, 2 * one.limit, rules, trials)


def _complement(estimate: Estimate) -> Estimate:
    return Estimate(1 - estimate.value, 1 - estimate.high, 1 - estimate.low, estimate.n)


def _smallest(one: Requirement, rules: Rules, trials: int) -> tuple[float | None, Estimate | None]:
    """Find the smallest scattered loss whose interval lies below 0 in the share ``power``.

    It is looked for by the bound for bounded means alone, and then seen by the whole interval.
    """
    below = replace(one, limit=0.0, both_sides=False)
    few = max(1, trials // FEW)
    high = one.values.level / 2
    low = high / 2
    while low > TINY and _shows(below, low, rules, few):
        low, high = low / 2, low
    while high > FINE * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _shows(below, middle, rules, few) else (middle, high)
    for loss in high * LOUDER ** np.arange(TRIES):
        drawn = draw(Pattern.SCATTERED, one.values, -loss, trials=trials, seed=rules.seed)
        if drawn is None:
            break
        said = below.passed(-drawn.differences, rules, seed=rules.seed)
        seen = share(int(said.sum()), trials, confidence=rules.confidence)
        if seen.value >= rules.power:
            return float(loss), seen
    return None, None


def _shows(below: Requirement, loss: float, rules: Rules, trials: int) -> bool:
    """Tell whether the bound for bounded means alone shows a loss in the share ``power``."""
    drawn = draw(Pattern.SCATTERED, below.values, -loss, trials=trials, seed=rules.seed)
    if drawn is None:
        return True
    level = (1 - rules.confidence) / 2
    p_values = chance_above(
        -drawn.differences,
        0.0,
        span=below.compared.span,
        clusters=below.compared.known,
        largest=rules.largest_cluster,
    )
    return float(np.mean(p_values < level)) >= rules.power


def all_of(
    step: Step,
    evidence: Evidence,
    rules: Rules,
    *,
    trials: int,
    alone: dict[str, Estimate],
) -> Iterator[OperatingCharacteristic]:
    """Try every gate of a step that is on means."""
    for gate in step.gates:
        operating_characteristic = characteristic(
            step, gate, evidence, rules, trials=trials, alone=alone.get(gate.name)
        )
        if operating_characteristic:
            yield operating_characteristic


class Traced(NamedTuple):
    """A curve, and how often each gate passed by itself where nothing differs."""

    curve: Curve
    alone: Mapping[str, Estimate]
    """By gate."""


def trace(step: Step, evidence: Evidence, rules: Rules, *, trials: int) -> Traced | None:
    """Plant the same losses under all gates of a step at once; None where none is on means.

    A query that loses everything loses it in every measure. At 1, the share of lost queries just
    reaches the first bound. If the step requires gains, the share of gained queries reaches the
    last bound of a gain. Gates of other rules are taken to pass.
    """
    named = [(gate.name, one) for gate in step.gates for one in requirements(gate, evidence)]
    usable = [(name, one) for name, one in named if one.enough and one.values.level]
    if not usable:
        return None
    gains = [pair for pair in usable if pair[1].limit > 0]
    gate, first = max(gains, key=_share) if gains else min(usable, key=_share)
    ids = dict.fromkeys(q for _, one in named for q in one.compared.paired.query_ids)
    together = codes(tuple(ids), evidence.clusters)
    units = np.arange(len(ids)) if together is None else together
    place = {query: at for at, query in enumerate(ids)}
    points, alone = [], {}
    for times in TIMES:
        lost = times * _share((gate, first))
        if lost > NEARLY_ALL:
            continue
        rng = np.random.default_rng((rules.seed, len(TIMES)))
        masks = masked(units, lost, trials, rng)
        passed: dict[str, Bools] = {}
        for name, one in named:
            rows = np.array([place[q] for q in one.compared.paired.query_ids], dtype=np.int64)
            own = masks._replace(swapped=masks.swapped[rows], lost=masks.lost[rows])
            found = own.applied(one.values.control, one.values.candidate, gain=bool(gains))
            said = one.passed(found, rules, seed=rules.seed)
            passed[name] = passed[name] & said if name in passed else said
        if not times:
            alone = {name: _rate(one, rules) for name, one in passed.items()}
        promoted = np.logical_and.reduce(list(passed.values()))
        points.append(Point(times, times * first.limit, _rate(promoted, rules)))
    curve = Curve(step.name, gate, first.what, len({name for name, _ in named}), tuple(points))
    return Traced(curve, alone)


def _share(named: tuple[str, Requirement]) -> float:
    """Share of the queries that must lose everything before the bound is reached."""
    return abs(named[1].limit) / named[1].values.level


def _rate(passed: NDArray[np.bool_], rules: Rules) -> Estimate:
    return share(int(passed.sum()), len(passed), confidence=rules.confidence)
