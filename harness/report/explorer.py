"""The explorer: any two arms, query by query, in one file that loads nothing."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass

import numpy as np
from markupsafe import Markup

from harness.core.errors import HarnessError
from harness.core.evidence import Agreement
from harness.core.printable import one_line
from harness.core.records import Query
from harness.core.run import Run, Status
from harness.core.scores import Estimate, Scores
from harness.measures.decompose import decompose
from harness.report.doc import NOT_MEASURED
from harness.report.explorer_stages import Stages, stages
from harness.report.html import TEMPLATES, environment, named, script_source
from harness.report.inputs import Latency, ReportInput
from harness.report.page.cards import merged, paired
from harness.report.page.figures import is_verified
from harness.report.page.queries import DEPTH, DIGITS, QUERY, SNIPPET, TITLE, instead_of
from harness.report.page.tables import measures_of
from harness.report.page.view import ALIKE
from harness.report.rounding import for_json

JACCARD = "Jaccard@"
Column = list[int]
"""By query: a place in ``Values.numbers``, or -1 less a place in ``Values.reasons``."""
Ends = tuple[float | None, float | None, float | None, int]
"""A mean, both ends of its interval, and its number of queries; None for an open end."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Two arms that the policy compares."""

    name: str
    control: int
    candidate: int
    depth: int
    """Hits that the classes look at: the deepest that was compared; 0 where nothing says so."""
    classes: Column
    """By query, a place in ``Values.classes``; -1 where it was not classified."""
    noise: Column
    """The same for the A/A run of the control."""
    alike: Column
    shown: Column
    order: Column
    """What moved a query: by what is shown and by its order (``harness.measures.decompose``)."""
    differences: list[Ends | None]
    """By measure."""
    slices: list[Ends | None]
    """By slice, of the first measure."""


@dataclass(frozen=True, slots=True)
class Values:
    """What the table of one data set is made of; lists are by query where nothing else is said."""

    dataset: str
    place: str
    """Command-line options that name the data; empty if unknown."""
    measures: list[str]
    """The one that people look at first is first."""
    arms: list[str]
    numbers: list[float | None]
    reasons: list[str]
    classes: list[str]
    slices: list[str]
    ids: list[str]
    texts: list[str]
    params: list[str]
    """What was set beside the text, in words."""
    parts: list[list[int]]
    """The slices that a query is in."""
    relevant: list[int]
    """Documents judged relevant; -1 where nothing was judged."""
    status: list[list[int]]
    """By arm, a ``Status`` each."""
    scores: list[list[Column]]
    """By arm and measure."""
    means: list[list[Ends | None]]
    """By arm and measure."""
    slice_means: list[list[list[Ends | None]]]
    """By slice, arm and measure."""
    compared: list[Compared]


@dataclass(slots=True)
class _Once:
    """Numbers, reasons and classes in the order in which they came, each once."""

    rows: Mapping[str, int]
    """Row of each query."""
    numbers: dict[float | None, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)

    def column(self, scores: Scores | None) -> Column:
        """Code one measure of one arm."""
        missing = self._reason(NOT_MEASURED)
        found = [missing] * len(self.rows)
        if scores is None:
            return found
        for why, query_ids in scores.undefined.items():
            reason = self._reason(why.replace("_", " "))
            for query_id in query_ids:
                if query_id in self.rows:
                    found[self.rows[query_id]] = reason
        return self.put(found, scores.query_ids, scores.values.tolist())

    def put(self, column: Column, query_ids: Sequence[str], values: Sequence[float]) -> Column:
        """Write values into a column, by query id."""
        for query_id, value in zip(query_ids, values, strict=True):
            if query_id in self.rows:
                code = self.numbers.setdefault(for_json(value), len(self.numbers))
                column[self.rows[query_id]] = code
        return column

    def classified(self, by: Agreement) -> Column:
        """Code the class of each query."""
        column = [-1] * len(self.rows)
        for query_id, said in zip(by.query_ids, by.classes, strict=True):
            if query_id in self.rows:
                column[self.rows[query_id]] = self.classes.setdefault(said, len(self.classes))
        return column

    def _reason(self, why: str) -> int:
        return -1 - self.reasons.setdefault(why, len(self.reasons))


