"""Few queries may lose more than a share of their own value."""

from __future__ import annotations

from typing import ClassVar

from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.printable import many
from harness.core.scores import Estimate, Scores
from harness.gates.base.queries import checked
from harness.gates.base.rules import TOUCH, GateSettings, Share, Where, some


class CollapseSettings(GateSettings):
    """At most ``max_share`` of the queries may lose more than ``drop`` of their value."""

    bounded_by: ClassVar[str] = "max_share"
    passes: ClassVar[Where] = "below"
    unit: ClassVar[str] = "share"
    measure: str
    drop: Share
    max_share: Share

    @property
    def measures(self) -> tuple[str, ...]:
        return (self.measure,)

    @property
    def bound(self) -> str:
        of = f"over {self.drop:.0%} of their {self.measure}"
        return f"at most {self.max_share:.2%} of the queries lose {of}"


def collapsed(before: Scores, now: Scores, drop: float) -> tuple[str, ...]:
    """Return the queries that lost more than ``drop`` of their own value, the greatest loss first.

    Those without a value now count as fallen to 0.
    """
    values = now.by_query
    fell = [
        (values.get(query_id, 0.0) - old, query_id)
        for query_id, old in before.by_query.items()
        if old > 0 and values.get(query_id, 0.0) < old * (1 - drop) - TOUCH
    ]
    return tuple(query_id for _, query_id in sorted(fell))


def judge(name: str, settings: CollapseSettings, evidence: Evidence, rules: object) -> Finding:
    """PASS or FAIL by a count over these very queries, as they are judged; no interval is drawn.

    A query that the candidate gives no value for, and the control does, has lost all of it. An
    unjudged hit counts as it does in the measure: as not relevant.
    """
    del rules
    before, now = (
        checked(side.scores, settings.measure, side.arm)
        for side in (evidence.control, evidence.candidate)
    )
    if not len(before.values):
        why = f"{evidence.control.arm} has no {settings.measure} of any query"
        return settings.undecided(name, Cause.NO_EVIDENCE, why, "judge some queries")
    fallen = collapsed(before, now, settings.drop)
    share = len(fallen) / len(before.values)
    verdict = Verdict.PASS if share <= settings.max_share + TOUCH else Verdict.FAIL
    which = f": {some(fallen)}" if fallen else ""
    return settings.finding(
        name,
        verdict,
        f"{len(fallen)} of {many(len(before.values), 'query')} lost over {settings.drop:.0%} of"
        f" {settings.measure}, as judged{which}",
        estimate=Estimate(share, share, share, len(before.values)),
    )
