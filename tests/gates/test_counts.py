"""Gates of counts and of slices."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

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
from tests.make.gate_inputs import Floats, agreement, ids, judge, levels, scored, scores, shifted

OVERLAP = "Jaccard@50"
FLOOR = {"measure": OVERLAP, "floor": 0.8, "min_queries": 20}
HIT = Hit("d1", 1.0, 1.0)


def failing(new: int, old: int = 0, count: int = 1_000, how: Status = Status.FAILED) -> Evidence:
    def side(arm: str, lost: int) -> ArmResult:
        run = gate_inputs.run(arm, ids(count), dict.fromkeys(ids(count)[:lost], how))
        return replace(gate_inputs.side(arm, count), run=run)

    return gate_inputs.evidence(count, control=side("old", old), candidate=side("new", new))


def showing(rows: Sequence[Row], **changes: Any) -> Evidence:  # noqa: ANN401  fields of ArmResult
    """Make the candidate's queries end as these rows say."""
    evidence = gate_inputs.evidence(len(rows))
    changed = replace(evidence.candidate, run=Run.of("new", rows), **changes)
    return replace(evidence, candidate=changed)


def unanswered(evidence: Evidence) -> Finding:
    return judge("failure_rate", evidence, max_share=0.01)


@pytest.mark.parametrize("how", [Status.FAILED, Status.TIMED_OUT, Status.NOT_ASKED])
@pytest.mark.parametrize(
    ("new", "verdict"), [(0, Verdict.PASS), (8, Verdict.INCONCLUSIVE), (40, Verdict.FAIL)]
)
def test_failure_rate(how: Status, new: int, verdict: Verdict) -> None:
    finding = unanswered(failing(new, how=how))
    assert finding.verdict is verdict
    assert finding.estimate is not None
    assert finding.estimate.value == new / 1_000


def test_failures_of_the_control_are_named_and_count() -> None:
    finding = unanswered(failing(0, old=40))
    assert finding.verdict is Verdict.FAIL
    assert "old: 40 of 1000 went unanswered (40 failed)" in finding.reason
    some = unanswered(failing(0, old=9))
    assert some.remedy.endswith("independent queries, if no more of them go wrong than the 9 seen")


def test_queries_of_one_cluster_fail_together_and_are_no_more_witnesses() -> None:
    evidence = failing(0, count=800)
    pairs = {q: f"like {at // 8}" for at, q in enumerate(ids(800))}
    assert unanswered(evidence).verdict is Verdict.PASS
    finding = unanswered(replace(evidence, clusters=pairs))
    alone = unanswered(failing(0, count=100))
    assert finding.verdict is alone.verdict is Verdict.INCONCLUSIVE
    assert "0 of 800 in 100 clusters went unanswered" in finding.reason
    assert finding.estimate
    assert alone.estimate
    needed = math.ceil(800 * finding.estimate.high / 0.01)
    assert finding.remedy.startswith(f"about {needed} queries in clusters like these")
    assert alone.remedy.startswith("368 independent queries")
    assert alone.estimate.high < finding.estimate.high < 1.1 * alone.estimate.high


def test_an_empty_answer_is_no_failure() -> None:
    rows = [Row(q, Status.ANSWERED, (), "f") for q in ids(1_000)]
    assert unanswered(showing(rows)).verdict is Verdict.PASS


@pytest.mark.parametrize(
    "row",
    [
        Row("q1", Status.ANSWERED, (), "f", error="no such table"),
        Row("q1", Status.FAILED, (HIT,), "f", error="late"),
    ],
)
def test_an_error_taken_for_an_answer_is_refused(row: Row) -> None:
    with pytest.raises(EvidenceError, match="an error is not an empty answer"):
        unanswered(showing([row]))


@pytest.mark.parametrize("rule", ["failure_rate", "duplicates"])
def test_shares_of_no_queries_never_pass(rule: str) -> None:
    finding = judge(rule, gate_inputs.evidence(0), max_share=0.01)
    assert finding.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("doubled", "verdict"), [(0, Verdict.PASS), (8, Verdict.INCONCLUSIVE), (40, Verdict.FAIL)]
)
def test_duplicates(doubled: int, verdict: Verdict) -> None:
    rows = [
        Row(q, Status.ANSWERED, (HIT, HIT) if at < doubled else (HIT,), "f")
        for at, q in enumerate(ids(1_000))
    ]
    finding = judge("duplicates", showing(rows), max_share=0.01)
    assert finding.verdict is verdict
    assert f"new: {doubled} of 1000" in finding.reason


