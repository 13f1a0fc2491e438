"""The files that people write for a live comparison."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from harness.agreement import Class
from harness.core.errors import BadPolicy, EvidenceError
from harness.core.files import held, write_text
from harness.core.formats import MAX_SETTINGS_BYTES, toml_of
from harness.core.reading import Malformed, text_of
from harness.policy import load
from harness.shadow.alarms import Bounds
from harness.shadow.comparison import Settings
from harness.shadow.divergences import ACCEPTABLE, Accepted, Suppressions
from harness.shadow.record import KEY_DIGITS
from harness.shadow.server import Reading

Model = TypeVar("Model", bound=BaseModel)
NAMES = ", ".join(sorted(ACCEPTABLE))


def _class(value: object) -> object:
    if not isinstance(value, str) or value not in ACCEPTABLE:
        raise ValueError(f"can be accepted are {NAMES}")
    return Class(value)


class Entry(BaseModel):
    """One table ``[[accepted]]``."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Annotated[Class | None, BeforeValidator(_class)] = Field(None, alias="class")
    slice: str = Field("", min_length=1)
    query: str = Field("", pattern=f"^[0-9a-f]{{{KEY_DIGITS}}}$")
    reason: str = Field(pattern=r"\S")
    by: str = Field(pattern=r"\S")
    until: date

    @model_validator(mode="after")
    def _about_something(self) -> Self:
        if not (self.kind or self.query):
            raise ValueError("name a class or a query; a slice alone would accept everything in it")
        return self


class RegisterFile(BaseModel):
    """The whole register."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    accepted: tuple[Entry, ...] = ()


def read_bounds(path: Path) -> Bounds:
    """Read what is watched."""
    return read_table(path, Bounds, "Give the path of a file as policy/watch.toml")


def read_settings(path: Path) -> Settings:
    """Read what a live comparison may cost, and how it is written down."""
    return read_table(path, Settings, "Give the path of a file as policy/shadow.toml")


def read_reading(path: Path) -> Reading:
    """Read where the queries and answers of a server are."""
    return read_table(path, Reading, "Give the path of a file as examples/shadow/http.toml")


def http_reading(path: Path) -> Reading:
    """Read where queries and answers of an HTTP server are, from settings or an arm's file."""
    try:
        is_arm = "stack" in toml_of(text_of(path, most=MAX_SETTINGS_BYTES))
    except (OSError, Malformed):
        is_arm = False
    if not is_arm:
        return read_reading(path)
    from harness.shadow.engine_file import of_arm

    return of_arm(path)


def read_suppressions(path: Path) -> Suppressions:
    """Read what is accepted; an empty file accepts nothing."""
    hint = "Write an empty file to accept nothing, or give the path of a suppression list"
    model = read_table(path, RegisterFile, hint)
    return Suppressions(
        tuple(
            Accepted(e.reason, e.by, e.until, kind=e.kind, slice=e.slice, query=e.query)
            for e in model.accepted
        )
    )


def accept(path: Path, entry: Accepted, *, today: date) -> Suppressions:
    """Add an entry at the end of a suppression list, which may be new; the rest stays as it is.

    One writer after the other. The very same entry once more changes nothing.
    """
    with held(path):
        known = read_suppressions(path) if path.exists() else Suppressions(())
        before = text_of(path) if path.exists() else ""
        if entry.until < today:
            raise EvidenceError(f"until {entry.until} has passed; give a day from {today} on")
        if entry in known.entries:
            return known
        _refuse_known(path, known, entry)
        gap = "\n" if before else ""
        end = "" if before.endswith("\n") or not before else "\n"
        write_text(path, f"{before}{end}{gap}{_checked(entry)}", durable=True)
        return read_suppressions(path)


def _refuse_known(path: Path, known: Suppressions, entry: Accepted) -> None:
    about = entry.kind, entry.slice, entry.query
    standing = [old for old in known.entries if (old.kind, old.slice, old.query) == about]
    if longer := next((old for old in standing if old.until >= entry.until), None):
        raise EvidenceError(
            f"{path}: {entry.about} is accepted until {longer.until} already, by {longer.by}"
        )


def _checked(entry: Accepted) -> str:
    """Return the entry as the suppression list has it."""
    text = entry.toml()
    try:
        Entry.model_validate(toml_of(text)["accepted"][0])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise EvidenceError(f"{_key(first['loc'])}{_plain(first['msg'])}") from error
    return text


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
    """Name the line and the hint of what is wrong first; a misspelt key before what it lacks."""
    found: list[Any] = list(error.errors(include_url=False))
    first = next((e for e in found if e["type"] == "extra_forbidden"), found[0])
    at = tuple(first["loc"])
    key = _key(at)
    line = load.nearest(where, at) or load.nearest(where, (*at, 0))
    if first["type"] == "missing":
        return BadPolicy(path, f"{key}is missing", f"Write {at[-1]} = ...", line)
    if first["type"] == "extra_forbidden":
        return BadPolicy(path, f"{key}unknown key", "Remove it or correct it", line)
    return BadPolicy(
        path,
        f"{key}{_plain(first['msg'])}",
        "See docs/shadow-reading.md and docs/shadow.md for what may stand",
        line,
    )


def _key(at: tuple[str | int, ...]) -> str:
    parts = [str(part + 1) if isinstance(part, int) else part for part in at]
    return f"{'.'.join(parts)}: " if parts else ""


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ")
