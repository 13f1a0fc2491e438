"""The verdict on the share of bad queries, in each arm."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.core.clusters import codes
from harness.core.evidence import ArmResult
from harness.core.gate import Cause, Finding, Verdict
from harness.core.printable import many
from harness.core.scores import Estimate
from harness.gates.base.rules import OF_QUERIES, GateSettings, Rules, Share, Where, below, plain
from harness.stats.bounded import Span
from harness.stats.interval import interval
from harness.stats.proportion import share, size_for


class ShareSettings(GateSettings):
    """A share of the queries of each arm must lie below ``max_share``."""

    granted: ClassVar[tuple[str, ...]] = OF_QUERIES
    max_share: Share

    @property
    def passes(self) -> Where:
        return "below"

    @property
    def limit(self) -> float:
        return self.max_share

    @property
    def unit(self) -> str:
        return "share"


def judge_shares(
    gate: str,
    settings: ShareSettings,
    found: Sequence[tuple[ArmResult, NDArray[np.bool_], str]],
    clusters: Mapping[str, str],
    rules: Rules,
) -> Finding:
    """Judge both arms by the interval of their shares; the candidate's is the estimate.

    ``found`` has control and candidate, which of their queries are bad, shape (queries,), and a
    description. One arm above the bound fails the gate; to pass, both intervals must lie below it.
    """
    if any(not len(side.run) for side, _, _ in found):
        return settings.undecided(
            gate, Cause.NO_EVIDENCE, "no query was run", "replay both arms on a query set"
        )
    estimates: list[Estimate] = []
    said: list[str] = []
    for side, bad, what in found:
        groups = codes(side.run.query_ids, clusters)
        estimates.append(share_of(bad, groups, rules))
        in_clusters = "" if groups is None else f" in {many(int(groups.max()) + 1, 'cluster')}"
        said.append(
            f"{side.arm}: {bad.sum()} of {len(bad)}{in_clusters} {what},"
            f" share {plain(estimates[-1])}"
        )
    verdicts = {below(one, settings.max_share) for one in estimates}
    verdict = next((v for v in (Verdict.FAIL, Verdict.INCONCLUSIVE) if v in verdicts), Verdict.PASS)
    return settings.finding(
        gate,
        verdict,
        "; ".join(reversed(said)),
        estimate=estimates[-1],
        remedy=_needed(found, estimates, settings, clusters, rules),
    )


def _needed(
    found: Sequence[tuple[ArmResult, NDArray[np.bool_], str]],
    estimates: Sequence[Estimate],
    settings: ShareSettings,
    clusters: Mapping[str, str],
    rules: Rules,
) -> str:
    """Return how many queries would show the bound, if no more of them go wrong."""
    worst = max(int(bad.sum()) for _, bad, _ in found)
    last = f", if no more of them go wrong than the {worst} seen"
    if clusters:
        high = max(one.high for one in estimates)
        queries = math.ceil(len(found[0][1]) * high / settings.max_share)
        return f"about {many(queries, 'query')} in clusters like these{last}"
    needed = size_for(worst, ceiling=settings.max_share, confidence=rules.confidence)
    return f"{many(needed, 'independent query')}{last}"


def share_of(bad: NDArray[np.bool_], groups: NDArray[np.int64] | None, rules: Rules) -> Estimate:
    """Return the share of bad queries with its interval; both arrays have shape (queries,).

    It is exact (Clopper and Pearson) where no two queries depend on each other, and else the bound
    by clusters that decides means.
    """
    queries = len(bad)
    if groups is None and rules.largest_cluster * queries <= 1:
        return share(int(bad.sum()), queries, confidence=rules.confidence)
    values = bad.astype(np.float64)
    return interval(values, span=Span(0.0, 1.0), inference=rules, clusters=groups)