@pytest.mark.parametrize(
    ("classes", "count", "why"),
    [
        (["exact"] * 90 + ["skipped"] * 10, 10, "skipped"),
        (["exact"] * 90 + ["error"] * 10, 10, "error"),
        (["exact"] * 50, 50, "never tried"),
    ],
)
def test_queries_that_were_never_compared_are_refused(
    classes: list[str], count: int, why: str
) -> None:
    told = agreement(len(classes), OVERLAP, None, classes)
    says = rf"{count} queries that both arms answered were not compared \(.*: {why}\)"
    with pytest.raises(EvidenceError, match=says):
        check_compared(replace(gate_inputs.evidence(100), agreement=told))


def test_what_one_arm_did_not_answer_needs_no_comparison() -> None:
    lost = failing(10, count=100)
    told = agreement(100, OVERLAP, None, ["error"] * 10 + ["exact"] * 90)
    check_compared(replace(lost, agreement=told))
    with pytest.raises(EvidenceError, match="new did not answer 10 queries that count as compared"):
        check_compared(lost)


def agreeing(mean: float, spread: float = 0.05, noise: float = 1.0) -> Evidence:
    values = np.clip(shifted(np.full(100, mean), 0.0, spread), 0, 1)
    told, itself = (agreement(100, OVERLAP, one) for one in (values, np.full(100, noise)))
    return gate_inputs.evidence(100, agreement=told, noise=itself)


@pytest.mark.parametrize(
    ("mean", "spread", "verdict"),
    [(0.9, 0.03, Verdict.PASS), (0.7, 0.05, Verdict.FAIL), (0.81, 0.2, Verdict.INCONCLUSIVE)],
)
def test_agreement_floor(mean: float, spread: float, verdict: Verdict) -> None:
    finding = judge("agreement_floor", agreeing(mean, spread), **FLOOR)
    assert finding.verdict is verdict
    assert "control against itself 1.0000" in finding.reason


def test_a_control_that_differs_from_itself_blames_nobody() -> None:
    finding = judge("agreement_floor", agreeing(0.7, noise=0.75), **FLOOR)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "agrees with itself" in finding.remedy


def test_undefined_agreement_is_counted_and_never_zero() -> None:
    evidence = agreeing(0.9)
    values = evidence.agreement.scores[OVERLAP].values[:90]
    some = {OVERLAP: scores(OVERLAP, values, {"both_empty": ids(100)[90:]})}
    told = replace(evidence, agreement=replace(evidence.agreement, scores=some))
    finding = judge("agreement_floor", told, **FLOOR)
    assert finding.verdict is Verdict.PASS
    assert "10 undefined (both_empty)" in finding.reason
    assert finding.estimate is not None
    assert finding.estimate.n == 90


def test_one_answer_of_another_engine_fails() -> None:
    rows = [*gate_inputs.evidence(20).candidate.run.rows()]
    fallback = gate_inputs.manifest("old").fingerprint
    rows[3] = rows[3]._replace(served_by=fallback)
    finding = judge("identity", showing(rows))
    assert finding.verdict is Verdict.FAIL
    assert f"1 of 20 answers of new were served by {fallback[:12]}" in finding.reason


def test_arms_over_different_documents_fail() -> None:
    other = gate_inputs.manifest("new", corpus="decade")
    rows = [Row(q, Status.ANSWERED, (HIT,), other.fingerprint) for q in ids(10)]
    finding = judge("identity", showing(rows, manifest=other))
    assert finding.verdict is Verdict.FAIL
    assert "searched other documents" in finding.reason


def test_an_arm_that_never_answered_proves_nothing() -> None:
    finding = judge("identity", failing(10, count=10))
    assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.UNANSWERED)


def test_who_answered_is_its_own_word_where_no_index_was_counted() -> None:
    evidence = gate_inputs.evidence(10)
    elsewhere = replace(evidence.candidate, index_sha256=None)
    finding = judge("identity", replace(evidence, candidate=elsewhere))
    assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.IDENTITY)
    assert finding.reason == "the index of new was not verified; its identity is self-reported"
    counted = judge("identity", evidence)
    assert counted.verdict is Verdict.PASS
    assert counted.reason.endswith("the files of every index were counted before it answered")


