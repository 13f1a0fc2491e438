"""One measure of two arms, paired by query, and the verdict on its mean difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core.evidence import Evidence
from harness.core.gate import Finding, Verdict
from harness.core.scores import Estimate, Paired, Scores
from harness.gates.base.queries import (
    SampleSettings,
    clusters,
    in_slice,
    other,
    scores_of,
    too_few,
)
from harness.gates.base.rules import Rules, above, signed, some
from harness.stats.bootstrap import bca
from harness.stats.power import queries_needed
from harness.stats.randomization import Alternative, sign_flip

HOPELESS = 20
"""Nobody judges so many times the queries that there are."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Differences candidate - control, and the queries lost because one arm has no value."""

    control: Scores
    candidate: Scores
    control_arm: str
    candidate_arm: str
    paired: Paired
    groups: NDArray[np.int64] | None
    """Cluster of each paired query and then of each lost one; None where none share an intent."""

    @property
    def known(self) -> NDArray[np.int64] | None:
        """Cluster of each paired query."""
        return None if self.groups is None else self.groups[: len(self.paired.query_ids)]

    def estimate(self, rules: Rules) -> Estimate:
        """Mean difference over the paired queries."""
        return self._bca(self.paired.difference, self.known, rules)

    def with_lost(self, each: float, rules: Rules) -> Estimate:
        """Mean difference with each lost query counted as ``each``."""
        lost = np.full(len(self.paired.lost), each)
        return self._bca(np.concatenate([self.paired.difference, lost]), self.groups, rules)

    def p_value(self, shift: float, alternative: Alternative, rules: Rules) -> float:
        """p-value of the sign-flip test of "the mean difference is ``shift``"."""
        return self._flip(self.paired.difference, self.known, shift, alternative, rules)

    def p_with_lost(
        self, each: float, shift: float, alternative: Alternative, rules: Rules
    ) -> float:
        """p-value with each lost query counted as ``each``."""
        lost = np.full(len(self.paired.lost), each)
        every = np.concatenate([self.paired.difference, lost])
        return self._flip(every, self.groups, shift, alternative, rules)

    def needed(self, bound: float, rules: Rules) -> str:
        """Say how many judged queries would settle it."""
        now = len(self.paired.query_ids)
        count = queries_needed(
            self.paired.difference,
            bound=bound,
            confidence=rules.confidence,
            power=rules.power,
            clusters=self.known,
        )
        if count is None:
            return (
                "no number of queries: the difference seen is the bound itself;"
                " change the candidate, or the bound and its reason"
            )
        asked = (
            f"about {max(count, now + 1):,} judged queries (now {now:,}) for power {rules.power:g},"
            " if difference and spread stay as they are"
        )
        if count > HOPELESS * now:
            return f"{asked}: the difference seen is almost the bound, so rather another candidate"
        return asked

    @property
    def losses(self) -> str:
        """Name the lost queries by the arm that has no value for them; empty where none are."""
        left, right = set(self.control.query_ids), set(self.candidate.query_ids)
        said = [
            f"; {arm} has no value for {len(ids)} queries that the other has one for ({some(ids)})"
            for arm, ids in (
                (self.candidate_arm, tuple(q for q in self.paired.lost if q in left)),
                (self.control_arm, tuple(q for q in self.paired.lost if q in right)),
            )
            if ids
        ]
        return "".join(said)

    @property
    def means(self) -> str:
        """Both means over the paired queries, in words."""
        paired = self.paired
        return (
            f"{self.candidate_arm} {paired.candidate.mean():.4f},"
            f" {self.control_arm} {paired.control.mean():.4f} over {len(paired.query_ids)} queries"
        )

    @staticmethod
    def _flip(
        values: NDArray[np.float64],
        groups: NDArray[np.int64] | None,
        shift: float,
        alternative: Alternative,
        rules: Rules,
    ) -> float:
        return sign_flip(
            values,
            shift=shift,
            alternative=alternative,
            resamples=rules.resamples,
            seed=rules.seed,
            clusters=groups,
            threads=rules.threads,
        )

    @staticmethod
    def _bca(
        values: NDArray[np.float64], groups: NDArray[np.int64] | None, rules: Rules
    ) -> Estimate:
        return bca(
            values,
            confidence=rules.confidence,
            resamples=rules.resamples,
            seed=rules.seed,
            clusters=groups,
            threads=rules.threads,
        )


def compare(evidence: Evidence, settings: SampleSettings, versus: str | None) -> Comparison:
    """Pair the candidate with the control, or with the arm ``versus``.

    Raises:
        EvidenceError: an arm or its scores are missing, or a score is NaN.
        MismatchedQueries: the two arms were asked different queries.
    """
    base = evidence.control if versus is None else other(evidence, versus)
    control, candidate = (
        in_slice(scores_of(side, settings.measure), evidence, settings.slice)
        for side in (base, evidence.candidate)
    )
    paired = Paired.of(control, candidate)
    groups = clusters((*paired.query_ids, *paired.lost), evidence)
    return Comparison(control, candidate, base.arm, evidence.candidate.arm, paired, groups)


def judge_above(
    gate: str,
    settings: SampleSettings,
    evidence: Evidence,
    rules: Rules,
    *,
    limit: float,
    versus: str | None,
) -> Finding:
    """Judge "the mean difference lies above ``limit``" (method, section 4).

    A PASS must also hold when every lost query counts as the worst difference, -1.
    """
    found = compare(evidence, settings, versus)
    if thin := too_few(gate, settings, found.paired.query_ids, evidence, found.losses):
        return thin
    estimate = found.estimate(rules)
    verdict = above(estimate, limit)
    reason = f"{settings.where}: {found.means}, difference {signed(estimate)}{found.losses}"
    settle = found.needed(limit, rules)
    if verdict is Verdict.PASS and found.paired.lost:
        worst = found.with_lost(-1.0, rules)
        verdict = (
            above(worst, limit) if above(worst, limit) is Verdict.PASS else Verdict.INCONCLUSIVE
        )
        reason += f"; with these counted as -1 each {signed(worst)}"
        settle = f"no failures: find out why {some(found.paired.lost)} failed and replay"
    return settings.finding(
        gate,
        verdict,
        reason,
        estimate=estimate,
        settle=settle,
        p_value=found.p_value(limit, "greater", rules),
    )
