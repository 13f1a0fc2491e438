"""How Tantivy splits text, and its best hits in an order that is always the same."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache
from itertools import compress, count, islice
from operator import eq, neg
from typing import Any, Literal, NamedTuple

import tantivy

from harness_engines.lexical.grammar import ClauseGroup
from harness_engines.lexical.terms import Clause, Occur

Language = Literal["none", "english"]
LONGEST_TERM_BYTES = 256


@cache
def analyzer(language: Language) -> tantivy.TextAnalyzer:
    """Split on all but letters and digits, lower-case, drop terms of 256 bytes and more."""
    builder = (
        tantivy
        .TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(LONGEST_TERM_BYTES))
        .filter(tantivy.Filter.lowercase())
    )
    if language == "english":
        builder = builder.filter(tantivy.Filter.stopword("english"))
        builder = builder.filter(tantivy.Filter.stemmer("english"))
    return builder.build()


OCCURS = {
    Occur.SHOULD: tantivy.Occur.Should,
    Occur.MUST: tantivy.Occur.Must,
    Occur.NOT: tantivy.Occur.MustNot,
}


def compiled(
    tree: ClauseGroup, one: Callable[[Clause], tantivy.Query | None]
) -> tantivy.Query | None:
    """Make a query of a tree, each clause by ``one``; None where no clause has a term."""
    made = (
        (part.occur, one(part) if isinstance(part, Clause) else compiled(part, one))
        for part in tree.parts
    )
    parts = [(OCCURS[occur], query) for occur, query in made if query is not None]
    if parts and all(occur == tantivy.Occur.MustNot for occur, _ in parts):
        if any(part.occur is not Occur.NOT for part in tree.parts):
            return None
        everything = tantivy.Query.const_score_query(tantivy.Query.all_query(), 0.0)
        parts.append((tantivy.Occur.Must, everything))
    if len(parts) == 1:
        return parts[0][1]
    return tantivy.Query.boolean_query(parts) if parts else None


def begun(schema: tantivy.Schema, field: str, start: str) -> tantivy.Query:
    """Match any word that begins with ``start``, each for the same score."""
    return tantivy.Query.fuzzy_term_query(schema, field, start, distance=0, prefix=True)


SLACK, SHARE = 16, 16
"""Hits that are fetched beyond those wanted, at the least and as one for each so many wanted; most
ties end within these."""
GROWTH = 4
LEAST, MOST = -(2**63), 2**63 - 1


class Columns(NamedTuple):
    """Hits in their order, shape (hits,) both; making an object of each costs more than finding."""

    documents: Sequence[int]
    keys: Sequence[float]


NONE = Columns((), ())


def columns(
    searcher: tantivy.Searcher,
    query: tantivy.Query,
    k: int,
    *,
    schema: tantivy.Schema | None,
    ids: str,
    by: str | None = None,
) -> Columns:
    """Return the ``k`` best hits, highest key first, equal keys by the integer fast field ``ids``.

    The key is the score, or the value of the fast field ``by`` where one is named. Documents
    without a number are left out. A ``k`` below 1 gives nothing; Tantivy itself panics there.
    Without a ``schema`` each document lies before all of higher numbers, as Tantivy gives them.
    """
    if k < 1:
        return NONE
    everything = max(1, searcher.num_docs)
    if schema is None:
        return _fetched(searcher, query, min(k, everything), ids, by)
    limit = min(k + max(SLACK, k // SHARE), everything)
    found = _fetched(searcher, query, limit, ids, by)
    ranked = _ranked(found)
    if len(found.keys) < limit or limit == everything or found.keys[-1] < found.keys[k - 1]:
        return Columns(ranked.documents[:k], ranked.keys[:k])
    edge = found.keys[-1]
    above = bisect_left(ranked.keys, -edge, key=neg)
    tied, wanted = ranked.documents[above:], k - above
    last = tied[wanted - 1] if len(tied) >= wanted else MOST
    known = set(tied[:wanted])
    for asked in (_up_to(query, schema, ids, last), query):
        more = _tied(searcher, asked, ids, by, limit=limit, edge=edge)
        if known <= more:
            break
    documents = [*ranked.documents[:above], *sorted(known | more)][:k]
    return Columns(documents, [*ranked.keys[:above], *[edge] * (len(documents) - above)])


def _tied(
    searcher: tantivy.Searcher,
    query: tantivy.Query,
    ids: str,
    by: str | None,
    *,
    limit: int,
    edge: float,
) -> set[int]:
    """Find all that have the key ``edge``, fetching more until the key drops below it."""
    while True:
        found = _fetched(searcher, query, limit, ids, by)
        if len(found.keys) < limit or found.keys[-1] < edge:
            known = _ranked(found)
            return {one for one, key in zip(*known, strict=True) if key == edge}
        limit *= GROWTH


def _fetched(
    searcher: tantivy.Searcher, query: tantivy.Query, limit: int, ids: str, by: str | None
) -> Columns:
    """Ask Tantivy, and read the numbers of what it finds, in its order."""
    hits = searcher.search(query, limit, count=False, order_by_field=by).hits
    if not hits:
        return NONE
    numbers: list[Any] = searcher.fast_field_values(ids, [address for _, address in hits])
    keys: list[Any] = [key for key, _ in hits]
    return Columns(numbers, keys)


def _up_to(query: tantivy.Query, schema: tantivy.Schema, ids: str, last: int) -> tantivy.Query:
    """Keep of ``query`` the documents of no higher number than ``last``, with their scores."""
    low = tantivy.Query.range_query(
        schema, ids, tantivy.FieldType.Integer, lower_bound=LEAST, upper_bound=last
    )
    must = tantivy.Occur.Must
    return tantivy.Query.boolean_query([
        (must, query),
        (must, tantivy.Query.const_score_query(low, 0.0)),
    ])


def _ranked(found: Columns) -> Columns:
    """Order equal keys by number; the keys descend already."""
    documents, keys = found
    if None in documents:
        there = [at for at, number in enumerate(documents) if number is not None]
        documents, keys = [documents[at] for at in there], [keys[at] for at in there]
    ordered = list(documents)
    start = end = 0
    for at in compress(count(), map(eq, keys, islice(keys, 1, None))):
        if at != end:
            ordered[start : end + 1] = sorted(ordered[start : end + 1])
            start = at
        end = at + 1
    ordered[start : end + 1] = sorted(ordered[start : end + 1])
    return Columns(ordered, keys)
