"""Runs compared, ranked, decided and drawn."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import harness
from harness.api.comparison import Inference, Leaderboard, compare, leaderboard, ranked
from harness.api.decision import decide
from harness.api.drawing import Drawing, draw_differences, draw_forest
from harness.core.errors import BadFile, EvidenceError, HarnessError, UnknownName
from harness.core.run import Status
from harness.measures.name import SHARE
from harness.pipeline.layout import left_by_run
from harness.report.doc import Cell, TableBlock, Text
from harness.report.html import fragment
from harness.report.rounding import MINUS
from harness.stats.interval import interval
from harness.stats.significance import adjusted, sign_flip
from tests.api.conftest import QUERIES, Small
from tests.make.runs import run_of
from tests.make.toy import GATES, HEAD, STEP, Toy


def test_the_numbers_are_those_of_the_report(small: Small, sure: Inference) -> None:
    found = compare(small.control, small.better, small.qrels, "RR@10", sure=sure)
    apart = np.array([0.5 if at % 3 else 0.0 for at in range(len(QUERIES))])
    span = SHARE.differences
    assert found.estimate == interval(apart, span=span, inference=sure, clusters=None)
    assert found.p_value == sign_flip(
        apart, shift=0, alternative="two-sided", resamples=2_000, seed=5, clusters=None
    )
    assert len(found.better) == 20
    assert found.worse == ()
    assert repr(found).startswith("better against control, RR@10: +0.3333 [")


def test_the_greatest_loss_comes_first(small: Small, sure: Inference) -> None:
    control = run_of({"q00": ["b", "a"], "q01": ["a"], "q02": ["b", "c", "a"]}, "control")
    candidate = run_of({"q00": ["b", "c", "a"], "q01": ["b", "a"], "q02": ["a"]}, "candidate")
    asked = ["q00", "q01", "q02"]
    found = compare(control, candidate, small.qrels, "RR@10", sure=sure, queries=asked)
    assert found.worse == ("q01", "q00")
    assert found.better == ("q02",)
    rows = found.frame().to_dict("index")
    assert list(rows) == ["q01", "q00", "q02"]
    assert rows["q01"] == {"control": 1.0, "candidate": 0.5, "difference": -0.5}


def test_queries_of_one_intent_are_drawn_together(small: Small, sure: Inference) -> None:
    intents = {q: f"i{at // 10}" for at, q in enumerate(QUERIES)}
    alone = compare(small.control, small.worse, small.qrels, "RR@10", sure=sure)
    together = compare(small.control, small.worse, small.qrels, "RR@10", sure=sure, intents=intents)
    assert together.estimate.value == alone.estimate.value
    assert together.p_value == 0.25  # three clusters: two of eight choices of signs
    assert alone.p_value < 0.01


def test_a_lost_query_is_told_and_not_counted(small: Small, sure: Inference) -> None:
    rankings = {q: ["a"] for q in QUERIES} | {"q07": []}
    broken = run_of(rankings, "broken", ended={"q07": Status.FAILED})
    found = compare(small.control, broken, small.qrels, "RR@10", sure=sure)
    assert found.paired.unpaired == ("q07",)
    assert found.estimate.n == 29
    assert "1 lost" in found._repr_html_()


def test_one_query_says_nearly_nothing(small: Small, sure: Inference) -> None:
    found = compare(
        small.control, small.better, small.qrels, "RR@10", sure=sure, queries=["q00"]
    ).estimate
    assert found.n == 1
    assert found.low < -0.9
    assert found.high > 0.9


@pytest.mark.parametrize(
    ("words", "said"),
    [({"confidence": 1.0}, "confidence is 1"), ({"resamples": 0}, "resamples is 0")],
)
def test_nobody_is_surer_than_sure(words: dict[str, float], said: str) -> None:
    given = {"confidence": 0.95, "resamples": 1_000, "seed": 1} | words
    with pytest.raises(HarnessError, match=said):
        Inference(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["confidence", "resamples", "seed"])
def test_nothing_has_a_default(name: str) -> None:
    given = {"confidence": 0.95, "resamples": 1_000, "seed": 1}
    del given[name]
    with pytest.raises(TypeError, match=name):
        Inference(**given)  # type: ignore[arg-type]


MEASURES = ("RR@10", "P@1")


@pytest.fixture
def board(small: Small, sure: Inference) -> Leaderboard:
    return leaderboard(small.control, small.candidates, small.qrels, MEASURES, sure=sure)


def test_the_best_comes_first_and_is_marked(board: Leaderboard) -> None:
    assert list(board.scores) == ["better", "control", "worse"]
    marks = [board.mark(arm, "RR@10") for arm in board.scores]
    assert marks == ["†", "", "‡"]
    assert board.mark("worse", "P@1") == ""
    assert repr(board).splitlines()[2] == "worse: RR@10 0.2500‡, P@1 0"
    assert board.best("RR@10") == board.mean("better", "RR@10")


def test_p_values_are_corrected_over_the_whole_table(board: Leaderboard) -> None:
    p_values = np.array([one.p_value for one in board.differences.values()])
    assert list(board.corrected.values()) == adjusted(p_values).tolist()
    assert len(p_values) == 4
    assert "(comparisons: 4)" in board.note
    assert "p below 0.05" in board.note


def test_a_mark_goes_where_the_correction_takes_it(small: Small, board: Leaderboard) -> None:
    p = board.corrected["better", "RR@10"]
    assert replace(board, level=p).mark("better", "RR@10") == ""
    assert replace(board, level=p * 1.01).mark("better", "RR@10") == "†"
    assert small


def test_a_frame_has_everything_unrounded(board: Leaderboard) -> None:
    rows = board.frame().set_index(["arm", "measure"]).to_dict("index")
    assert len(rows) == 6
    row = rows["better", "RR@10"]
    found = board.differences["better", "RR@10"]
    assert (row["difference"], row["low"]) == (found.estimate.value, found.estimate.low)
    assert row["p_holm"] == board.corrected["better", "RR@10"]
    assert np.isnan(rows["control", "RR@10"]["difference"])


def test_it_shows_itself_escaped(small: Small, sure: Inference) -> None:
    other = replace(small.better, arm="<b>x</b>")
    said = leaderboard(small.control, [other], small.qrels, ["RR@10"], sure=sure)._repr_html_()
    assert "<b>" not in said
    assert "&lt;b&gt;" in said
    assert "Holm" in said


def test_two_of_one_name_are_refused(small: Small, sure: Inference) -> None:
    with pytest.raises(EvidenceError, match="two runs are named control"):
        leaderboard(small.control, [small.control], small.qrels, MEASURES, sure=sure)


def test_nothing_to_compare_is_refused(small: Small, sure: Inference) -> None:
    with pytest.raises(EvidenceError, match="another run"):
        leaderboard(small.control, [], small.qrels, MEASURES, sure=sure)


def test_an_unknown_control_or_measure_is_named(board: Leaderboard, sure: Inference) -> None:
    with pytest.raises(UnknownName, match="no arm to be the control named 'x'"):
        ranked(board.scores, "x", MEASURES, sure, {})
    with pytest.raises(UnknownName, match="AP@5"):
        ranked(board.scores, "control", ["AP@5"], sure, {})


def test_lost_queries_are_told(small: Small, board: Leaderboard, sure: Inference) -> None:
    broken = run_of({q: ["a"] for q in QUERIES}, "broken", ended={"q03": Status.TIMED_OUT})
    found = leaderboard(small.control, [broken], small.qrels, ["RR@10"], sure=sure)
    assert "one of two runs failed: 1." in found.note
    assert "missing" not in board.note


def test_a_measure_without_pairs_is_left_open(small: Small, sure: Inference) -> None:
    one = run_of({"q00": ["a"]}, "one")
    control = run_of({"q00": ["b", "a"]}, "control")
    found = leaderboard(control, [one], small.qrels, ["RR@10"], sure=sure, queries=["q00"])
    assert found.differences == {}
    assert found.mark("one", "RR@10") == ""


def test_queries_in_nearly_the_same_words_are_one_cluster() -> None:
    texts = {"a": "Set the axis label", "b": "inverse of a matrix", "c": "how to set axis labels"}
    assert harness.near_duplicates(texts) == {"a": "like a", "c": "like a"}


def test_they_widen_an_interval_as_intents_do(small: Small, sure: Inference) -> None:
    texts = {
        q: ["wind over a wing", "laminar boundary layer", "heat of a nozzle"][at % 3]
        for at, q in enumerate(QUERIES)
    }
    groups = harness.near_duplicates(texts)
    runs = small.control, small.worse, small.qrels, "RR@10"
    alone = harness.compare(*runs, sure=sure)
    together = harness.compare(*runs, sure=sure, intents=groups)
    assert together.estimate.low < alone.estimate.low


@pytest.fixture(scope="module")
def left(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lay the evidence of the small project out as ``harness run`` does."""
    out = tmp_path_factory.mktemp("left") / "out"
    copy = measured.copied(out / "project")
    (out / "work" / "build").mkdir(parents=True)
    copy.layout.root.rename(out / "work" / "build" / "toy")
    copy.layout.today.rename(out / "work" / "perf")
    return out


