"""Columns by their names, where a table has a head."""

from __future__ import annotations

from collections.abc import Collection, Sequence

QUERY = frozenset({"queryid", "qid", "query", "topic", "topicid"})
DOCUMENT = frozenset({"corpusid", "docid", "docno", "documentid", "did", "doc", "document"})
GRADE = frozenset({"score", "relevance", "grade", "rel", "label", "rating", "judgment"})
TEXT = frozenset({"text", "querytext", "query", "title", "topic"})
ID = frozenset({"id", "queryid", "qid", "topicid", "num"})


def plain(name: str) -> str:
    """Give the form in which the names of a column are compared: ``Query-ID`` is ``queryid``."""
    return "".join(filter(str.isalnum, name.casefold()))


def places(head: Sequence[str], wanted: Sequence[Collection[str]]) -> tuple[int, ...] | None:
    """Find each wanted column in a head; None where one is missing or there are several."""
    names = [plain(name) for name in head]
    found = [[at for at, name in enumerate(names) if name in known] for known in wanted]
    unique = all(len(one) == 1 for one in found) and len({one[0] for one in found}) == len(found)
    return tuple(one[0] for one in found) if unique else None
