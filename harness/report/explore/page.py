"""``explore.html``: any two arms, query by query, in one file that loads nothing.

The data of each set lie in the page twice packed (gzip, base64): a table that is unpacked at once,
and the rankings, unpacked when the table stands. Queries and documents are untrusted input. The
script shows every text as text and is allowed only by its digest. The content security policy
(``default-src 'none'``) forbids every request.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass

import numpy as np
from markupsafe import Markup

from harness.core.errors import HarnessError
from harness.core.printable import one_line
from harness.core.run import Run, Status
from harness.report.explore.stages import Stages, stages
from harness.report.explore.values import values
from harness.report.html import TEMPLATES, environment, script_source
from harness.report.inputs import Latency, ReportInput
from harness.report.links import named
from harness.report.page.latency_tables import is_verified
from harness.report.page.merged import merged
from harness.report.page.moved import DEPTH, SNIPPET, TITLE, instead_of

EXCERPT = 2 * SNIPPET
"""Longest beginning of a document that is stored, in characters."""
BEST = 9
"""Of gzip: the page is written once and sent to many."""
PALETTE = re.compile(r":root \{\n(?P<light>.*?)\n\}\n.*?:root \{\n(?P<dark>.*?)\n  \}\n", re.DOTALL)
"""The colours of ``page.css``, light and dark."""


@dataclass(frozen=True, slots=True)
class Packed:
    """One data set, ready for the page."""

    number: int
    dataset: str
    values: Markup
    hits: Markup


def to_explorer(reports: Sequence[ReportInput]) -> str:
    """Give the page of all data sets; the same bytes for the same input and the same zlib."""
    script = (TEMPLATES / "explore.js").read_text(encoding="utf-8")
    base = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    style = base + themes(base) + (TEMPLATES / "explore.css").read_text(encoding="utf-8")
    text = (
        environment()
        .get_template("explore.html.j2")
        .render(
            datasets=tuple(map(_packed, reports, range(len(reports)))),
            script=Markup(script),  # noqa: S704  our own file
            style=Markup(style),  # noqa: S704  our own files
            script_source=Markup(script_source(script)),  # noqa: S704  our own digest
        )
    )
    return text.rstrip() + "\n"


def pack(value: object) -> Markup:
    """Write columns as JSON, gzip without a time, base64: letters that no page need escape."""
    text = json.dumps(value, default=_by_name, separators=(",", ":"), allow_nan=False)
    packed = base64.b64encode(gzip.compress(text.encode(), BEST, mtime=0))
    return Markup(packed.decode())  # noqa: S704  nothing but base64


def themes(style: str) -> str:
    """Give rules that hold a page to one of the two palettes of ``style``, for the screen.

    Raises:
        HarnessError: the palettes are unknown.
    """
    match = PALETTE.search(style)
    if match is None:
        raise HarnessError("page.css: begins without two palettes; see themes() in explore.py")
    rules = [
        f':root[data-theme="{name}"] {{\n{colours}\n  color-scheme: {name};\n}}\n'
        for name, colours in match.groupdict().items()
    ]
    return f"@media screen {{\n{''.join(rules)}}}\n"


def _packed(report: ReportInput, number: int) -> Packed:
    return Packed(
        number, named(report.provenance.dataset), pack(values(merged(report))), pack(hits(report))
    )


def _by_name(value: object) -> dict[str, object]:
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    raise TypeError(f"{type(value).__name__} has no place on the page")


@dataclass(frozen=True, slots=True)
class ArmHits:
    """What one arm showed; lists are by query."""

    lengths: list[int]
    """Hits among the first ten."""
    docs: list[int]
    """Those hits, query after query, best first: places in ``Hits.ids``."""
    found: list[int]
    """Hits in the whole ranking."""
    instead: dict[int, str]
    """Reason for a missing list, in words, by query."""
    ranks: list[int]
    """Rank of each judgement of ``Hits.judged`` in the whole ranking; 0 where it is not there."""
    deeper: list[int]
    """The same of what other arms show and this one does not, in the order of ``distinct``."""


@dataclass(frozen=True, slots=True)
class Times:
    """How long an arm took for the queries that were raced, in nanoseconds; lists are by query."""

    arm: int
    queries: list[int]
    median: list[int]
    low: list[int]
    high: list[int]
    again: list[int]
    """Median when the text came again; 0 where it did not."""
    processes: int


@dataclass(frozen=True, slots=True)
class Hits:
    """Everything about single queries of one data set."""

    snippet: int
    """Longest snippet, in characters."""
    ids: list[str]
    titles: list[str]
    texts: list[str | None]
    """None where the corpus has no such document."""
    lengths: list[int]
    """Judgements of each query that are listed: of what an arm shows, or relevant."""
    judged: list[int]
    grades: list[int]
    shown: list[ArmHits]
    """By arm."""
    distinct: list[int]
    """Documents of each query that some arm shows: those of the first arm, what the next adds..."""
    times: list[Times]
    unverified: list[int]
    """Arms whose times are not told: in the race they answered otherwise than in their run."""
    machine: str
    apart: list[Stages]


def hits(report: ReportInput) -> Hits:
    """Put rankings, judgements and documents into columns; each document is read once."""
    query_ids = tuple(report.queries)
    firsts = [_first(side.run, query_ids) for side in report.arms.values()]
    each = range(len(query_ids))
    seen = [tuple(dict.fromkeys(doc for first in firsts for doc in first[at])) for at in each]
    judged = [_judged(report, *one) for one in zip(query_ids, seen, strict=True)]
    needed = frozenset(doc_id for row in seen for doc_id in row)
    needed |= frozenset(doc_id for row in judged for doc_id in row)
    ids = sorted(needed)
    code = {doc_id: at for at, doc_id in enumerate(ids)}
    documents = report.documents(needed)
    found = [documents.get(doc_id) for doc_id in ids]
    latency = report.latency
    arms = list(report.arms)
    return Hits(
        snippet=SNIPPET,
        ids=[one_line(doc_id, TITLE) for doc_id in ids],
        titles=[one_line(one.title, TITLE) if one else "" for one in found],
        texts=[one_line(one.text, EXCERPT) if one else None for one in found],
        lengths=[len(row) for row in judged],
        judged=[code[doc_id] for row in judged for doc_id in row],
        grades=[grade for row in judged for grade in row.values()],
        shown=[_shown(side.run, query_ids, code, judged, seen) for side in report.arms.values()],
        distinct=list(map(len, seen)),
        times=_times(latency, arms, query_ids) if latency else [],
        unverified=[
            at
            for at, arm in enumerate(arms)
            if latency and arm in latency.race.elapsed_ns and not is_verified(latency, arm)
        ],
        machine=named(latency.race.machine) if latency else "",
        apart=stages(report),
    )


def _first(run: Run, query_ids: Sequence[str]) -> list[tuple[str, ...]]:
    """Give the first ten of every query."""
    asked = run.positions
    found = run.rankings([query_id for query_id in query_ids if query_id in asked], DEPTH)
    return [found.get(query_id, ()) for query_id in query_ids]


def _judged(report: ReportInput, query_id: str, seen: Collection[str]) -> dict[str, int]:
    """Grades of what some arm shows and of what is relevant, the best first."""
    grades = report.qrels.grades.get(query_id, {})
    listed = {doc: grade for doc, grade in grades.items() if grade > 0 or doc in seen}
    return dict(sorted(listed.items(), key=lambda one: (-one[1], one[0])))


def _shown(
    run: Run,
    query_ids: Sequence[str],
    code: Mapping[str, int],
    judged: Sequence[Mapping[str, int]],
    seen: Sequence[Sequence[str]],
) -> ArmHits:
    at = run.positions
    ends, docs = run.offsets.tolist(), run.docs.tolist()
    told = ArmHits(lengths=[], docs=[], found=[], instead={}, ranks=[], deeper=[])
    for number, query_id in enumerate(query_ids):
        row = at.get(query_id)
        if row is None:
            told.instead[number] = instead_of(Status.NOT_ASKED, "")
            ranking = []
        else:
            ranking = [run.vocabulary[doc] for doc in docs[ends[row] : ends[row + 1]]]
            if not ranking:
                told.instead[number] = instead_of(Status(run.status[row]), run.errors[row])
        first = ranking[:DEPTH]
        rank = {doc_id: place for place, doc_id in enumerate(ranking, start=1)}
        told.lengths.append(len(first))
        told.docs.extend(code[doc_id] for doc_id in first)
        told.found.append(len(ranking))
        told.ranks.extend(rank.get(doc_id, 0) for doc_id in judged[number])
        told.deeper.extend(rank.get(doc_id, 0) for doc_id in seen[number] if doc_id not in first)
    return told


def _times(latency: Latency, arms: Sequence[str], query_ids: Sequence[str]) -> list[Times]:
    """Tell the times by query of the arms whose rankings were verified (method, section 5)."""
    race = latency.race
    row = {query_id: at for at, query_id in enumerate(query_ids)}
    known = [at for at, query_id in enumerate(race.query_ids) if query_id in row]
    found = []
    for number, arm in enumerate(arms):
        if not is_verified(latency, arm) or arm not in race.elapsed_ns:
            continue
        times = race.elapsed_ns[arm][:, known]
        again = _middle(race.repeated_ns[arm])
        found.append(
            Times(
                arm=number,
                queries=[row[race.query_ids[at]] for at in known],
                median=_middle(times),
                low=times.min(axis=0).tolist(),
                high=times.max(axis=0).tolist(),
                again=[again[at] if at < len(again) else 0 for at in known],
                processes=len(times),
            )
        )
    return found


def _middle(times: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> list[int]:
    return [int(value) for value in np.median(times, axis=0)]
