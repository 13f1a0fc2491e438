"""The stage compare: agreement, slices and decomposition."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import EvidenceError
from harness.core.records import Query
from harness.corpus.runs import read_run, read_scores, write_run
from harness.measures.decompose import DifferenceParts
from harness.pipeline.compare import check_compared, compare, read_agreement
from harness.pipeline.decompose import keep, kept
from harness.pipeline.evidence import slice_differences
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import note_run
from harness.report.explorer_stages import Decomposed
from harness.report.inputs import QueryStage
from tests.make import gate_inputs
from tests.make.toy import CANDIDATE, CONTROL, NOTHING, Toy

PAIR = (CONTROL, CANDIDATE)


def test_each_query_has_a_class_and_each_control_a_noise(measured: Toy) -> None:
    found = read_agreement(measured.layout)
    assert set(found) == {PAIR, (CONTROL, CONTROL)}
    classes = dict(zip(found[PAIR].query_ids, found[PAIR].classes, strict=True))
    assert len(classes) == 41
    assert classes[NOTHING] == "both_empty"
    assert set(found[CONTROL, CONTROL].classes) == {"exact", "both_empty"}


def test_an_unsteady_control_shows_in_the_noise_alone(project: Toy) -> None:
    before = read_agreement(project.layout)[PAIR].scores["Jaccard@10"].mean
    write_run(
        replace(read_run(project.layout.run("hash-hybrid")), arm=CONTROL),
        project.layout.again(CONTROL),
    )
    note_run(project.layout, CONTROL)
    project.judge_again()
    found = read_agreement(project.layout)
    assert found[PAIR].scores["Jaccard@10"].mean == before
    assert "exact" not in set(found[CONTROL, CONTROL].classes)


def test_jaccard_is_over_the_union(measured: Toy) -> None:
    runs = [read_run(measured.layout.run(arm)) for arm in PAIR]
    found = read_agreement(measured.layout)[PAIR].scores["Jaccard@10"]
    for query_id, value in found.by_query.items():
        left, right = (set(run.ranking(query_id, 10)) for run in runs)
        assert value == pytest.approx(len(left & right) / len(left | right))
    assert found.undefined == {"both_empty": (NOTHING,)}


def test_differences_are_candidate_less_control(measured: Toy) -> None:
    scores = read_scores(measured.layout.per_query, ["arm"])
    apart = measured.layout.read(Layout.differences)[f"{CONTROL}~{CANDIDATE}"]
    for measure in measured.params.score.measures:
        values = [scores[arm,][measure].values for arm in PAIR]
        assert apart[measure].value == pytest.approx(float(np.mean(values[1] - values[0])))


def test_comparing_a_run_that_is_newer_than_its_scores_is_refused(project: Toy) -> None:
    write_run(read_run(project.layout.run("hash-hybrid")), project.layout.run(CANDIDATE))
    with pytest.raises(EvidenceError, match="was changed since"):
        compare(project.layout, [PAIR], project.params.compare, project.params.score.inference())


def test_a_comparison_is_of_the_runs_it_was_made_from(project: Toy) -> None:
    check_compared(project.layout, [PAIR])
    path = project.layout.again(CONTROL)
    path.write_bytes(project.layout.again(CANDIDATE).read_bytes())
    with pytest.raises(EvidenceError, match=r"again\.parquet: was changed .*harness stage compare"):
        check_compared(project.layout, [PAIR])


CONTROL_SLICES = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
CANDIDATE_SLICES = CONTROL_SLICES + np.array([0.1, 0.3, 0.0, -0.2, -0.2, 0.0])
SLICES = {
    "up": frozenset({"q0000", "q0001", "q0002"}),
    "down": frozenset({"q0003", "q0004"}),
    "alone": frozenset({"q0005"}),
    "strange": frozenset({"q9999"}),
}


def test_each_slice_has_the_mean_difference_of_its_queries() -> None:
    evidence = gate_inputs.scored(CONTROL_SLICES, CANDIDATE_SLICES, slices=SLICES)
    found = slice_differences({"first": evidence, "again": evidence}, "nDCG@10", gate_inputs.RULES)
    assert found["first"] == found["again"]
    assert set(found["first"]) == {"up", "down"}
    up, down = found["first"]["up"], found["first"]["down"]
    assert up.value == pytest.approx(0.4 / 3)
    assert up.n == 3
    assert up.low < up.value < up.high
    assert down.value == pytest.approx(-0.2)
    assert -1 < down.low < down.value < down.high < 1


def test_queries_of_one_intent_are_no_two_opinions() -> None:
    evidence = gate_inputs.scored(CONTROL_SLICES, CANDIDATE_SLICES, slices=SLICES)
    one = replace(evidence, clusters={"q0003": "same", "q0004": "same"})
    assert set(slice_differences({"first": one}, "nDCG@10", gate_inputs.RULES)["first"]) == {"up"}


def layout(root: Path) -> Layout:
    return Layout(root / "build", root / "perf", root / "cache")


def decomposed(*names: str) -> Decomposed:
    parts = DifferenceParts(("q1", "q2"), np.array([-0.25, 0.0]), np.array([0.0, 0.125]))
    return Decomposed(
        dataset="toy",
        names=(names[0], names[1]),
        measure="nDCG@10",
        queries=(Query("q1", "one"), Query("q2", "two")),
        control=np.array([0.75, 0.5]),
        candidate=np.array([0.5, 0.625]),
        steps={"words": parts},
        beside={},
        moved=(),
        level=0.05,
        lost={},
    )


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    place = layout(tmp_path)
    assert kept(place) == ()
    keep(place, decomposed("a", "b"))
    keep(place, decomposed("a", "c"))
    keep(place, replace(decomposed("a", "b"), measure="RR@10"))
    first, second = kept(place)
    assert [(one.control, one.candidate, one.measure) for one in (first, second)] == [
        ("a", "b", "RR@10"), ("a", "c", "nDCG@10"),
    ]  # fmt: skip
    assert first.stages == ("words",)
    assert first.values == {"q1": (0.75, 0.5), "q2": (0.5, 0.625)}
    assert first.steps == {"q1": (QueryStage(-0.25, 0.0),), "q2": (QueryStage(0.0, 0.125),)}
