"""The stage score: measures, means, their plot and parts."""

import json
from dataclasses import replace
from pathlib import Path

import ir_measures
import numpy as np
import pytest

from harness.core.errors import (
    EvidenceError,
    HarnessError,
    UnknownName,
)
from harness.corpus import trec
from harness.corpus.prepared import QRELS
from harness.corpus.runs import ARM_SCORES, read_run, write_run
from harness.pipeline.compare import check_compared, read_agreement
from harness.pipeline.evidence import slice_differences
from harness.pipeline.layout import Layout
from harness.pipeline.oneshot import measuring
from harness.pipeline.params import read
from harness.pipeline.receipts import note_run
from harness.pipeline.score import (
    as_csv,
    check_scores,
    estimates,
)
from harness.stats.inference import Inference
from tests.make import gate_inputs
from tests.make.runs import scores_of
from tests.make.toy import ARMS, CANDIDATE, CONTROL, NOTHING, Toy
from tests.source import ROOT


@pytest.mark.parametrize("arm", ARMS)
def test_values_are_those_of_ir_measures_on_the_trec_files(
    measured: Toy, tmp_path: Path, arm: str
) -> None:
    layout = measured.layout
    trec.write_run(tmp_path / "run", read_run(layout.run(arm)))
    read_qrels, read_run_file = ir_measures.read_trec_qrels, ir_measures.read_trec_run
    qrels = list(read_qrels(str(layout.data / QRELS)))  # type: ignore[no-untyped-call]
    run = list(read_run_file(str(tmp_path / "run")))  # type: ignore[no-untyped-call]
    ours = ARM_SCORES.read(layout.per_query)[arm,]
    for name in measured.params.score.measures:
        measure = ir_measures.parse_measure(name)
        theirs = {m.query_id: m.value for m in ir_measures.iter_calc([measure], qrels, run)}
        assert ours[name].by_query == pytest.approx(theirs, rel=0, abs=1e-12)


def test_the_means_are_means_with_their_interval(measured: Toy) -> None:
    written = json.loads(measured.layout.scores.read_text())
    per_query = ARM_SCORES.read(measured.layout.per_query)
    assert set(written) == set(ARMS)
    for arm, by_measure in written.items():
        assert set(by_measure) == set(measured.params.score.measures)
        for name, row in by_measure.items():
            assert set(row) == {"mean", "low", "high", "queries"}
            assert row["mean"] == pytest.approx(per_query[arm,][name].mean, abs=1e-12)
            assert row["low"] <= row["mean"] <= row["high"]
            assert row["queries"] == 41


def test_slices_have_means_of_their_own(measured: Toy) -> None:
    by_slice = measured.layout.read(Layout.slices)
    assert by_slice["identifier"]["fts5"]["RR@10"].n == 11
    assert by_slice["natural-language"]["fts5"]["RR@10"].n == 30
    whole = measured.layout.read(Layout.scores)["fts5"]["RR@10"]
    parts = [by_slice[name]["fts5"]["RR@10"] for name in by_slice]
    assert sum(part.value * part.n for part in parts) == pytest.approx(whole.value * whole.n)


def test_scores_know_the_runs_and_judgements_that_they_are_of(project: Toy) -> None:
    check_scores(project.layout, ARMS)
    path = project.layout.data / QRELS
    path.write_text(path.read_text().replace("q00 0 d00 0", "q00 0 d00 2"))
    with pytest.raises(
        EvidenceError, match=r"qrels\.trec: was changed since .*harness stage score"
    ):
        check_scores(project.layout, ARMS)


def test_queries_of_one_cluster_have_a_mean_and_a_wide_interval() -> None:
    values = {f"q{n}": 0.5 for n in range(12)}
    one = dict.fromkeys(values, "pattern")
    scores = {"a": {"nDCG@10": scores_of(values), "NumRet": scores_of(values, measure="NumRet")}}
    found = estimates(scores, one, Inference(confidence=0.95, resamples=1000, seed=1))["a"]
    assert set(found) == {"nDCG@10"}
    assert found["nDCG@10"].value == 0.5
    assert found["nDCG@10"].high - found["nDCG@10"].low > 0.9


@pytest.mark.slow
def test_an_arm_that_is_a_formula_is_not_run() -> None:
    assert as_csv({"=cmd|' /C calc'!A0": {}}, ["P@1"]) == "arm,P@1\n'=cmd|' /C calc'!A0,\n"


def test_what_a_policy_reads_is_measured_too() -> None:
    params = read(ROOT / "params.yaml")
    asked = measuring(params, ["nDCG@8", "nDCG@10"])
    assert asked.score.measures == (*params.score.measures, "nDCG@8")
    assert asked.replay == params.replay
    with pytest.raises(HarnessError, match=r"score.measures R@9999 looks deeper than the"):
        measuring(params, ["R@9999"])
    with pytest.raises(UnknownName, match="no measure named 'nDGC@8'"):
        measuring(params, ["nDGC@8"])


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
    scores = ARM_SCORES.read(measured.layout.per_query)
    apart = measured.layout.read(Layout.differences)[f"{CONTROL}~{CANDIDATE}"]
    for name in measured.params.score.measures:
        values = [scores[arm,][name].values for arm in PAIR]
        assert apart[name].value == pytest.approx(float(np.mean(values[1] - values[0])))


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
