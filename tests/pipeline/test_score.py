"""The stage score: measures, means, their plot and parts."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import (
    BadFile,
    EvidenceError,
    HarnessError,
    InvalidArm,
    UnknownName,
)
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


def test_a_run_of_other_queries_is_refused(project: Toy) -> None:
    path = project.layout.data / "queries.jsonl"
    path.write_text(path.read_text().replace("xyzzy", "xyzzyx"))
    with pytest.raises(
        EvidenceError, match=r"queries\.jsonl: was changed since .*harness stage replay"
    ):
        score(project.layout, ARMS, project.params.score)


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
