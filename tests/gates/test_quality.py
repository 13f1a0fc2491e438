"""non_inferior, superior, equivalent and collapse: verdicts on paired differences."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from harness.core.errors import EvidenceError
from harness.core.evidence import Evidence
from harness.core.gate import Cause, Verdict
from harness.gates.quality import collapsed
from tests.make import gate_inputs

pytestmark = pytest.mark.slow

NON_INFERIOR = {"measure": "nDCG@10", "margin": 0.02, "min_queries": 20}
SUPERIOR = {"measure": "nDCG@10", "margin": 0.03, "min_queries": 20}
EQUIVALENT = {"measure": "nDCG@10", "margin": 0.05, "min_queries": 20}
SETTINGS: dict[str, dict[str, object]] = {
    "non_inferior": NON_INFERIOR,
    "superior": SUPERIOR,
    "equivalent": EQUIVALENT,
}


def moved(by: float, *, spread: float = 0.05, count: int = 200) -> Evidence:
    control = gate_inputs.levels(count)
    return gate_inputs.scored(control, gate_inputs.shifted(control, by, spread))


@pytest.mark.parametrize(
    ("rule", "by", "spread", "verdict"),
    [
        ("non_inferior", 0.0, 0.05, Verdict.PASS),
        ("non_inferior", -0.05, 0.05, Verdict.FAIL),
        ("non_inferior", -0.02, 0.05, Verdict.INCONCLUSIVE),
        ("non_inferior", 0.0, 0.3, Verdict.INCONCLUSIVE),
        ("superior", 0.06, 0.05, Verdict.PASS),
        ("superior", 0.0, 0.05, Verdict.FAIL),
        ("superior", 0.03, 0.05, Verdict.INCONCLUSIVE),
        ("equivalent", 0.0, 0.05, Verdict.PASS),
        ("equivalent", 0.2, 0.05, Verdict.FAIL),
        ("equivalent", -0.2, 0.05, Verdict.FAIL),
        ("equivalent", 0.02, 0.3, Verdict.INCONCLUSIVE),
    ],
)
def test_verdict(rule: str, by: float, spread: float, verdict: Verdict) -> None:
    finding = gate_inputs.judge(rule, moved(by, spread=spread), **SETTINGS[rule])
    assert finding.verdict is verdict
    assert finding.rule == rule
    assert finding.estimate is not None
    assert finding.estimate.value == pytest.approx(by, abs=1e-9)
    assert bool(finding.remedy) is (verdict is Verdict.INCONCLUSIVE)


def test_settle_names_a_number_that_does_settle_it() -> None:
    finding = gate_inputs.judge("superior", moved(0.05, spread=0.2), **SUPERIOR)
    assert finding.verdict is Verdict.INCONCLUSIVE
    needed = int(finding.remedy.split()[1].replace(",", ""))
    assert needed > 785  # (2.802 * 0.2 / 0.02) ** 2, were the mean seen the true one for sure
    more = gate_inputs.judge("superior", moved(0.05, spread=0.2, count=needed), **SUPERIOR)
    assert more.verdict is Verdict.PASS


def test_p_value_is_of_the_shifted_null() -> None:
    clear = gate_inputs.judge("non_inferior", moved(0.0, count=400), **NON_INFERIOR)
    at_bound = gate_inputs.judge("non_inferior", moved(-0.02), **NON_INFERIOR)
    assert clear.p_value is not None
    assert clear.p_value < 0.01
    assert at_bound.p_value is not None
    assert at_bound.p_value > 0.5


@pytest.mark.parametrize("rule", SETTINGS)
def test_too_few_queries_are_never_green(rule: str) -> None:
    by = 0.06 if rule == "superior" else 0.0
    finding = gate_inputs.judge(rule, moved(by, count=19, spread=0.001), **SETTINGS[rule])
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "19 independent queries" in finding.reason
    assert "20 that the policy asks for" in finding.reason
    assert finding.cause is Cause.TOO_FEW
    assert finding.remedy == "judge 1 more independent queries"
    nobody = gate_inputs.judge(rule, moved(by), **SETTINGS[rule], slice="nobody's")
    assert nobody.cause is Cause.NO_EVIDENCE
    assert nobody.reason == "no query of toy is of slice nobody's"


@pytest.mark.parametrize("rule", SETTINGS)
@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_nan_never_passes(rule: str, broken: float) -> None:
    values = gate_inputs.levels(50)
    spoiled = values.copy()
    spoiled[7] = broken
    for control, candidate in ((values, spoiled), (spoiled, values)):
        with pytest.raises(EvidenceError, match="q0007"):
            gate_inputs.judge(rule, gate_inputs.scored(control, candidate), **SETTINGS[rule])


def test_many_queries_of_one_intent_count_once() -> None:
    evidence = moved(0.0, spread=0.0)
    one_need = replace(evidence, clusters=dict.fromkeys(gate_inputs.ids(200), "same"))
    finding = gate_inputs.judge("non_inferior", one_need, **NON_INFERIOR)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "200 queries in 1 cluster" in finding.reason
    assert finding.cause is Cause.TOO_FEW


def test_intents_widen_the_interval() -> None:
    control = gate_inputs.levels(400)
    noise = np.repeat(np.random.default_rng(5).normal(0, 0.1, 80), 5)
    evidence = gate_inputs.scored(control, control + noise - noise.mean())
    asked = {query_id: f"need {at // 5}" for at, query_id in enumerate(gate_inputs.ids(400))}
    alone = gate_inputs.judge("non_inferior", evidence, **NON_INFERIOR)
    together = gate_inputs.judge("non_inferior", replace(evidence, clusters=asked), **NON_INFERIOR)
    assert alone.verdict is Verdict.PASS
    assert together.verdict is Verdict.INCONCLUSIVE


def test_a_slice_is_judged_by_its_own_queries() -> None:
    control = gate_inputs.levels(300)
    candidate = control + 0.1
    candidate[:30] = control[:30] - 0.2
    names = frozenset(gate_inputs.ids(30))
    evidence = gate_inputs.scored(control, candidate, slices={"identifier": names})
    whole = gate_inputs.judge("non_inferior", evidence, **NON_INFERIOR)
    part = gate_inputs.judge("non_inferior", evidence, **NON_INFERIOR, slice="identifier")
    assert whole.verdict is Verdict.PASS
    assert part.verdict is Verdict.FAIL
    assert "on slice identifier" in part.reason
    assert "on slice identifier" in part.bound


def with_losses(by: float, lost: int, loser: str) -> Evidence:
    """200 queries, of which one arm failed the last few."""
    control = gate_inputs.levels(200)
    candidate = gate_inputs.shifted(control, by, 0.01)
    evidence = gate_inputs.scored(control, candidate)
    gone = gate_inputs.ids(200)[200 - lost :]
    arm = evidence.candidate if loser == "new" else evidence.control
    full = arm.scores["nDCG@10"]
    cut = gate_inputs.scores("nDCG@10", full.values[: 200 - lost], {"failed": gone})
    spoiled = replace(
        arm, scores={"nDCG@10": cut}, run=gate_inputs.run(arm.arm, gate_inputs.ids(200))
    )
    if loser == "new":
        return replace(evidence, candidate=spoiled)
    return replace(evidence, control=spoiled)


@pytest.mark.parametrize("loser", ["new", "old"])
@pytest.mark.parametrize(("rule", "by"), [("non_inferior", 0.0), ("superior", 0.06)])
def test_failures_count_as_the_worst_before_a_pass(rule: str, by: float, loser: str) -> None:
    sound = gate_inputs.judge(rule, with_losses(by, 0, loser), **SETTINGS[rule])
    finding = gate_inputs.judge(rule, with_losses(by, 10, loser), **SETTINGS[rule])
    assert sound.verdict is Verdict.PASS
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.cause is Cause.UNANSWERED
    assert f"{loser} has no value for 10 queries" in finding.reason
    assert "q0190" in finding.reason
    assert "q0190" in finding.remedy
    assert ("as +1 each" in finding.reason) is (rule == "equivalent")


def test_equivalence_must_survive_failures_both_ways() -> None:
    for by in (-0.025, 0.025):
        sound = gate_inputs.judge("equivalent", with_losses(by, 0, "old"), **EQUIVALENT)
        finding = gate_inputs.judge("equivalent", with_losses(by, 4, "old"), **EQUIVALENT)
        assert sound.verdict is Verdict.PASS
        assert finding.verdict is Verdict.INCONCLUSIVE
        assert finding.cause is Cause.UNANSWERED
        assert "as +1 each" in finding.reason


def test_superior_to_another_arm() -> None:
    control = gate_inputs.levels(100)
    evidence = gate_inputs.scored(control, control + 0.1)
    floor = gate_inputs.side(
        "hash", 100, **{"nDCG@10": gate_inputs.scores("nDCG@10", control + 0.2)}
    )
    settings = {"measure": "nDCG@10", "margin": 0, "min_queries": 20}
    over_control = gate_inputs.judge(
        "superior", replace(evidence, others={"hash": floor}), **settings
    )
    over_floor = gate_inputs.judge(
        "superior", replace(evidence, others={"hash": floor}), **settings, versus="hash"
    )
    assert over_control.verdict is Verdict.PASS
    assert over_floor.verdict is Verdict.FAIL
    assert "over hash" in over_floor.bound


@pytest.mark.parametrize(
    ("queries", "verdict"),
    [(50, Verdict.INCONCLUSIVE), (187, Verdict.INCONCLUSIVE), (188, Verdict.PASS)],
)
def test_no_difference_in_few_queries_is_no_proof_of_none(queries: int, verdict: Verdict) -> None:
    """Queries that lose everything may be there, and the sample holds none of them."""
    same = np.full(queries, 0.5)
    finding = gate_inputs.judge(
        "non_inferior", gate_inputs.scored(same, same), measure="nDCG@10", margin=0.02
    )
    assert finding.verdict is verdict
    if verdict is Verdict.INCONCLUSIVE:
        assert f"about 188 judged queries (now {queries})" in finding.remedy
        assert "fewer than 188 leave room for a loss that none of them shows" in finding.remedy


@pytest.mark.parametrize("rule", ["non_inferior", "equivalent", "no_slice_harmed"])
@pytest.mark.parametrize("looks", ["planned", "anytime"])
def test_a_margin_as_wide_as_all_that_the_control_has_passes_nothing(rule: str, looks: str) -> None:
    """The control has 0.06 and may lose 0.09: a candidate without anything would pass."""
    settings = {"measure": "nDCG@10", "margin": 0.09, "min_queries": 20}
    if rule == "non_inferior":
        settings["looks"] = looks
    control = np.full(400, 0.06)
    everything = {"all": frozenset(gate_inputs.ids(400))}
    for candidate in (np.zeros(400), control):
        found = gate_inputs.judge(
            rule, gate_inputs.scored(control, candidate, slices=everything), **settings
        )
        assert found.verdict is Verdict.INCONCLUSIVE
        assert rule == "no_slice_harmed" or found.cause is Cause.EMPTY
        said = "losing everything would pass: the control's own mean is 0.0600, the margin 0.09"
        assert said in found.reason
        assert "a margin below what the control has" in found.remedy
    rich = gate_inputs.scored(np.full(400, 0.2), np.full(400, 0.2), slices=everything)
    assert gate_inputs.judge(rule, rich, **settings).verdict is Verdict.PASS
    lost = gate_inputs.scored(np.full(400, 0.2), np.zeros(400), slices=everything)
    assert gate_inputs.judge(rule, lost, **settings).verdict is Verdict.FAIL


BAD, ASKED = 52, 1500


def without(arms: str) -> Evidence:
    """Make the candidate lose all of some queries; the arms named did not answer these."""
    control = gate_inputs.levels(ASKED)
    candidate = np.asarray(control + 0.005)
    candidate[:BAD] = control[:BAD] - 1
    gone = {"not_asked": gate_inputs.ids(BAD)}
    sides = {
        name: gate_inputs.side(
            arm,
            ASKED,
            **{
                "nDCG@10": gate_inputs.scores(
                    "nDCG@10", *((v[BAD:], gone) if name in arms else (v,))
                )
            },
        )
        for name, arm, v in (("control", "old", control), ("candidate", "new", candidate))
    }
    return gate_inputs.evidence(ASKED, **sides)


M = "nDCG@10"
BOUNDS = {"measure": M, "drop": 0.5, "max_share": 0.02}


def fallen(
    to: Mapping[int, float], count: int = 240, gone: tuple[str, ...] = (), old: float = 1.0
) -> Evidence:
    evidence = gate_inputs.evidence(count)
    before = np.full(count, old)
    now = before.copy()
    for at, value in to.items():
        now[at] = value
    left = now[: count - len(gone)]
    undefined = {"failed": gone} if gone else None
    return replace(
        evidence,
        control=replace(evidence.control, scores={M: gate_inputs.scores(M, before)}),
        candidate=replace(evidence.candidate, scores={M: gate_inputs.scores(M, left, undefined)}),
    )


@pytest.mark.parametrize(
    ("lost", "verdict"), [(0, Verdict.PASS), (4, Verdict.PASS), (5, Verdict.FAIL)]
)
def test_a_count_decides(lost: int, verdict: Verdict) -> None:
    finding = gate_inputs.judge("collapse", fallen(dict.fromkeys(range(lost), 0.0)), **BOUNDS)
    assert finding.verdict is verdict
    assert finding.estimate is not None
    assert finding.estimate.value == lost / 240
    assert finding.reason.startswith(f"{lost} of 240 queries lost over 50% of nDCG@10, as judged")


def test_ten_that_a_mean_within_its_margin_hides_fail() -> None:
    """Seven from 1 to 0 and three by a little more than half: the mean falls by 0.036."""
    evidence = fallen({**dict.fromkeys(range(7), 0.0), 7: 0.49, 8: 0.49, 9: 0.49})
    finding = gate_inputs.judge("collapse", evidence, **BOUNDS)
    mean = gate_inputs.judge("non_inferior", evidence, measure=M, margin=0.05)
    assert (finding.verdict, finding.cause) == (Verdict.FAIL, Cause.BROKEN)
    assert mean.verdict is not Verdict.FAIL
    assert "q0000, q0001, q0002, ..." in finding.reason


def test_half_is_no_collapse_and_nothing_cannot_fall() -> None:
    half = fallen({0: 0.5, 1: 0.499})
    scores = half.control.scores[M], half.candidate.scores[M]
    assert collapsed(*scores, 0.5) == ("q0001",)
    nothing = fallen({}, old=0.0)
    assert collapsed(nothing.control.scores[M], nothing.candidate.scores[M], 0.5) == ()


def test_a_query_without_an_answer_has_lost_all_of_it() -> None:
    evidence = fallen({3: 0.2}, gone=("q0239",))
    scores = evidence.control.scores[M], evidence.candidate.scores[M]
    assert collapsed(*scores, 0.5) == ("q0239", "q0003")


def test_without_a_value_nothing_is_counted() -> None:
    finding = gate_inputs.judge("collapse", fallen({}, count=0), **BOUNDS)
    assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.NO_EVIDENCE)
