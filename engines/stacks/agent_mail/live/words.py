"""Tantivy's index while messages change: kept up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engines.stacks.agent_mail.contract.lifecycle import DocChange
from engines.stacks.agent_mail.live.notes import FILE, Note
from engines.stacks.agent_mail.pipeline import faults
from engines.stacks.agent_mail.tantivy.engine import TantivyMailEngine


@dataclass(slots=True)
class LiveWords:
    """The index of an engine, and the note in its folder of what it has reached."""

    engine: TantivyMailEngine
    _note: Note = field(init=False)

    def __post_init__(self) -> None:
        self._note = Note(self.engine.root / FILE)

    @property
    def reached(self) -> int:
        """Generation of the source up to which the index surely holds every change.

        A commit is noted after it is made, and a rebuild without a note begins at 0, so an index
        may hold more.
        """
        return self._note.read() or 0

    def apply(self, changes: Sequence[DocChange], generation: int) -> None:
        """Apply changes that lead to ``generation``, and note it; twice is as once.

        Raises:
            SearchError: the index or its note cannot be written.
        """
        with faults.known():
            self.engine.update_incremental(changes)
            self._note.write(generation)

    def reindex(self, generation: int) -> None:
        """Build anew from a source that has reached ``generation``, and note it.

        Raises:
            SearchError: the index or its note cannot be written.
        """
        with faults.known():
            self.engine.rebuild()
            self._note.write(generation)