@pytest.mark.slow
def test_a_policy_is_asked_of_what_is_there(left: Path, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(HEAD + STEP + GATES)
    found = decide(tmp_path / "p.toml", left, control="fts5")
    assert found.policy == "toy migration"
    by_name = {step.step: step for step in found.steps}
    assert set(by_name) == {"tantivy", "hash-hybrid"}
    assert by_name["tantivy"].outcome.value == "promote"
    frame = found.frame()
    assert set(frame["gate"]) >= {"Quality", "Overlap"}
    row = frame[(frame["gate"] == "Quality") & (frame["step"] == "tantivy")].iloc[0]
    assert row["verdict"] == "pass"
    assert row["low"] > row["limit"] == -0.15
    assert "PROMOTE (fts5 → tantivy)" in found._repr_html_()
    assert "tantivy: PROMOTE (fts5 → tantivy)\n  PASS: Who answers\n" in repr(found)


@pytest.mark.slow
def test_a_stricter_bound_holds_and_says_why(left: Path, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(HEAD + STEP + GATES.replace("floor = 0.6", "floor = 0.999"))
    found = decide(tmp_path / "p.toml", left)
    assert found.exit_code == 1
    assert "HOLD" in found._repr_html_()
    assert 'class="verdict fail"' in found._repr_html_()


class Mlflow(list[tuple[object, ...]]):
    """The three calls of MLflow that are used; what they get is in the list."""

    def log_metrics(self, found: dict[str, float]) -> None:
        self.extend(found.items())

    def set_tags(self, found: dict[str, str]) -> None:
        self.extend(found.items())

    def log_artifact(self, file: str, folder: str) -> None:
        self.append((folder, Path(file).name))


def test_a_folder_is_logged_to_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"mean": 0.5, "low": 0.25, "high": 0.75, "queries": 3}
    step = {"step": "new", "verdict": "pass", "outcome": "promote"}
    (tmp_path / "scores.json").write_text(
        json.dumps({"a+b": {"nDCG@10": row, "RR": row | {"low": None}}})
    )
    (tmp_path / "decision.json").write_text(json.dumps({"datasets": [{"steps": [step]}]}))
    (tmp_path / "work").mkdir()
    monkeypatch.setitem(sys.modules, "mlflow", logged := Mlflow())
    harness.log_to_mlflow(tmp_path)
    assert logged == [
        ("a_b.nDCG_at_10.mean", 0.5), ("a_b.nDCG_at_10.low", 0.25), ("a_b.nDCG_at_10.high", 0.75),
        ("a_b.RR.mean", 0.5), ("a_b.RR.high", 0.75),
        ("new.verdict", "pass"), ("new.outcome", "promote"),
        (tmp_path.name, "decision.json"), (tmp_path.name, "scores.json"),
    ]  # fmt: skip


def test_a_folder_without_evidence_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="holds the evidence of none"):
        left_by_run(tmp_path)


