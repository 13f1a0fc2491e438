"""Evidence expires: engines, machines and query sets move on."""

from __future__ import annotations

from datetime import datetime, timedelta

from harness.core.errors import EvidenceError


def check_age(made_at: str, *, now: datetime, evidence_days: int) -> None:
    """Refuse evidence that is too old.

    ``made_at`` is ISO 8601 with its offset from UTC; ``now`` is aware of its zone.

    Raises:
        EvidenceError: it is older than ``evidence_days``, from the future, or has no such time.
    """
    try:
        made = datetime.fromisoformat(made_at)
    except ValueError as error:
        raise EvidenceError(
            f"{made_at!r} is no time; write it in ISO 8601, e.g. 2026-01-31T12:00:00+00:00"
        ) from error
    if made.tzinfo is None:
        raise EvidenceError(f"{made_at!r} does not name its zone; write it in UTC, with +00:00")
    if made > now:
        raise EvidenceError(
            f"evidence of {made_at} is from the future (now {now.isoformat()}); mend the clock"
        )
    age = now - made
    if age > timedelta(days=evidence_days):
        raise EvidenceError(
            f"evidence of {made_at} is {age.days} days old, and the policy takes none older than"
            f" {evidence_days}; measure again"
        )
