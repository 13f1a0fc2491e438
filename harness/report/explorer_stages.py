"""A difference taken apart by stages, as tables of the explorer."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace as Columns
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import BadFile
from harness.core.records import Query
from harness.measures.decompose import DifferenceParts
from harness.report.html import named
from harness.report.inputs import Apart, ReportInput
from harness.report.rounding import for_json

HINT = "Run again: harness decompose --control ARM --candidate ARM"


def from_json(written: Mapping[str, Any], path: Path) -> Apart:
    """Read what ``stages_table.to_json`` wrote."""
    try:
        stages = tuple(step["stage"] for step in written["steps"])
        rows = {row["query_id"]: row for row in written["queries"]}
        return Apart(
            control=written["control"],
            candidate=written["candidate"],
            measure=written["measure"],
            stages=stages,
            values={q: (float(row["control"]), float(row["candidate"])) for q, row in rows.items()},
            steps={
                q: tuple(
                    (float(row[f"{stage}_shown"]), float(row[f"{stage}_order"])) for stage in stages
                )
                for q, row in rows.items()
            },
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise BadFile(path, f"not what harness decompose writes ({exc!r})", HINT) from exc


def stages(report: ReportInput) -> list[Columns]:
    """Collect what still holds in columns, by stage; ``queries`` are rows of the table."""
    row = {query_id: at for at, query_id in enumerate(report.queries)}
    arms = list(report.arms)
    found = []
    for one in (one for one in report.apart if holds(report, one)):
        known = [query_id for query_id in one.steps if query_id in row]
        steps = [[one.steps[query_id][at] for query_id in known] for at in range(len(one.stages))]
        found.append(Columns(
            control=arms.index(one.control), candidate=arms.index(one.candidate),
            measure=one.measure, stages=list(map(named, one.stages)),
            queries=[row[query_id] for query_id in known],
            shown=[[shown for shown, _ in each] for each in steps],
            order=[[order for _, order in each] for each in steps],
        ))  # fmt: skip
    return found


def holds(report: ReportInput, apart: Apart) -> bool:
    """Return whether both arms still have every value that was taken apart."""
    for at, arm in enumerate((apart.control, apart.candidate)):
        side = report.arms.get(arm)
        if side is None or apart.measure not in side.scores:
            return False
        now = side.scores[apart.measure].by_query
        if any(for_json(now.get(q)) != values[at] for q, values in apart.values.items()):
            return False
    return True


Floats = NDArray[np.float64]
PARTS = ("shown", "order")
DIGITS = 12
"""After which a part of a difference is rounding."""


@dataclass(frozen=True, slots=True)
class SliceChange:
    """What one step did to one slice."""

    slice: str
    step: str
    mean: float
    queries: int
    p_value: float
    """Of "this step does nothing here", adjusted over the slices (``fdr_adjusted``)."""


@dataclass(frozen=True, slots=True, eq=False)
class Decomposed:
    """Differences candidate - control by query, in parts; arrays are of shape (queries,)."""

    dataset: str
    names: tuple[str, str]
    """Control and candidate."""
    measure: str
    queries: tuple[Query, ...]
    control: Floats
    candidate: Floats
    steps: Mapping[str, DifferenceParts]
    """By the stage that the step leads to, in order; all parts sum to the difference."""
    beside: Mapping[str, Floats]
    """What the lists that feed a stage score by themselves."""
    moved: tuple[SliceChange, ...]
    """Every slice and step, the most surprising first."""
    level: float
    """Share of false finds that is allowed among ``moved``."""
    lost: Mapping[str, str]
    """Why a query that has a difference is not taken apart, by query id."""

    @property
    def difference(self) -> Floats:
        """Candidate - control."""
        return self.candidate - self.control

    @property
    def columns(self) -> Mapping[tuple[str, str], Floats]:
        """Both parts of each step, by step and part."""
        steps = self.steps.items()
        return {(name, part): getattr(one, part) for name, one in steps for part in PARTS}


class StepMean(NamedTuple):
    """One step, as means over the queries."""

    name: str
    shown: float
    order: float
    both: float


class Blame(NamedTuple):
    """The part that took most from a query."""

    step: str
    part: str
    value: float


def means(decomposed: Decomposed) -> tuple[StepMean, ...]:
    """Return each step, and last their sum; empty without queries."""
    if not decomposed.queries:
        return ()
    steps = [
        StepMean(name, *(float(column.mean()) for column in (one.shown, one.order, one.total)))
        for name, one in decomposed.steps.items()
    ]
    sums = (sum(column) for column in zip(*(step[1:] for step in steps), strict=True))
    return (*steps, StepMean("all", *sums))


def losers(decomposed: Decomposed, limit: int) -> tuple[int, ...]:
    """Rows of the queries that lost most, at most ``limit``; equals by id."""
    ids = [query.query_id for query in decomposed.queries]
    order = sorted(range(len(ids)), key=lambda at: (decomposed.difference[at], ids[at]))
    return tuple(at for at in order if decomposed.difference[at] < 0)[:limit]


def blamed(decomposed: Decomposed, at: int) -> Blame:
    """Return which part took most from the query in row ``at``; the first of equals."""
    every = (
        Blame(*key, float(column[at].round(DIGITS))) for key, column in decomposed.columns.items()
    )
    return min(every, key=lambda blame: blame.value)


def to_json(decomposed: Decomposed) -> Mapping[str, Any]:
    """Return everything, ready to be written; numbers are cut as in other files of the report."""
    control, candidate = decomposed.names
    return {
        "dataset": decomposed.dataset,
        "control": control,
        "candidate": candidate,
        "measure": decomposed.measure,
        "steps": [
            {"stage": one.name, "shown": for_json(one.shown), "order": for_json(one.order)}
            for one in means(decomposed)[:-1]
        ],
        "slices": [
            {"slice": one.slice, "stage": one.step, "mean": for_json(one.mean),
             "queries": one.queries, "p_adjusted": for_json(one.p_value)}
            for one in decomposed.moved
        ],
        "queries": _rows(decomposed),
        "lost": dict(decomposed.lost),
    }  # fmt: skip


def _rows(decomposed: Decomposed) -> list[dict[str, Any]]:
    rows = []
    for at, query in enumerate(decomposed.queries):
        blame = blamed(decomposed, at)
        row: dict[str, Any] = {
            "query_id": query.query_id,
            "text": query.text,
            "control": for_json(float(decomposed.control[at])),
            "candidate": for_json(float(decomposed.candidate[at])),
            "difference": for_json(float(decomposed.difference[at].round(DIGITS))),
            "lost_most_by": f"{blame.step} {blame.part}" if blame.value < 0 else "",
        }
        for (name, part), column in decomposed.columns.items():
            row[f"{name}_{part}"] = for_json(float(column[at].round(DIGITS)))
        for name, values in decomposed.beside.items():
            row[f"{name}_alone"] = for_json(float(values[at]))
        rows.append(row)
    return rows
