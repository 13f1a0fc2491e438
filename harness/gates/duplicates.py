"""Few queries may be shown a document twice."""

from __future__ import annotations

from harness.core.evidence import Evidence
from harness.core.gate import Finding
from harness.core.printable import many
from harness.gates.base.queries import ShareSettings, judge_shares
from harness.gates.base.rules import Rules


class DuplicatesSettings(ShareSettings):
    """The share of queries with a repeated hit must lie below ``max_share``."""

    @property
    def bound(self) -> str:
        return f"fewer than {self.max_share:.2%} of the queries are shown a document twice"


def judge(name: str, settings: DuplicatesSettings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the share of repeated hits lies below the bound in both arms."""
    found = [
        (
            side,
            side.run.duplicates > 0,
            f"were shown a document twice ({many(int(side.run.duplicates.sum()), 'hit')})",
        )
        for side in (evidence.control, evidence.candidate)
    ]
    return judge_shares(name, settings, found, evidence.clusters, rules)
