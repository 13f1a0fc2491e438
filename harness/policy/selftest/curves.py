"""The operating curve of a step: how often all its gates on means pass together, by the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.clusters import codes
from harness.core.evidence import Evidence
from harness.core.scores import Estimate
from harness.gates.base.rules import Rules
from harness.policy.model import Step
from harness.policy.selftest.operating import Curve, Point
from harness.policy.selftest.planted import NEARLY_ALL, masked
from harness.policy.selftest.requirements import Bools, Requirement, requirements
from harness.stats.proportion import share

TIMES = (0.0, 0.5, 1.0, 2.0)
"""Truths, as multiples of the bound."""


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
