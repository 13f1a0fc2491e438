"""The ledger of a migration: events that are only ever added, each holding the one before it.

One JSON file. Every entry carries the digest of the entry before it, and the file that of the last
one, so an entry that was changed, moved, or taken out is missed. Whoever writes all digests anew
is not found out by the file alone: keep it in git.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from harness.core.digest import of_json
from harness.core.durable.journal import changing
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import json_text
from harness.core.formats import json_file
from harness.core.reading import Malformed, opened
from harness.policy.age import check_past
from harness.policy.migration.events import Event
from harness.policy.migration.state import State, state_of

FILE = "ledger.json"
FORMAT = 1
FIRST = "0" * 64
"""What the first entry holds in place of a digest."""
HINT = (
    "Bring the file back as it was (git, a copy); never edit it by hand. To go back to the"
    " old engine without it: harness migrate rollback --without-ledger VALUE"
)
HEAD = 1024
"""Bytes of the file that are looked at, to tell whether it is a ledger."""
KEYS = {"number", "previous", "event", "sha256"}
_EVENT: TypeAdapter[Event] = TypeAdapter(Event)


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger as it was read."""

    events: tuple[Event, ...]
    head: str
    """Digest of the last entry; zeros where there is none."""

    @property
    def state(self) -> State:
        """What the events add up to.

        Raises:
            EvidenceError: they are not those of one migration.
        """
        return state_of(self.events)


def read(folder: Path) -> Ledger:
    """Read the ledger in ``folder``; one that is not there has no events.

    Raises:
        BadFile: it is torn, of another format or of the future, or an entry was changed, moved or
            taken out.
    """
    path = folder / FILE
    try:
        whole = json_file(path)
    except FileNotFoundError:
        return Ledger((), FIRST)
    except (OSError, ValueError) as exc:
        raise BadFile(path, f"is torn, or no ledger ({exc})", HINT) from exc
    if not isinstance(whole, dict) or set(whole) != {"format", "head", "entries"}:
        _wrong(path, "is not a ledger")
    if whole["format"] != FORMAT:
        _wrong(path, f"is of format {whole['format']!r}, and this program reads {FORMAT}")
    if not isinstance(whole["entries"], list):
        _wrong(path, "has no list of entries")
    events, head = [], FIRST
    for number, entry in enumerate(whole["entries"], start=1):
        events.append(_checked(path, number, entry, head))
        head = entry["sha256"]
    if whole["head"] != head:
        _wrong(path, f"ends with entry {len(events)}, which is not its last: some were taken out")
    try:
        if events:
            state_of(events)
            check_past(events[-1].at)
    except EvidenceError as exc:
        raise BadFile(path, str(exc), HINT) from exc
    return Ledger(tuple(events), head)


def is_ledger(folder: Path) -> bool:
    """Tell whether a migration began in a folder; its ledger may be torn."""
    try:
        with opened(folder / FILE) as file:
            return b'"entries"' in file.read(HEAD)
    except (OSError, Malformed):
        return False


def _checked(path: Path, number: int, entry: Any, previous: str) -> Event:  # noqa: ANN401  of JSON
    """Give the event of an entry that holds the one before it."""
    if not isinstance(entry, dict) or set(entry) != KEYS:
        _wrong(path, f"entry {number} is invalid")
    if entry["number"] != number or entry["previous"] != previous:
        _wrong(path, f"entry {number} does not follow the one before it: some were moved or cut")
    if entry["sha256"] != _sha256(entry):
        _wrong(path, f"entry {number} was changed since it was written")
    try:
        return _EVENT.validate_json(json.dumps(entry["event"]))
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        _wrong(path, f"entry {number}: {where}: {first['msg']}")


def added(known: Ledger, event: Event) -> Ledger:
    """Give the ledger with one more event.

    Raises:
        EvidenceError: it cannot happen in this state.
    """
    events = (*known.events, event)
    state_of(events)
    return Ledger(events, _entry(len(events), known.head, event)["sha256"])


def text_of(ledger: Ledger) -> str:
    """Give the file that ``read`` reads."""
    entries: list[dict[str, Any]] = []
    head = FIRST
    for number, one in enumerate(ledger.events, start=1):
        entries.append(_entry(number, head, one))
        head = entries[-1]["sha256"]
    return json_text({"format": FORMAT, "head": head, "entries": entries})


def add(
    folder: Path, event: Event, *, after: str, before: Mapping[Path, str] = MappingProxyType({})
) -> Ledger:
    """Add an event to the ledger whose head was ``after`` when it was read.

    ``before`` are files of the folder that change with it, and before it.

    Raises:
        BadFile: as ``read``.
        EvidenceError: somebody else added an event since, or it cannot happen in this state.
    """
    with changing(folder / FILE, within=[folder], what=event.kind) as change:
        known = read(folder)
        if known.head != after:
            raise EvidenceError(
                f"{folder / FILE}: somebody else wrote to it since it was read. Look at"
                " harness migrate status, and run the command again"
            )
        made = added(known, event)
        for path, text in before.items():
            change.write(path, text)
        change.write(folder / FILE, text_of(made))
        return made


def _entry(number: int, previous: str, event: Event) -> dict[str, Any]:
    entry = {"number": number, "previous": previous, "event": event.model_dump(mode="json")}
    return {**entry, "sha256": _sha256(entry)}


def _sha256(entry: Mapping[str, Any]) -> str:
    return of_json([entry["number"], entry["previous"], entry["event"]])


def _wrong(path: Path, problem: str) -> NoReturn:
    raise BadFile(path, problem, HINT)
