"""Runs compared, ranked, decided, drawn and exported."""

import csv
import json
import sys
from pathlib import Path
from unittest.mock import Mock, call

import numpy as np
import pytest

import harness
from harness.api import export as files
from harness.api.comparison import compare, score
from harness.api.data import load_qrels, load_run
from harness.api.decision import decide
from harness.api.drawing import Drawing, draw_differences, draw_forest
from harness.api.export import ExportRequest, export, values_csv
from harness.api.paper_table import table
from harness.core.errors import EvidenceError
from harness.core.run import Status
from harness.core.scores import Scores
from harness.corpus.runs import read_run
from harness.measures.name import SHARE
from harness.stats.interval import interval
from harness.stats.significance import sign_flip
from tests.api.conftest import QUERIES, SURE, Small
from tests.make.runs import run_of
from tests.make.toy import ARMS, GATES, HEAD, STEP, Toy


def test_the_numbers_are_those_of_the_report(small: Small) -> None:
    found = compare(small.control, small.better, small.qrels, "RR@10", sure=SURE)
    apart = np.array([0.5 if at % 3 else 0.0 for at in range(len(QUERIES))])
    span = SHARE.differences
    assert found.estimate == interval(apart, span=span, inference=SURE, clusters=None)
    assert found.p_value == sign_flip(
        apart, resamples=SURE.resamples, seed=SURE.seed, clusters=None
    )
    assert len(found.better) == 20
    assert found.worse == ()
    assert repr(found).startswith("better against control, RR@10: +0.3333 [")


def test_the_greatest_loss_comes_first(small: Small) -> None:
    control = run_of({"q00": ["b", "a"], "q01": ["a"], "q02": ["b", "c", "a"]}, "control")
    candidate = run_of({"q00": ["b", "c", "a"], "q01": ["b", "a"], "q02": ["a"]}, "candidate")
    asked = ["q00", "q01", "q02"]
    found = compare(control, candidate, small.qrels, "RR@10", sure=SURE, queries=asked)
    assert found.worse == ("q01", "q00")
    assert found.better == ("q02",)
    rows = found.frame().to_dict("index")
    assert list(rows) == ["q01", "q00", "q02"]
    assert rows["q01"] == {"control": 1.0, "candidate": 0.5, "difference": -0.5}


def test_queries_of_one_intent_are_drawn_together(small: Small) -> None:
    intents = {q: f"i{at // 10}" for at, q in enumerate(QUERIES)}
    alone = compare(small.control, small.worse, small.qrels, "RR@10", sure=SURE)
    together = compare(small.control, small.worse, small.qrels, "RR@10", sure=SURE, intents=intents)
    assert together.estimate.value == alone.estimate.value
    assert together.p_value == 0.25  # three clusters: two of eight choices of signs
    assert alone.p_value < 0.01


def test_a_lost_query_is_told_and_not_counted(small: Small) -> None:
    rankings = {q: ["a"] for q in QUERIES} | {"q07": []}
    broken = run_of(rankings, "broken", ended={"q07": Status.FAILED})
    found = compare(small.control, broken, small.qrels, "RR@10", sure=SURE)
    assert found.paired.unpaired == ("q07",)
    assert found.estimate.n == 29
    assert "1 lost" in found._repr_html_()


def test_queries_in_nearly_the_same_words_are_one_cluster() -> None:
    texts = {"a": "Set the axis label", "b": "inverse of a matrix", "c": "how to set axis labels"}
    assert harness.near_duplicates(texts) == {"a": "like a", "c": "like a"}


