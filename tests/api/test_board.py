"""A table of runs, with marks of significance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.api.comparison import Inference, Leaderboard, leaderboard, ranked
from harness.core.errors import EvidenceError, UnknownName
from harness.core.run import Status
from harness.stats.significance import adjusted
from tests.api.conftest import QUERIES, Small
from tests.make.runs import run_of

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
