"""failure_rate, duplicates, agreement_floor and identity, and what was not compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from harness.agreement import Class
from harness.core.engine import Hit
from harness.core.errors import EvidenceError
from harness.core.evidence import Evidence
from harness.core.gate import Cause, Verdict
from harness.core.run import Row, Run, Status
from harness.gates.base.queries import class_of, share_of
from tests.make import gate_inputs

pytestmark = pytest.mark.slow

FLOOR = {"measure": "Jaccard@50", "floor": 0.8, "min_queries": 20}


def failing(new: int, old: int = 0, count: int = 1_000, how: Status = Status.FAILED) -> Evidence:
    evidence = gate_inputs.evidence(count)
    names = gate_inputs.ids(count)
    return replace(
        evidence,
        control=replace(
            evidence.control, run=gate_inputs.run("old", names, dict.fromkeys(names[:old], how))
        ),
        candidate=replace(
            evidence.candidate, run=gate_inputs.run("new", names, dict.fromkeys(names[:new], how))
        ),
    )


@pytest.mark.parametrize("how", [Status.FAILED, Status.TIMED_OUT, Status.NOT_ASKED])
@pytest.mark.parametrize(
    ("new", "verdict"), [(0, Verdict.PASS), (8, Verdict.INCONCLUSIVE), (40, Verdict.FAIL)]
)
def test_failure_rate(how: Status, new: int, verdict: Verdict) -> None:
    finding = gate_inputs.judge("failure_rate", failing(new, how=how), max_share=0.01)
    assert finding.verdict is verdict
    assert finding.estimate is not None
    assert finding.estimate.value == new / 1_000


def test_failures_of_the_control_are_named_and_count() -> None:
    finding = gate_inputs.judge("failure_rate", failing(0, old=40), max_share=0.01)
    assert finding.verdict is Verdict.FAIL
    assert "old: 40 of 1000 went unanswered (40 failed)" in finding.reason


def test_queries_of_one_cluster_fail_together_and_are_no_more_witnesses() -> None:
    evidence = failing(0, count=800)
    pairs = {q: f"like {at // 8}" for at, q in enumerate(gate_inputs.ids(800))}
    assert gate_inputs.judge("failure_rate", evidence, max_share=0.01).verdict is Verdict.PASS
    finding = gate_inputs.judge("failure_rate", replace(evidence, clusters=pairs), max_share=0.01)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "0 of 800 in 100 clusters went unanswered" in finding.reason
    alone = gate_inputs.judge("failure_rate", failing(0, count=100), max_share=0.01)
    assert finding.estimate
    assert alone.estimate
    assert alone.estimate.high < finding.estimate.high < 1.1 * alone.estimate.high


def test_a_cluster_that_fails_whole_counts_by_its_size() -> None:
    """Where two groups of eight fail whole, an effective number of queries passed 13 %."""
    rng = np.random.default_rng(7)
    codes = np.repeat(np.arange(186), [8] * 2 + [1] * 184)
    bound, passed = 0.05, 0
    for _ in range(400):
        fails = np.zeros(186, dtype=bool)
        fails[:2] = rng.random(2) < bound * 200 / 16
        passed += share_of(fails[codes], codes, gate_inputs.RULES).high < bound
    assert passed <= 0.045 * 400


def test_no_failure_among_few_proves_little_and_says_how_many_would() -> None:
    finding = gate_inputs.judge("failure_rate", failing(0, count=100), max_share=0.01)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.remedy.startswith("368 independent queries")


def test_an_empty_answer_is_no_failure() -> None:
    evidence = gate_inputs.evidence(1_000)
    rows = [Row(q, Status.ANSWERED, (), "f") for q in gate_inputs.ids(1_000)]
    nothing = replace(evidence.candidate, run=Run.of("new", rows))
    finding = gate_inputs.judge(
        "failure_rate", replace(evidence, candidate=nothing), max_share=0.01
    )
    assert finding.verdict is Verdict.PASS


@pytest.mark.parametrize(
    "row",
    [
        Row("q1", Status.ANSWERED, (), "f", error="no such table"),
        Row("q1", Status.FAILED, (Hit("d1", 1.0, 1.0),), "f", error="late"),
    ],
)
def test_an_error_taken_for_an_answer_is_refused(row: Row) -> None:
    evidence = gate_inputs.evidence(1)
    spoiled = replace(evidence.candidate, run=Run.of("new", [row]))
    with pytest.raises(EvidenceError, match="an error is not an empty answer"):
        gate_inputs.judge("failure_rate", replace(evidence, candidate=spoiled), max_share=0.01)


@pytest.mark.parametrize("rule", ["failure_rate", "duplicates"])
def test_shares_of_no_queries_never_pass(rule: str) -> None:
    finding = gate_inputs.judge(rule, gate_inputs.evidence(0), max_share=0.01)
    assert finding.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("doubled", "verdict"), [(0, Verdict.PASS), (8, Verdict.INCONCLUSIVE), (40, Verdict.FAIL)]
)
def test_duplicates(doubled: int, verdict: Verdict) -> None:
    evidence = gate_inputs.evidence(1_000)
    hit = Hit("d1", 1.0, 1.0)
    rows = [
        Row(q, Status.ANSWERED, (hit, hit) if at < doubled else (hit,), "f")
        for at, q in enumerate(gate_inputs.ids(1_000))
    ]
    evidence = replace(evidence, candidate=replace(evidence.candidate, run=Run.of("new", rows)))
    finding = gate_inputs.judge("duplicates", evidence, max_share=0.01)
    assert finding.verdict is verdict
    assert f"new: {doubled} of 1000" in finding.reason


def classed(classes: Sequence[str], **changes: object) -> Evidence:
    count = len(classes)
    return gate_inputs.evidence(
        count, **{"agreement": gate_inputs.agreement(count, "Jaccard@50", None, classes)} | changes
    )


@pytest.mark.parametrize("why", ["skipped", "stale", "shed", "error"])
def test_what_was_passed_over_is_not_taken_for_equal(why: str) -> None:
    said = rf"10 queries that both arms answered were not compared \(.*: {why}\)"
    with pytest.raises(EvidenceError, match=said):
        class_of(classed(["exact"] * 90 + [why] * 10))


def test_queries_that_were_never_compared_are_refused() -> None:
    few = gate_inputs.agreement(50, "Jaccard@50", None)
    with pytest.raises(EvidenceError, match=r"50 queries .* not compared \(.*: never tried\)"):
        class_of(replace(gate_inputs.evidence(100), agreement=few))


@pytest.mark.parametrize("status", [Status.FAILED, Status.TIMED_OUT, Status.NOT_ASKED])
def test_what_an_arm_did_not_answer_is_a_failure_and_no_missing_comparison(status: Status) -> None:
    compared = classed([Class.ERROR] * 50 + [Class.EXACT] * 950)
    given = replace(failing(50, how=status), agreement=compared.agreement)
    assert len(class_of(given)) == 1_000
    finding = gate_inputs.judge("failure_rate", given, max_share=0.01)
    assert finding.verdict is Verdict.FAIL
    assert "50 of 1000" in finding.reason.replace(",", "")


def test_a_query_that_failed_cannot_have_been_compared() -> None:
    evidence = failing(3, count=100)
    with pytest.raises(EvidenceError, match="new did not answer 3 queries that count as compared"):
        class_of(evidence)


@pytest.mark.parametrize("classes", [["exact", "equalish"], ["exact", ""]])
def test_an_unknown_class_is_refused(classes: Sequence[str]) -> None:
    with pytest.raises(EvidenceError, match="no such class"):
        class_of(classed(classes))


def test_a_query_compared_twice_is_refused() -> None:
    twice = replace(gate_inputs.agreement(2, "Jaccard@50", None), query_ids=("q0000", "q0000"))
    with pytest.raises(EvidenceError, match="twice"):
        class_of(replace(gate_inputs.evidence(1), agreement=twice))


def agreeing(mean: float, spread: float = 0.05, noise: float = 1.0) -> Evidence:
    count = 100
    values = np.clip(gate_inputs.shifted(np.full(count, mean), 0.0, spread), 0, 1)
    return gate_inputs.evidence(
        count,
        agreement=gate_inputs.agreement(count, "Jaccard@50", values),
        noise=gate_inputs.agreement(count, "Jaccard@50", np.full(count, noise)),
    )


@pytest.mark.parametrize(
    ("mean", "spread", "verdict"),
    [(0.9, 0.03, Verdict.PASS), (0.7, 0.05, Verdict.FAIL), (0.81, 0.2, Verdict.INCONCLUSIVE)],
)
def test_agreement_floor(mean: float, spread: float, verdict: Verdict) -> None:
    finding = gate_inputs.judge("agreement_floor", agreeing(mean, spread), **FLOOR)
    assert finding.verdict is verdict
    assert "control against itself 1.0000" in finding.reason


def test_a_control_that_differs_from_itself_blames_nobody() -> None:
    finding = gate_inputs.judge("agreement_floor", agreeing(0.7, noise=0.75), **FLOOR)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "agrees with itself" in finding.remedy


def test_undefined_agreement_is_counted_and_never_zero() -> None:
    evidence = agreeing(0.9)
    both_empty = gate_inputs.scores(
        "Jaccard@50",
        evidence.agreement.scores["Jaccard@50"].values[:90],
        {"both_empty": gate_inputs.ids(100)[90:]},
    )
    evidence = replace(
        evidence, agreement=replace(evidence.agreement, scores={"Jaccard@50": both_empty})
    )
    finding = gate_inputs.judge("agreement_floor", evidence, **FLOOR)
    assert finding.verdict is Verdict.PASS
    assert "10 undefined (both_empty)" in finding.reason
    assert finding.estimate is not None
    assert finding.estimate.n == 90


def test_a_skipped_comparison_with_a_perfect_score_is_refused() -> None:
    evidence = agreeing(1.0, spread=0.0)
    skipped = replace(evidence.agreement, classes=("skipped",) * 100)
    with pytest.raises(EvidenceError, match="a skipped comparison is not an equal one"):
        gate_inputs.judge("agreement_floor", replace(evidence, agreement=skipped), **FLOOR)


def test_an_agreement_that_is_nan_never_passes() -> None:
    evidence = agreeing(0.9)
    evidence.agreement.scores["Jaccard@50"].values[3] = np.nan
    with pytest.raises(EvidenceError, match="NaN"):
        gate_inputs.judge("agreement_floor", evidence, **FLOOR)


def test_agreement_of_no_queries_never_passes() -> None:
    empty = gate_inputs.agreement(0, "Jaccard@50", np.empty(0))
    evidence = gate_inputs.evidence(0, agreement=empty, noise=empty)
    assert gate_inputs.judge("agreement_floor", evidence, **FLOOR).verdict is Verdict.INCONCLUSIVE


def served(by: Mapping[str, str], count: int = 20) -> Evidence:
    """Let others serve some of the candidate's answers."""
    evidence = gate_inputs.evidence(count)
    own = evidence.candidate.manifest.fingerprint
    rows = [
        row._replace(served_by=by.get(row.query_id, own)) for row in evidence.candidate.run.rows()
    ]
    return replace(evidence, candidate=replace(evidence.candidate, run=Run.of("new", rows)))


