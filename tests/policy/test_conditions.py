"""Evidence that was measured under other conditions than a gate may be judged on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.engine import Hit
from harness.core.evidence import ArmResult, Evidence
from harness.core.run import Conditions, Row, Run, Status
from harness.gates import agreement_floor, latency_ratio, negatives, non_inferior, superior
from harness.gates.base.rules import GateSettings
from harness.policy.decision import Unmet, unmet
from harness.policy.model import NOTHING, Demands
from tests.make import gate_inputs

ASKED = Conditions(k=100, time_limit_s=10.0)
QUALITY = non_inferior.Settings(measure="nDCG@10", margin=0.02, min_queries=2)
FOUND = non_inferior.Settings(measure="R@50", margin=0.02, min_queries=2)
OVERLAP = agreement_floor.Settings(measure="RBO", floor=0.8, min_queries=2)


def asked(side: ArmResult, conditions: Conditions | None) -> ArmResult:
    return replace(side, run=replace(side.run, conditions=conditions))


def measured(
    control: Conditions | None = ASKED, candidate: Conditions | None = ASKED, depth: int | None = 50
) -> Evidence:
    plain = gate_inputs.evidence(20)
    return replace(
        plain,
        control=asked(plain.control, control),
        candidate=asked(plain.candidate, candidate),
        agreement=replace(plain.agreement, depth=depth),
        noise=replace(plain.noise, depth=depth),
    )


def said(settings: GateSettings, evidence: Evidence, demands: Demands = NOTHING) -> str:
    found = unmet(settings, evidence, demands)
    assert isinstance(found, Unmet | None)
    return f"{found.reason}. {found.remedy}" if found else ""


def test_arms_that_were_asked_alike_and_deep_enough_may_be_judged() -> None:
    demands = Demands(k=100, time_limit_s=10.0, depth=50)
    for settings in (QUALITY, FOUND, OVERLAP):
        assert not said(settings, measured())
        assert not said(settings, measured(), demands)
        assert not said(settings, measured(None, None))


@pytest.mark.parametrize(
    "other", [Conditions(k=50, time_limit_s=10.0), Conditions(k=100, time_limit_s=1.0)]
)
def test_a_candidate_that_was_asked_otherwise_is_not_judged(other: Conditions) -> None:
    text = said(QUALITY, measured(candidate=other))
    assert text.startswith("the arms were not asked alike (old: 100 hits within 10 s; new: ")
    assert f"new: {other.k} hits within {other.time_limit_s:g} s" in text
    assert said(QUALITY, measured(control=other))


def test_a_further_arm_of_the_gate_must_have_been_asked_alike_too() -> None:
    floor = asked(gate_inputs.side("floor", 20), Conditions(k=10, time_limit_s=10.0))
    evidence = replace(measured(), others={"floor": floor})
    gain = superior.Settings(measure="nDCG@10", margin=0.0, versus="floor", min_queries=2)
    assert "floor: 10 hits" in said(gain, evidence)
    assert not said(QUALITY, evidence)


def test_no_gate_looks_deeper_than_the_arms_were_asked() -> None:
    shallow = Conditions(k=20, time_limit_s=10.0)
    assert not said(QUALITY, measured(shallow, shallow))
    assert "returned 20 hits a query, and the gate looks at 50" in said(
        FOUND, measured(shallow, shallow)
    )
    silence = negatives.Settings(measure="nDCG@10", depth=30, max_more=0.1, min_queries=2)
    assert "the gate looks at 30" in said(silence, measured(shallow, shallow))


@pytest.mark.parametrize(
    ("demands", "words"),
    [
        (Demands(k=200), "asked for 100 hits; the policy demands 200 (policy.evidence.k)"),
        (Demands(time_limit_s=5.0), "a time limit of 10 s; the policy demands 5 s"),
        (Demands(depth=100), "computed at a depth of 50; the policy demands 100"),
    ],
)
def test_what_a_policy_demands_must_be_met(demands: Demands, words: str) -> None:
    assert words in said(QUALITY, measured(), demands)


def test_unknown_conditions_do_not_meet_a_demand() -> None:
    evidence = measured(None, None, None)
    assert "does not say its k; the policy demands 100" in said(QUALITY, evidence, Demands(k=100))
    assert "that was not recorded" in said(QUALITY, evidence, Demands(time_limit_s=10.0))
    assert "at an unknown depth" in said(OVERLAP, evidence, Demands(depth=50))


def test_times_are_measured_otherwise() -> None:
    speed = latency_ratio.Settings(percent="p50", max_ratio=2, max_noise=1.5, max_stolen=0.02)
    assert unmet(speed, measured(None, None), Demands(k=100)) is None


def listed(side: ArmResult, length: int, natural: int = 0) -> ArmResult:
    """Show lists of one length, but for a few that end by themselves."""
    hits = tuple(Hit(f"d{at}", 1.0, 1.0) for at in range(length))
    rows = [
        Row(query, Status.ANSWERED, hits[: natural or None] if at else hits, "me")
        for at, query in enumerate(side.run.query_ids)
    ]
    return replace(side, run=Run.of(side.arm, rows))


def test_an_imported_run_that_was_cut_short_is_not_compared_with_a_longer_one() -> None:
    plain = measured()
    cut = replace(plain, control=listed(plain.control, 10), candidate=listed(plain.candidate, 60))
    assert "the lists of old were cut at 10 hits, those of another arm go to 60" in said(FOUND, cut)
    assert not said(QUALITY, cut)
    both = replace(cut, candidate=listed(plain.candidate, 10))
    assert not said(FOUND, both)
    many = gate_inputs.evidence(100)
    ends = replace(many, control=listed(many.control, 10, 4), candidate=listed(many.candidate, 60))
    assert not said(FOUND, ends)
