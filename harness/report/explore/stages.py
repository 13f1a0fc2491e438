"""What ``harness decompose`` left: which stage of a candidate won or lost what, query by query.

It was counted from one state of the runs. Where a value that it rests on is no longer the one that
is reported, all of it is left out: a part of an old difference explains nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import BadFile
from harness.report.inputs import Apart, ReportInput, Step
from harness.report.links import named
from harness.report.rounding import for_json

HINT = "Run again: harness decompose"


@dataclass(frozen=True, slots=True)
class Stages:
    """The same in columns; ``queries`` are rows of the table, the rest is in their order."""

    control: int
    candidate: int
    measure: str
    stages: list[str]
    queries: list[int]
    shown: list[list[float]]
    """By stage."""
    order: list[list[float]]


def from_json(written: Mapping[str, Any], path: Path) -> Apart:
    """Read what ``stages_table.to_json`` wrote.

    Raises:
        BadFile: it is something else.
    """
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
                    Step(float(row[f"{stage}_shown"]), float(row[f"{stage}_order"]))
                    for stage in stages
                )
                for q, row in rows.items()
            },
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise BadFile(path, f"not what harness decompose writes ({exc!r})", HINT) from exc


def stages(report: ReportInput) -> list[Stages]:
    """Put what still holds into columns."""
    row = {query_id: at for at, query_id in enumerate(report.queries)}
    arms = list(report.arms)
    found = []
    for one in report.apart:
        if not holds(report, one):
            continue
        known = [query_id for query_id in one.steps if query_id in row]
        each = range(len(one.stages))
        found.append(
            Stages(
                control=arms.index(one.control),
                candidate=arms.index(one.candidate),
                measure=one.measure,
                stages=list(map(named, one.stages)),
                queries=[row[query_id] for query_id in known],
                shown=[[one.steps[query_id][at].shown for query_id in known] for at in each],
                order=[[one.steps[query_id][at].order for query_id in known] for at in each],
            )
        )
    return found


def holds(report: ReportInput, apart: Apart) -> bool:
    """Tell whether both arms still have every value that was taken apart."""
    for at, arm in enumerate((apart.control, apart.candidate)):
        side = report.arms.get(arm)
        if side is None or apart.measure not in side.scores:
            return False
        now = side.scores[apart.measure].by_query
        if any(for_json(now.get(q)) != values[at] for q, values in apart.values.items()):
            return False
    return True
