"""What every answer owes: who gave it, known ids, finite scores, one order, at most k hits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from harness.core.engine import Hit
from harness.core.printable import many
from harness.stages.contract.check import Check
from harness.stages.contract.documents import EQUAL, EQUAL_TEXT
from harness.stages.contract.subject import QueryOutcome, Subject, ask, quoted

EMPTY: Mapping[str, str] = {
    "empty": "",
    "a space": " ",
    "NUL": "\0",
    "half a surrogate pair": "\ud800",
}
"""Texts of which nothing is left to search for."""
HOSTILE: Mapping[str, str] = {
    "white space": " \t\n\u00a0\u2003",
    "one quote": '"',
    "three quotes": '"""',
    "open quote": '"water rises',
    "empty phrase": '""',
    "operators alone": "AND OR NOT",
    "operators around a word": "NOT AND water OR",
    "operators one after another": "NOT NOT NOT not",
    "query language": "a:b^~*",
    "a column": "title:water",
    "a function": "NEAR(water sea, 5)",
    "brackets": "((((water",
    "a range": "[a TO z] {1 TO *}",
    "SQL": "'; DROP TABLE search; --",
    "NUL within": "water\0sea",
    "emoji": "😀",
    "joined emoji": "👩\u200d👩\u200d👧\u200d👦",
    "CJK": "東京",
    "right to left": "\u202e\u05e9\u05dc\u05d5\u05dd",
    "combining marks": "\u0301\u0301 e\u0301",
    "a word newer than SQLite": "\U0001e900\U0001e901",
    "half a surrogate pair in words": "water \udfff sea",
    "punctuation": "!?.,;:-_/\\|@#$%^&*()[]{}<>~`",
    "a minus": "-",
    "a plus": "+",
    "minus and a word": "-water",
    "minus and a phrase": '-"water rises" +',
    "plus and a quote": '+"',
    "both signs": "+-water -+sea",
    "a wildcard": "wat*",
    "a number": "-1e309 0x7f NaN inf",
}
FEWER = (1, 2, 5)
MORE = (1, 10**4, 10**9)
"""Hits asked for beyond the number of documents."""


def every_answer(one: QueryOutcome, subject: Subject) -> Iterator[str]:
    """Yield what is wrong with one answer, by all that every answer owes."""
    if one.error:
        yield f"{one}: {one.error}"
    for wrong in _of_hits(one.hits, subject.known):
        yield f"{one}: {wrong}"
    yield from _identity(one, subject)


def _of_hits(hits: Sequence[Hit], known: frozenset[str]) -> Iterator[str]:
    for wrong in (_ids(hits, known), _scores(hits), _order(hits), _by_id(hits)):
        yield from wrong


def errors(subject: Subject) -> Iterator[str]:
    """Yield each query that raised, with its error."""
    for one in subject.asked:
        if one.error:
            yield f"{one}: {one.error}"


def _finds(subject: Subject) -> Iterator[str]:
    if not any(one.hits for one in subject.answered()):
        yield f"none of {len(subject.asked)} queries with words of the documents has a hit"


def _identities(subject: Subject) -> Iterator[str]:
    for one in subject.answered():
        yield from _identity(one, subject)


def _identity(one: QueryOutcome, subject: Subject) -> Iterator[str]:
    own = subject.built.fingerprint
    if one.answer and one.answer.served_by != own:
        yield f"{one}: served by {one.answer.served_by[:12]!r}, the index is {own[:12]!r}"


def _ids(hits: Iterable[Hit], known: frozenset[str]) -> Iterator[str]:
    for doc_id, times in Counter(hit.doc_id for hit in hits).items():
        if doc_id not in known:
            yield f"{doc_id!r} is the id of no document"
        if times > 1:
            yield f"{doc_id!r} is shown {times} times"


def _scores(hits: Iterable[Hit]) -> Iterator[str]:
    for hit in hits:
        if not (0.0 <= hit.score <= 1.0 and math.isfinite(hit.raw_score)):
            yield f"{hit.doc_id!r} has the score {hit.score!r} (raw {hit.raw_score!r})"


def _order(hits: Iterable[Hit]) -> Iterator[str]:
    for before, after in pairwise(hits):
        if before.score < after.score:
            yield f"{after.doc_id!r} ({after.score:.6g}) stands below {before.score:.6g}"


def _each(subject: Subject, wrong: Callable[[QueryOutcome], Iterator[str]]) -> Iterator[str]:
    """Yield what is wrong with each answer that can be read, with its query."""
    for one in subject.answered():
        for said in wrong(one):
            yield f"{one}: {said}"


def _by_id(hits: Iterable[Hit]) -> Iterator[str]:
    for before, after in pairwise(hits):
        if before.score == after.score and before.doc_id > after.doc_id:
            yield f"{before.doc_id!r} stands before {after.doc_id!r}, with equal scores"


