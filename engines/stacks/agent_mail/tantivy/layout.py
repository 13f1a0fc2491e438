"""Whether messages lie in an index in the order of their ids; then ties come so by themselves.

Whoever writes the index notes among its files, by segment, between which ids it lies. A segment
never changes but for deletions, which move nothing, and its name is never used again. So a note is
never out of date; one that is missing costs time and no answer. Tantivy puts larger segments first,
so the order is that of an index built anew, and of one to which less and less was added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import tantivy

from engines.stacks.agent_mail.tantivy.files import Segment
from harness.core.formats import MAX_INDEX_BYTES, json_file

ORDER = "order.json"
CHUNK = 1 << 13
"""Ids read at once."""


class Span(NamedTuple):
    """The ids of the first and the last message of a segment in which they ascend."""

    first: int
    last: int


Spans = Mapping[str, Span | None]
"""By segment; None for one whose ids do not ascend."""


def noted(index: Path) -> Spans:
    """Read what is known of the segments in the folder ``index``; nothing where nothing is."""
    try:
        found = json_file(index / ORDER, most=MAX_INDEX_BYTES)
        return {name: None if ids is None else Span(*map(int, ids)) for name, ids in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def read(searcher: tantivy.Searcher, segments: Sequence[Segment], known: Spans) -> Spans:
    """Give what is ``known`` of ``segments``, in the searcher's order, and read what is not."""
    return {
        segment.name: known[segment.name]
        if segment.name in known
        else _span(_ids(searcher, at, segment.documents))
        for at, segment in enumerate(segments)
    }


def ascend(segments: Sequence[Segment], known: Spans) -> bool:
    """Tell whether ids are known to ascend within each segment and from one to the next.

    The last id of one may be the first of the next: then one of the two is deleted.
    """
    spans = [known.get(segment.name) for segment in segments]
    if not spans or None in spans:
        return False
    return all(one.last <= after.first for one, after in pairwise(filter(None, spans)))


def _span(ids: Iterable[int]) -> Span | None:
    first = last = None
    for number in ids:
        if last is not None and number < last:
            return None
        first, last = number if first is None else first, number
    return None if first is None or last is None else Span(first, last)


def _ids(searcher: tantivy.Searcher, segment: int, documents: int) -> Iterable[int]:
    """Read the ids of a segment in the order in which messages lie there, deleted ones too."""

    def part(low: int) -> list[Any]:
        high = min(low + CHUNK, documents)
        places = [tantivy.DocAddress(segment, at) for at in range(low, high)]
        return searcher.fast_field_values("message_id", places)

    return chain.from_iterable(map(part, range(0, documents, CHUNK)))
