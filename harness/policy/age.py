"""The age of evidence: it expires, and is never from the future."""

from datetime import UTC, datetime, timedelta

from harness.core.errors import EvidenceError
from harness.core.formats import in_years
from harness.core.reading import Malformed

SLACK = timedelta(minutes=5)
"""Allowed difference between the clocks of machines that share evidence."""


def check_past(at: str | datetime, *, now: datetime | None = None) -> None:
    """Refuse a stored time in the future; clocks may be ``SLACK`` apart."""
    made, today = _time(at) if isinstance(at, str) else at, now or datetime.now(UTC)
    if made > today + SLACK:
        raise EvidenceError(
            f"{made.isoformat()} is from the future (now {today.isoformat(timespec='seconds')});"
            " a wrong clock wrote it, or a hand"
        )


def check_age(made_at: str, *, now: datetime, evidence_days: int) -> None:
    """Refuse evidence that is too old, or from the future; times have their zone."""
    made = _time(made_at)
    if made > now:
        raise EvidenceError(
            f"evidence of {made_at} is from the future (now {now.isoformat()}); correct the clock"
        )
    age = now - made
    if age > timedelta(days=evidence_days):
        raise EvidenceError(
            f"evidence of {made_at} is {age.days} days old, and the policy takes none older than"
            f" {evidence_days}; measure again"
        )


def _time(made_at: str) -> datetime:
    try:
        made = datetime.fromisoformat(made_at)
    except ValueError as error:
        raise EvidenceError(
            f"{made_at!r} is not a time; write it in ISO 8601, e.g. 2026-01-31T12:00:00+00:00"
        ) from error
    if made.tzinfo is None:
        raise EvidenceError(f"{made_at!r} does not name its zone; write it in UTC, with +00:00")
    try:
        return in_years(made)
    except Malformed as error:
        raise EvidenceError(f"{error}; measure again") from error
