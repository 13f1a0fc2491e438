"""Both arms must show mostly the same documents."""

from __future__ import annotations

from typing import ClassVar

from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.printable import many
from harness.core.scores import codes
from harness.gates.base.differences import known_span, needed
from harness.gates.base.queries import SampleSettings, checked, class_of, in_slice, too_few
from harness.gates.base.rules import Rules, Share, Where, above, plain
from harness.stats.interval import interval


class AgreementFloorSettings(SampleSettings):
    """The mean of an agreement measure must lie above ``floor``."""

    passes: ClassVar[Where] = "above"
    bounded_by: ClassVar[str] = "floor"
    measures: ClassVar[tuple[str, ...]] = ()
    floor: Share

    @property
    def bound(self) -> str:
        return f"mean {self.where} above {self.floor:g}"


def judge(name: str, settings: AgreementFloorSettings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the interval of the mean lies above the floor.

    The control's A/A agreement is shown with it. If that is below the floor too, the candidate is
    not to blame, and a FAIL becomes INCONCLUSIVE.
    """
    class_of(evidence)
    scores, noise = (
        in_slice(checked(agreement.scores, settings.measure, owner), evidence, settings.slice)
        for agreement, owner in ((evidence.agreement, "agreement"), (evidence.noise, "noise"))
    )
    left_out = "".join(
        f"; {len(ids)} undefined ({why})" for why, ids in sorted(scores.undefined.items()) if ids
    )
    if thin := too_few(name, settings, scores.query_ids, evidence, left_out):
        return thin
    groups = codes(scores.query_ids, evidence.clusters)
    span = known_span(settings.measure)
    estimate = interval(scores.values, span=span, inference=rules, clusters=groups)
    verdict = above(estimate, settings.floor)
    remedy = needed(
        scores.values, settings.floor, best=span.most, span=span, clusters=groups, rules=rules
    )
    itself = "unknown" if noise.mean is None else f"{noise.mean:.4f}"
    cause = Cause.OPEN
    if verdict is Verdict.FAIL and (noise.mean is None or noise.mean < settings.floor):
        verdict = Verdict.INCONCLUSIVE
        remedy = "a control that agrees with itself: find out why two replays of it differ"
        cause = Cause.CONTROL
    return settings.finding(
        name,
        verdict,
        f"mean {settings.where} {plain(estimate)} over {many(estimate.n, 'query')},"
        f" control against itself {itself}{left_out}",
        estimate=estimate,
        remedy=remedy,
        cause=cause,
    )
