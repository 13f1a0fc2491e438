"""Quality of a run: values, reasons, and their means."""

from typing import Any

import pytest
import pytrec_eval

from harness.core.errors import EvidenceError, InvalidArm
from harness.core.run import Status
from harness.measures import quality
from harness.measures.name import COMMON, SHARE, parse
from harness.measures.quality import oracle, score, summarise, summarise_each
from harness.stats.inference import Inference
from tests.make.runs import qrels_of, random_case, run_of, scores_of

TREC = {
    "nDCG@10": "ndcg_cut_10", "P@10": "P_10", "R@50": "recall_50", "R@100": "recall_100",
    "AP@100": "map_cut_100", "RR": "recip_rank", "AP": "map",
}  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
def test_equals_trec_eval_where_no_scores_tie(seed: int) -> None:
    run, qrels = random_case(seed)
    theirs = pytrec_eval.RelevanceEvaluator(
        {q: dict(docs) for q, docs in qrels.grades.items()}, set(TREC.values())
    ).evaluate({row.query_id: {h.doc_id: h.raw_score for h in row.hits} for row in run.rows()})
    ours = score(run, qrels, tuple(TREC), run.query_ids)
    for name, trec_name in TREC.items():
        assert ours[name].query_ids == run.query_ids
        for query_id, value in ours[name].by_query.items():
            assert value == pytest.approx(theirs[query_id][trec_name], abs=1e-12)


def test_ir_measures_gives_the_same_however_many_queries_it_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, qrels = random_case(1)
    names = ("nDCG@10", "Judged@10", "AP(judged_only=True)@100")
    whole = oracle(run, qrels, names, run.query_ids)
    monkeypatch.setattr(quality, "TOGETHER", 2)
    parts = oracle(run, qrels, names, run.query_ids)
    assert len(whole["nDCG@10"].by_query) > 4
    for name in names:
        assert parts[name].by_query == whole[name].by_query
        assert parts[name].undefined == whole[name].undefined


def test_names_are_kept_as_asked() -> None:
    run, qrels = random_case(0)
    found = score(run, qrels, ("MRR@10", "RR@10", "nDCG@10"), run.query_ids)
    assert list(found) == ["MRR@10", "RR@10", "nDCG@10"]
    assert [scores.measure for scores in found.values()] == list(found)
    assert found["MRR@10"].by_query == found["RR@10"].by_query


def test_a_query_is_negative_at_the_level_that_the_measure_asks_for() -> None:
    run = run_of({"q": ["a", "b"]})
    qrels = qrels_of({"q": {"a": 1, "b": 0}})
    names = ("R@10", "R(rel=2)@10", "nDCG(gains={1: 0})@10")
    found = score(run, qrels, names, run.query_ids)
    assert found["R@10"].by_query == {"q": 1.0}
    assert found["R(rel=2)@10"].undefined == {"negative_query": ("q",)}
    assert found["nDCG(gains={1: 0})@10"].undefined == {"negative_query": ("q",)}


def test_a_query_judged_only_below_zero_is_negative_and_harmless() -> None:
    run = run_of({"good": ["a"], "negative": ["a", "x"]})
    qrels = qrels_of({"good": {"a": 1}, "negative": {"a": -2}})
    found = score(run, qrels, ("nDCG@10", "Judged@10", "NumRet"), run.query_ids)
    assert found["nDCG@10"].undefined == {"negative_query": ("negative",)}
    assert found["Judged@10"].by_query == {"good": 1.0, "negative": 0.5}
    assert found["NumRet"].by_query == {"good": 1.0, "negative": 2.0}


def test_judged_divides_by_what_is_shown_where_that_is_less_than_k() -> None:
    """ir-measures divides by the hits that there are, not by k; an empty list is 0."""
    run = run_of({"short": ["a", "x", "b"], "long": list("abcdefghijkl"), "empty": []})
    qrels = qrels_of({q: {"a": 1, "b": 0, "k": 1} for q in run.query_ids})
    found = score(run, qrels, ("Judged@10",), run.query_ids)["Judged@10"]
    assert found.by_query == {"short": pytest.approx(2 / 3), "long": 0.2, "empty": 0.0}


def test_ids_may_hold_blanks_dashes_and_any_letter() -> None:
    """A provider of ir-measures splits ids at blanks, cuts them at dashes and wants digits."""
    run = run_of({"day-1 a": ["x y", "é"], "day-2 a": ["é", "x y"]})
    qrels = qrels_of({q: {"x y": 1} for q in run.query_ids})
    found = score(run, qrels, ("nDCG@10", "ERR@10"), run.query_ids)
    assert found["nDCG@10"].by_query["day-1 a"] == 1.0
    assert found["ERR@10"].by_query == {"day-1 a": 0.0625, "day-2 a": 0.03125}