def _equal_documents(subject: Subject) -> Iterator[str]:
    for k in (len(EQUAL), 1):
        one = ask(subject.searcher, EQUAL_TEXT, k)
        found = tuple(hit.doc_id for hit in one.hits)
        if found != EQUAL[:k]:
            yield f"{one}: shows {list(found)} instead of {list(EQUAL[:k])}"


def _k(subject: Subject) -> Iterator[str]:
    for most in subject.answered():
        for k in FEWER:
            few = ask(subject.searcher, most.text, k)
            if few.error or _named(few) != _named(most, k):
                seen = few.error or f"shows {_named(few)}"
                yield f"{few}: {seen}, the first of k = {most.k} are {_named(most, k)}"


def _more(subject: Subject) -> Iterator[str]:
    text = subject.answered()[0].text
    for k in MORE:
        yield from every_answer(ask(subject.searcher, text, len(subject.documents) + k), subject)


def _hostile(subject: Subject) -> Iterator[str]:
    for name, text in HOSTILE.items():
        for wrong in every_answer(ask(subject.searcher, text, 5), subject):
            yield f"{name}: {wrong}"


def _long(subject: Subject) -> Iterator[str]:
    for name, text in long(subject.long_words).items():
        for wrong in every_answer(ask(subject.searcher, text, 5), subject):
            yield f"{name}, {len(text):,} characters: {wrong}"


def _empty(subject: Subject) -> Iterator[str]:
    for name, text in EMPTY.items():
        one = ask(subject.searcher, text, 10)
        yield from every_answer(one, subject)
        if one.hits:
            yield f"{name}, {quoted(text)}: shows {many(len(one.hits), 'document')}"


def _named(one: QueryOutcome, k: int | None = None) -> list[str]:
    return [hit.doc_id for hit in one.hits[:k]]


RETURN = "Let search return Answer(hits, self.manifest.fingerprint) with a tuple of Hit"
BY_BEST = "Order by (-score, doc_id) and cut after that: engines.ranking.order.by_best does both"
SANITISE = "Quote or remove what your parser reads as syntax before it sees the text"
CHECKS = (
    Check("answers", "Every query gets an Answer.", RETURN, errors),
    Check(
        "finds",
        "A query with words of a document finds something.",
        "Check that build writes every document and that search reads what build wrote",
        _finds,
    ),
    Check(
        "identity",
        "Each answer carries the fingerprint of the index that is open.",
        "Give self.manifest.fingerprint as served_by, and raise instead of falling back",
        _identities,
    ),
    Check(
        "ids",
        "Each hit is a document of the corpus and is shown once.",
        "Give the doc_id of the document, and keep its best part where it has several",
        lambda subject: _each(subject, lambda one: _ids(one.hits, subject.known)),
    ),
    Check(
        "scores",
        "Scores are finite and between 0 and 1.",
        "Divide by the best score of the query: engines.ranking.order.by_best does it",
        lambda subject: _each(subject, lambda one: _scores(one.hits)),
    ),
    Check(
        "order",
        "The highest score comes first.",
        BY_BEST,
        lambda subject: _each(subject, lambda one: _order(one.hits)),
    ),
    Check(
        "ties",
        "Equal scores are ordered by document id.",
        BY_BEST,
        lambda subject: _each(subject, lambda one: _by_id(one.hits)),
    ),
    Check(
        "equal documents",
        "Documents with the same text come by id, also where the list is cut between them.",
        BY_BEST,
        _equal_documents,
        own_documents=True,
    ),
    Check(
        "k",
        "A shorter list is the beginning of a longer one, and never longer than k.",
        BY_BEST,
        _k,
    ),
    Check(
        "more than all",
        "k may be larger than the number of documents.",
        "Limit k to the number of documents before you allocate or search",
        _more,
    ),
    Check(
        "empty text",
        "A text without a character to search for finds nothing.",
        "Return Answer((), self.manifest.fingerprint) where nothing is left of the text",
        _empty,
    ),
    Check("hostile text", "No text is an error.", SANITISE, _hostile),
    Check(
        "long text",
        "No length is an error.",
        "Search for the first words only where your engine has a limit",
        _long,
    ),
)


def long(words: int) -> Mapping[str, str]:
    """Write texts of that many words, or of about a hundred characters for each."""
    many = [f"word{at}" for at in range(words)]
    return {
        "words": " ".join(many),
        "a phrase": '"' + " ".join(many) + '"',
        "words joined": "-".join(many),
        "required words": "+" + " +".join(many),
        "excluded words": "-" + " -".join(many),
        "one word": "x" * (100 * words),
        "quotes": '"' * (100 * words),
        "plus signs": "+" * (100 * words),
        "text": "the water rises twice a day " * (4 * words),
    }
