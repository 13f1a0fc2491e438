"""The switch of interleaving: in the ledger of the migration, off unless an operator set it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from harness.core.durable.journal import changing
from harness.core.errors import BadFile, EvidenceError
from harness.policy.migration.events import Interleaved
from harness.policy.migration.state import State
from harness.stages.migrate import ledger


def interleave(
    folder: Path, arms: tuple[str, ...], *, reason: str, now: datetime, by: str
) -> State:
    """Note in the ledger that lists are mixed from these arms, or from none.

    Raises:
        EvidenceError: nothing began, a single arm is named, or one twice.
        BadFile: the ledger is torn or was changed.
    """
    if len(arms) == 1 or len({*arms}) != len(arms):
        raise EvidenceError("name two arms or more, each once, the one that serves first")
    if not folder.is_dir():
        _ = ledger.read(folder).state
    with changing(folder / ledger.FILE, within=[folder], what="interleave") as change:
        event = Interleaved(at=now, by=by, arms=arms, reason=reason)
        made = ledger.added(ledger.read(folder), event)
        change.write(folder / ledger.FILE, ledger.text_of(made))
    return made.state


class Switch:
    """Says whether lists may be mixed now; the ledger is read again after it was replaced."""

    def __init__(self, folder: Path, arms: tuple[str, ...]) -> None:
        self._folder, self._arms = folder, arms
        self._seen: tuple[int, int] | None = None
        self._on = False

    def __call__(self) -> bool:
        """Tell whether it is on for these very arms; a ledger that cannot be read is off."""
        try:
            about = (self._folder / ledger.FILE).stat()
            seen = about.st_mtime_ns, about.st_ino
            if seen != self._seen:
                event = ledger.read(self._folder).state.interleaved
                self._on = event is not None and event.arms == self._arms
                self._seen = seen
        except (OSError, BadFile, EvidenceError):
            self._seen, self._on = None, False
        return self._on
