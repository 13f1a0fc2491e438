"""The verdict on the share of bad queries, in each arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.core.clusters import codes
from harness.core.evidence import ArmResult
from harness.core.gate import Cause, Finding, Verdict
from harness.core.printable import many
from harness.core.scores import Estimate
from harness.gates.base.rules import GateSettings, Rules, Share, Where, below, plain
from harness.stats.proportion import share, size_for
from harness.stats.sample_size.design_effect import worth


class ShareSettings(GateSettings):
    """A share of the queries of each arm must lie below ``max_share``."""

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
    counts: Sequence[tuple[ArmResult, int, str]],
    clusters: Mapping[str, str],
    rules: Rules,
) -> Finding:
    """Judge both arms by the exact interval of their shares; the candidate's is the estimate.

    ``counts`` has the number of bad queries of control and candidate, and a description. One arm
    above the bound fails the gate; to pass, both intervals must lie below it. Queries of one
    cluster fail together, so the interval is for the effective number of queries.
    """
    if any(not len(side.run) for side, _, _ in counts):
        return settings.undecided(
            gate, Cause.NO_EVIDENCE, "no query was run", "replay both arms on a query set"
        )
    estimates: list[Estimate] = []
    said: list[str] = []
    for side, count, what in counts:
        queries = len(side.run)
        own = worth(codes(side.run.query_ids, clusters), queries)
        found = share(count, queries, confidence=rules.confidence, worth=own)
        estimates.append(found)
        as_many = f" (worth {own:,.0f} independent queries)" if own < queries else ""
        said.append(f"{side.arm}: {count} of {queries}{as_many} {what}, share {plain(found)}")
    verdicts = {below(found, settings.max_share) for found in estimates}
    verdict = next((v for v in (Verdict.FAIL, Verdict.INCONCLUSIVE) if v in verdicts), Verdict.PASS)
    worst = max(count for _, count, _ in counts)
    needed = size_for(worst, ceiling=settings.max_share, confidence=rules.confidence)
    return settings.finding(
        gate,
        verdict,
        "; ".join(reversed(said)),
        estimate=estimates[-1],
        remedy=f"{many(needed, 'independent query')}, if no more of them go wrong than the"
        f" {worst} seen",
    )
