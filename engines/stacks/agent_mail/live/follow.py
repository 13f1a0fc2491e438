"""Indexes that follow the journal of the message table: behind, caught up, or said to be stale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from engines.contract.errors import EngineError, SearchError
from engines.stacks.agent_mail.budget import Deadline, Parts
from engines.stacks.agent_mail.contract.lifecycle import DocChange
from engines.stacks.agent_mail.pipeline import faults
from engines.stacks.agent_mail.pipeline.fresh import Reached
from engines.stacks.agent_mail.pipeline.plan import FallbackTier
from engines.stacks.agent_mail.pipeline.view import View, plain
from engines.stacks.agent_mail.sqlite import journal
from engines.stacks.agent_mail.sqlite.store import MessageStore
from harness.core.durable.locks import held
from harness.core.errors import Locked

STALE = "index_stale: "
CATCHING_UP = "catching up"
READS = {
    FallbackTier.TANTIVY: ("tantivy",),
    FallbackTier.SEMANTIC: ("vectors",),
    FallbackTier.HYBRID: ("tantivy", "vectors"),
    FallbackTier.RERANK: ("tantivy", "vectors"),
}
"""Indexes beside the message table that a tier reads; FTS5 and LIKE are in the table itself."""
OF_VIEWERS = frozenset({"vectors"})
"""Indexes that viewers share with everyone; of the others each has a copy of its own."""


class Follows(Protocol):
    """An index beside the message table."""

    @property
    def reached(self) -> int | None:
        """Generation of the table that it surely holds; None where that is not known."""
        ...

    def apply(self, changes: Sequence[DocChange], generation: int) -> None:
        """Apply changes that lead to ``generation``; twice is as once."""
        ...

    def reindex(self, generation: int) -> None:
        """Build anew from the table, which has reached ``generation``."""
        ...


@dataclass(frozen=True, slots=True)
class Live:
    """The indexes of one message table, by name."""

    store: MessageStore
    indexes: Mapping[str, Follows]
    lock: Path
    """Beside it is the lock of whoever writes the indexes."""
    parts: Parts = field(default_factory=Parts)

    def current(self, tier: FallbackTier, until: Deadline | None = None) -> str:
        """Bring what ``tier`` reads up to the table as it is now; say why that cannot be.

        It takes no more than half of what is left until the deadline. One that is late goes on,
        and the queries meanwhile are told.
        """
        named = self._named(tier)
        if not named:
            return ""
        try:
            with faults.known():
                now = journal.generation(self.store)
                behind = [one for one in named if self.indexes[one].reached != now]
                if behind:
                    work = partial(self._catch_up, behind, now)
                    self.parts.call(CATCHING_UP, work, until and until.half)
        except SearchError as exc:
            return f"{STALE}{exc}"
        return ""

    def catch_up(self) -> int:
        """Bring every index up to the table as it is now, and give its generation.

        Raises:
            SearchError: an index cannot be read or written, or the table cannot be read.
        """
        with faults.known():
            now = journal.generation(self.store)
            behind = [name for name in self.indexes if self.indexes[name].reached != now]
            if behind:
                self._catch_up(behind, now)
        return now

    def reached(self) -> Reached:
        """Say how far the table and each index are.

        Raises:
            SearchError: the table or an index cannot be read.
        """
        with faults.known():
            indexed = {name: one.reached for name, one in self.indexes.items()}
            return Reached(journal.generation(self.store), indexed)

    def pending(self, tier: FallbackTier) -> Sequence[int]:
        """Name the messages whose last change may be missing from what ``tier`` reads.

        Raises:
            SearchError: the journal cannot be read.
        """
        reached = [self.indexes[name].reached or 0 for name in self._named(tier)]
        return journal.changed(self.store, min(reached)) if reached else ()

    def seen_by(self, view: View) -> LiveView:
        """Give the same for a viewer, who must not learn of changes to what is hidden."""
        shared = {name: one for name, one in self.indexes.items() if name in OF_VIEWERS}
        return LiveView(replace(self, indexes=shared), view)

    def _named(self, tier: FallbackTier) -> list[str]:
        return [name for name in READS.get(tier, ()) if name in self.indexes]

    def _catch_up(self, behind: Sequence[str], now: int) -> None:
        try:
            with held(self.lock):
                for name in behind:
                    self._follow(self.indexes[name], now)
        except (Locked, OSError) as exc:
            raise EngineError(f"the index cannot be written ({exc})") from exc

    def _follow(self, index: Follows, now: int) -> None:
        """Apply batch after batch; what is ahead of the table, or unknown, is built anew."""
        reached = index.reached
        if reached is None or reached > journal.generation(self.store):
            index.reindex(now)
            return
        while reached < now:
            batch = journal.since(self.store, reached)
            index.apply(batch.changes, batch.generation)
            reached = batch.generation


@dataclass(frozen=True, slots=True)
class LiveView:
    """What follows the table for one viewer."""

    live: Live
    view: View

    def current(self, tier: FallbackTier, until: Deadline | None = None) -> str:
        """Say that an answer may miss a change, where it is one of a message that the viewer sees.

        A deleted message is in no answer, whatever an index holds.
        """
        if not self.live.current(tier, until):
            return ""
        try:
            with faults.known():
                seen = self.view.hydrate(self.live.pending(tier))
        except SearchError as exc:
            return f"{STALE}{plain(exc)}"
        return f"{STALE}a message may be missing" if seen else ""

    def reached(self) -> None:
        """Say nothing: how much changes tells of what is hidden."""

    def seen_by(self, view: View) -> LiveView:
        """Give the same for another view."""
        return replace(self, view=view)
