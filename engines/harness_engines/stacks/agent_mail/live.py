"""Indexes that follow the journal of the message table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import Locked
from harness.core.files import held, write_json
from harness.core.formats import json_file
from harness_engines.contract import EngineError, IndexUnavailable, SearchError
from harness_engines.rerank import LateInteraction, Reranked
from harness_engines.stacks.agent_mail import faults
from harness_engines.stacks.agent_mail.contract import Changes, DocumentSource, Message
from harness_engines.stacks.agent_mail.faults import CURRENT, Deadline, ServiceParts, Stamp, stamp
from harness_engines.stacks.agent_mail.pipeline.pages import text_of
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore
from harness_engines.stacks.agent_mail.tantivy.engine import TantivyMailEngine, every
from harness_engines.stacks.agent_mail.views import View, plain
from harness_engines.vector import amvi, bulk
from harness_engines.vector.embedder import Embedder
from harness_engines.vector.scan import Half

STALE = "index_stale: "
READS = {
    FallbackTier.TANTIVY: ("tantivy",),
    FallbackTier.SEMANTIC: ("vectors",),
    FallbackTier.HYBRID: ("tantivy", "vectors"),
    FallbackTier.RERANK: ("tantivy", "vectors"),
}
"""Indexes beside the message table that a tier reads; FTS5 and LIKE are in the table itself."""
OF_VIEWERS = frozenset({"vectors"})
"""Indexes that viewers share with everyone; of the others each has a copy of its own."""


@dataclass(frozen=True, slots=True)
class LiveIndexes:
    """The indexes of one message table, by name."""

    store: MessageStore
    indexes: Mapping[str, LiveWords | LiveVectors]
    lock: Path
    """Beside it is the lock of whoever writes the indexes."""
    parts: ServiceParts = field(default_factory=ServiceParts)
    view: View | None = None
    """Whom it follows the table for; None is an operator."""

    def current(self, tier: FallbackTier, until: Deadline | None = None) -> str:
        """Bring what ``tier`` reads up to the table as it is now; say why that cannot be.

        It takes no more than half of what is left until the deadline. One that is late goes on,
        and the queries meanwhile are told. A viewer is told only of messages that it sees.
        """
        named = [name for name in READS.get(tier, ()) if name in self.indexes]
        if not named:
            return ""
        try:
            self._follow(named, until and until.share())
        except SearchError as exc:
            if self.view is None:
                return f"{STALE}{exc}"
            try:
                with faults.known():
                    reached = min(self.indexes[name].reached or 0 for name in named)
                    _, changed = self.store.news(reached)
                    seen = self.view.hydrate(changed)
            except SearchError as why:
                return f"{STALE}{plain(why)}"
            return f"{STALE}a message may be missing" if seen else ""
        return ""

    def catch_up(self) -> int:
        """Bring every index up to the table as it is now, and give its generation."""
        return self._follow([*self.indexes], None)

    def _follow(self, named: Sequence[str], until: Deadline | None) -> int:
        with faults.known():
            now = self.store.generation()
            behind = [one for one in named if self.indexes[one].reached != now]
            if behind:
                self.parts.call("catching up", partial(self._catch_up, behind, now), until)
        return now

    def seen_by(self, view: View) -> LiveIndexes:
        """Return the same for a viewer, who must not learn of changes to what is hidden."""
        shared = {name: one for name, one in self.indexes.items() if name in OF_VIEWERS}
        return replace(self, indexes=shared, view=view)

    def _catch_up(self, behind: Sequence[str], now: int) -> None:
        """Apply batch after batch; what is ahead of the table, or unknown, is built anew."""
        CURRENT.set(None)  # what is late goes on, and the next query finds it done
        try:
            with held(self.lock):
                for index in (self.indexes[name] for name in behind):
                    reached = index.reached
                    if reached is None or reached > self.store.generation():
                        index.reindex(now)
                        continue
                    while reached < now:
                        reached, changes = self.store.since(reached)
                        index.apply(changes, reached)
        except (Locked, OSError) as exc:
            raise EngineError(f"the index cannot be written ({exc})") from exc


FILE = "generation.json"


class IndexNote:
    """The note of one index; it is read again when its file has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: Stamp | None = None
        self._said: tuple[object, object] | None = None

    def write(self, generation: int, of: str = "") -> None:
        """Note that the index ``of`` has reached ``generation``."""
        write_json(self.path, {"generation": generation, "of": of})

    def read(self, of: str = "") -> int | None:
        """Read what the index ``of`` has reached; None where that is not known."""
        seen = stamp(self.path)
        if seen is None or seen != self._seen:
            try:
                found = json_file(self.path)
                self._said = found["generation"], found["of"]
            except (OSError, ValueError, KeyError, TypeError):
                self._said = None
            self._seen = seen
        generation, said = self._said or (None, None)
        return generation if type(generation) is int and said == of else None


