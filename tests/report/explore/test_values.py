"""The explorer's table holds what was measured, and keeps apart what no number stands for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.core.run import Run, Status
from harness.core.scores import Estimate, Paired
from harness.measures.decompose import decompose
from harness.report.explorer import Values, ends, values
from harness.report.rounding import for_json
from tests.make import report_inputs


@pytest.fixture(scope="module")
def found() -> Values:
    return values(report_inputs.report())


def value(found: Values, code: int) -> float | str | None:
    return found.reasons[-1 - code] if code < 0 else found.numbers[code]


def test_every_value_of_every_arm_comes_back(found: Values) -> None:
    report = report_inputs.report()
    for arm, side in enumerate(report.arms.values()):
        for at, measure in enumerate(found.measures):
            column = found.scores[arm][at]
            by_query = side.scores[measure].by_query
            for query_id, code in zip(found.ids, column, strict=True):
                if query_id in by_query:
                    assert value(found, code) == for_json(by_query[query_id])
                else:
                    assert code < 0


def test_why_there_is_no_value_is_said(found: Values) -> None:
    hybrid = found.scores[found.arms.index("hybrid-rrf")][0]
    assert value(found, hybrid[found.ids.index("q05")]) == "failed"
    assert value(found, hybrid[-1]) == "negative query"
    assert found.status[2][5] == Status.FAILED
    assert found.relevant[-1] == 0


def test_a_measure_that_an_arm_lacks_is_not_measured() -> None:
    report = report_inputs.report()
    name = "fts5-default"
    side = replace(report.arms[name], scores={"nDCG@10": report.arms[name].scores["nDCG@10"]})
    found = values(replace(report, arms={**report.arms, name: side}))
    column = found.scores[0][found.measures.index("RR@10")]
    assert {value(found, code) for code in column} == {"not measured"}


def test_numbers_are_stored_once(found: Values) -> None:
    assert len(found.numbers) == len(set(found.numbers))
    assert len(found.reasons) == len(set(found.reasons))


def test_comparisons_carry_classes_noise_and_intervals(found: Values) -> None:
    report = report_inputs.report()
    of = next(each for each in found.compared if each.name == "tantivy")
    evidence = report.evidence["tantivy"]
    assert (found.arms[of.control], found.arms[of.candidate]) == ("fts5-default", "tantivy-default")
    assert [found.classes[at] for at in of.classes] == list(evidence.agreement.classes)
    assert [found.classes[at] for at in of.noise] == list(evidence.noise.classes)
    whole = report.differences["tantivy"]["nDCG@10"]
    assert of.differences[0] == ends(whole)
    by_slice = dict(zip(found.slices, of.slices, strict=True))
    assert by_slice["phrase"] == ends(report.slice_differences["tantivy"]["phrase"])


def test_classes_say_how_deep_they_look() -> None:
    report = report_inputs.report()
    of = report.evidence["tantivy"]
    deeper = {**of.agreement.scores, "Jaccard@50": of.agreement.scores["Jaccard@10"]}
    none = replace(of, agreement=replace(of.agreement, scores={}))
    deep = replace(of, agreement=replace(of.agreement, scores=deeper))
    found = values(replace(report, evidence={"one": of, "deep": deep, "none": none})).compared
    assert [each.depth for each in found] == [10, 50, 0]


def test_the_parts_of_a_difference_are_those_of_decompose(found: Values) -> None:
    report = report_inputs.report()
    evidence = report.evidence["tantivy"]
    of = next(each for each in found.compared if each.name == "tantivy")
    pairs = Paired.of(evidence.control.scores["nDCG@10"], evidence.candidate.scores["nDCG@10"])
    moved = [pairs.query_ids[at] for at in np.flatnonzero(pairs.difference)]
    parts = decompose(evidence.control.run, evidence.candidate.run, report.qrels, "nDCG@10", moved)
    shown = dict(zip(found.ids, of.shown, strict=True))
    order = dict(zip(found.ids, of.order, strict=True))
    for at, query_id in enumerate(moved):
        assert value(found, shown[query_id]) == pytest.approx(parts.shown[at], abs=1e-9)
        assert value(found, order[query_id]) == pytest.approx(parts.order[at], abs=1e-9)
    still = set(found.ids) - set(moved)
    assert still
    assert all(shown[query_id] < 0 for query_id in still)


def test_an_open_end_is_no_number() -> None:
    assert ends(Estimate(0.5, -float("inf"), 0.7, 3)) == (0.5, None, 0.7, 3)
    assert ends(None) is None


def test_a_query_that_a_run_lacks_was_not_asked() -> None:
    report = report_inputs.report()
    name = "tantivy-default"
    rows = [row for row in report.arms[name].run.rows() if row.query_id != "q03"]
    side = replace(report.arms[name], run=Run.of(name, rows))
    bare: dict[str, Any] = {"evidence": {}, "arms": {**report.arms, name: side}}
    found = values(replace(report, **bare))
    assert found.status[1][3] == Status.NOT_ASKED
    assert found.status[1].count(int(Status.NOT_ASKED)) == 1


def test_what_was_set_beside_the_text_is_shown() -> None:
    report = report_inputs.report()
    asked = replace(report.queries["q02"], params={"sender": "a\x00", "limit": 5})
    found = values(replace(report, queries={**report.queries, "q02": asked}))
    assert found.params[2] == "limit = 5, sender = a␀"
    assert found.params[3] == ""