def test_identity_passes_where_each_arm_answered_for_itself() -> None:
    assert gate_inputs.judge("identity", served({})).verdict is Verdict.PASS


def test_one_answer_of_another_engine_fails() -> None:
    fallback = gate_inputs.manifest("old").fingerprint
    finding = gate_inputs.judge("identity", served({"q0003": fallback}))
    assert finding.verdict is Verdict.FAIL
    assert f"1 of 20 answers of new were served by {fallback[:12]}" in finding.reason


def test_an_answer_without_a_name_fails() -> None:
    finding = gate_inputs.judge("identity", served({"q0003": ""}))
    assert finding.verdict is Verdict.FAIL
    assert "an engine without a name" in finding.reason


def test_arms_over_different_documents_fail() -> None:
    evidence = gate_inputs.evidence(10)
    other = gate_inputs.manifest("new", corpus="decade")
    rows = [
        Row(q, Status.ANSWERED, (Hit("d1", 1.0, 1.0),), other.fingerprint)
        for q in gate_inputs.ids(10)
    ]
    smaller = replace(evidence.candidate, manifest=other, run=Run.of("new", rows))
    finding = gate_inputs.judge("identity", replace(evidence, candidate=smaller))
    assert finding.verdict is Verdict.FAIL
    assert "searched other documents" in finding.reason


