"""The stage score: measures, means, their plot and parts."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ir_measures
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.core.batches import processes, using
from harness.core.errors import (
    BadFile,
    EvidenceError,
    HarnessError,
    IndexNotReady,
    InvalidArm,
    UnknownName,
)
from harness.core.records import Query
from harness.core.run import Run
from harness.core.scores import Estimate
from harness.corpus import trec
from harness.corpus.prepared import QRELS
from harness.corpus.runs import MEANS, SLICE_MEANS, read_run, read_scores, write_run
from harness.measures.quality import score as score_partitioned
from harness.pipeline.layout import Layout
from harness.pipeline.oneshot import measuring
from harness.pipeline.params import read
from harness.pipeline.score import (
    as_csv,
    check_scores,
    estimates,
    files_of,
    measure,
    score,
    slices,
    write_partitioned,
)
from harness.stats.inference import Inference
from tests.make.runs import qrels_of, random_case, scores_of
from tests.make.toy import ARMS, NOTHING, Toy
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
        for name, row in by_measure.items():
            assert set(row) == {"mean", "low", "high", "queries"}
            assert row["mean"] == pytest.approx(per_query[arm,][name].mean, abs=1e-12)
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
    with pytest.raises(EvidenceError, match=r"does not list .*tantivy.*params\.yaml"):
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


NUMBER = st.floats(-1, 1, allow_nan=False)
DRAWN = st.dictionaries(
    st.text(min_size=1),
    st.dictionaries(
        st.text(min_size=1), st.builds(Estimate, NUMBER, NUMBER, NUMBER, st.integers(0))
    ),
)


@given(DRAWN)
def test_what_is_written_is_read(means: dict[str, dict[str, Estimate]]) -> None:
    with TemporaryDirectory() as folder:
        MEANS.write(Path(folder, "means"), means)
        SLICE_MEANS.write(Path(folder, "slices"), {"short": means})
        assert MEANS.read(Path(folder, "means")) == means
        assert SLICE_MEANS.read(Path(folder, "slices")) == {"short": means}


def test_a_mean_is_written_with_its_interval(tmp_path: Path) -> None:
    MEANS.write(tmp_path / "means", {"fts5": {"RR@10": Estimate(0.5, 0.25, 0.75, 3)}})
    row = {"mean": 0.5, "low": 0.25, "high": 0.75, "queries": 3}
    assert json.loads((tmp_path / "means").read_text()) == {"fts5": {"RR@10": row}}


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": {"m": {"mean": 1}}}', '{"a": {"m": null}}'])
def test_what_holds_no_means_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "means.json"
    path.write_text(text)
    with pytest.raises(BadFile, match=r"means\.json:.*Make it anew"):
        MEANS.read(path)
    path.write_text(f'{{"s": {text}}}')
    with pytest.raises(BadFile, match=r"means\.json:.*Make it anew"):
        SLICE_MEANS.read(path)


@pytest.mark.slow
def test_a_row_an_arm_and_a_column_a_measure(measured: Toy) -> None:
    means = json.loads(measured.layout.scores.read_text())
    with measured.layout.means_plot.open(encoding="utf-8", newline="") as lines:
        rows = {row["arm"]: row for row in csv.DictReader(lines)}
    assert tuple(rows) == ARMS
    for arm, row in rows.items():
        assert list(row)[1:] == list(measured.params.score.measures)
        assert float(row["nDCG@10"]) == means[arm]["nDCG@10"]["mean"]


@pytest.mark.slow
def test_what_was_not_measured_is_empty_and_no_number() -> None:
    means = {"a, b": {"RR@10": Estimate(0.5, 0.4, 0.6, 10)}, "c": {}}
    assert as_csv(means, ["RR@10", "P@1"]) == 'arm,RR@10,P@1\n"a, b",0.5,\nc,,\n'


@pytest.mark.slow
def test_an_arm_that_is_a_formula_is_not_run() -> None:
    assert as_csv({"=cmd|' /C calc'!A0": {}}, ["P@1"]) == "arm,P@1\n'=cmd|' /C calc'!A0,\n"


@pytest.mark.slow
def test_dvc_shows_its_metrics_and_plots(measured: Toy, tmp_path: Path) -> None:
    """The stage ``score`` of our own pipeline, in a folder of its own with what the stage wrote."""
    stage: dict[str, Any] = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]["score"]
    kept = {key: stage[key] for key in ("matrix", "metrics", "plots")} | {"cmd": "true"}
    (tmp_path / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"score": kept}}))
    shutil.copy(measured.root / "params.yaml", tmp_path / "params.yaml")
    shutil.copytree(measured.layout.per_query.parent, tmp_path / "build" / "toy" / "scores")
    dvc(tmp_path, "init", "--no-scm", "--quiet")
    metrics = json.loads(dvc(tmp_path, "metrics", "show", "--json"))[""]["data"]
    shown = metrics["build/toy/scores/scores.json"]["data"]["tantivy"]["nDCG@10"]["mean"]
    assert shown == json.loads(measured.layout.scores.read_text())["tantivy"]["nDCG@10"]["mean"]
    dvc(tmp_path, "plots", "show", "--out", "plots")
    page = (tmp_path / "plots" / "index.html").read_text()
    assert "nDCG@10 by arm, toy" in page
    assert "hash-hybrid" in page


def dvc(folder: Path, *words: str) -> str:
    command = [str(Path(sys.executable).parent / "dvc"), *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_what_a_policy_reads_is_measured_too() -> None:
    params = read(ROOT / "params.yaml")
    asked = measuring(params, ["nDCG@8", "nDCG@10"])
    assert asked.score.measures == (*params.score.measures, "nDCG@8")
    assert asked.replay == params.replay
    with pytest.raises(HarnessError, match=r"score.measures R@9999 looks deeper than the"):
        measuring(params, ["R@9999"])
    with pytest.raises(UnknownName, match="no measure named 'nDGC@8'"):
        measuring(params, ["nDGC@8"])


NAMES = ("nDCG@10", "RR@10", "AP@100")


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """Write a run in three files, beside the judgements."""
    whole, qrels = random_case(5)
    rows = [row for row in whole.rows() if row.query_id != "q4"]
    for number in range(3):
        write_run(Run.of("arm", rows[number::3]), tmp_path / "run" / f"{number}.parquet")
    trec.write_qrels(tmp_path / "qrels", qrels)
    return tmp_path


def test_files_together_say_what_the_whole_says(parts: Path) -> None:
    whole, qrels = random_case(5)
    run = Run.of("arm", [row for row in whole.rows() if row.query_id != "q4"])
    wanted = score_partitioned(run, qrels, NAMES, qrels.query_ids)
    found = measure(files_of([parts / "run"]), parts / "qrels", NAMES, parts / "cache")
    assert not (parts / "cache").exists()
    for name in NAMES:
        assert found[name].by_query == wanted[name].by_query
        assert found[name].undefined == wanted[name].undefined
    write_partitioned(parts / "values.parquet", found)
    again = read_scores(parts / "values.parquet", [])[()]
    assert again["RR@10"].by_query == wanted["RR@10"].by_query
    assert again["RR@10"].undefined == wanted["RR@10"].undefined


@pytest.mark.slow
def test_two_processes_give_the_same_values(parts: Path) -> None:
    files = files_of([parts / "run"])
    alone = measure(files, parts / "qrels", NAMES, parts / "cache")
    with processes(2, parts / "exchanged", print) as pool, using(pool):
        found = measure(files, parts / "qrels", NAMES, parts / "cache")
    assert {name: of.by_query for name, of in found.items()} == {
        name: of.by_query for name, of in alone.items()
    }


def test_what_is_refused(parts: Path) -> None:
    files = files_of([parts / "run"])
    with pytest.raises(BadFile, match="is in another file too"):
        measure([*files, *files_of([files[0]])], parts / "qrels", NAMES, parts / "cache")
    with pytest.raises(HarnessError, match="no Parquet file"):
        files_of([parts / "absent", parts][1:])
    trec.write_qrels(parts / "others", qrels_of({"other": {"d": 1}}))
    with pytest.raises(InvalidArm, match="answers none of the judged queries"):
        measure(files, parts / "others", NAMES, parts / "cache")
    files[1].write_bytes(b"no run")
    with pytest.raises(BadFile, match="not a run"):
        measure(files, parts / "qrels", NAMES, parts / "other")