def alike(count: int) -> Evidence:
    """Two engines that show the same lists, as a reimplementation does."""
    evidence = scored(levels(count), levels(count))
    own = evidence.candidate.manifest.fingerprint
    rows = (row._replace(served_by=own) for row in evidence.control.run.rows())
    same = agreement(count, OVERLAP, np.ones(count))
    candidate = replace(evidence.candidate, run=Run.of("new", rows))
    return replace(evidence, candidate=candidate, agreement=same, noise=same)


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
    assert judge(rule, alike(200), **keys).verdict is Verdict.PASS
    assert judge(rule, alike(10), **keys).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("count", [10, 200])
def test_the_same_ranking_gains_nothing(count: int) -> None:
    finding = judge("superior", alike(count), measure="nDCG@10", margin=0)
    assert (finding.verdict, finding.remedy) == (Verdict.FAIL, "")
    assert "nothing is gained" in finding.reason


SETTINGS = {"measure": "nDCG@10", "margin": 0.1}


def by_kind(control: Floats, candidate: Floats, size: int) -> Evidence:
    """Cut the queries into slices of ``size``."""
    names = ids(len(control))
    starts = range(0, len(names), size)
    slices = {f"kind{at // size}": frozenset(names[at : at + size]) for at in starts}
    return scored(control, candidate, slices=slices)


def sliced(*by: float) -> Evidence:
    """Return one slice of sixty queries for each mean difference."""
    parts = np.split(levels(60 * len(by)), len(by))
    moved = [shifted(part, by[at], 0.05, seed=at) for at, part in enumerate(parts)]
    return by_kind(np.concatenate(parts), np.concatenate(moved), 60)


def losing(*lost: int, size: int) -> Evidence:
    """Return one slice of ``size`` queries for each number of queries that lose all they had."""
    kept = [np.arange(size) >= count for count in lost]
    return by_kind(np.ones(size * len(lost)), np.concatenate(kept).astype(float), size)


def harmed(evidence: Evidence, **more: object) -> Finding:
    return judge("no_slice_harmed", evidence, **SETTINGS | more)


def test_harm_to_one_slice_is_found_behind_a_good_mean() -> None:
    evidence = sliced(0.2, 0.2, -0.3)
    assert judge("non_inferior", evidence, **SETTINGS).verdict is Verdict.PASS
    finding = harmed(evidence)
    assert finding.verdict is Verdict.FAIL
    assert "kind2 -0.3000" in finding.reason
    assert finding.reason.count("harmed") == 1
    assert finding.estimate is not None
    assert finding.estimate.value == pytest.approx(-0.3)


def test_no_harm_passes() -> None:
    finding = harmed(sliced(0.0, 0.01, -0.01))
    assert finding.verdict is Verdict.PASS
    assert "more" not in finding.reason
    many = harmed(sliced(0.0, 0.01, -0.01, 0.02, 0.03))
    assert "first: kind2 -0.0" in many.reason
    assert many.reason.endswith(", and 2 more")


def test_absence_of_evidence_is_not_green() -> None:
    """Four queries that lose everything, and a slice that loses everything on a part of twenty."""
    for lost, size in ((4, 4), (0, 4), (4, 20), (6, 20), (8, 20), (0, 20)):
        finding = harmed(losing(lost, 0, 0, size=size), margin=0.05)
        assert finding.verdict is not Verdict.PASS, (lost, size)
        assert "kind0" in finding.reason


def test_a_small_slice_is_named_with_the_queries_that_it_lacks() -> None:
    evidence = losing(0, 0, size=80)
    few = {**evidence.slices, "rare": frozenset(ids(5))}
    finding = harmed(replace(evidence, slices=few), margin=0.05)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.remedy.startswith("rare: about 74 judged queries (now 5)")
    assert "kind" not in finding.remedy


