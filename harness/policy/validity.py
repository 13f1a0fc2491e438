"""How long evidence holds, and what a policy was written for: its pins.

Evidence that differs from its pin proves nothing until somebody pins it again, and that is kept.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from harness.core.errors import EvidenceError
from harness.core.files import held
from harness.core.formats import Moment, in_years
from harness.core.names import KeptModel, Setting
from harness.core.reading import Malformed
from harness.core.store import Artifact, Json
from harness.corpus.prepared import Inventory, changes

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


SUFFIX = ".pins.json"
HINT = "Bring the file back (git), or remove it and pin anew: harness policy pin FILE"


class Repinned(KeptModel):
    """One time that a data set was pinned."""

    at: Moment
    by: Annotated[str, Field(min_length=1)]
    changes: tuple[str, ...]
    """What was other than in the pin before; empty for the first."""


class Pin(KeptModel):
    """One data set, as a policy may be judged on it."""

    inventory: Inventory
    race: dict[str, Setting]
    """Settings of the race; empty where none was run when it was pinned."""
    made: Annotated[tuple[Repinned, ...], Field(min_length=1)]
    """Oldest first."""

    def differences(self, inventory: Inventory, race: Mapping[str, Setting]) -> tuple[str, ...]:
        """List what is other than pinned: queries, judgements, and the race where there is one."""
        other = [
            f"race {key} is {race.get(key, 'not set')}, pinned {self.race.get(key, 'not set')}"
            for key in sorted({*race, *self.race})
            if race and self.race and race.get(key) != self.race.get(key)
        ]
        return (*changes(self.inventory, inventory), *other)


class Pins(KeptModel):
    """The pins of one policy, by data set."""

    format: Literal[1] = 1
    datasets: dict[str, Pin] = Field(default_factory=dict)


PINS: Artifact[Pins] = Json("the pins of a policy", Pins, remedy=HINT)


def path_of(policy_file: Path) -> Path:
    """Name the file with the pins of a policy."""
    return policy_file.with_name(policy_file.stem + SUFFIX)


def read_pins(policy_file: Path) -> Pins:
    """Read the pins of a policy; there are none where it has no such file."""
    path = path_of(policy_file)
    return PINS.read(path) if path.exists() else Pins()


def add_pin(
    policy_file: Path,
    dataset: str,
    inventory: Inventory,
    race: Mapping[str, Setting],
    *,
    at: Moment,
    by: str,
) -> Pin:
    """Pin a data set beside a policy; what it was pinned as before is gone, that it was is kept."""
    path = path_of(policy_file)
    with held(path):
        known = read_pins(policy_file)
        before = known.datasets.get(dataset)
        said = before.differences(inventory, race) if before else ()
        made = (*(before.made if before else ()), Repinned(at=at, by=by, changes=said))
        found = Pin(inventory=inventory, race=dict(race), made=made)
        pins = Pins(datasets={**known.datasets, dataset: found})
        PINS.write(path, pins, durable=True)
    return found
