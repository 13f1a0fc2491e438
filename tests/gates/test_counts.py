"""Gates of counts and of slices."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from harness.core.engine import Hit
from harness.core.errors import EvidenceError
from harness.core.evidence import ArmResult, Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.run import Row, Run, Status
from harness.gates.base import rules
from harness.gates.base.queries import check_compared
from tests.make import gate_inputs

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


@pytest.mark.slow
@pytest.mark.parametrize("how", [Status.FAILED, Status.TIMED_OUT, Status.NOT_ASKED])
@pytest.mark.parametrize(
    ("new", "verdict"), [(0, Verdict.PASS), (8, Verdict.INCONCLUSIVE), (40, Verdict.FAIL)]
)
def test_failure_rate(how: Status, new: int, verdict: Verdict) -> None:
    finding = gate_inputs.judge("failure_rate", failing(new, how=how), max_share=0.01)
    assert finding.verdict is verdict
    assert finding.estimate is not None
    assert finding.estimate.value == new / 1_000


@pytest.mark.slow
def test_failures_of_the_control_are_named_and_count() -> None:
    finding = gate_inputs.judge("failure_rate", failing(0, old=40), max_share=0.01)
    assert finding.verdict is Verdict.FAIL
    assert "old: 40 of 1000 went unanswered (40 failed)" in finding.reason
    some = gate_inputs.judge("failure_rate", failing(0, old=9), max_share=0.01)
    assert some.remedy.endswith("independent queries, if no more of them go wrong than the 9 seen")


@pytest.mark.slow
def test_queries_of_one_cluster_fail_together_and_are_no_more_witnesses() -> None:
    evidence = failing(0, count=800)
    pairs = {q: f"like {at // 8}" for at, q in enumerate(gate_inputs.ids(800))}
    assert gate_inputs.judge("failure_rate", evidence, max_share=0.01).verdict is Verdict.PASS
    finding = gate_inputs.judge("failure_rate", replace(evidence, clusters=pairs), max_share=0.01)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "0 of 800 in 100 clusters went unanswered" in finding.reason
    assert finding.estimate
    needed = math.ceil(800 * finding.estimate.high / 0.01)
    assert finding.remedy.startswith(f"about {needed} queries in clusters like these")
    alone = gate_inputs.judge("failure_rate", failing(0, count=100), max_share=0.01)
    assert alone.estimate
    assert alone.estimate.high < finding.estimate.high < 1.1 * alone.estimate.high


@pytest.mark.slow
def test_no_failure_among_few_proves_little_and_says_how_many_would() -> None:
    finding = gate_inputs.judge("failure_rate", failing(0, count=100), max_share=0.01)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.remedy.startswith("368 independent queries")


@pytest.mark.slow
def test_an_empty_answer_is_no_failure() -> None:
    evidence = gate_inputs.evidence(1_000)
    rows = [Row(q, Status.ANSWERED, (), "f") for q in gate_inputs.ids(1_000)]
    nothing = replace(evidence.candidate, run=Run.of("new", rows))
    finding = gate_inputs.judge(
        "failure_rate", replace(evidence, candidate=nothing), max_share=0.01
    )
    assert finding.verdict is Verdict.PASS


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["failure_rate", "duplicates"])
def test_shares_of_no_queries_never_pass(rule: str) -> None:
    finding = gate_inputs.judge(rule, gate_inputs.evidence(0), max_share=0.01)
    assert finding.verdict is Verdict.INCONCLUSIVE


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("why", ["skipped", "error"])
def test_what_was_passed_over_is_not_taken_for_equal(why: str) -> None:
    said = rf"10 queries that both arms answered were not compared \(.*: {why}\)"
    with pytest.raises(EvidenceError, match=said):
        check_compared(classed(["exact"] * 90 + [why] * 10))


def test_what_one_arm_did_not_answer_needs_no_comparison() -> None:
    lost = failing(10, count=100)
    told = gate_inputs.agreement(100, "Jaccard@50", None, ["error"] * 10 + ["exact"] * 90)
    check_compared(replace(lost, agreement=told))
    with pytest.raises(EvidenceError, match="new did not answer 10 queries that count as compared"):
        check_compared(lost)


@pytest.mark.slow
def test_queries_that_were_never_compared_are_refused() -> None:
    few = gate_inputs.agreement(50, "Jaccard@50", None)
    with pytest.raises(EvidenceError, match=r"50 queries .* not compared \(.*: never tried\)"):
        check_compared(replace(gate_inputs.evidence(100), agreement=few))


def agreeing(mean: float, spread: float = 0.05, noise: float = 1.0) -> Evidence:
    count = 100
    values = np.clip(gate_inputs.shifted(np.full(count, mean), 0.0, spread), 0, 1)
    return gate_inputs.evidence(
        count,
        agreement=gate_inputs.agreement(count, "Jaccard@50", values),
        noise=gate_inputs.agreement(count, "Jaccard@50", np.full(count, noise)),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mean", "spread", "verdict"),
    [(0.9, 0.03, Verdict.PASS), (0.7, 0.05, Verdict.FAIL), (0.81, 0.2, Verdict.INCONCLUSIVE)],
)
def test_agreement_floor(mean: float, spread: float, verdict: Verdict) -> None:
    finding = gate_inputs.judge("agreement_floor", agreeing(mean, spread), **FLOOR)
    assert finding.verdict is verdict
    assert "control against itself 1.0000" in finding.reason


@pytest.mark.slow
def test_a_control_that_differs_from_itself_blames_nobody() -> None:
    finding = gate_inputs.judge("agreement_floor", agreeing(0.7, noise=0.75), **FLOOR)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "agrees with itself" in finding.remedy


@pytest.mark.slow
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


def served(by: Mapping[str, str], count: int = 20) -> Evidence:
    """Make others serve some of the candidate's answers."""
    evidence = gate_inputs.evidence(count)
    own = evidence.candidate.manifest.fingerprint
    rows = [
        row._replace(served_by=by.get(row.query_id, own)) for row in evidence.candidate.run.rows()
    ]
    return replace(evidence, candidate=replace(evidence.candidate, run=Run.of("new", rows)))


