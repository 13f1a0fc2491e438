"""The files that people write for a live comparison: what it may cost, and what they look at."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from harness.core.errors import BadPolicy, EvidenceError
from harness.core.files import held, write_text
from harness.core.formats import MAX_SETTINGS_BYTES, toml_of
from harness.core.reading import Malformed, text_of
from harness.policy import load
from harness.shadow.divergences import AcceptedDivergence, Suppressions
from harness.shadow.server import SettingsTable, TrafficReading
from harness.shadow.summary import AlarmBounds

MILLION = 1_000_000
NS_PER_MS, NS_PER_S = 1_000_000, 1_000_000_000
MINUTE_NS = 60 * NS_PER_S
MOST_MS = 86_400_000
"""A day; of times in seconds it bounds slips of the hand alone."""
Many = Annotated[int, Field(ge=0, le=MILLION)]
Some = Annotated[int, Field(ge=1, le=MILLION)]
Time = Annotated[float, Field(gt=0, le=MOST_MS)]
AnyTime = Annotated[float, Field(ge=0, le=MOST_MS)]


class Sampling(SettingsTable):
    """Which queries are compared."""

    rate: Many
    """So many of a million."""
    seed: int = Field(ge=0)


class Limits(SettingsTable):
    """How much of the machine, and of a person's patience, the candidate gets."""

    in_flight: Some
    """Candidates that run at once, each in its own process."""
    queue: Many
    """Pairs that may wait for a process; beyond it they are shed."""
    budget_s: Time
    """Time that the candidate may take of each minute, over all processes."""
    late_ms: Time
    """An answer after this long is a timeout: a person had left."""
    hang_ms: Time
    """After this long the process is given up and replaced; not below ``late_ms``."""
    start_s: Time
    """A candidate that is not open after this long did not start."""
    memory_mib: Some
    """Resident memory of a candidate's process, above which it is replaced."""
    backoff_ms: Time
    """Wait before a lost process is replaced; doubled at each loss until a query is answered."""
    backoff_most_ms: Time
    close_s: Time
    """How long closing may take; a lane that is busy for longer is left alone."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.hang_ms < self.late_ms or self.backoff_most_ms < self.backoff_ms:
            raise ValueError(
                f"hang_ms {self.hang_ms} must not lie below late_ms {self.late_ms}, nor"
                f" backoff_most_ms {self.backoff_most_ms} below backoff_ms {self.backoff_ms}"
            )
        return self

    @property
    def room(self) -> int:
        """Pairs that may wait or run at once."""
        return self.in_flight + self.queue


class Recording(SettingsTable):
    """How pairs become records."""

    batch: Some
    """Most pairs that are compared and written at once. It takes about 0.1 ms a pair of the
    interpreter's lock, which whoever serves waits for in the worst case."""
    linger_ms: AnyTime
    """How long a pair may wait for others to be compared with it, which makes each of them
    cheaper. It is also what a kill may take."""
    backlog: Some
    """Pairs that may wait to be written; beyond it they are lost, and counted."""
    rotate_mib: float = Field(gt=0, le=MILLION)
    """A stream starts a new file after one of this size."""
    sync_ms: AnyTime
    """How often the disk is waited for; 0 is after every batch."""
    persistence: float = Field(gt=0, lt=1)
    """The p of RBO."""


class ComparisonSettings(SettingsTable):
    """What a live comparison may cost, and how it is written down."""

    sampling: Sampling
    limits: Limits
    recording: Recording


Model = TypeVar("Model", bound=BaseModel)


def read_bounds(path: Path) -> AlarmBounds:
    """Read what is watched."""
    return read_table(path, AlarmBounds, "Give the path of a file as policy/watch.toml")


def read_settings(path: Path) -> ComparisonSettings:
    """Read what a live comparison may cost, and how it is written down."""
    return read_table(path, ComparisonSettings, "Give the path of a file as policy/shadow.toml")


def read_reading(path: Path) -> TrafficReading:
    """Read where the queries and answers of a server are."""
    return read_table(path, TrafficReading, "Give the path of a file as examples/shadow/http.toml")


def http_reading(path: Path) -> TrafficReading:
    """Read where queries and answers of an HTTP server are, from settings or an arm's file."""
    try:
        is_arm = "stack" in toml_of(text_of(path, most=MAX_SETTINGS_BYTES))
    except (OSError, Malformed):
        is_arm = False
    if not is_arm:
        return read_reading(path)
    from harness.shadow.http import of_arm

    return of_arm(path)


def read_suppressions(path: Path) -> Suppressions:
    """Read what is accepted; an empty file accepts nothing."""
    hint = "Write an empty file to accept nothing, or give the path of a suppression list"
    return read_table(path, Suppressions, hint)


def accept(path: Path, entry: AcceptedDivergence, *, today: date) -> Suppressions:
    """Add an entry at the end of a suppression list, which may be new; the rest stays as it is."""
    with held(path):
        known = read_suppressions(path) if path.exists() else Suppressions()
        before = text_of(path) if path.exists() else ""
        if entry.until < today:
            raise EvidenceError(f"until {entry.until} has passed; give a day from {today} on")
        if entry in known.entries:
            return known
        same = [old for old in known.entries if old.about == entry.about]
        if longer := next((old for old in same if old.until >= entry.until), None):
            raise EvidenceError(
                f"{path}: {entry.about} is accepted until {longer.until} already, by {longer.by}"
            )
        gap = "\n" if before else ""
        end = "" if before.endswith("\n") or not before else "\n"
        write_text(path, f"{before}{end}{gap}{entry.toml()}", durable=True)
        return read_suppressions(path)


def read_table(path: Path, model: type[Model], missing: str) -> Model:
    """Read a TOML file as a model; ``missing`` is the remedy where the file is missing."""
    try:
        text = text_of(path, most=MAX_SETTINGS_BYTES)
    except (OSError, Malformed) as error:
        raise BadPolicy(path, f"cannot be read ({error})", missing) from error
    try:
        raw = toml_of(text)
    except Malformed as error:
        raise BadPolicy(path, f"is not TOML: {error}", "Correct it", error.line) from error
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise _explained(path, load.find(text), error) from error


def _explained(path: Path, where: Mapping[load.KeyPath, int], error: ValidationError) -> BadPolicy:
    found: list[Any] = list(error.errors(include_url=False))
    first = next((e for e in found if e["type"] == "extra_forbidden"), found[0])
    at = tuple(first["loc"])
    name = ".".join(str(part + 1) if isinstance(part, int) else part for part in at)
    key = f"{name}: " if name else ""
    line = load.nearest(where, at) or load.nearest(where, (*at, 0))
    if first["type"] == "missing":
        return BadPolicy(path, f"{key}is missing", f"Write {at[-1]} = ...", line)
    if first["type"] == "extra_forbidden":
        return BadPolicy(path, f"{key}unknown key", "Remove it or correct it", line)
    return BadPolicy(
        path,
        f"{key}{first['msg'].removeprefix('Value error, ')}",
        "See docs/shadow-reading.md and docs/shadow.md for what may stand",
        line,
    )