def values(report: ReportInput) -> Values:
    """Collect everything that was measured of each query in columns."""
    queries = tuple(report.queries.values())
    once = _Once({query.query_id: at for at, query in enumerate(queries)})
    arms = list(report.arms)
    slices = sorted({name for query in queries for name in query.slices})
    order = measures_of(report.means, report.measure) if report.means else ()
    measures = list(dict.fromkeys((report.measure, *order)))
    return Values(
        dataset=named(report.provenance.dataset),
        place=report.place,
        measures=measures,
        arms=list(map(named, arms)),
        slices=list(map(named, slices)),
        ids=[named(query.query_id) for query in queries],
        texts=[one_line(query.text, QUERY) for query in queries],
        params=[_params(query) for query in queries],
        parts=[sorted(slices.index(name) for name in set(query.slices)) for query in queries],
        relevant=[_relevant(report, query) for query in queries],
        status=[_status(report, arm, queries) for arm in arms],
        scores=[
            [once.column(report.arms[arm].scores.get(name)) for name in measures] for arm in arms
        ],
        means=[[ends(report.means.get(arm, {}).get(m)) for m in measures] for arm in arms],
        slice_means=[
            [
                [ends(report.slice_means.get(part, {}).get(arm, {}).get(m)) for m in measures]
                for arm in arms
            ]
            for part in slices
        ],
        compared=[
            _compared(report, name, once, measures, slices)
            for name, found in report.evidence.items()
            if found.control.arm in report.arms and found.candidate.arm in report.arms
        ],
        numbers=list(once.numbers),
        reasons=list(map(named, once.reasons)),
        classes=list(map(named, once.classes)),
    )


def ends(estimate: Estimate | None) -> Ends | None:
    """Cut an estimate for the page; None stays None."""
    if estimate is None:
        return None
    return for_json(estimate.value), for_json(estimate.low), for_json(estimate.high), estimate.n


def _compared(
    report: ReportInput, name: str, once: _Once, measures: Sequence[str], slices: Sequence[str]
) -> Compared:
    found = report.evidence[name]
    shown, order = once.column(None), once.column(None)
    pairs = paired(found, report.measure)
    moved = np.flatnonzero(pairs.difference) if pairs else ()
    if pairs and len(moved):
        ids = [pairs.query_ids[at] for at in moved]
        parts = decompose(found.control.run, found.candidate.run, report.qrels, report.measure, ids)
        once.put(shown, ids, parts.shown.round(DIGITS).tolist())
        once.put(order, ids, parts.order.round(DIGITS).tolist())
    arms = list(report.arms)
    return Compared(
        name=named(name),
        control=arms.index(found.control.arm),
        candidate=arms.index(found.candidate.arm),
        depth=_deepest(found.agreement),
        classes=once.classified(found.agreement),
        noise=once.classified(found.noise),
        alike=once.column(found.agreement.scores.get(ALIKE)),
        shown=shown,
        order=order,
        differences=[ends(report.differences.get(name, {}).get(m)) for m in measures],
        slices=[ends(report.slice_differences.get(name, {}).get(part)) for part in slices],
    )


def _deepest(agreement: Agreement) -> int:
    """Return the deepest k of the ``Jaccard@k`` of an agreement (``harness.agreement``)."""
    cut = [name.removeprefix(JACCARD) for name in agreement.scores if name.startswith(JACCARD)]
    return max(map(int, cut), default=0)


def _params(query: Query) -> str:
    said = ", ".join(f"{name} = {value}" for name, value in sorted(query.params.items()))
    return one_line(said, QUERY)


def _relevant(report: ReportInput, query: Query) -> int:
    grades = report.qrels.grades.get(query.query_id)
    return -1 if grades is None else sum(grade > 0 for grade in grades.values())


def _status(report: ReportInput, arm: str, queries: Sequence[Query]) -> list[int]:
    run = report.arms[arm].run
    at = run.positions
    found = run.status.tolist()
    return [
        found[at[query.query_id]] if query.query_id in at else int(Status.NOT_ASKED)
        for query in queries
    ]


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
    """Return the page of all data sets; the same bytes for the same input and the same zlib."""
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
    """Return rules that hold a page to one of the two palettes of ``style``, for the screen."""
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
    """Collect rankings, judgements and documents in columns; each document is read once."""
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
    """Return the first ten of every query."""
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
    """Describe the times by query of the arms whose rankings were verified (method, section 5)."""
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