@pytest.mark.parametrize("place", ["caption", "header", "cell", "first", "note", "text"])
def test_every_text_is_escaped_wherever_it_stands(place: str) -> None:
    given = dict.fromkeys(["caption", "header", "cell", "first", "note", "text"], "plain")
    given[place] = "<img src=x onerror='alert(1)'>&\u202e"
    cells = (Cell(given["first"]), Cell(given["cell"], given["note"]))
    said = fragment([
        TableBlock(given["caption"], (given["header"], "b"), (cells,)),
        Text(given["text"]),
    ])
    assert "<img" not in said
    assert "&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&amp;⟨U+202E⟩" in said
    assert said.index('<th scope="row">') < said.index("<td")


BEGINS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.fixture
def drawings(small: Small, sure: Inference) -> tuple[Drawing, Drawing]:
    apart = compare(small.control, small.worse, small.qrels, "RR@10", sure=sure)
    board = leaderboard(small.control, small.candidates, small.qrels, ["RR@10", "P@1"], sure=sure)
    return draw_differences(apart), draw_forest(board)


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_is_drawn_is_said(drawings: tuple[Drawing, Drawing]) -> None:
    differences, forest = (drawing._repr_svg_() for drawing in drawings)
    assert "RR@10: worse - control" in differences
    assert f"mean {MINUS}0.25" in differences
    assert "better †" in forest
    assert "P@1, difference from control" in forest
    assert [repr(drawing) for drawing in drawings] == [
        "Differences of RR@10 by query, worse - control",
        "Differences from control of RR@10, P@1, with intervals",
    ]


@pytest.mark.slow
def test_another_ending_is_refused(drawings: tuple[Drawing, Drawing], tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"a\.gif"):
        drawings[0].save(tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())