def test_one_call_says_what_many_calls_say() -> None:
    """Given together, ir-measures 0.4.3 may score a plain nDCG with the gains of another."""
    run, qrels = random_case(8)
    gains = ("", "(dcg='exp-log2')", "(gains={1: 9})", "(judged_only=True)")
    names = (*COMMON, "NumRet", *(f"nDCG{kind}@{k}" for kind in gains for k in range(1, 9)))
    together = score(run, qrels, names, run.query_ids)
    for name in names:
        alone = score(run, qrels, (name,), run.query_ids)[name]
        assert alone.by_query == together[name].by_query


RUN = run_of(
    {
        "hit": "a",
        "empty": "",
        "none": "",
        "broke": "",
        "slow": "",
        "mute": "",
        "never": "",
        "b": "b",
    },
    ended={"never": Status.NOT_ASKED, "slow": Status.TIMED_OUT}
    | dict.fromkeys(("broke", "mute", "lost"), Status.FAILED),
)
JUDGED = {"hit": 1, "empty": 1, "none": 0, "broke": 2, "slow": 1, "mute": 0, "absent": 1}
QRELS = qrels_of({query: {"a": grade} for query, grade in JUDGED.items()})


def test_each_query_has_a_value_or_one_reason() -> None:
    """What the judgements say goes before how a query ended, and a failure is never a number."""
    found = dict(score(RUN, QRELS, COMMON, (*JUDGED, "never", "lost", "ghost")))
    gone = {
        "not_asked": ("absent",),
        "timed_out": ("slow",),
        "unjudged": ("never", "lost", "ghost"),
    }
    judged = found.pop("Judged@10")
    assert judged.by_query == {"hit": 1.0, "empty": 0.0, "none": 0.0}
    assert judged.undefined == gone | {"failed": ("broke", "mute")}
    for scores in found.values():
        assert scores.query_ids == ("hit", "empty"), scores.measure
        assert scores.by_query["empty"] == 0
        assert scores.undefined == gone | {"failed": ("broke",), "negative_query": ("none", "mute")}
    assert found["RR@10"].by_query["hit"] == 1.0


def test_an_empty_query_set_and_a_repeated_query_are_no_evidence() -> None:
    with pytest.raises(EvidenceError, match="query set is empty"):
        score(RUN, QRELS, ["RR"], ())
    with pytest.raises(EvidenceError, match="query hit is in the set twice"):
        score(RUN, QRELS, ["RR"], ("none", "hit", "hit"))


def test_an_arm_that_answers_nothing_is_invalid_and_one_that_finds_nothing_is_not() -> None:
    with pytest.raises(InvalidArm, match=r"arm: none of 2 queries was answered \(broken\)"):
        score(RUN, QRELS, ["RR"], ("broke", "slow"))
    assert score(run_of({"broke": []}), QRELS, ["RR"], ("broke",))["RR"].by_query == {"broke": 0.0}


SURE: dict[str, Any] = {
    "span": SHARE,
    "inference": Inference(confidence=0.95, resamples=400, seed=7),
}


def test_many_are_summarised_as_each_alone() -> None:
    whole = {f"q{at}": at / 10 for at in range(10)}
    part = {q: 1 - of for q, of in whole.items() if q != "q3"}
    sure = {name: of for name, of in SURE.items() if name != "span"}
    clusters = {"q1": "a", "q2": "a", "q7": "b", "q8": "b"}
    asked = [
        (scores_of(whole), SHARE),
        (scores_of(part), SHARE),
        (scores_of({q: of**2 for q, of in whole.items()}), SHARE),
        (scores_of(whole), None),
        (scores_of(whole), SHARE._replace(least=-1.0)),
    ]
    estimates = summarise_each(asked, **sure, clusters=clusters)
    alone = [summarise(of, **{**SURE, "span": span}, clusters=clusters) for of, span in asked]
    assert estimates == tuple(alone)
    assert len({(one.low, one.high) for one in estimates}) == len(asked)


def test_only_judged_and_counts_rest_on_judging_alone() -> None:
    names = ("Judged@10", "NumQ", "NumRet", "NumRet(rel=1)", "P@10")
    resting = [quality.rests_on_judging_only(parse(name)) for name in names]
    assert resting == [True, True, True, False, False]
