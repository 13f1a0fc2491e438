"""The explorer: any two arms, query by query, in one file that loads nothing."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace as Columns

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
from harness.report.explorer_stages import stages
from harness.report.html import TEMPLATES, environment, named, script_source
from harness.report.inputs import Latency, ReportInput
from harness.report.page.cards import merged, paired
from harness.report.page.queries import DEPTH, DIGITS, QUERY, SNIPPET, TITLE, instead_of
from harness.report.page.tables import measures_of
from harness.report.page.view import ALIKE
from harness.report.rounding import for_json

JACCARD = "Jaccard@"
Column = list[int]
"""By query: a place in the list of numbers, or -1 less a place in that of reasons."""
Ends = tuple[float | None, float | None, float | None, int]
"""A mean, both ends of its interval, and its number of queries; None for an open end."""


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


def values(report: ReportInput) -> Columns:
    """Collect everything that was measured of each query; lists are by query if nothing is said."""
    queries = tuple(report.queries.values())
    once = _Once({query.query_id: at for at, query in enumerate(queries)})
    arms = list(report.arms)
    slices = sorted({name for query in queries for name in query.slices})
    order = measures_of(report.means, report.measure) if report.means else ()
    measures = list(dict.fromkeys((report.measure, *order)))
    return Columns(
        dataset=named(report.provenance.dataset),
        place=report.place,  # command-line options that name the data; empty if unknown
        measures=measures,
        arms=list(map(named, arms)),
        slices=list(map(named, slices)),
        ids=[named(query.query_id) for query in queries],
        texts=[one_line(query.text, QUERY) for query in queries],
        params=[_params(query) for query in queries],
        # the slices that a query is in
        parts=[sorted(slices.index(name) for name in set(query.slices)) for query in queries],
        # documents judged relevant; -1 where nothing was judged
        relevant=[_relevant(report, query) for query in queries],
        status=[_status(report, arm, queries) for arm in arms],
        # by arm and measure, as are means; by slice before
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
) -> Columns:
    """Collect two arms that the policy compares."""
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
    return Columns(
        name=named(name),
        control=arms.index(found.control.arm),
        candidate=arms.index(found.candidate.arm),
        depth=_deepest(found.agreement),
        # places in the list of classes, of the candidate and of the A/A run; -1 for none
        classes=once.classified(found.agreement),
        noise=once.classified(found.noise),
        alike=once.column(found.agreement.scores.get(ALIKE)),
        shown=shown,  # what moved a query: documents, and order
        order=order,
        # by measure; of the first measure by slice
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


def to_explorer(reports: Sequence[ReportInput]) -> str:
    """Return the page of all data sets; the same bytes for the same input and the same zlib."""
    script = (TEMPLATES / "explore.js").read_text(encoding="utf-8")
    base = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    style = base + themes(base) + (TEMPLATES / "explore.css").read_text(encoding="utf-8")
    text = (
        environment()
        .get_template("explore.html.j2")
        .render(
            datasets=[
                Columns(
                    number=at,
                    dataset=named(report.provenance.dataset),
                    values=pack(values(merged(report))),
                    hits=pack(hits(report)),
                )
                for at, report in enumerate(reports)
            ],
            script=Markup(script),  # noqa: S704  our own file
            style=Markup(style),  # noqa: S704  our own files
            script_source=Markup(script_source(script)),  # noqa: S704  our own digest
        )
    )
    return text.rstrip() + "\n"


def pack(value: object) -> Markup:
    """Write columns as JSON, gzip without a time, base64: letters that no page need escape."""
    text = json.dumps(value, default=vars, separators=(",", ":"), allow_nan=False)
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


def hits(report: ReportInput) -> Columns:
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
    return Columns(
        snippet=SNIPPET,
        ids=[one_line(doc_id, TITLE) for doc_id in ids],
        titles=[one_line(one.title, TITLE) if one else "" for one in found],
        texts=[one_line(one.text, EXCERPT) if one else None for one in found],
        # judgements of each query that are listed: of what an arm shows, or relevant
        lengths=[len(row) for row in judged],
        judged=[code[doc_id] for row in judged for doc_id in row],
        grades=[grade for row in judged for grade in row.values()],
        shown=[_shown(side.run, query_ids, code, judged, seen) for side in report.arms.values()],
        # documents of each query that some arm shows: the first arm's, what the next adds, ...
        distinct=list(map(len, seen)),
        times=_times(latency, arms, query_ids) if latency else [],
        # arms whose times are not told: in the race they answered otherwise than in their run
        unverified=[
            at
            for at, arm in enumerate(arms)
            if latency and arm in latency.race.elapsed_ns and not latency.is_verified(arm)
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
) -> Columns:
    """Collect what one arm showed: its first ten, and ranks in its whole ranking, 0 for none.

    ``ranks`` are of the judged documents, ``deeper`` of those that other arms show and it does not.
    """
    at = run.positions
    ends, docs = run.offsets.tolist(), run.docs.tolist()
    told = Columns(lengths=[], docs=[], found=[], instead={}, ranks=[], deeper=[])
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


def _times(latency: Latency, arms: Sequence[str], query_ids: Sequence[str]) -> list[Columns]:
    """Collect nanoseconds by query of the arms whose rankings were verified (method, section 5)."""
    race = latency.race
    row = {query_id: at for at, query_id in enumerate(query_ids)}
    known = [at for at, query_id in enumerate(race.query_ids) if query_id in row]
    found = []
    for number, arm in enumerate(arms):
        if not latency.is_verified(arm) or arm not in race.elapsed_ns:
            continue
        times = race.elapsed_ns[arm][:, known]
        again = _middle(race.repeated_ns[arm])
        found.append(
            Columns(
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
