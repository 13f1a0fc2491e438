"""Most of the query set must take part in the comparison."""

from __future__ import annotations

from collections import Counter

from harness.agreement.classes import ERRORED
from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.scores import Estimate
from harness.gates.base.classes import COMPARED, class_of
from harness.gates.base.rules import GateSettings, Rules, Share, Where

NEVER_TRIED = "never tried"


class Settings(GateSettings):
    """The share of the query set that was compared must be at least ``min_share``."""

    min_share: Share

    @property
    def bound(self) -> str:
        return f"at least {self.min_share:.2%} of the query set is compared"

    @property
    def passes(self) -> Where:
        return "above"

    @property
    def limit(self) -> float:
        return self.min_share

    @property
    def every_look(self) -> bool:
        return True

    @property
    def unit(self) -> str:
        return "share"


def judge(name: str, settings: Settings, evidence: Evidence, rules: Rules) -> Finding:  # noqa: ARG001  every rule is called alike
    """Judge the share that was compared; the whole query set is known, so no interval is needed.

    FAIL if unanswered queries alone exceed the bound; INCONCLUSIVE if it takes those that were
    skipped, shed, stale or never tried.

    Raises:
        EvidenceError: the classes contradict the runs, or are unknown.
    """
    found = class_of(evidence)
    asked = frozenset(evidence.control.run.query_ids) | frozenset(evidence.candidate.run.query_ids)
    if not asked:
        return settings.undecided(
            name, Cause.NO_EVIDENCE, "the query set is empty", "replay both arms on queries"
        )
    counts = Counter(found.get(query_id, NEVER_TRIED) for query_id in asked)
    compared = sum(count for kind, count in counts.items() if kind in COMPARED)
    failed = sum(count for kind, count in counts.items() if kind in ERRORED)
    share = compared / len(asked)
    if share >= settings.min_share:
        verdict = Verdict.PASS
    elif 1 - failed / len(asked) < settings.min_share:
        verdict = Verdict.FAIL
    else:
        verdict = Verdict.INCONCLUSIVE
    left_out = ", ".join(
        f"{count} {kind}" for kind, count in sorted(counts.items()) if kind not in COMPARED
    )
    return settings.finding(
        name,
        verdict,
        f"{compared} of {len(asked)} queries were compared ({share:.2%})"
        + (f"; not compared: {left_out}" if left_out else ""),
        estimate=Estimate(share, share, share, len(asked)),
        remedy=f"compare the {len(asked) - compared - failed} queries that were passed over",
        cause=Cause.NOT_COMPARED,
    )
