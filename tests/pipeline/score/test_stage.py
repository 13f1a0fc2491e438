"""Stage ``score``: the numbers are those of ir-measures on the exported files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import ir_measures
import pytest

from harness.core.errors import BadFile, EvidenceError, IndexNotReady, UnknownName
from harness.core.records import Query
from harness.corpus import trec
from harness.corpus.prepared import QRELS
from harness.corpus.runs import read_run, read_scores
from harness.pipeline.layout import Layout
from harness.pipeline.score import check_scores, estimates, score, slices
from harness.stats.inference import Inference
from tests.make.runs import scores_of
from tests.make.toy import ARMS, NOTHING, Toy


@pytest.mark.parametrize("arm", ARMS)
def test_values_are_those_of_ir_measures_on_the_trec_files(
    measured: Toy, tmp_path: Path, arm: str
) -> None:
    layout = measured.layout
    trec.write_run(tmp_path / "run", read_run(layout.run(arm)))
    read_qrels, read_run_file = ir_measures.read_trec_qrels, ir_measures.read_trec_run
    qrels = list(read_qrels(str(layout.data / QRELS)))  # type: ignore[no-untyped-call]
    run = list(read_run_file(str(tmp_path / "run")))  # type: ignore[no-untyped-call]
    ours = read_scores(layout.per_query, ["arm"])[arm,]
    for name in measured.params.score.measures:
        measure = ir_measures.parse_measure(name)
        theirs = {m.query_id: m.value for m in ir_measures.iter_calc([measure], qrels, run)}
        assert ours[name].by_query == pytest.approx(theirs, rel=0, abs=1e-12)


def test_the_means_are_means_with_their_interval(measured: Toy) -> None:
    written = json.loads(measured.layout.scores.read_text())
    per_query = read_scores(measured.layout.per_query, ["arm"])
    assert set(written) == set(ARMS)
    for arm, by_measure in written.items():
        assert set(by_measure) == set(measured.params.score.measures)
        for measure, row in by_measure.items():
            assert set(row) == {"mean", "low", "high", "queries"}
            assert row["mean"] == pytest.approx(per_query[arm,][measure].mean, abs=1e-12)
            assert row["low"] <= row["mean"] <= row["high"]
            assert row["queries"] == 41


def test_an_empty_answer_scores_nothing_and_counts(measured: Toy) -> None:
    found = read_scores(measured.layout.per_query, ["arm"])["fts5",]["nDCG@10"]
    assert found.by_query[NOTHING] == 0


def test_slices_have_means_of_their_own(measured: Toy) -> None:
    by_slice = measured.layout.read(Layout.slices)
    assert by_slice["identifier"]["fts5"]["RR@10"].n == 11
    assert by_slice["natural-language"]["fts5"]["RR@10"].n == 30
    whole = measured.layout.read(Layout.scores)["fts5"]["RR@10"]
    parts = [by_slice[name]["fts5"]["RR@10"] for name in by_slice]
    assert sum(part.value * part.n for part in parts) == pytest.approx(whole.value * whole.n)


def test_slices_are_in_byte_order() -> None:
    queries = [Query("1", "a", ("b", "a")), Query("2", "b", ("b",)), Query("3", "c")]
    found = slices(queries)
    assert list(found) == ["a", "b"]
    assert found["b"] == {"1", "2"}


def test_an_arm_without_a_run_is_named(project: Toy) -> None:
    project.layout.run("fts5").unlink()
    with pytest.raises(EvidenceError, match=r"fts5\.parquet: is gone since .*harness stage replay"):
        score(project.layout, ["fts5"], project.params.score)


def test_a_run_that_is_cut_short_is_refused(project: Toy) -> None:
    path = project.layout.run("fts5")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(EvidenceError, match=r"fts5\.parquet: was changed since"):
        score(project.layout, ["fts5"], project.params.score)
    with pytest.raises(BadFile, match="not a parquet file"):
        read_run(path)


def test_a_run_of_other_queries_is_refused(project: Toy) -> None:
    path = project.layout.data / "queries.jsonl"
    path.write_text(path.read_text().replace("xyzzy", "xyzzyx"))
    with pytest.raises(
        EvidenceError, match=r"queries\.jsonl: was changed since .*harness stage replay"
    ):
        score(project.layout, ARMS, project.params.score)


def test_a_run_of_another_index_is_refused(project: Toy) -> None:
    shutil.copy(project.layout.manifest("tantivy"), project.layout.manifest("fts5"))
    with pytest.raises(EvidenceError, match=r"manifests/fts5\.json: was changed since"):
        score(project.layout, ARMS, project.params.score)


def test_an_arm_that_was_never_indexed_is_refused(project: Toy) -> None:
    with pytest.raises(IndexNotReady, match="the arm dense has no index"):
        score(project.layout, ["dense"], project.params.score)


def test_scores_know_the_runs_and_judgements_that_they_are_of(project: Toy) -> None:
    check_scores(project.layout, ARMS)
    path = project.layout.data / QRELS
    path.write_text(path.read_text().replace("q00 0 d00 0", "q00 0 d00 2"))
    with pytest.raises(
        EvidenceError, match=r"qrels\.trec: was changed since .*harness stage score"
    ):
        check_scores(project.layout, ARMS)


def test_an_arm_that_was_not_scored_is_named(project: Toy) -> None:
    score(project.layout, ["fts5"], project.params.score)
    with pytest.raises(EvidenceError, match=r"does not speak of .*tantivy.*params\.yaml"):
        check_scores(project.layout, ARMS)


def test_an_unknown_measure_is_named(project: Toy) -> None:
    params = project.params.score.model_copy(update={"measures": ("nDGC@10",)})
    with pytest.raises(UnknownName, match="nDGC@10"):
        score(project.layout, ["fts5"], params)


def test_queries_of_one_cluster_have_a_mean_and_a_wide_interval() -> None:
    values = {f"q{n}": 0.5 for n in range(12)}
    one = dict.fromkeys(values, "pattern")
    scores = {"a": {"nDCG@10": scores_of(values), "NumRet": scores_of(values, measure="NumRet")}}
    found = estimates(scores, one, Inference(confidence=0.95, resamples=1000, seed=1))["a"]
    assert set(found) == {"nDCG@10"}
    assert found["nDCG@10"].value == 0.5
    assert found["nDCG@10"].high - found["nDCG@10"].low > 0.9
