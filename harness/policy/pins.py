"""What a policy was written for: queries, judgements and race settings, pinned beside the policy.

Evidence that differs from its pin proves nothing until somebody pins it again, and that is kept.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.core.files import held
from harness.core.formats import Moment
from harness.core.names import Setting
from harness.core.store import Artifact, Json
from harness.corpus.prepared import Inventory, changes

SUFFIX = ".pins.json"
HINT = "Bring the file back (git), or remove it and pin anew: harness policy pin FILE"


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Repinned(_Kept):
    """One time that a data set was pinned."""

    at: Moment
    by: Annotated[str, Field(min_length=1)]
    changes: tuple[str, ...]
    """What was other than in the pin before; empty for the first."""


class Pin(_Kept):
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


class Pins(_Kept):
    """The pins of one policy, by data set."""

    format: Literal[1] = 1
    datasets: dict[str, Pin] = {}


PINS: Artifact[Pins] = Json("the pins of a policy", Pins, remedy=HINT)


def path_of(policy_file: Path) -> Path:
    """Name the file with the pins of a policy."""
    return policy_file.with_name(policy_file.stem + SUFFIX)


def read(policy_file: Path) -> Pins:
    """Read the pins of a policy; there are none where it has no such file."""
    path = path_of(policy_file)
    return PINS.read(path) if path.exists() else Pins()


def pin(
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
        known = read(policy_file)
        before = known.datasets.get(dataset)
        said = before.differences(inventory, race) if before else ()
        made = (*(before.made if before else ()), Repinned(at=at, by=by, changes=said))
        found = Pin(inventory=inventory, race=dict(race), made=made)
        pins = Pins(datasets={**known.datasets, dataset: found})
        PINS.write(path, pins, durable=True)
    return found
