"""non_inferior, superior, equivalent and collapse: verdicts on paired differences."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from harness.core.errors import EvidenceError
from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.gates.quality import collapsed
from tests.make import gate_inputs
from tests.make.gate_inputs import ids, judge, levels, scored, scores, shifted

pytestmark = pytest.mark.slow

M = "nDCG@10"
MARGINS = {"non_inferior": 0.02, "superior": 0.03, "equivalent": 0.05}


def asked(rule: str, evidence: Evidence, **more: object) -> Finding:
    settings = {"measure": M, "margin": MARGINS.get(rule), "min_queries": 20}
    return judge(rule, evidence, **settings | more)


def moved(by: float, *, spread: float = 0.05, count: int = 200) -> Evidence:
    control = levels(count)
    return scored(control, shifted(control, by, spread))


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
    finding = asked(rule, moved(by, spread=spread))
    assert finding.verdict is verdict
    assert finding.rule == rule
    assert finding.estimate is not None
    assert finding.estimate.value == pytest.approx(by, abs=1e-9)
    assert bool(finding.remedy) is (verdict is Verdict.INCONCLUSIVE)


def test_settle_names_a_number_that_does_settle_it() -> None:
    finding = asked("superior", moved(0.05, spread=0.2))
    assert finding.verdict is Verdict.INCONCLUSIVE
    needed = int(finding.remedy.split()[1].replace(",", ""))
    assert needed > 785  # (2.802 * 0.2 / 0.02) ** 2, were the mean seen the true one for sure
    more = asked("superior", moved(0.05, spread=0.2, count=needed))
    assert more.verdict is Verdict.PASS


def test_p_value_is_of_the_shifted_null() -> None:
    clear = asked("non_inferior", moved(0.0, count=400))
    at_bound = asked("non_inferior", moved(-0.02))
    assert clear.p_value is not None
    assert at_bound.p_value is not None
    assert clear.p_value < 0.01
    assert at_bound.p_value > 0.5


@pytest.mark.parametrize("rule", MARGINS)
def test_too_few_queries_are_never_green(rule: str) -> None:
    by = 0.06 if rule == "superior" else 0.0
    finding = asked(rule, moved(by, count=19, spread=0.001))
    assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.TOO_FEW)
    assert "19 independent queries" in finding.reason
    assert "20 that the policy asks for" in finding.reason
    assert finding.remedy == "judge 1 more independent queries"
    nobody = asked(rule, moved(by), slice="nobody's")
    assert nobody.cause is Cause.NO_EVIDENCE
    assert nobody.reason == "no query of toy is of slice nobody's"


@pytest.mark.parametrize("rule", MARGINS)
@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_nan_never_passes(rule: str, broken: float) -> None:
    values = levels(50)
    spoiled = values.copy()
    spoiled[7] = broken
    for control, candidate in ((values, spoiled), (spoiled, values)):
        with pytest.raises(EvidenceError, match="q0007"):
            asked(rule, scored(control, candidate))


def test_many_queries_of_one_intent_count_once() -> None:
    evidence = moved(0.0, spread=0.0)
    one_need = replace(evidence, clusters=dict.fromkeys(ids(200), "same"))
    finding = asked("non_inferior", one_need)
    assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.TOO_FEW)
    assert "200 queries in 1 cluster" in finding.reason


def test_intents_widen_the_interval() -> None:
    control = levels(400)
    noise = np.repeat(np.random.default_rng(5).normal(0, 0.1, 80), 5)
    evidence = scored(control, control + noise - noise.mean())
    needs = {query_id: f"need {at // 5}" for at, query_id in enumerate(ids(400))}
    alone = asked("non_inferior", evidence)
    together = asked("non_inferior", replace(evidence, clusters=needs))
    assert (alone.verdict, together.verdict) == (Verdict.PASS, Verdict.INCONCLUSIVE)


def test_a_slice_is_judged_by_its_own_queries() -> None:
    control = levels(300)
    candidate = control + 0.1
    candidate[:30] = control[:30] - 0.2
    names = frozenset(ids(30))
    evidence = scored(control, candidate, slices={"identifier": names})
    whole = asked("non_inferior", evidence)
    part = asked("non_inferior", evidence, slice="identifier")
    assert (whole.verdict, part.verdict) == (Verdict.PASS, Verdict.FAIL)
    assert "on slice identifier" in part.reason
    assert "on slice identifier" in part.bound


def with_losses(by: float, lost: int, loser: str) -> Evidence:
    """200 queries, of which one arm failed the last few."""
    control, names = levels(200), ids(200)
    evidence = scored(control, shifted(control, by, 0.01))
    arm = evidence.candidate if loser == "new" else evidence.control
    cut = scores(M, arm.scores[M].values[: 200 - lost], {"failed": names[200 - lost :]})
    spoiled = replace(arm, scores={M: cut}, run=gate_inputs.run(arm.arm, names))
    if loser == "new":
        return replace(evidence, candidate=spoiled)
    return replace(evidence, control=spoiled)


@pytest.mark.parametrize("loser", ["new", "old"])
@pytest.mark.parametrize(("rule", "by"), [("non_inferior", 0.0), ("superior", 0.06)])
def test_failures_count_as_the_worst_before_a_pass(rule: str, by: float, loser: str) -> None:
    sound = asked(rule, with_losses(by, 0, loser))
    finding = asked(rule, with_losses(by, 10, loser))
    assert sound.verdict is Verdict.PASS
    assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.UNANSWERED)
    assert f"{loser} has no value for 10 queries" in finding.reason
    assert "q0190" in finding.reason
    assert "q0190" in finding.remedy
    assert ("as +1 each" in finding.reason) is (rule == "equivalent")


def test_equivalence_must_survive_failures_both_ways() -> None:
    for by in (-0.025, 0.025):
        sound = asked("equivalent", with_losses(by, 0, "old"))
        finding = asked("equivalent", with_losses(by, 4, "old"))
        assert sound.verdict is Verdict.PASS
        assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.UNANSWERED)
        assert "as +1 each" in finding.reason


def test_superior_to_another_arm() -> None:
    control = levels(100)
    floor = gate_inputs.side("hash", 100, **{M: scores(M, control + 0.2)})
    evidence = scored(control, control + 0.1, others={"hash": floor})
    assert asked("superior", evidence, margin=0).verdict is Verdict.PASS
    over_floor = asked("superior", evidence, margin=0, versus="hash")
    assert over_floor.verdict is Verdict.FAIL
    assert "over hash" in over_floor.bound


@pytest.mark.parametrize(
    ("queries", "verdict"),
    [(50, Verdict.INCONCLUSIVE), (187, Verdict.INCONCLUSIVE), (188, Verdict.PASS)],
)
def test_no_difference_in_few_queries_is_no_proof_of_none(queries: int, verdict: Verdict) -> None:
    """Queries that lose everything may be there, and the sample holds none of them."""
    same = np.full(queries, 0.5)
    finding = judge("non_inferior", scored(same, same), measure="nDCG@10", margin=0.02)
    assert finding.verdict is verdict
    if verdict is Verdict.INCONCLUSIVE:
        assert f"about 188 judged queries (now {queries})" in finding.remedy
        assert "fewer than 188 leave room for a loss that none of them shows" in finding.remedy


@pytest.mark.parametrize(
    ("rule", "more"),
    [
        ("non_inferior", {"looks": "planned"}),
        ("non_inferior", {"looks": "anytime"}),
        ("equivalent", {}),
        ("no_slice_harmed", {}),
    ],
)
def test_a_margin_as_wide_as_all_that_the_control_has_passes_nothing(
    rule: str, more: dict[str, str]
) -> None:
    """The control has 0.06 and may lose 0.09: a candidate without anything would pass."""

    def found(control: float, candidate: float) -> Finding:
        everything = {"all": frozenset(ids(400))}
        sides = np.full(400, control), np.full(400, candidate)
        return asked(rule, scored(*sides, slices=everything), margin=0.09, **more)

    for candidate in (0.0, 0.06):
        empty = found(0.06, candidate)
        assert empty.verdict is Verdict.INCONCLUSIVE
        assert rule == "no_slice_harmed" or empty.cause is Cause.EMPTY
        said = "losing everything would pass: the control's own mean is 0.0600, the margin 0.09"
        assert said in empty.reason
        assert "a margin below what the control has" in empty.remedy
    assert found(0.2, 0.2).verdict is Verdict.PASS
    assert found(0.2, 0.0).verdict is Verdict.FAIL


BOUNDS = {"measure": M, "drop": 0.5, "max_share": 0.02}


def fallen(
    to: Mapping[int, float], count: int = 240, gone: tuple[str, ...] = (), old: float = 1.0
) -> Evidence:
    now = np.array([to.get(at, old) for at in range(count)])
    after = scores(M, now[: count - len(gone)], {"failed": gone} if gone else None)
    before = np.full(count, old)
    candidate = gate_inputs.side("new", count, **{M: after})
    return replace(scored(before, before), candidate=candidate)


@pytest.mark.parametrize(
    ("lost", "verdict"), [(0, Verdict.PASS), (4, Verdict.PASS), (5, Verdict.FAIL)]
)
def test_a_count_decides(lost: int, verdict: Verdict) -> None:
    finding = judge("collapse", fallen(dict.fromkeys(range(lost), 0.0)), **BOUNDS)
    assert finding.verdict is verdict
    assert finding.estimate is not None
    assert finding.estimate.value == lost / 240
    assert finding.reason.startswith(f"{lost} of 240 queries lost over 50% of nDCG@10, as judged")


def test_ten_that_a_mean_within_its_margin_hides_fail() -> None:
    """Seven from 1 to 0 and three by a little more than half: the mean falls by 0.036."""
    evidence = fallen({**dict.fromkeys(range(7), 0.0), 7: 0.49, 8: 0.49, 9: 0.49})
    finding = judge("collapse", evidence, **BOUNDS)
    mean = judge("non_inferior", evidence, measure=M, margin=0.05)
    assert (finding.verdict, finding.cause) == (Verdict.FAIL, Cause.BROKEN)
    assert mean.verdict is not Verdict.FAIL
    assert "q0000, q0001, q0002, ..." in finding.reason


@pytest.mark.parametrize(
    ("evidence", "lost"),
    [
        (fallen({0: 0.5, 1: 0.499}), ("q0001",)),
        (fallen({}, old=0.0), ()),
        (fallen({3: 0.2}, gone=("q0239",)), ("q0239", "q0003")),
    ],
    ids=["half is none", "nothing cannot fall", "no answer has lost all"],
)
def test_a_query_that_lost_more_than_its_part_has_collapsed(
    evidence: Evidence, lost: tuple[str, ...]
) -> None:
    assert collapsed(evidence.control.scores[M], evidence.candidate.scores[M], 0.5) == lost


def test_without_a_value_nothing_is_counted() -> None:
    finding = judge("collapse", fallen({}, count=0), **BOUNDS)
    assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.NO_EVIDENCE)