Hydrate = Callable[[Sequence[int]], Mapping[int, Message]]


class LiveVectors:
    """Vectors of messages in the file ``path``, and the note of what it has reached beside it."""

    def __init__(self, path: Path, embedder: Embedder, cache: Path, source: DocumentSource) -> None:
        """Take the file; ``source`` has every message, for a file of which nothing is known."""
        self.path, self.embedder, self._cache, self._source = path, embedder, cache, source
        self._note = IndexNote(path.with_suffix(f".{FILE}"))
        self._open: tuple[Stamp, amvi.AmviIndex] | None = None
        self._lock = Lock()

    @property
    def reached(self) -> int | None:
        """Generation up to which the file surely holds every change; None where not known."""
        return self._note.read(self.now().header)

    def apply(self, changes: Changes, generation: int) -> None:
        """Apply changes that lead to ``generation``, and note it; twice is as once."""
        written = [message for message in changes.values() if message is not None]
        deleted = [message_id for message_id, message in changes.items() if message is None]
        with faults.known():
            texts = [text_of(message) for message in written]
            parts = [texts[at : at + bulk.BATCH] for at in range(0, len(texts), bulk.BATCH)]
            made = [self.embedder.embed(part).astype(np.float16) for part in parts]
            empty = np.zeros((0, self.embedder.dimension), dtype=np.float16)
            vectors = np.concatenate([empty, *made])
            amvi.updated(self.now(), self.path, _ids(written), vectors, deleted)
            self._note.write(generation, self.now().header)

    def reindex(self, generation: int) -> None:
        """Write the vectors of all messages, which have reached ``generation``."""
        with faults.known():
            self.write([*every(self._source)], generation)

    def write(self, messages: Sequence[Message], generation: int) -> None:
        """Write the file anew, and note that it has reached ``generation``."""
        texts = [text_of(message) for message in messages]
        vectors = bulk.embed_all(texts, self.embedder, self._cache)
        amvi.write_amvi(self.path, self.embedder.identity, _ids(messages), vectors)
        self._note.write(generation, self.now().header)

    def now(self) -> amvi.AmviIndex:
        """Open the file that is there now."""
        seen = stamp(self.path)
        if seen is None:
            raise IndexUnavailable(f"{self.path}: No such file. Build the vector index anew")
        known = self._open
        if known is not None and known[0] == seen:
            return known[1]
        with self._lock:
            if self._open is None or self._open[0] != seen:
                made = self.embedder.identity, self.embedder.dimension
                self._open = seen, amvi.AmviIndex.open(self.path, *made)
            return self._open[1]


def _ids(messages: Sequence[Message]) -> NDArray[np.int64]:
    return np.array([message.message_id for message in messages], dtype=np.int64)


class LiveWords:
    """The index of an engine, and the note in its folder of what it has reached."""

    def __init__(self, engine: TantivyMailEngine) -> None:
        self.engine, self._note = engine, IndexNote(engine.root / FILE)

    @property
    def reached(self) -> int:
        """Generation of the source up to which the index surely holds every change."""
        return self._note.read() or 0

    def apply(self, changes: Changes, generation: int) -> None:
        """Apply changes that lead to ``generation``, and note it; twice is as once."""
        with faults.known():
            self.engine.update_incremental(changes)
            self._note.write(generation)

    def reindex(self, generation: int) -> None:
        """Build anew from a source that has reached ``generation``, and note it."""
        with faults.known():
            self.engine.rebuild()
            self._note.write(generation)


class LiveTokens:
    """A reranker whose file holds the messages as they were when the index was built."""

    def __init__(self, base: LateInteraction, store: MessageStore, hydrate: Hydrate) -> None:
        self._base, self._store, self._hydrate = base, store, hydrate
        self._tokens = lru_cache(maxsize=512)(self._read)  # about 100 MB at the most

    def rerank(self, text: str, ids: Sequence[int], fused: Sequence[float]) -> Sequence[Reranked]:
        """Score a window; see ``LateInteraction``. A message that is gone is like nothing."""
        changed = self._store.changed_of(ids)
        if not changed:
            return self._base.rerank(text, ids, fused)
        over = {one: self._tokens(one, at) for one, at in changed.items()}

        def tokens(one: int) -> Half:
            return over[one] if one in over else self._base.tokens(one)

        return replace(self._base, tokens=tokens).rerank(text, ids, fused)

    def _read(self, message_id: int, generation: int) -> Half:  # noqa: ARG002  read anew at each change
        """Read the tokens of a message as it is since its last change."""
        message = self._hydrate([message_id]).get(message_id)
        if message is None:
            return np.zeros((0, self._base.embedder.dimension), dtype=np.float16)
        (read,) = self._base.embedder.read([text_of(message)]).tokens
        return read.astype(np.float16)
