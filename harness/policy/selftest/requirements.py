"""What a gate on means requires of its differences, judged over many columns at once.

Each verdict is the gate's own, column by column: ``test_requirements.py`` compares it with
``Gate.judge``. And all columns of a call share one draw. A shortcut saves most of the time: a
column passes only where the bound for bounded means clears the limit too, whose p-value costs a
twentieth of an interval. The shortcut is checked: the columns nearest to the level that it leaves
out are judged in full, and if one of them passes, all are judged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness.core.clusters import independent
from harness.core.evidence import Evidence
from harness.core.gate import Verdict
from harness.gates.base.paired import Comparison, compare
from harness.gates.base.rules import Rules, above, within
from harness.policy.asked import AskedMean, asked_means
from harness.policy.model import Gate
from harness.policy.selftest.planted import Values
from harness.stats.bounded import chance_above
from harness.stats.interval import interval_each
from harness.stats.sequential.evalues import evalues_each

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Bools = NDArray[np.bool_]
NEAREST = 16
"""Columns beyond the level that are judged to see that the shortcut is right."""


@dataclass(frozen=True, slots=True, eq=False)
class Requirement:
    """The mean difference of one comparison lies above a limit, or within it on both sides."""

    what: str
    """Measure and slice."""
    compared: Comparison
    limit: float
    """Negative for a loss that is allowed."""
    both_sides: bool
    enough: bool
    """Whether there are as many independent queries as the gate asks for, and there is as much to
    lose."""

    @property
    def values(self) -> Values:
        """Both arms over the paired queries."""
        paired, known = self.compared.paired, self.compared.known
        alone = np.arange(len(paired.query_ids))
        return Values(paired.control, paired.candidate, alone if known is None else known)

    def passed(
        self, differences: Floats, rules: Rules, *, seed: int, clusters: Codes | None = None
    ) -> Bools:
        """Tell which columns pass, shape (columns,).

        ``differences`` has shape (queries, columns), in the order of the paired queries. Queries
        with a value in only one arm count as the worst, as in the gate. ``clusters``, shape
        (queries,), stand in the place of those of the comparison.
        """
        found = np.full(differences.shape[1], self.enough)
        ends = (None, -1.0, 1.0) if self.both_sides else (None, -1.0)
        for each in ends if self.compared.paired.unpaired else (None,):
            columns = np.flatnonzero(found)
            if len(columns):
                values, groups = self._with_unpaired(differences[:, columns], clusters, each)
                found[columns] = self._clears(values, groups, rules, seed)
        return found

    def _with_unpaired(
        self, values: Floats, clusters: Codes | None, each: float | None
    ) -> tuple[Floats, Codes | None]:
        """Count each query that one arm has no value for as ``each``; None leaves them out."""
        groups = self.compared.known if clusters is None else clusters
        if each is None:
            return values, groups
        unpaired = len(self.compared.paired.unpaired)
        values = np.concatenate([values, np.full((unpaired, values.shape[1]), each)])
        if clusters is None:
            return values, self.compared.groups
        return values, np.concatenate([clusters, clusters.max() + 1 + np.arange(unpaired)])

    def _clears(self, values: Floats, groups: Codes | None, rules: Rules, seed: int) -> Bools:
        p_values = self._p_values(values, groups, rules)
        order = np.argsort(p_values, kind="stable")
        likely = int((p_values < (1 - rules.confidence) / 2).sum())
        first, rest = np.split(order, [min(len(order), likely + NEAREST)])
        found = np.zeros(values.shape[1], dtype=np.bool_)
        found[first] = self._judged(values[:, first], groups, rules, seed)
        if found[order[likely:]].any():
            found[rest] = self._judged(values[:, rest], groups, rules, seed)
        return found

    def _judged(self, values: Floats, groups: Codes | None, rules: Rules, seed: int) -> list[bool]:
        """Tell which columns pass by their intervals, as the gate does."""
        if not values.shape[1]:
            return []
        said = within if self.both_sides else above
        limit = abs(self.limit) if self.both_sides else self.limit
        sure, span = rules.confidence, self.compared.span
        if self.compared.every_look:
            estimates = evalues_each(values, span=span, confidence=sure, clusters=groups)
        else:
            estimates = interval_each(
                values,
                span=span,
                inference=replace(rules, seed=seed),
                clusters=groups,
            )
        return [said(one, limit) is Verdict.PASS for one in estimates]

    def _p_values(self, values: Floats, groups: Codes | None, rules: Rules) -> Floats:
        """Give the p-value of each column by the bound for bounded means."""
        span = self.compared.span
        found = chance_above(
            values, self.limit, span=span, clusters=groups, largest=rules.largest_cluster
        )
        if self.both_sides:
            other = chance_above(
                -values, self.limit, span=span, clusters=groups, largest=rules.largest_cluster
            )
            found = np.maximum(found, other)
        return found


def requirements(gate: Gate, evidence: Evidence) -> tuple[Requirement, ...]:
    """Give what ``gate`` requires of means of differences; empty where its rule looks elsewhere."""
    return tuple(_one(asked, evidence) for asked in asked_means(gate.settings, evidence.slices))


def _one(asked: AskedMean, evidence: Evidence) -> Requirement:
    settings = asked.settings
    compared = compare(evidence, settings, asked.versus)
    units = independent(compared.paired.query_ids, evidence.clusters)
    enough = units >= settings.required_queries and not (
        asked.limit < 0 and compared.toothless(-asked.limit)
    )
    return Requirement(settings.where, compared, asked.limit, asked.both_sides, enough)