def test_an_arm_that_never_answered_proves_nothing() -> None:
    finding = gate_inputs.judge("identity", failing(10, count=10))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.cause is Cause.UNANSWERED


def test_who_answered_is_its_own_word_where_no_index_was_counted() -> None:
    evidence = gate_inputs.evidence(10)
    elsewhere = replace(evidence.candidate, index_sha256=None)
    finding = gate_inputs.judge("identity", replace(evidence, candidate=elsewhere))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.cause is Cause.IDENTITY
    assert finding.reason.startswith("no index of new was counted")


def test_equal_lists_accuse_no_one() -> None:
    evidence = alike(200)
    assert gate_inputs.judge("identity", evidence).verdict is Verdict.PASS


def alike(count: int) -> Evidence:
    """Two engines that show the same lists, as a reimplementation does."""
    evidence = gate_inputs.scored(gate_inputs.levels(count), gate_inputs.levels(count))
    own = evidence.candidate.manifest.fingerprint
    rows = (row._replace(served_by=own) for row in evidence.control.run.rows())
    same = np.ones(count)
    return replace(
        evidence,
        candidate=replace(evidence.candidate, run=Run.of("new", rows)),
        agreement=gate_inputs.agreement(count, "Jaccard@50", same),
        noise=gate_inputs.agreement(count, "Jaccard@50", same),
    )


@pytest.mark.parametrize(
    ("rule", "keys"),
    [
        ("non_inferior", {"measure": "nDCG@10", "margin": 0.02}),
        ("equivalent", {"measure": "nDCG@10", "margin": 0.02}),
        ("agreement_floor", FLOOR),
    ],
)
def test_the_same_ranking_passes_once_there_are_queries_enough(
    rule: str, keys: Mapping[str, object]
) -> None:
    assert gate_inputs.judge(rule, alike(200), **keys).verdict is Verdict.PASS
    assert gate_inputs.judge(rule, alike(10), **keys).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("count", [10, 200])
def test_the_same_ranking_gains_nothing(count: int) -> None:
    finding = gate_inputs.judge("superior", alike(count), measure="nDCG@10", margin=0)
    assert finding.verdict is Verdict.FAIL
    assert "nothing is gained" in finding.reason
    assert not finding.remedy


def test_other_lists_of_equal_value_may_still_gain() -> None:
    values = gate_inputs.levels(30)
    finding = gate_inputs.judge(
        "superior", gate_inputs.scored(values, values), measure="nDCG@10", margin=0
    )
    assert finding.verdict is Verdict.INCONCLUSIVE