@pytest.fixture(scope="module")
def left(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lay the evidence of the small project out as ``harness run`` does."""
    out = tmp_path_factory.mktemp("left") / "out"
    copy = measured.copied(out / "project")
    (out / "work" / "build").mkdir(parents=True)
    copy.layout.root.rename(out / "work" / "build" / "toy")
    copy.layout.today.rename(out / "work" / "perf")
    return out


def test_a_policy_is_asked_of_what_is_there(left: Path, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(HEAD + STEP + GATES)
    found = decide(tmp_path / "p.toml", left, control="fts5")
    assert found.policy == "toy migration"
    outcomes = {step.step: step.outcome.value for step in found.steps}
    assert outcomes.keys() == {"tantivy", "hash-hybrid"}
    assert outcomes["tantivy"] == "promote"
    frame = found.frame()
    assert set(frame["gate"]) >= {"Quality", "Overlap"}
    row = frame[(frame["gate"] == "Quality") & (frame["step"] == "tantivy")].iloc[0]
    assert row["verdict"] == "pass"
    assert row["low"] > row["limit"] == -0.15
    assert "PROMOTE (fts5 → tantivy)" in found._repr_html_()
    assert "tantivy: PROMOTE (fts5 → tantivy)\n  PASS: Who answers\n" in repr(found)


def test_a_folder_is_logged_to_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"mean": 0.5, "low": 0.25, "high": 0.75, "queries": 3}
    step = {"step": "new", "verdict": "pass", "outcome": "promote"}
    scores = {"a+b": {"nDCG@10": row, "RR": row | {"low": None}}}
    (tmp_path / "scores.json").write_text(json.dumps(scores))
    (tmp_path / "decision.json").write_text(json.dumps({"datasets": [{"steps": [step]}]}))
    (tmp_path / "work").mkdir()
    monkeypatch.setitem(sys.modules, "mlflow", logged := Mock())
    harness.log_to_mlflow(tmp_path)
    name = "a_b.nDCG_at_10"
    assert logged.mock_calls == [
        call.log_metrics({f"{name}.mean": 0.5, f"{name}.low": 0.25, f"{name}.high": 0.75}),
        call.log_metrics({"a_b.RR.mean": 0.5, "a_b.RR.high": 0.75}),
        call.set_tags({"new.verdict": "pass", "new.outcome": "promote"}),
        call.log_artifact(str(tmp_path / "decision.json"), tmp_path.name),
        call.log_artifact(str(tmp_path / "scores.json"), tmp_path.name),
    ]


BEGINS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.fixture
def drawings(small: Small) -> tuple[Drawing, Drawing]:
    apart = compare(small.control, small.worse, small.qrels, "RR@10", sure=SURE)
    runs = [small.control, small.better, small.worse]
    found = table(runs, small.qrels, ["RR@10", "P@1"], baseline="control", sure=SURE)
    return draw_differences(apart), draw_forest(found)


@pytest.mark.parametrize("kind", BEGINS)
def test_each_format_is_what_it_says_and_the_same_twice(
    drawings: tuple[Drawing, Drawing], tmp_path: Path, kind: str
) -> None:
    for at, drawing in enumerate(drawings):
        for name in ("one", "two"):
            drawing.save(tmp_path / f"{name}{at}.{kind}")
        one, two = ((tmp_path / f"{name}{at}.{kind}").read_bytes() for name in ("one", "two"))
        assert one.startswith(BEGINS[kind])
        assert one == two


WANTED = ExportRequest("fts5", (), ("nDCG@10", "RR@10"), ("svg",))


@pytest.fixture(scope="module")
def written(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("export")
    files = export(measured.layout, WANTED, SURE, to)
    assert sorted(files) == sorted(path for path in to.rglob("*") if path.is_file())
    return to


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_the_runs_and_judgements_give_the_same_values_again(measured: Toy, written: Path) -> None:
    qrels = load_qrels(written / "qrels.trec")
    means = json.loads(measured.layout.scores.read_text())
    asked = read_run(measured.layout.run("fts5")).query_ids
    for arm in ARMS:
        run = load_run(written / "runs" / f"{arm}.trec", empty=asked)
        found = score(run, qrels, ["nDCG@10"], queries=asked).scores["nDCG@10"].mean
        assert found == pytest.approx(means[arm]["nDCG@10"]["mean"], abs=1e-12)


def test_the_table_is_that_of_the_pipeline(measured: Toy, written: Path) -> None:
    means = json.loads(measured.layout.scores.read_text())
    apart = json.loads(measured.layout.differences.read_text())["fts5~tantivy"]
    every = rows(written / "table.csv")
    levels = {(row["system"], row["measure"]): row for row in every if row["mean"]}
    pairs = {(row["system"], row["measure"]): row for row in every if row["difference"]}
    assert len(levels) == len(ARMS) * 2
    assert len(pairs) == len(levels) - 2
    for measure in WANTED.measures:
        row = pairs["tantivy", measure]
        assert float(levels["tantivy", measure]["mean"]) == means["tantivy"][measure]["mean"]
        ends = [float(row[name]) for name in ("difference", "low", "high")]
        assert ends == pytest.approx([apart[measure][name] for name in ("mean", "low", "high")])
        assert float(row["p_corrected"]) >= float(row["p"])
    assert r"\toprule" in (written / "table.tex").read_text()
    assert "after Holm's correction over" in (written / "table.md").read_text()


def test_a_query_without_a_value_stands_there_with_its_reason(small: Small, tmp_path: Path) -> None:
    broken = run_of({q: ["a"] for q in QUERIES}, "broken", ended={"q07": Status.FAILED})
    scores = {run.arm: score(run, small.qrels, ["RR@10"]).scores for run in (small.control, broken)}
    (tmp_path / "values.csv").write_text(values_csv(scores, ["RR@10"]))
    found = rows(tmp_path / "values.csv")
    assert len(found) == 2 * len(QUERIES)
    (lost,) = (row for row in found if not row["value"])
    assert (lost["arm"], lost["query_id"], lost["undefined"]) == ("broken", "q07", "failed")


def test_a_lost_query_is_counted_below_the_table(
    measured: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoilt(of: Scores) -> Scores:
        lost = {"failed": of.query_ids[:1], **of.undefined}
        return Scores(of.measure, of.query_ids[1:], of.values[1:], lost)

    read = files._scores(measured.layout, WANTED)  # noqa: SLF001  what was measured
    tantivy = {name: spoilt(of) for name, of in read["tantivy"].items()}
    monkeypatch.setattr(files, "_scores", lambda *_: {**read, "tantivy": tantivy})
    export(measured.layout, WANTED, SURE, tmp_path)
    assert "Queries without a value: tantivy 1." in (tmp_path / "table.md").read_text()


def test_an_export_leaves_nothing_of_an_earlier_one(measured: Toy, tmp_path: Path) -> None:
    export(measured.layout, WANTED, SURE, tmp_path)
    (tmp_path / "forest.txt").write_text("mine")
    wanted = ExportRequest("fts5", ("fts5",), ("nDCG@10",), ())
    files = export(measured.layout, wanted, SURE, tmp_path)
    left = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {*files, tmp_path / "forest.txt"}


@pytest.mark.parametrize(("arm", "measure"), [("fts5", "nDCG@10"), ("tantivy", "Judged@10")])
def test_no_forest_is_drawn_where_nothing_is_tested(
    measured: Toy, tmp_path: Path, arm: str, measure: str
) -> None:
    wanted = ExportRequest("fts5", (arm,), (measure,), ("svg",))
    assert tmp_path / "forest.svg" not in export(measured.layout, wanted, SURE, tmp_path)


def test_a_run_that_was_changed_since_is_refused(project: Toy, tmp_path: Path) -> None:
    run = project.layout.run("tantivy")
    run.write_bytes(project.layout.run("fts5").read_bytes())
    with pytest.raises(EvidenceError):
        export(project.layout, WANTED, SURE, tmp_path / "paper")
