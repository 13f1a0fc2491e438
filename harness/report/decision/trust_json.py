"""What the policy may err, for machines."""

from __future__ import annotations

from typing import Any

from harness.report.page.trust import Trust
from harness.report.rounding import for_json


def as_json(trust: Trust | None) -> dict[str, Any] | None:
    """Give all of it for machines; None where nothing was decided."""
    if trust is None:
        return None
    return {
        "alpha": {
            "level": for_json(trust.policy.level),
            "allowed": for_json(trust.policy.alpha),
            "attempts": trust.policy.attempts,
            "declared": trust.policy.declared,
        },
    }
