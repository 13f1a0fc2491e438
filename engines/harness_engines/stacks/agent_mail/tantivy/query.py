"""A query as Tantivy runs it: text, filters and orders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import tantivy

from harness_engines.lexical.grammar import parse, words_alone
from harness_engines.lexical.tantivy import (
    LONGEST_TERM_BYTES,
    Columns,
    begun,
    columns,
    compiled,
    first,
)
from harness_engines.lexical.terms import Clause, Occur, clause_terms, terms
from harness_engines.stacks.agent_mail.contract import (
    CandidateList,
    Direction,
    Filters,
    MessageCandidate,
    RankingMode,
    TimeRange,
    names,
)
from harness_engines.stacks.agent_mail.tantivy.index import WHOLE, FieldCopies, OpenIndex

ID, SENT = "message_id", "created_ts"
LEAST, MOST = -(2**63), 2**63 - 1
"""What a signed field holds; no message has a number beyond."""


def restricted(query: tantivy.Query, filters: Filters, schema: tantivy.Schema) -> tantivy.Query:
    """Keep of ``query`` what passes all of ``filters``; its scores stay as they are."""
    parts = list(_parts(filters, schema))
    if not parts:
        return query
    must = tantivy.Occur.Must
    return tantivy.Query.boolean_query([
        (must, query),
        *((must, tantivy.Query.const_score_query(part, 0.0)) for part in parts),
    ])


def everything(filters: Filters, schema: tantivy.Schema) -> tantivy.Query:
    """Ask for all messages that pass ``filters``, each with score 0."""
    whole = tantivy.Query.const_score_query(tantivy.Query.all_query(), 0.0)
    return restricted(whole, filters, schema)


ROLES: Mapping[Direction | None, tuple[str, ...]] = {
    Direction.OUTBOX: ("sender_name",),
    Direction.INBOX: ("recipients",),
}
"""What an agent is of a message; either where no direction is given."""


def _parts(filters: Filters, schema: tantivy.Schema) -> Iterator[tantivy.Query]:
    def named(field: str, *values: str) -> tantivy.Query:
        """Match any of ``values`` whole; half a surrogate pair is in no message."""
        held = [one for one in values if not any("\ud800" <= c <= "\udfff" for c in one)]
        return tantivy.Query.term_set_query(schema, field, held)

    if filters.project_id is not None:
        yield among(schema, "project_id", [filters.project_id])
    elif filters.product_projects is not None:
        yield among(schema, "project_id", filters.product_projects)
    if filters.importance:
        yield named("importance", *sorted(level.value for level in filters.importance))
    if filters.ack_required is not None:
        yield among(schema, "ack_required", [int(filters.ack_required)])
    if not filters.time_range.is_open:
        yield _within(schema, filters.time_range)
    for field, name in (
        ("thread_id", filters.thread_id),
        ("sender_name", filters.sender_name),
        ("recipients", filters.recipient_name),
    ):
        if name is not None:
            yield named(field, name)
    if filters.agent_name is not None:
        roles = ROLES.get(filters.direction, ("sender_name", "recipients"))
        either = [(tantivy.Occur.Should, named(role, filters.agent_name)) for role in roles]
        yield tantivy.Query.boolean_query(either)


def _within(schema: tantivy.Schema, asked: TimeRange) -> tantivy.Query:
    """Match times between the bounds, both included, read from the fast field."""
    low = LEAST if asked.min_ts is None else asked.min_ts
    high = MOST if asked.max_ts is None else asked.max_ts
    if low > high or low > MOST or high < LEAST:
        return tantivy.Query.empty_query()
    return tantivy.Query.range_query(
        schema,
        SENT,
        tantivy.FieldType.Integer,
        lower_bound=max(low, LEAST),
        upper_bound=min(high, MOST),
    )


def among(schema: tantivy.Schema, field: str, values: Iterable[int]) -> tantivy.Query:
    """Match any of ``values`` of an integer field; an empty set matches nothing."""
    held = sorted(value for value in values if LEAST <= value <= MOST)
    return tantivy.Query.term_set_query(schema, field, held)


def matching(
    now: OpenIndex, query: tantivy.Query, ranking: RankingMode, depth: int
) -> list[MessageCandidate]:
    """Return one more than ``depth`` of what ``query`` finds, where there are so many."""
    if ranking is RankingMode.RELEVANCE:
        return candidates(ranked(now, query, depth + 1))
    ids = ranked(now, query, depth + 1, by=SENT).documents
    these = tantivy.Query.const_score_query(among(now.folder.schema, ID, ids), 0.0)
    both = tantivy.Query.boolean_query([(tantivy.Occur.Must, part) for part in (query, these)])
    score = dict(zip(*ranked(now, both, len(ids)), strict=True))
    return [MessageCandidate(message_id, score[message_id]) for message_id in ids]


def candidates(found: Columns) -> list[MessageCandidate]:
    """Return hits as candidates, in their order."""
    made = partial(tuple.__new__, MessageCandidate)  # half of the time of ``_make``
    return list(map(made, zip(found.documents, found.keys, strict=True)))


def listed(
    now: OpenIndex, query: tantivy.Query, ranking: RankingMode, depth: int
) -> list[MessageCandidate]:
    """Return one more than ``depth`` of what ``query`` finds, with score 0, by time or by id."""
    if ranking is RankingMode.RECENCY:
        ids = ranked(now, query, depth + 1, by=SENT).documents
    else:
        limit = min(depth + 1, max(1, now.searcher.num_docs))
        order = tantivy.Order.Asc
        hits = now.searcher.search(query, limit, count=False, order_by_field=ID, order=order).hits
        ids = [int(message_id) for message_id, _ in hits]
    return [MessageCandidate(message_id, 0.0) for message_id in ids]


def ranked(now: OpenIndex, query: tantivy.Query, k: int, by: str | None = None) -> Columns:
    """Return the ``k`` best messages by score, or by the field ``by``; equal ones by id."""
    if now.in_order:
        return first(now.searcher, query, k, ids=ID, by=by)
    return columns(now.searcher, query, k, schema=now.folder.schema, ids=ID, by=by)


def counted(searcher: tantivy.Searcher, query: tantivy.Query) -> int:
    """Count what ``query`` finds."""
    return int(searcher.search(query, 1).count)  # type: ignore[attr-defined]  # not in its stubs


def cut(
    candidates: Sequence[MessageCandidate], depth: int, method: str, normalized_query: str | None
) -> CandidateList:
    """Show at most ``depth`` candidates, and say whether there were more."""
    shown = tuple(candidates[:depth])
    return CandidateList(shown, len(candidates) == len(shown), method, normalized_query)


@dataclass(frozen=True, slots=True)
class Compiler:
    """Makes queries for one schema."""

    schema: tantivy.Schema
    analyzer: tantivy.TextAnalyzer
    weights: FieldCopies

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
            for token in dict.fromkeys(names(clause.text)):
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
        must = tantivy.Occur.Must
        return [tantivy.Query.boolean_query([(must, one) for one in (*before, any_of)])]


def _any(found: Sequence[tantivy.Query]) -> tantivy.Query | None:
    """Ask for any of several; None where there is none."""
    if len(found) <= 1:
        return found[0] if found else None
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in found])