@pytest.mark.slow
def test_one_answer_of_another_engine_fails() -> None:
    fallback = gate_inputs.manifest("old").fingerprint
    finding = gate_inputs.judge("identity", served({"q0003": fallback}))
    assert finding.verdict is Verdict.FAIL
    assert f"1 of 20 answers of new were served by {fallback[:12]}" in finding.reason


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_arm_that_never_answered_proves_nothing() -> None:
    finding = gate_inputs.judge("identity", failing(10, count=10))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.cause is Cause.UNANSWERED


@pytest.mark.slow
def test_who_answered_is_its_own_word_where_no_index_was_counted() -> None:
    evidence = gate_inputs.evidence(10)
    elsewhere = replace(evidence.candidate, index_sha256=None)
    finding = gate_inputs.judge("identity", replace(evidence, candidate=elsewhere))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.cause is Cause.IDENTITY
    assert finding.reason == "the index of new was not verified; its identity is self-reported"
    counted = gate_inputs.judge("identity", evidence)
    assert counted.verdict is Verdict.PASS
    assert counted.reason.endswith("the files of every index were counted before it answered")


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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("count", [10, 200])
def test_the_same_ranking_gains_nothing(count: int) -> None:
    finding = gate_inputs.judge("superior", alike(count), measure="nDCG@10", margin=0)
    assert finding.verdict is Verdict.FAIL
    assert "nothing is gained" in finding.reason
    assert not finding.remedy


SETTINGS = {"measure": "nDCG@10", "margin": 0.1}


def sliced(*by: float, size: int = 60) -> Evidence:
    """Return one slice of ``size`` queries for each mean difference."""
    control = gate_inputs.levels(size * len(by))
    parts = [
        gate_inputs.shifted(control[at * size : (at + 1) * size], mean, 0.05, seed=at)
        for at, mean in enumerate(by)
    ]
    names = gate_inputs.ids(len(control))
    slices = {f"kind{at}": frozenset(names[at * size : (at + 1) * size]) for at in range(len(by))}
    return gate_inputs.scored(control, np.concatenate(parts), slices=slices)


