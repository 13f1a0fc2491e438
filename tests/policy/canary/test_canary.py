"""A pair with known answers: what is planted in the code under it voids the decision."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest

from harness.agreement import agree as agreement
from harness.core.errors import EvidenceError, HarnessError
from harness.core.evidence import ArmResult
from harness.core.gate import Verdict
from harness.core.scores import Estimate, Scores
from harness.gates import (
    latency_ceiling,
    latency_ratio,
    negatives,
    no_slice_harmed,
    non_inferior,
    queueing,
)
from harness.gates.base import live, paired, registry, shares, timing
from harness.gates.base.budget import BudgetSettings
from harness.gates.base.rules import above
from harness.measures.columnar import kernels
from harness.policy.canary import answers as canary_answers
from harness.policy.canary import clocks as canary_clocks
from harness.policy.canary import pair as canary_pair
from harness.policy.canary.answers import wrong_answers
from harness.policy.canary.canary import check_canary
from harness.policy.canary.cases import MAKERS, cases, limit, queries_for, worth
from harness.policy.canary.pair import Pair, Spoil, Spoilt
from harness.policy.decide import decide
from harness.policy.load import load_policy
from harness.policy.model import Gate, Policy
from harness.replay.ask import observe

pytestmark = pytest.mark.slow

POLICIES = sorted(
    path
    for path in (Path(__file__).resolve().parents[3] / "policy").glob("*.toml")
    if "[policy]" in path.read_text(encoding="utf-8")
)
PAIRWISE = next(path for path in POLICIES if path.stem == "pairwise")


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy(PAIRWISE)


def test_every_rule_has_known_answers() -> None:
    kinds = [set(MAKERS), set(canary_clocks.MAKERS)]
    assert set().union(*kinds) == set(registry.names())
    assert sum(map(len, kinds)) == len(registry.names())


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", POLICIES, ids=lambda path: str(path.stem))
def test_the_code_as_it_is_answers_rightly(path: Path) -> None:
    check_canary(load_policy(path))


def test_it_is_asked_in_every_decision(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "above", lambda *_: Verdict.PASS)
    with pytest.raises(EvidenceError, match="the canary was answered wrongly"):
        decide(policy, {}, now=datetime.now(UTC))


def test_it_is_cheap(policy: Policy) -> None:
    began = time.process_time()
    check_canary(policy)
    assert time.process_time() - began < 2


def voided(policy: Policy, *words: str) -> None:
    with pytest.raises(EvidenceError) as found:
        check_canary(policy)
    for word in (*words, "The decision is void"):
        assert word in str(found.value)


def test_a_margin_doubled_in_its_rule(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        non_inferior.Settings, "limit", property(lambda settings: -2 * settings.margin)
    )
    voided(policy, "is judged by the bound -0.04, and the policy says -0.02")


def test_a_margin_doubled_where_it_is_read(policy: Policy) -> None:
    (step,) = policy.steps

    def doubled(gate: Gate) -> Gate:
        if not isinstance(gate.settings, non_inferior.Settings):
            return gate
        wide = gate.settings.model_copy(update={"margin": 2 * gate.settings.margin})
        return replace(gate, settings=wide)

    gates = tuple(map(doubled, step.gates))
    voided(replace(policy, steps=(replace(step, gates=gates),)), "and the policy says -0.02")


def test_a_margin_doubled_where_it_is_judged(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paired, "above", lambda found, bound: above(found, 2 * bound))
    voided(policy, "one that loses just more than the bound is judged pass", "must be fail or")


def test_the_ends_of_an_interval_swapped(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(estimate: Estimate, bound: float) -> Verdict:
        return above(Estimate(estimate.value, estimate.high, estimate.low, estimate.n), bound)

    monkeypatch.setattr(paired, "above", swapped)
    voided(policy, "is judged pass")


def test_a_rule_that_looks_at_the_mean_alone(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        paired,
        "above",
        lambda found, bound: Verdict.PASS if found.value > bound else Verdict.FAIL,
    )
    voided(policy, "one that loses just less than the bound is judged pass")


def test_a_rule_that_never_fails(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "above", lambda *_: Verdict.INCONCLUSIVE)
    voided(policy, "an equal candidate is judged inconclusive", "must be pass")


def test_failures_that_are_not_counted(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "below", lambda *_: Verdict.PASS)
    voided(policy, "a candidate that just too often raises")


def only(name: str, rule: str) -> Policy:
    """Give a shipped policy with nothing but its first gate of a rule."""
    policy = load_policy(PAIRWISE.with_stem(name))
    found = [(step, gate) for step in policy.steps for gate in step.gates if gate.rule.name == rule]
    step, gate = found[0]
    return replace(policy, steps=(replace(step, gates=(gate,)),))


def wider(module: ModuleType) -> Callable[..., object]:
    """Take twice the bound."""
    honest: Callable[..., object] = vars(module)["below"]
    return lambda found, bound: honest(found, 2 * bound)


def swapped_ends(module: ModuleType) -> Callable[..., object]:
    honest: Callable[..., object] = vars(module)["below"]
    return lambda one, bound: honest(Estimate(one.value, one.high, one.low, one.n), bound)


def blind(_: ModuleType) -> Callable[..., object]:
    """See no hindrance."""
    return lambda *_: None


class Slack(NamedTuple):
    """What is spoilt under which gate of which policy, and what the canary says of it."""

    name: str
    rule: str
    module: ModuleType
    part: str
    spoil: Callable[[ModuleType], object]
    said: str


SLACK = (
    Slack("migration", "latency_ratio", latency_ratio, "below", wider, "beyond its bound"),
    Slack(
        "migration", "latency_ratio", latency_ratio, "below", swapped_ends, "processes disagree on"
    ),
    Slack("migration", "latency_ceiling", latency_ceiling, "below", wider, "beyond its bound"),
    Slack("migration", "latency_ceiling", latency_ceiling, "below", swapped_ends, "disagree on"),
    Slack("migration", "latency_ratio", timing, "_stolen", blind, "on a busy machine"),
    Slack("migration", "latency_ceiling", timing, "_noise", blind, "differs too much from itself"),
    Slack("migration", "latency_ratio", timing, "_absent", blind, "one that answers otherwise"),
    Slack("mail", "queueing", queueing, "below", wider, "a queue beyond its bound"),
    Slack("mail", "queueing", queueing, "below", swapped_ends, "that rounds disagree on"),
    Slack("mail", "queueing", queueing, "_hindered", blind, "a noisy machine"),
    Slack("live", "anytime_failures", live, "below", wider, "traffic too short to show it"),
    Slack("live", "anytime_slow", live, "below", swapped_ends, "traffic just within its bound"),
)


@pytest.mark.parametrize("slack", SLACK, ids=lambda one: f"{one.rule}: {one.said}")
def test_a_clock_that_is_read_slackly(slack: Slack, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = only(slack.name, slack.rule)
    check_canary(policy)
    monkeypatch.setattr(slack.module, slack.part, slack.spoil(slack.module))
    voided(policy, slack.said)


def test_waiting_that_is_not_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = only("migration", "latency_ratio")
    monkeypatch.setattr(
        latency_ratio, "steadfast", lambda race, judge: (*judge(race.elapsed_ns), "")
    )
    voided(policy, "one that only waited is judged fail", "must be inconclusive")


def test_a_budget_that_is_not_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = only("migration", "latency_ceiling")
    monkeypatch.setattr(BudgetSettings, "scale", lambda *_: 1.0)
    voided(policy, "a budget kept on a slower machine is judged fail")


def test_junk_that_is_taken_for_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = only("mail", "negatives")
    check_canary(policy)
    honest: Callable[..., Scores] = vars(negatives)["_left_empty"]

    def halved(side: ArmResult, settings: negatives.Settings) -> Scores:
        found = honest(side, settings)
        return replace(found, values=(1 + found.values) / 2)

    monkeypatch.setattr(negatives, "_left_empty", halved)
    voided(policy, "one that shows junk more often than the bound is judged pass")


def test_one_margin_among_many_that_is_another() -> None:
    mail = only("mail", "no_slice_harmed")
    ((gate,),) = [step.gates for step in mail.steps]
    settings = gate.settings
    assert isinstance(settings, no_slice_harmed.Settings)
    margins = {**settings.margins, "hostile": 0.4}
    wide = replace(gate, settings=settings.model_copy(update={"margins": margins}))
    voided(
        replace(mail, steps=(replace(mail.steps[0], gates=(wide,)),)),
        "is judged by the bound 0.4 on hostile, and the policy says 0.2",
    )


def test_a_time_limit_that_never_fires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        canary_answers, "observe", lambda engine, query, k, _: observe(engine, query, k, 10**12)
    )
    assert "ended as ANSWERED" in next(wrong_answers())


def test_an_engine_that_is_asked_for_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        canary_answers,
        "observe",
        lambda engine, query, k, limit_ns: observe(engine, query, k // 2, limit_ns),
    )
    assert "with 24 hits" in next(wrong_answers())


def test_a_measure_of_another_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    honest: Callable[..., object] = vars(kernels)["_within"]
    monkeypatch.setattr(
        kernels, "_within", lambda found, cutoff: honest(found, cutoff and 2 * cutoff)
    )
    assert next(wrong_answers()) == "R@50 of the query 'rank 51' is 1, and must be 0"


def test_an_overlap_of_another_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    honest: Callable[..., object] = vars(agreement)["rbo"]
    monkeypatch.setattr(agreement, "rbo", lambda pair, depth, p: honest(pair, depth // 2, p / 2))
    assert "RBO of the query 'swapped'" in next(wrong_answers())


def test_the_answers_are_those_of_the_bound_that_is_written() -> None:
    written = {"measure": "nDCG@10", "margin": 0.02, "min_queries": 30}
    assert queries_for("non_inferior", written, 0.025) == 600
    found = cases("non_inferior", written, 600, 0.025)
    assert [case.candidate.count for case in found] == [0, 0, 13, 11, 600]
    assert [Verdict.PASS in case.right for case in found] == [True, True, False, False, False]
    assert limit("non_inferior", written) == -0.02
    assert limit("agreement_floor", {"floor": 0.8}) == 0.8
    assert limit("identity", {}) is None
    assert worth("P@5") == 0.2
    assert not cases("non_inferior", {"measure": "ERR@10", "margin": 0.02}, 600, 0.025)
    tight = cases("equivalent", {"measure": "R@100", "margin": 0.001}, 600, 0.025)
    assert not any(Verdict.PASS in case.right for case in tight)


def test_a_spoilt_engine_differs_by_its_share(policy: Policy) -> None:
    pair = Pair(queries=50, measures=("nDCG@10",), depths=(1,))
    (step,) = policy.steps
    evidence = pair.evidence(step, Spoilt(), Spoilt(5, Spoil.LOST), slices=(), compared=True)
    values = [side.scores["nDCG@10"].values for side in (evidence.control, evidence.candidate)]
    assert np.subtract(*values).sum() == 5
    assert evidence.agreement.scores["Jaccard@1"].mean == 0.9
    assert (evidence.control.arm, evidence.candidate.run.arm) == ("control", "candidate")
    failed = pair.evidence(step, Spoilt(), Spoilt(50, Spoil.FAILED), slices=(), compared=False)
    assert failed.candidate.scores == {}
    assert canary_pair.NOTHING is failed.agreement


def asked(confidence: float, *gates: tuple[str, dict[str, object]]) -> Policy:
    """Give a policy of one step with these gates."""
    policy = load_policy(PAIRWISE)
    made = []
    for at, (rule, settings) in enumerate(gates):
        loaded = registry.load(rule)
        known = loaded.settings.model_validate(settings)
        made.append(Gate(f"gate {at}", loaded, known, written=settings))
    rules = replace(policy.rules, confidence=confidence)
    return replace(policy, rules=rules, steps=(replace(policy.steps[0], gates=tuple(made)),))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("confidence", [0.95, 0.999999])
@pytest.mark.parametrize("measure", ["nDCG@10", "P@10", "P@20", "P(rel=1)@100"])
def test_right_code_is_not_called_wrong(measure: str, confidence: float) -> None:
    """Whatever one query is worth, however wide the margin and high the confidence."""
    gates: list[tuple[str, dict[str, object]]] = [
        (rule, {"measure": measure, "margin": margin})
        for margin in (0.02, 0.05, 0.3)
        for rule in ("non_inferior", "equivalent", "superior")
    ]
    check_canary(asked(confidence, *gates))


@pytest.mark.parametrize("confidence", [0.95, 0.999999])
def test_right_code_is_not_called_wrong_by_a_share(confidence: float) -> None:
    gates: list[tuple[str, dict[str, object]]] = []
    for share in (0.05, 0.95):
        gates += [
            ("agreement_floor", {"measure": name, "floor": share}) for name in ("Jaccard@10", "tau")
        ]
        gates += [
            ("failure_rate", {"max_share": share}),
            ("negatives", {"measure": "nDCG@10", "depth": 10, "max_more": share}),
        ]
    check_canary(asked(confidence, *gates))


def test_it_asks_of_a_measure_that_one_query_is_worth_little_of() -> None:
    found = cases("non_inferior", {"measure": "P@10", "margin": 0.02}, 600, 0.025)
    assert [case.right for case in found[:2]] == [frozenset({Verdict.PASS})] * 2
    assert found[-1].right == frozenset({Verdict.FAIL})
    idle = cases("non_inferior", {"measure": "P@100", "margin": 0.02}, 600, 0.025)
    assert not any(Verdict.PASS in case.right for case in idle)


@pytest.mark.parametrize(
    ("margin", "said"), [(1e-300, "nearer than 1e-06 to 0"), (0.999, "lose nearly everything")]
)
def test_a_margin_that_holds_nobody_is_refused_in_its_own_words(
    tmp_path: Path, margin: float, said: str
) -> None:
    text = PAIRWISE.read_text(encoding="utf-8").replace("margin = 0.02", f"margin = {margin}")
    path = tmp_path / "policy.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(HarnessError, match=f"margin.*{said}"):
        load_policy(path)
