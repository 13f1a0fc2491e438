"""A difference taken apart by stages is shown while it holds, and not longer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import BadFile
from harness.report.explorer import hits
from harness.report.explorer_stages import from_json, holds, stages
from harness.report.inputs import Apart, Step
from harness.report.rounding import for_json
from tests.make import report_inputs

ARMS = ("tantivy-default", "hybrid-rrf")


def apart(**change: Any) -> Apart:  # noqa: ANN401  any field
    report = report_inputs.report()
    sides = [report.arms[arm].scores["nDCG@10"].by_query for arm in ARMS]
    ids = [query_id for query_id in ("q09", "q02") if all(query_id in side for side in sides)]
    values = {q: (for_json(sides[0][q]), for_json(sides[1][q])) for q in ids}
    steps = {q: (Step(0.1 * at, 0.0), Step(-0.2, 0.05)) for at, q in enumerate(ids)}
    made = Apart(*ARMS, "nDCG@10", ("lexical", "fused"), values, steps)  # type: ignore[arg-type]
    return replace(made, **change)


def test_the_steps_of_each_query_stand_in_columns() -> None:
    (found,) = hits(replace(report_inputs.report(), apart=(apart(),))).apart
    assert (found.control, found.candidate, found.measure) == (1, 2, "nDCG@10")
    assert found.stages == ["lexical", "fused"]
    assert found.queries == [9, 2]
    assert found.shown == [[0.0, 0.1], [-0.2, -0.2]]
    assert found.order == [[0.0, 0.0], [0.05, 0.05]]


@pytest.mark.parametrize(
    "change",
    [
        {"values": {"q09": (0.123, 0.456)}},
        {"values": {"gone": (0.1, 0.2)}},
        {"candidate": "gone"},
        {"measure": "AP"},
    ],
    ids=["another value", "another query", "another arm", "another measure"],
)
def test_what_no_longer_holds_is_left_out(change: dict[str, Any]) -> None:
    report = report_inputs.report()
    assert holds(report, apart())
    assert not holds(report, apart(**change))
    assert stages(replace(report, apart=(apart(**change),))) == []


def test_a_file_that_is_something_else_is_named() -> None:
    wrong: tuple[dict[str, Any], ...] = ({}, {"steps": [], "queries": [{}]}, {"steps": 3})
    for written in wrong:
        with pytest.raises(BadFile, match=r"x\.json: not what harness decompose writes"):
            from_json(written, Path("x.json"))