def losing(*lost: int, size: int) -> Evidence:
    """Return one slice of ``size`` queries for each number of queries that lose all they had."""
    control = np.ones(size * len(lost))
    candidate = control.copy()
    for at, count in enumerate(lost):
        candidate[at * size : at * size + count] = 0.0
    names = gate_inputs.ids(len(control))
    slices = {f"kind{at}": frozenset(names[at * size : (at + 1) * size]) for at in range(len(lost))}
    return gate_inputs.scored(control, candidate, slices=slices)


def test_harm_to_one_slice_is_found_behind_a_good_mean() -> None:
    evidence = sliced(0.2, 0.2, -0.3)
    whole = gate_inputs.judge("non_inferior", evidence, **SETTINGS)
    finding = gate_inputs.judge("no_slice_harmed", evidence, **SETTINGS)
    assert whole.verdict is Verdict.PASS
    assert finding.verdict is Verdict.FAIL
    assert "kind2 -0.3000" in finding.reason
    assert finding.reason.count("harmed") == 1
    assert finding.estimate is not None
    assert finding.estimate.value == pytest.approx(-0.3)


def test_no_harm_passes() -> None:
    finding = gate_inputs.judge("no_slice_harmed", sliced(0.0, 0.01, -0.01), **SETTINGS)
    assert finding.verdict is Verdict.PASS
    assert "more" not in finding.reason
    many = gate_inputs.judge("no_slice_harmed", sliced(0.0, 0.01, -0.01, 0.02, 0.03), **SETTINGS)
    assert "first: kind2 -0.0" in many.reason
    assert many.reason.endswith(", and 2 more")


def test_absence_of_evidence_is_not_green() -> None:
    """Four queries that lose everything, and a slice that loses everything on a part of twenty."""
    for lost, size in ((4, 4), (0, 4), (4, 20), (6, 20), (8, 20), (0, 20)):
        evidence = losing(lost, 0, 0, size=size)
        finding = gate_inputs.judge("no_slice_harmed", evidence, measure="nDCG@10", margin=0.05)
        assert finding.verdict is not Verdict.PASS, (lost, size)
        assert "kind0" in finding.reason


def test_a_small_slice_is_named_with_the_queries_that_it_lacks() -> None:
    evidence = losing(0, 0, size=80)
    few = dict(evidence.slices) | {"rare": frozenset(gate_inputs.ids(5))}
    finding = gate_inputs.judge(
        "no_slice_harmed", replace(evidence, slices=few), measure="nDCG@10", margin=0.05
    )
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.remedy.startswith("rare: about 74 judged queries (now 5)")
    assert "kind" not in finding.remedy


def test_a_slice_may_have_a_margin_of_its_own() -> None:
    evidence = losing(0, 0, size=40)
    tight = gate_inputs.judge("no_slice_harmed", evidence, **SETTINGS | {"margin": 0.05})
    own = {"margin": 0.05, "margins": {"kind0": 0.1, "kind1": 0.1}}
    wide = gate_inputs.judge("no_slice_harmed", evidence, **SETTINGS | own)
    assert tight.verdict is Verdict.INCONCLUSIVE
    assert wide.verdict is Verdict.PASS
    assert "kind1 less than 0.1" in wide.bound
    assert (tight.limit, wide.limit) == (-0.05, None)
    settings = rules.load("no_slice_harmed")
    assert settings.model_validate(SETTINGS).passes == "above"
    assert settings.model_validate(SETTINGS | {"margins": {"kind0": 0.2}}).passes is None


def test_without_slices_or_queries_nothing_passes() -> None:
    empty = gate_inputs.scored(np.empty(0), np.empty(0), slices={"kind0": frozenset()})
    for evidence in (replace(sliced(0.0), slices={}), empty):
        finding = gate_inputs.judge("no_slice_harmed", evidence, **SETTINGS)
        assert finding.verdict is Verdict.INCONCLUSIVE


