"""The explorer: any two arms, query by query, in one file that loads nothing."""

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, repeat
from types import SimpleNamespace as Columns

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from harness.core.evidence import Agreement
from harness.core.printable import one_line
from harness.core.records import Query
from harness.core.run import Run, Status
from harness.core.scores import Estimate, Scores
from harness.measures.columns import EncodedQrels
from harness.measures.decompose import decompose
from harness.measures.missing_judgements import Floats, Rows, hits_within
from harness.report.doc import NOT_MEASURED
from harness.report.explorer_stages import stages
from harness.report.html import TEMPLATES, environment, named, script_source
from harness.report.inputs import Latency, ReportInput
from harness.report.page import tables
from harness.report.page.cards import merged, paired
from harness.report.rounding import for_json

JACCARD = "Jaccard@"
Column = Rows
"""Shape (queries,): a place in the list of numbers, or -1 less a place in that of reasons."""
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
        found = np.full(len(self.rows), self._reason(NOT_MEASURED))
        if scores is None:
            return found
        for why, query_ids in scores.undefined.items():
            at, _ = self._places(query_ids)
            found[at] = self._reason(why.replace("_", " "))
        return self.put(found, scores.query_ids, scores.values)

    def put(self, column: Column, query_ids: Sequence[str], values: Floats) -> Column:
        """Write values into a column, by query id."""
        at, known = self._places(query_ids)
        values = values[known]
        _, first, of = np.unique(values, return_index=True, return_inverse=True)
        codes = np.zeros(len(first), dtype=np.int64)
        for each in np.argsort(first).tolist():
            number = for_json(float(values[first[each]]))
            codes[each] = self.numbers.setdefault(number, len(self.numbers))
        column[at] = codes[of]
        return column

    def classified(self, by: Agreement) -> Column:
        """Code the class of each query."""
        column = np.full(len(self.rows), -1)
        at, known = self._places(by.query_ids)
        names = compress(by.classes, known.tolist())
        column[at] = [self.classes.setdefault(name, len(self.classes)) for name in names]
        return column

    def _places(self, query_ids: Sequence[str]) -> tuple[Column, NDArray[np.bool_]]:
        """Rows of those queries that the report has, and which of the given ones these are."""
        at = np.fromiter(map(self.rows.get, query_ids, repeat(-1)), np.int64, len(query_ids))
        known = at >= 0
        return at[known], known

    def _reason(self, why: str) -> int:
        return -1 - self.reasons.setdefault(why, len(self.reasons))


