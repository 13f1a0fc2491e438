"""Tantivy over messages: search, and the care of its index (ADR-003, D2, D4 and D5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from time import perf_counter_ns

import tantivy

from harness_engines.contract import EngineError, IndexUnavailable
from harness_engines.lexical.grammar import refuses
from harness_engines.lexical.tantivy import analyzer
from harness_engines.lexical.terms import normalise
from harness_engines.stacks.agent_mail.contract import (
    CandidateList,
    ChangeKind,
    DocChange,
    DocumentSource,
    Emit,
    Event,
    Filters,
    IndexHealth,
    IndexStats,
    Message,
    MessageCandidate,
    RankingMode,
)
from harness_engines.stacks.agent_mail.tantivy import index, query
from harness_engines.stacks.agent_mail.tantivy.index import (
    CheckedFile,
    FieldCopies,
    OpenIndex,
    WriterOptions,
    batches,
    guarded,
    schema,
)
from harness_engines.stacks.agent_mail.tantivy.query import LEAST, Compiler, ranked

NAME = "tantivy"
LISTING = "tantivy_filters"
NO_WORD = "no word to search for"


@dataclass(slots=True)
class TantivyMailEngine:
    """A lexical engine and its index in the folder ``root``.

    The index is opened again whenever a commit, of this process or another, lies in the folder.
    An index of another schema is rebuilt when it is first asked, and until that is done every
    other query raises IndexUnavailable, so callers fall back.

    Scores after a deletion or an edit count the old text until Tantivy merges it away or
    ``rebuild`` is called. Which messages are found never depends on it, their order may.
    """

    root: Path
    source: DocumentSource
    emit: Emit
    weights: FieldCopies
    written: WriterOptions = field(default_factory=WriterOptions)
    _opened: OpenIndex | None = field(default=None, init=False)
    _compiler: Compiler = field(init=False)
    _writes: Lock = field(default_factory=Lock, init=False)

    def __post_init__(self) -> None:
        self._compiler = Compiler(schema(), analyzer("none"), self.weights)

    @property
    def name(self) -> str:
        return NAME

    def search(
        self, text: str, filters: Filters, ranking: RankingMode, depth: int
    ) -> CandidateList:
        """Return at most ``depth`` candidates; see ``MailEngine``."""
        now = self._ready()
        with guarded("searching"):
            typed, fields, most = normalise(text), self._compiler.schema, max(depth, 0)
            if not typed:
                passing = query.listed(now, query.everything(filters, fields), ranking, most)
                return query.cut(passing, most, LISTING, None)
            words = self._compiler.query(typed)
            if words is None:
                return CandidateList(
                    (), exhausted=True, method=NAME, normalized_query=typed, note=NO_WORD
                )
            asked = query.restricted(words, filters, fields)
            if refuses(typed):
                return query.cut(query.listed(now, asked, ranking, most), most, NAME, typed)
            found = query.cut(query.matching(now, asked, ranking, most), most, NAME, typed)
            if ranking is not RankingMode.RECENCY:
                return found
            return replace(found, best=next(iter(ranked(now, asked, 1).keys), None))

    def typeahead(self, prefix: str, filters: Filters, k: int) -> Sequence[MessageCandidate]:
        """Return at most ``k`` messages in whose subject a word begins with what is being typed."""
        now = self._ready()
        with guarded("searching"):
            begun = index.compiled(now.folder.schema, index.read_as(normalise(prefix)))
            if begun is None:
                return ()
            asked = query.restricted(begun, filters, now.folder.schema)
            return query.candidates(ranked(now, asked, k))

    def rebuild(self) -> IndexStats:
        """Build anew from the document source; the old index answers until the new one is whole."""
        with self._writes:
            return self._rebuild()

    def update_incremental(self, changes: Sequence[DocChange]) -> int:
        """Apply changes in one commit and count them; of several to one message the last holds."""
        if not changes:
            return 0
        with self._writes:
            self._current()
            now = self._open()
            with guarded("updating"):
                last = {change.message_id: _written(change) for change in changes}
                of, kept = now.folder.schema, [m for m in last.values() if m is not None]
                replaced = query.counted(now.searcher, query.among(of, "message_id", last))
                with index.writing(now.folder, self.written) as writer:
                    index.sweep(self.root / index.INDEX)
                    for message_id in last:
                        writer.delete_documents_by_term("message_id", message_id)
                    for message in kept:
                        writer.add_document(index.document(message, of, self.weights))
            self._opened = index.noted_index(self.root, self._open())
            after = self._opened.searcher.num_docs
            if after != now.searcher.num_docs - replaced + len(kept):
                raise EngineError(f"{self.root}: {after} messages after an update. Rebuild it")
        self.emit(Event.INCREMENTAL_BATCH, {"batch_size": len(changes), "engine": NAME})
        return len(changes)

    def health(self) -> IndexHealth:
        """Compare the index with the source, by count and by the highest id; nothing is rebuilt."""
        try:
            if index.recorded_hash(self.root) != index.schema_hash(self.weights):
                index.stamp(self.root)
                return IndexHealth(ready=False, documents=0, reason="built with another schema")
            now = self._open()
        except IndexUnavailable as exc:
            return IndexHealth(ready=False, documents=0, reason=str(exc))
        documents, total = now.searcher.num_docs, self.source.total_count()
        last = ranked(now, tantivy.Query.all_query(), 1, by=query.ID).documents
        mark = last[0] if last else LEAST
        if documents != total:
            reason = f"{documents} messages are indexed, the source has {total}"
        elif self.source.fetch_batch(mark, 1):
            reason = f"the source has messages of a higher id than {mark}, the highest indexed"
        else:
            reason = ""
        return IndexHealth(ready=not reason, documents=documents, reason=reason)

    def _ready(self) -> OpenIndex:
        """Open the index, first rebuilt where its schema is another one."""
        found = self._opened
        same = found is not None and found.stamp == index.stamp(self.root)
        if found is not None and same and found.mapped.whole():
            return found
        if index.recorded_hash(self.root) != index.schema_hash(self.weights):
            if not self._writes.acquire(blocking=False):
                raise IndexUnavailable(f"{self.root}: is being rebuilt")
            try:
                self._current()
            finally:
                self._writes.release()
        return self._open()

    def _current(self) -> None:
        """Rebuild an index of another schema; the caller holds the lock."""
        index.stamp(self.root)
        expected, actual = index.schema_hash(self.weights), index.recorded_hash(self.root)
        if actual != expected:
            self.emit(Event.SCHEMA_MISMATCH, {"expected": expected, "actual": actual})
            self._rebuild()

    def _rebuild(self) -> IndexStats:
        start = perf_counter_ns()
        total = self.source.total_count()
        self.emit(Event.REBUILD_START, {"doc_count": total, "engine": NAME})
        messages = (m for batch in batches(self.source, LEAST) for m in batch)
        count = index.built(self.root, messages, self.written, self.weights)
        stats = IndexStats(count, (perf_counter_ns() - start) / 1e6)
        self.emit(
            Event.REBUILD_COMPLETE,
            {"doc_count": count, "duration_ms": stats.duration_ms, "engine": NAME},
        )
        return stats

    def _open(self) -> OpenIndex:
        known = frozenset[CheckedFile]() if self._opened is None else self._opened.files
        self._opened = index.opened(self.root, known)
        return self._opened


def _written(change: DocChange) -> Message | None:
    """Return what is kept of a changed message; None where it was deleted."""
    if change.kind is ChangeKind.DELETE:
        return None
    if change.message is None or change.message.message_id != change.message_id:
        raise EngineError(f"change of message {change.message_id} carries {change.message}")
    return change.message