def test_correction_keeps_many_slices_from_crying_wolf() -> None:
    alone = gate_inputs.judge("no_slice_harmed", sliced(-0.21), **SETTINGS)
    among = gate_inputs.judge("no_slice_harmed", sliced(-0.21, *[0.0] * 9), **SETTINGS)
    assert alone.p_value is not None
    assert among.p_value == pytest.approx(10 * alone.p_value)
    assert alone.verdict is Verdict.FAIL
    assert among.verdict is Verdict.INCONCLUSIVE


def test_harm_by_failures_alone_is_left_open() -> None:
    evidence = sliced(0.0, 0.0)
    full = evidence.candidate.scores["nDCG@10"]
    cut = gate_inputs.scores("nDCG@10", full.values[:110], {"failed": gate_inputs.ids(120)[110:]})
    lossy = replace(evidence, candidate=replace(evidence.candidate, scores={"nDCG@10": cut}))
    finding = gate_inputs.judge("no_slice_harmed", lossy, **SETTINGS)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "new has no value for 10 queries" in finding.reason


def test_a_named_slice_that_nobody_has_is_not_green() -> None:
    found = gate_inputs.judge("no_slice_harmed", sliced(0.0), **SETTINGS, slices=["kind0", "kind9"])
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "too small: kind9 (0 of 2 queries)" in found.reason
    assert found.cause is Cause.TOO_FEW


EMPTY = {"measure": "nDCG@10", "depth": 10, "max_more": 0.1, "min_queries": 30}
NEGATIVE, ANSWERABLE = 40, 10


def side(arm: str, hits: Sequence[int | None]) -> ArmResult:
    """Return an arm that shows so many hits of each query without an answer; None is a failure."""
    names = gate_inputs.ids(NEGATIVE + ANSWERABLE)
    who = gate_inputs.manifest(arm).fingerprint
    rows = [
        Row(name, Status.FAILED, error="broken pipe")
        if count is None
        else Row(name, Status.ANSWERED, tuple(Hit(f"d{at}", -at, -at) for at in range(count)), who)
        for name, count in zip(names, [*hits, *[5] * ANSWERABLE], strict=True)
    ]
    values = np.full(ANSWERABLE, 0.5)
    found = gate_inputs.scores("nDCG@10", values, {"negative_query": names[:NEGATIVE]})
    return ArmResult(arm, gate_inputs.manifest(arm), Run.of(arm, rows), {"nDCG@10": found})


def shown(control: Sequence[int | None], candidate: Sequence[int | None]) -> Evidence:
    sides = {"control": side("old", control), "candidate": side("new", candidate)}
    return gate_inputs.evidence(NEGATIVE + ANSWERABLE, **sides)


def judged(control: Sequence[int | None], candidate: Sequence[int | None]) -> Finding:
    return gate_inputs.judge("negatives", shown(control, candidate), **EMPTY)


def test_a_candidate_that_is_as_silent_passes() -> None:
    finding = judged([0, 3] * 20, [0, 3] * 19 + [1, 3])
    assert finding.verdict is Verdict.PASS
    assert finding.bound == "fills less than 0.1 more of the first 10 places"
    assert finding.unit == "Empty@10"


def test_a_candidate_that_fills_the_page_with_anything_fails() -> None:
    finding = judged([0] * NEGATIVE, [100] * NEGATIVE)
    assert finding.verdict is Verdict.FAIL
    assert finding.estimate is not None
    assert (finding.estimate.value, finding.estimate.n) == (-1.0, NEGATIVE)


def test_what_is_below_the_page_does_not_count() -> None:
    assert judged([10] * NEGATIVE, [100] * NEGATIVE).verdict is Verdict.PASS


def test_a_failure_is_not_silence() -> None:
    finding = judged([5] * NEGATIVE, [5] * (NEGATIVE - 8) + [None] * 8)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "new has no value for 8 queries" in finding.reason