def values(report: ReportInput) -> Columns:
    """Collect everything that was measured of each query; lists are by query if nothing is said."""
    queries = tuple(report.queries.values())
    once = _Once({query.query_id: at for at, query in enumerate(queries)})
    arms = list(report.arms)
    slices = sorted({name for query in queries for name in query.slices})
    order = tables.measures_of(report.means, report.measure) if report.means else ()
    measures = list(dict.fromkeys((report.measure, *order)))
    return Columns(
        dataset=named(report.dataset),
        place=report.place,  # command-line options that name the data; empty if unknown
        measures=measures,
        arms=list(map(named, arms)),
        slices=list(map(named, slices)),
        ids=[named(query.query_id) for query in queries],
        texts=[one_line(query.text, tables.QUERY) for query in queries],
        params=[
            one_line(
                ", ".join(f"{name} = {v}" for name, v in sorted(query.params.items())), tables.QUERY
            )
            for query in queries
        ],
        # the slices that a query is in
        parts=[sorted(slices.index(name) for name in set(query.slices)) for query in queries],
        # documents judged relevant; -1 where nothing was judged
        relevant=[
            -1 if grades is None else sum(grade > 0 for grade in grades.values())
            for grades in (report.qrels.grades.get(query.query_id) for query in queries)
        ],
        status=[_status(report.arms[arm].run, queries) for arm in arms],
        # by arm and measure, as are means; by slice before
        scores=[
            [once.column(report.arms[arm].scores.get(name)).tolist() for name in measures]
            for arm in arms
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
        once.put(shown, ids, parts.shown.round(tables.DIGITS))
        once.put(order, ids, parts.order.round(tables.DIGITS))
    arms = list(report.arms)
    cut = (n.removeprefix(JACCARD) for n in found.agreement.scores if n.startswith(JACCARD))
    return Columns(
        name=named(name),
        control=arms.index(found.control.arm),
        candidate=arms.index(found.candidate.arm),
        depth=max(map(int, cut), default=0),  # the deepest k of ``Jaccard@k``
        # places in the list of classes, of the candidate and of the A/A run; -1 for none
        classes=once.classified(found.agreement).tolist(),
        noise=once.classified(found.noise).tolist(),
        alike=once.column(found.agreement.scores.get(tables.ALIKE)).tolist(),
        shown=shown.tolist(),  # what moved a query: documents, and order
        order=order.tolist(),
        # by measure; of the first measure by slice
        differences=[ends(report.differences.get(name, {}).get(m)) for m in measures],
        slices=[ends(report.slice_differences.get(name, {}).get(part)) for part in slices],
    )


def _status(run: Run, queries: Sequence[Query]) -> list[int]:
    found = {query_id: int(run.status[at]) for query_id, at in run.positions.items()}
    return [found.get(query.query_id, int(Status.NOT_ASKED)) for query in queries]


def to_explorer(reports: Sequence[ReportInput]) -> str:
    """Return the page of all data sets; the same bytes for the same input and the same zlib."""
    script = (TEMPLATES / "explore.js").read_text(encoding="utf-8")
    style = "".join((TEMPLATES / f"{name}.css").read_text("utf-8") for name in ("page", "explore"))
    text = (
        environment()
        .get_template("explore.html.j2")
        .render(
            datasets=[
                Columns(
                    number=at,
                    dataset=named(report.dataset),
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
    packed = base64.b64encode(gzip.compress(text.encode(), 9, mtime=0))  # written once, sent often
    return Markup(packed.decode())  # noqa: S704  nothing but base64


def hits(report: ReportInput) -> Columns:
    """Collect rankings, judgements and documents in columns; each document is read once."""
    query_ids = tuple(report.queries)
    count = len(query_ids)
    listed = _Listed.of(report, query_ids)
    ids = [listed.words[at] for at in listed.needed.tolist()]
    documents = report.documents(frozenset(ids))
    found = [documents.get(doc_id) for doc_id in ids]
    latency = report.latency
    arms = list(report.arms)
    return Columns(
        snippet=tables.SNIPPET,
        ids=[one_line(doc_id, tables.TITLE) for doc_id in ids],
        titles=[one_line(one.title, tables.TITLE) if one else "" for one in found],
        texts=[one_line(one.text, 2 * tables.SNIPPET) if one else None for one in found],
        # judgements of each query that are listed: of what an arm shows, or relevant
        lengths=listed.lengths(listed.judged, count),
        judged=listed.documents(listed.judged),
        grades=listed.grades.tolist(),
        shown=[
            _shown(side.run, query_ids, listed, *of)
            for side, of in zip(report.arms.values(), listed.arms, strict=True)
        ],
        # documents of each query that some arm shows: the first arm's, what the next adds, ...
        distinct=listed.lengths(listed.seen, count),
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


@dataclass(frozen=True, slots=True, eq=False)
class _Listed:
    """Documents by query, each pair as one number: the query's times ``len(words)``, plus its own.

    All pairs lie in the order of the queries.
    """

    words: tuple[str, ...]
    """Documents that an arm shows or that are judged, in byte order."""
    arms: tuple[tuple[Rows, Rows], ...]
    """Of each arm, what it shows, best first, and the rank of each, from 1; shape (hits,) both."""
    seen: Rows
    """Of the first ten of all arms: the first arm's, what the next adds, ..."""
    judged: Rows
    """Judged relevant, or of the first ten of an arm; the best grade first."""
    grades: NDArray[np.int32]
    """Shape of ``judged``."""
    needed: Rows
    """Documents among ``seen`` and ``judged``, rising."""

    @classmethod
    def of(cls, report: ReportInput, query_ids: Sequence[str]) -> "_Listed":
        coded = EncodedQrels.of(report.qrels)
        runs = [side.run for side in report.arms.values()]
        words = tuple(sorted({*coded.vocabulary, *chain(*(run.vocabulary for run in runs))}))
        code = {doc_id: at for at, doc_id in enumerate(words)}
        arms = tuple(_ranked(run, query_ids, code) for run in runs)
        firsts = (shown[rank <= tables.DEPTH] for shown, rank in arms)
        first = np.concatenate([np.zeros(0, dtype=np.int64), *firsts])
        first = first[np.argsort(first // len(words), kind="stable")]
        seen = first[np.sort(np.unique(first, return_index=True)[1])]
        number = {query_id: at for at, query_id in enumerate(query_ids)}
        of = np.fromiter(map(number.get, coded.query_ids, repeat(-1)), np.int64, len(coded))
        query = of[coded.rows]
        docs = np.array([code[doc_id] for doc_id in coded.vocabulary], dtype=np.int64)[coded.docs]
        judged = query * len(words) + docs
        shown = np.isin(judged, seen, assume_unique=True)
        told = np.flatnonzero((query >= 0) & ((coded.grades > 0) | shown))
        told = told[np.lexsort((docs[told], -coded.grades[told], query[told]))]
        judged = judged[told]
        needed = np.unique(np.concatenate([seen, judged]) % len(words))
        return cls(words, arms, seen, judged, coded.grades[told], needed)

    def lengths(self, pairs: Rows, queries: int) -> list[int]:
        """Count the pairs of each query."""
        return list(np.bincount(pairs // len(self.words), minlength=queries).tolist())

    def documents(self, pairs: Rows) -> list[int]:
        """Return the place of each pair's document among ``needed``."""
        return list(np.searchsorted(self.needed, pairs % len(self.words)).tolist())


def _ranked(run: Run, query_ids: Sequence[str], code: dict[str, int]) -> tuple[Rows, Rows]:
    known = [at for at, query_id in enumerate(query_ids) if query_id in run.positions]
    query, docs, rank = hits_within(run, [query_ids[at] for at in known], code, None)
    return np.array(known, dtype=np.int64)[query] * len(code) + docs, rank


def _shown(run: Run, query_ids: Sequence[str], listed: _Listed, shown: Rows, rank: Rows) -> Columns:
    """Collect what one arm showed: its first ten, and ranks in its whole ranking, 0 for none.

    ``ranks`` are of the judged documents, ``deeper`` of those that other arms show and it does not.
    """
    order = np.argsort(shown)
    sure = shown[order]

    def ranks(pairs: Rows) -> Rows:
        if not len(sure):
            return np.zeros_like(pairs)
        at = np.minimum(np.searchsorted(sure, pairs), len(sure) - 1)
        return np.where(sure[at] == pairs, rank[order[at]], 0)

    def instead(query_id: str) -> str:
        row = run.positions.get(query_id)
        if row is None:
            return tables.instead_of(Status.NOT_ASKED, "")
        return tables.instead_of(Status(run.status[row]), run.errors[row])

    first, seen = shown[rank <= tables.DEPTH], ranks(listed.seen)
    found = listed.lengths(shown, len(query_ids))
    return Columns(
        lengths=listed.lengths(first, len(query_ids)),
        docs=listed.documents(first),
        found=found,
        instead={at: instead(query_ids[at]) for at, hits in enumerate(found) if not hits},
        ranks=ranks(listed.judged).tolist(),
        deeper=seen[(seen == 0) | (seen > tables.DEPTH)].tolist(),
    )


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
        again = np.median(race.repeated_ns[arm], axis=0).astype(np.int64).tolist()
        found.append(
            Columns(
                arm=number,
                queries=[row[race.query_ids[at]] for at in known],
                median=np.median(times, axis=0).astype(np.int64).tolist(),
                low=times.min(axis=0).tolist(),
                high=times.max(axis=0).tolist(),
                again=[again[at] if at < len(again) else 0 for at in known],
                processes=len(times),
            )
        )
    return found
