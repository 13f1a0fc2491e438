"""Read a whole log into a tally, and count what was left out and what was masked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.core.errors import BadFile
from harness.core.printable import many
from harness.corpus.querylog.clean import Cleaner, Entry, Left, plain
from harness.corpus.querylog.formats import FORMATS, Fields, Line, format_of, lines
from harness.corpus.querylog.masks import masked
from harness.corpus.querylog.tally import Tally
from harness.corpus.wording import normalised
from harness.shadow.log import streams
from harness.shadow.log.record import Divergence, Observation, query_key

SHADOW = "shadow"
"""Format of a folder that a live comparison wrote."""


@dataclass(slots=True)
class Counts:
    """What a log held."""

    format: str
    lines: int = 0
    requests: int = 0
    """Lines that count."""
    foreign: int = 0
    """Lines that are not UTF-8."""
    sessions: int = 0
    left: Counter[Left] = field(default_factory=Counter)
    masked: Counter[str] = field(default_factory=Counter)
    """Requests with personal data of each kind."""
    untold: int = 0
    """Requests of a shadow log whose text it does not keep, because both arms agreed."""


def count(path: Path, tally: Tally, kind: str, fields: Fields) -> Counts:
    """Clean, mask and count every line of a log.

    Raises:
        BadFile: the log cannot be read, most of its lines are malformed, or none has a query.
        UnknownName: ``kind`` is not a format.
    """
    counts = Counts(SHADOW if path.is_dir() else format_of(path, kind))
    cleaner, first_broken = Cleaner(), 0
    for line in _lines(path, counts, fields):
        counts.lines += 1
        counts.foreign += line.foreign
        if line.broken:
            counts.left[Left.BROKEN] += 1
            first_broken = first_broken or line.number
        elif why := _taken(line.entry, cleaner, tally, counts):
            counts.left[why] += 1
    counts.sessions = cleaner.sessions
    _check(path, counts, first_broken)
    return counts


def _taken(entry: Entry | None, cleaner: Cleaner, tally: Tally, counts: Counts) -> Left | None:
    """Count one entry; say why where it does not count."""
    if entry is None:
        return Left.NO_QUERY
    entry = entry._replace(text=plain(entry.text))
    if why := cleaner.left(entry):
        return why
    text, kinds = masked(entry.text)
    counts.requests += 1
    counts.masked.update(kinds)
    tally.add(normalised(text), text, masked=bool(kinds), results=entry.results)
    return None


def _lines(path: Path, counts: Counts, fields: Fields) -> Iterator[Line]:
    return _shadow(path, counts) if path.is_dir() else lines(path, counts.format, fields)


def _shadow(folder: Path, counts: Counts) -> Iterator[Line]:
    """Read the requests of a shadow log; the text of one is that of a divergence of its key."""
    texts = {query_key(d.text, d.params): d.text for d in streams.records(folder, Divergence)}
    seen: Iterable[Observation] = streams.records(folder, Observation)
    for one in seen:
        text = texts.get(one.query)
        if text is None:
            counts.untold += 1
            continue
        results = one.control.hits if one.control else None
        yield Line(one.number, Entry(text, results), broken=False, foreign=False)


def _check(path: Path, counts: Counts, first_broken: int) -> None:
    broken = counts.left[Left.BROKEN]
    if 2 * broken > counts.lines:
        raise BadFile(
            path,
            f"{broken} of {counts.lines} lines are not of the format {counts.format}",
            f"Name its format: --format with one of {', '.join(FORMATS)}.",
            first_broken,
        )
    if not counts.requests:
        why = "; ".join(f"{many(n, 'line')}: {left}" for left, n in counts.left.most_common(2))
        raise BadFile(
            path,
            f"none of its {many(counts.lines, 'line')} has a query ({why or 'it is empty'})",
            "Name where the query stands: --text NAME.",
        )
