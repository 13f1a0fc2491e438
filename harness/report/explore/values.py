"""The explorer's table: every query with every value of every arm, in columns of small integers.

A number is stored once and referred to by its place, and so is the reason for a missing one. A
measure has few values, and ten thousand queries of seven arms have half a million. Whatever a page
shows of two arms is counted from these columns in the browser; intervals are never, they come from
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.core.evidence import Agreement
from harness.core.printable import one_line
from harness.core.records import Query
from harness.core.run import Status
from harness.core.scores import Estimate, Scores
from harness.measures.decompose import decompose
from harness.report.inputs import ReportInput
from harness.report.links import named
from harness.report.page.cards import paired
from harness.report.page.moved import DIGITS, QUERY
from harness.report.page.tables import NOT_MEASURED, measures_of
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
    """Put everything that was measured of each query into columns."""
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
    """Give the deepest k of the ``Jaccard@k`` of an agreement (``harness.agreement.agree``)."""
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