def test_a_slice_may_have_a_margin_of_its_own() -> None:
    evidence = losing(0, 0, size=40)
    tight = harmed(evidence, margin=0.05)
    wide = harmed(evidence, margin=0.05, margins={"kind0": 0.1, "kind1": 0.1})
    assert (tight.verdict, tight.limit) == (Verdict.INCONCLUSIVE, -0.05)
    assert (wide.verdict, wide.limit) == (Verdict.PASS, None)
    assert "kind1 less than 0.1" in wide.bound
    settings = rules.load("no_slice_harmed")
    assert settings.model_validate(SETTINGS).passes == "above"
    assert settings.model_validate(SETTINGS | {"margins": {"kind0": 0.2}}).passes is None


def test_without_slices_or_queries_nothing_passes() -> None:
    empty = scored(np.empty(0), np.empty(0), slices={"kind0": frozenset()})
    for evidence in (replace(sliced(0.0), slices={}), empty):
        assert harmed(evidence).verdict is Verdict.INCONCLUSIVE


def test_correction_keeps_many_slices_from_crying_wolf() -> None:
    alone, among = harmed(sliced(-0.21)), harmed(sliced(-0.21, *[0.0] * 9))
    assert alone.p_value is not None
    assert among.p_value == pytest.approx(10 * alone.p_value)
    assert (alone.verdict, among.verdict) == (Verdict.FAIL, Verdict.INCONCLUSIVE)


def test_harm_by_failures_alone_is_left_open() -> None:
    evidence = sliced(0.0, 0.0)
    values = evidence.candidate.scores["nDCG@10"].values[:110]
    cut = scores("nDCG@10", values, {"failed": ids(120)[110:]})
    lossy = replace(evidence.candidate, scores={"nDCG@10": cut})
    finding = harmed(replace(evidence, candidate=lossy))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "new has no value for 10 queries" in finding.reason


def test_a_named_slice_that_nobody_has_is_not_green() -> None:
    found = harmed(sliced(0.0), slices=["kind0", "kind9"])
    assert (found.verdict, found.cause) == (Verdict.INCONCLUSIVE, Cause.TOO_FEW)
    assert "too small: kind9 (0 of 2 queries)" in found.reason


EMPTY = {"measure": "nDCG@10", "depth": 10, "max_more": 0.1, "min_queries": 30}
NEGATIVE, ANSWERABLE = 40, 10


def side(arm: str, hits: Sequence[int | None]) -> ArmResult:
    """Return an arm that shows so many hits of each query without an answer; None is a failure."""
    names = ids(NEGATIVE + ANSWERABLE)
    who = gate_inputs.manifest(arm)
    rows = [
        Row(name, Status.FAILED, error="broken pipe")
        if count is None
        else Row(
            name,
            Status.ANSWERED,
            tuple(Hit(f"d{at}", -at, -at) for at in range(count)),
            who.fingerprint,
        )
        for name, count in zip(names, [*hits, *[5] * ANSWERABLE], strict=True)
    ]
    found = scores("nDCG@10", np.full(ANSWERABLE, 0.5), {"negative_query": names[:NEGATIVE]})
    return ArmResult(arm, who, Run.of(arm, rows), {"nDCG@10": found})


def judged(control: Sequence[int | None], candidate: Sequence[int | None]) -> Finding:
    sides = {"control": side("old", control), "candidate": side("new", candidate)}
    return judge("negatives", gate_inputs.evidence(NEGATIVE + ANSWERABLE, **sides), **EMPTY)


def test_a_candidate_that_is_as_silent_passes() -> None:
    finding = judged([0, 3] * 20, [0, 3] * 19 + [1, 3])
    assert finding.verdict is Verdict.PASS
    assert finding.bound == "fills less than 0.1 more of the first 10 places"
    assert finding.unit == "Empty@10"
    below_the_page = judged([10] * NEGATIVE, [100] * NEGATIVE)
    assert below_the_page.verdict is Verdict.PASS


def test_a_candidate_that_fills_the_page_with_anything_fails() -> None:
    finding = judged([0] * NEGATIVE, [100] * NEGATIVE)
    assert finding.verdict is Verdict.FAIL
    assert finding.estimate is not None
    assert (finding.estimate.value, finding.estimate.n) == (-1.0, NEGATIVE)


def test_a_failure_is_not_silence() -> None:
    finding = judged([5] * NEGATIVE, [5] * (NEGATIVE - 8) + [None] * 8)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "new has no value for 8 queries" in finding.reason
