"""Tantivy over messages: search, and the care of its index (ADR-003, D2, D4 and D5)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from time import perf_counter_ns

import tantivy

from harness_engines.contract import EngineError, IndexUnavailable
from harness_engines.lexical.grammar import parse, refuses, words_alone
from harness_engines.lexical.tantivy import (
    LONGEST_TERM_BYTES,
    Columns,
    analyzer,
    begun,
    columns,
    compiled,
)
from harness_engines.lexical.terms import Clause, Occur, clause_terms, normalise, terms
from harness_engines.stacks.agent_mail import contract, faults
from harness_engines.stacks.agent_mail.contract import CandidateList, Filters, RankingMode
from harness_engines.stacks.agent_mail.tantivy import index
from harness_engines.stacks.agent_mail.tantivy.index import WHOLE, OpenIndex, schema

ID, SENT = "message_id", "created_ts"
MUST, SHOULD = tantivy.Occur.Must, tantivy.Occur.Should


def restricted(query: tantivy.Query, filters: Filters, schema: tantivy.Schema) -> tantivy.Query:
    """Keep of ``query`` what passes all of ``filters``; its scores stay as they are."""
    if filters == contract.UNFILTERED:
        return query
    parts = [
        _any([_holds(schema, one, values) for one in of])
        for of, values in contract.conditions(filters)
    ]
    if not filters.time_range.is_open:
        parts.append(_within(schema, filters.time_range))
    if not parts:
        return query
    unscored = [tantivy.Query.const_score_query(part, 0.0) for part in parts if part is not None]
    return tantivy.Query.boolean_query([(MUST, query), *((MUST, part) for part in unscored)])


EVERY_MESSAGE = tantivy.Query.const_score_query(tantivy.Query.all_query(), 0.0)


def _holds(schema: tantivy.Schema, column: str, values: Sequence[str | int]) -> tantivy.Query:
    """Match any of ``values`` of a column, whole; none where the column can hold none of them."""
    held = [
        value
        for value in values
        if (
            contract.LEAST <= value <= contract.MOST
            if isinstance(value, int)
            else not any("\ud800" <= c <= "\udfff" for c in value)
        )
    ]
    return tantivy.Query.term_set_query(schema, column, held)


def _within(schema: tantivy.Schema, asked: contract.TimeRange) -> tantivy.Query:
    """Match times between the bounds, both included, read from the fast field."""
    low = contract.LEAST if asked.min_ts is None else max(asked.min_ts, contract.LEAST)
    high = contract.MOST if asked.max_ts is None else min(asked.max_ts, contract.MOST)
    if low > high:
        return tantivy.Query.empty_query()
    kind = tantivy.FieldType.Integer
    return tantivy.Query.range_query(schema, SENT, kind, lower_bound=low, upper_bound=high)


def matching(
    now: OpenIndex, query: tantivy.Query, ranking: RankingMode, depth: int
) -> list[contract.MessageCandidate]:
    """Return the ``depth`` best of what ``query`` finds, or the newest, with their scores."""
    if ranking is RankingMode.RELEVANCE:
        return list(zip(*ranked(now, query, depth), strict=True))
    ids = ranked(now, query, depth, by=SENT).documents
    these = tantivy.Query.const_score_query(_holds(now.folder.schema, ID, sorted(ids)), 0.0)
    both = tantivy.Query.boolean_query([(MUST, query), (MUST, these)])
    score = dict(zip(*ranked(now, both, len(ids)), strict=True))
    return [(message_id, score[message_id]) for message_id in ids]


def listed(
    now: OpenIndex, query: tantivy.Query, ranking: RankingMode, depth: int
) -> list[contract.MessageCandidate]:
    """Return ``depth`` messages that ``query`` finds, with score 0, by time or by id."""
    if ranking is RankingMode.RECENCY:
        ids = ranked(now, query, depth, by=SENT).documents
    else:
        limit = min(depth, max(1, now.searcher.num_docs))
        order = tantivy.Order.Asc
        hits = now.searcher.search(query, limit, count=False, order_by_field=ID, order=order).hits
        ids = [int(message_id) for message_id, _ in hits]
    return [(message_id, 0.0) for message_id in ids]


def ranked(now: OpenIndex, query: tantivy.Query, k: int, by: str | None = None) -> Columns:
    """Return the ``k`` best messages by score, or by the field ``by``; equal ones by id."""
    schema = None if now.in_order else now.folder.schema
    return columns(now.searcher, query, k, schema=schema, ids=ID, by=by)


@dataclass(frozen=True, slots=True)
class Compiler:
    """Makes queries for one schema."""

    schema: tantivy.Schema
    analyzer: tantivy.TextAnalyzer
    weights: contract.Weights

    def query(self, text: str) -> tantivy.Query | None:
        """Compile ``text``; None where it has no word that could be in a message."""
        alone = words_alone(text)
        if alone and text.isascii() and text.replace(" ", "").isalpha():
            return self._letters(alone)
        return compiled(parse(text), self._clause)

    def _letters(self, typed: list[str]) -> tantivy.Query | None:
        """Ask for any of several words of ASCII letters: most of what is typed, quickly done."""
        term = tantivy.Query.term_query
        few = [one for one in typed if len(one) < LONGEST_TERM_BYTES]
        return _any([term(self.schema, WHOLE, one.lower(), "freq") for one in few])

    def _clause(self, clause: Clause) -> tantivy.Query | None:
        """Ask for a word or phrase in the message, or for a joined token whole."""
        term = tantivy.Query.term_query
        if clause.sign_name and clause.occur is not Occur.SHOULD:
            return term(self.schema, "identifiers", clause.sign_name, "freq")
        parts = terms(clause.words[0]) if clause.begun else ()
        found = self._prefix(parts) if parts else self._sought(clause)
        if found and not clause.quoted and not clause.text.isalpha():
            for token in dict.fromkeys(contract.names(clause.text)):
                found.append(term(self.schema, "identifiers", token, "freq"))
        return _any(found)

    def _sought(self, clause: Clause) -> list[tantivy.Query]:
        """Split ASCII as the index does, with positions; other text has its terms."""
        typed = clause.text
        if typed.isascii() and typed.isalnum() and len(typed) < LONGEST_TERM_BYTES:
            return [self._match([(0, typed.lower())])]
        said = clause_terms(clause, "phrase", signs=False)
        whole = [*enumerate(map(str.lower, said.whole))]
        if typed.isascii():
            whole = [(one.position, one.text) for one in self.analyzer.pre_tokenize(typed).tokens]
        phrases = (whole, *([(0, one.lower())] for one in said.each))
        return [self._match(phrase) for phrase in phrases if phrase]

    def _match(self, terms: list[tuple[int, str]]) -> tantivy.Query:
        if len(terms) == 1:
            return tantivy.Query.term_query(self.schema, WHOLE, terms[0][1], "freq")
        return tantivy.Query.phrase_query(self.schema, WHOLE, list(terms))

    def _prefix(self, parts: Sequence[str]) -> list[tantivy.Query]:
        """Ask for any word that begins so, each for the same score whatever the word."""
        last = parts[-1].lower()
        subject = begun(self.schema, "subject", last)
        subject = tantivy.Query.boost_query(subject, self.weights.subject)
        found = [subject, begun(self.schema, "body", last)]
        before = [self._match([(0, one.lower())]) for one in parts[:-1]]
        if not before or (any_of := _any(found)) is None:
            return found
        return [tantivy.Query.boolean_query([(MUST, one) for one in (*before, any_of)])]


def _any(found: Sequence[tantivy.Query]) -> tantivy.Query | None:
    """Ask for any of several; None where there is none."""
    if len(found) <= 1:
        return found[0] if found else None
    return tantivy.Query.boolean_query([(SHOULD, query) for query in found])


NAME = "tantivy"
NO_WORD = "no word to search for"
BATCH = 1_000
"""Messages read at once while an index is built."""


def every(source: contract.DocumentSource) -> Iterator[contract.Message]:
    """Read all messages of a source, by id."""
    since = contract.LEAST
    while batch := source.fetch_batch(since, BATCH):
        yield from batch
        since = batch[-1].message_id


@dataclass(slots=True)
class TantivyMailEngine:
    """A lexical engine and its index in the folder ``root``, rebuilt where its schema changed.

    Scores after a deletion or an edit count the old text until Tantivy merges it away or
    ``rebuild`` is called. Which messages are found never depends on it, their order may.
    """

    root: Path
    source: contract.DocumentSource
    emit: contract.Emit
    weights: contract.Weights
    _opened: OpenIndex | None = field(default=None, init=False)
    _compiler: Compiler = field(init=False)
    _writes: Lock = field(default_factory=Lock, init=False)

    def __post_init__(self) -> None:
        self._compiler = Compiler(schema(), analyzer("none"), self.weights)

    def search(
        self, text: str, filters: Filters, ranking: RankingMode, depth: int
    ) -> CandidateList:
        """Return at most ``depth`` candidates; see ``MailEngine``."""
        now = self._ready()
        with faults.known():
            typed, most = normalise(text), max(depth, 0)
            words = self._compiler.query(typed) if typed else EVERY_MESSAGE
            if words is None:
                return CandidateList(
                    (), exhausted=True, method=NAME, normalized_query=typed, note=NO_WORD
                )
            asked = restricted(words, filters, self._compiler.schema)
            best = None
            if not typed or refuses(typed):
                found = listed(now, asked, ranking, most + 1)
            else:
                found = matching(now, asked, ranking, most + 1)
                if ranking is RankingMode.RECENCY:
                    best = next(iter(ranked(now, asked, 1).keys), None)
            return CandidateList(
                tuple(found[:most]),
                exhausted=len(found) <= most,
                method=NAME if typed else "tantivy_filters",
                normalized_query=typed or None,
                best=best,
            )

    def typeahead(
        self, prefix: str, filters: Filters, k: int
    ) -> Sequence[contract.MessageCandidate]:
        """Return at most ``k`` messages in whose subject a word begins with what is being typed."""
        now = self._ready()
        with faults.known():
            begun = index.compiled(now.folder.schema, index.read_as(normalise(prefix)))
            if begun is None:
                return ()
            asked = restricted(begun, filters, now.folder.schema)
            return list(zip(*ranked(now, asked, k), strict=True))

    def rebuild(self) -> contract.IndexStats:
        """Build anew from the document source; the old index answers until the new one is whole."""
        with self._writes:
            return self._rebuild()

    def update_incremental(self, changes: contract.Changes) -> int:
        """Apply changes in one commit and count them."""
        if not changes:
            return 0
        with self._writes:
            self._current()
            now = self._open()
            with faults.known():
                of, kept = now.folder.schema, [m for m in changes.values() if m is not None]
                gone = now.searcher.search(_holds(of, ID, sorted(changes)), 1)
                replaced = int(gone.count)  # type: ignore[attr-defined]  # not in its stubs
                with index.writing(now.folder) as writer:
                    index.sweep(self.root / index.INDEX)
                    for message_id in changes:
                        writer.delete_documents_by_term(ID, message_id)
                    for message in kept:
                        writer.add_document(index.document(message, of, self.weights))
            after = self._open().searcher.num_docs
            if after != now.searcher.num_docs - replaced + len(kept):
                raise EngineError(f"{self.root}: {after} messages after an update. Rebuild it")
        self.emit(contract.Event.INCREMENTAL_BATCH, {"batch_size": len(changes), "engine": NAME})
        return len(changes)

    def health(self) -> contract.IndexHealth:
        """Compare the index with the source, by count and by the highest id; nothing is rebuilt."""
        try:
            index.stamp(self.root)
            if index.recorded_hash(self.root) != index.schema_hash(self.weights):
                return contract.IndexHealth(
                    ready=False, documents=0, reason="built with another schema"
                )
            now = self._open()
        except IndexUnavailable as exc:
            return contract.IndexHealth(ready=False, documents=0, reason=str(exc))
        documents, total = now.searcher.num_docs, self.source.total_count()
        last = ranked(now, tantivy.Query.all_query(), 1, by=ID).documents
        mark = last[0] if last else contract.LEAST
        if documents != total:
            reason = f"{documents} messages are indexed, the source has {total}"
        elif self.source.fetch_batch(mark, 1):
            reason = f"the source has messages of a higher id than {mark}, the highest indexed"
        else:
            reason = ""
        return contract.IndexHealth(ready=not reason, documents=documents, reason=reason)

    def _ready(self) -> OpenIndex:
        """Open the index, first rebuilt where its schema is another one."""
        found = self._opened
        if found is not None and found.stamp == index.stamp(self.root):
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
            self.emit(contract.Event.SCHEMA_MISMATCH, {"expected": expected, "actual": actual})
            self._rebuild()

    def _rebuild(self) -> contract.IndexStats:
        start = perf_counter_ns()
        total = self.source.total_count()
        self.emit(contract.Event.REBUILD_START, {"doc_count": total, "engine": NAME})
        count = index.built(self.root, every(self.source), self.weights)
        stats = contract.IndexStats(count, (perf_counter_ns() - start) / 1e6)
        self.emit(
            contract.Event.REBUILD_COMPLETE,
            {"doc_count": count, "duration_ms": stats.duration_ms, "engine": NAME},
        )
        return stats

    def _open(self) -> OpenIndex:
        self._opened = index.opened(self.root, self._opened)
        return self._opened
