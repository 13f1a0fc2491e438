"""judgement_bounds: a verdict that holds whatever the missing judgements say, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from harness.core.engine import Hit
from harness.core.evidence import ArmResult, Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.qrels import Qrels
from harness.core.run import Row, Run, Status
from harness.gates.judgement_bounds import Settings
from harness.measures.quality import score
from tests.make import gate_inputs

COUNT = 40
MEASURE = "RR@2"
JUDGED = {"good": 1, "bad": 0}


def arm(name: str, *rankings: str, failed: tuple[str, ...] = ()) -> Run:
    """Show the rankings in turn, e.g. ``"good bad"``."""
    rows = []
    for at, query_id in enumerate(gate_inputs.ids(COUNT)):
        hits = [Hit(doc, 1.0, 1.0) for doc in rankings[at % len(rankings)].split()]
        status = Status.FAILED if query_id in failed else Status.ANSWERED
        rows.append(Row(query_id, status, () if query_id in failed else hits))
    return Run.of(name, rows)


def evidence(control: Run, candidate: Run) -> Evidence:
    qrels = Qrels(dict.fromkeys(gate_inputs.ids(COUNT), JUDGED))

    def side(run: Run) -> ArmResult:
        scores = score(run, qrels, [MEASURE], gate_inputs.ids(COUNT))
        return ArmResult(run.arm, gate_inputs.manifest(run.arm), run, scores)

    return gate_inputs.evidence(
        COUNT, control=side(control), candidate=side(candidate), qrels=qrels
    )


def asked(of: Evidence, asks: str = "non_inferior", margin: float = 0.1) -> Finding:
    return gate_inputs.judge(
        "judgement_bounds", of, asks=asks, measure=MEASURE, margin=margin, min_queries=20
    )


@pytest.mark.parametrize(
    ("control", "candidate", "asks", "verdict"),
    [
        ("good bad", "good new", "non_inferior", Verdict.PASS),
        ("bad good", "good new", "superior", Verdict.PASS),
        ("good bad", "good new", "equivalent", Verdict.PASS),
        ("good bad", "bad good", "non_inferior", Verdict.FAIL),
        ("good new", "bad good", "equivalent", Verdict.FAIL),
        ("bad good", "new good", "non_inferior", Verdict.PASS),
        ("bad good", "new good", "superior", Verdict.INCONCLUSIVE),
        ("bad good", "new good", "equivalent", Verdict.INCONCLUSIVE),
        ("old good", "new good", "non_inferior", Verdict.INCONCLUSIVE),
        ("old good", "new good", "equivalent", Verdict.INCONCLUSIVE),
        ("new good", "new bad", "superior", Verdict.FAIL),
    ],
)
def test_one_answer_at_both_ends_or_none(
    control: str, candidate: str, asks: str, verdict: Verdict
) -> None:
    """``bad`` is judged irrelevant, ``old`` and ``new`` are not judged at all."""
    finding = asked(evidence(arm("was", control), arm("wants", candidate)), asks)
    assert finding.verdict is verdict, finding.reason
    assert finding.rule == "judgement_bounds"
    assert bool(finding.remedy) is (verdict is Verdict.INCONCLUSIVE)


def test_a_verdict_that_flips_names_the_pool() -> None:
    finding = asked(evidence(arm("was", "bad good"), arm("wants", "new good")), "superior")
    assert "with 40 missing judgements at their worst" in finding.reason
    assert finding.cause is Cause.UNJUDGED
    assert finding.remedy == (
        "judge the pool: harness pool --dataset toy --control was --candidate wants"
        " --measure RR@2 --size 100 --out pool.qrels"
    )
    assert finding.estimate is not None
    assert finding.estimate.value == 0.0
    assert (finding.estimate.low, finding.estimate.high) == pytest.approx(
        (-0.0903, 0.5451), abs=1e-4
    )


def test_where_nothing_is_missing_it_is_the_question_itself() -> None:
    """Half of the queries lose: more queries would help, no judgement would."""
    of = evidence(arm("was", "good bad"), arm("wants", "good bad", "bad good"))
    finding = asked(of, margin=0.25)
    itself = gate_inputs.judge("non_inferior", of, measure=MEASURE, margin=0.25, min_queries=20)
    assert finding.verdict is itself.verdict is Verdict.INCONCLUSIVE
    assert finding.estimate == itself.estimate
    assert finding.remedy == itself.remedy


def test_a_lost_query_is_the_worst_at_the_worse_end() -> None:
    lost = gate_inputs.ids(COUNT)[:10]
    of = evidence(arm("was", "good bad"), arm("wants", "good bad", failed=lost))
    finding = asked(of)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "has no value for 10 queries" in finding.reason


def test_too_few_queries_and_no_judgements_are_no_answer() -> None:
    of = evidence(arm("was", "good bad"), arm("wants", "good bad"))
    few = gate_inputs.judge(
        "judgement_bounds", of, asks="superior", measure=MEASURE, margin=0, min_queries=50
    )
    assert few.verdict is Verdict.INCONCLUSIVE
    assert few.cause is Cause.TOO_FEW
    assert asked(replace(of, qrels=None)).cause is Cause.NO_EVIDENCE


def test_bounds_in_words() -> None:
    words = {
        asks: Settings.model_validate({
            "asks": asks,
            "measure": MEASURE,
            "margin": 0.1,
            "min_queries": 20,
        }).bound.split()[0]
        for asks in ("non_inferior", "superior", "equivalent")
    }
    assert words == {"non_inferior": "loses", "superior": "gains", "equivalent": "differs"}


def test_a_measure_without_bounds_is_refused_when_the_policy_is_read() -> None:
    with pytest.raises(ValidationError, match="measure with bounds"):
        Settings.model_validate({
            "asks": "superior",
            "measure": "Judged@10",
            "margin": 0.1,
            "min_queries": 20,
        })
