"""Requests of the ranking evaluation API of Elasticsearch and OpenSearch (``_rank_eval``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.core.errors import BadFile
from harness.core.files import json_text
from harness.core.formats import json_file
from harness.core.qrels import Qrels
from harness.core.reading import Malformed
from harness.core.records import Query
from harness.corpus.exchange.judged import Collector, Ratings, rows_of

TEXT = "query_string"
TEMPLATE = "search"
CUTOFF = 10
MATCHES = ("match", "match_phrase", "match_bool_prefix", "match_phrase_prefix")
"""Clauses that name a field, and then its words or an object with ``query``."""


def read(path: Path, text: str = "") -> Ratings:
    """Read the rated documents of each request.

    The text of a query is the value of the key ``text``, wherever it stands in the request; or
    else the one text that is searched for in it.

    Raises:
        BadFile: it is not such a request, a text is missing or not the only one, or a grade is not
            an integer.
    """
    collector = Collector(path)
    for at, request in enumerate(listed(path, "requests")):
        place = f"requests[{at}]"
        named = request.get("id")
        if not isinstance(named, str):
            raise collector.wrong(place, "has no id", 'Write "id" as a text.')
        found = sorted({*_texts(request, text)})
        if len(found) != 1:
            problem = f"its text is one of {found}" if found else "no text is searched for in it"
            hint = "Name the key that holds the text of the query: --text KEY."
            raise collector.wrong(place, problem, hint)
        query_id = collector.add_query(found[0], place, named)
        for row, rated in enumerate(within(collector, place, request)):
            inside = f"{place}.ratings[{row}]"
            collector.add_grade(query_id, str(rated.get("_id", "")), rated.get("rating"), inside)
    return collector.done()


def text(queries: Sequence[Query], qrels: Qrels, index: str) -> str:
    """Write a request that can be sent as it is, where documents have a title and a text."""
    fields = {"query": f"{{{{{TEXT}}}}}", "fields": ["title", "text"]}
    template = {"source": {"query": {"multi_match": fields}}}
    requests = [
        {
            "id": query.query_id,
            "template_id": TEMPLATE,
            "params": {TEXT: query.text},
            "ratings": [
                {"_index": index, "_id": doc_id, "rating": max(0, grade)}
                for doc_id, grade in judged
            ],
        }
        for query, judged in rows_of(qrels, queries)
    ]
    return json_text({
        "templates": [{"id": TEMPLATE, "template": template}],
        "requests": requests,
        "metric": {"dcg": {"k": CUTOFF, "normalize": True}},
    })


def listed(path: Path, key: str) -> list[dict[str, Any]]:
    """Read a file that is one JSON object, and give the objects that it lists under a key.

    Raises:
        BadFile: it is something else.
    """
    try:
        found = json_file(path)
    except Malformed as exc:
        raise BadFile(path, f"it is not JSON ({exc})", "Export it again.", exc.line) from exc
    except FileNotFoundError as exc:
        raise BadFile(path, "missing file", "Check the path.") from exc
    rows = found.get(key) if isinstance(found, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadFile(path, f"no list of objects {key!r}", "Give the body of the request.")
    return rows


def within(collector: Collector, place: str, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the ratings of one query.

    Raises:
        BadFile: they are not a list of objects.
    """
    rated = row.get("ratings")
    if not isinstance(rated, list) or not all(isinstance(one, dict) for one in rated):
        raise collector.wrong(place, "has no list of ratings", 'Write "ratings": [{...}].')
    return rated


def _texts(request: dict[str, Any], key: str) -> Iterator[str]:
    """Give the texts under a key, else all that the parameters or the search ask for."""
    if key:
        yield from _strings(node.get(key) for node in _objects(request))
        return
    params = request.get("params")
    yield from _strings(params.values() if isinstance(params, dict) else ())
    for node in _objects(request.get("request")):
        yield from _strings([node.get("query")])
        for name in MATCHES:
            clause = node.get(name)
            yield from _strings(clause.values() if isinstance(clause, dict) else ())


def _objects(found: object) -> Iterator[dict[str, Any]]:
    """Give every object inside a value, at any depth."""
    if isinstance(found, dict):
        yield found
    if isinstance(found, dict | list):
        for one in found.values() if isinstance(found, dict) else found:
            yield from _objects(one)


def _strings(found: Iterable[object]) -> Iterator[str]:
    return (one for one in found if isinstance(one, str))
