"""What a race says, with intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.core.evidence import Race
from harness.gates.base.rules import Rules
from harness.pipeline.report_inputs import latency

RULES = Rules(confidence=0.95, resamples=1_000, seed=7, power=0.8)


@pytest.fixture
def race() -> Race:
    rng = np.random.default_rng(7)
    control = rng.integers(100_000, 200_000, (3, 40))
    return Race(
        query_ids=tuple(f"q{at}" for at in range(40)),
        elapsed_ns={"old": control, "new": 3 * control},
        lost_ns={arm: np.zeros((3, 40), int) for arm in ("old", "new")},
        turns={"old": np.zeros((3, 40), int), "new": np.ones((3, 40), int)},
        repeated_ns={"old": control[:, :5], "new": control[:, :5] // 100},
        unseen_ns={"old": control[:, :5], "new": 30 * control[:, :5]},
        reference_ns=np.ones((3, 40), int),
        stolen={},
        verified={"old": True, "new": True},
        machine="a test bench",
        raced_at="2026-01-01T00:00:00+00:00",
    )


def test_percentiles_are_in_order(race: Race) -> None:
    found = latency(race, {"step": ("old", "new")}, RULES).percentiles
    for arm in ("old", "new"):
        values = [found[arm][name].value for name in ("p50", "p90", "p95", "p99")]
        assert values == sorted(values)
        assert all(e.low <= e.value <= e.high for e in found[arm].values())
    assert found["new"]["p50"].value == pytest.approx(3 * found["old"]["p50"].value)


def test_the_ratio_is_candidate_over_control(race: Race) -> None:
    found = latency(race, {"step": ("old", "new")}, RULES)
    for name in ("p50", "p95", "mean"):
        assert found.ratios["step"][name].value == pytest.approx(3)
    for name in ("p50", "p95"):
        assert found.aa["old"][name].value == pytest.approx(1, rel=0.2)
        assert found.aa["new"][name].value == pytest.approx(found.aa["old"][name].value)
    assert set(found.aa) == {"old", "new"}


def test_what_a_text_takes_when_it_comes_again_stands_apart(race: Race) -> None:
    found = latency(race, {}, RULES).repeats
    assert found["old"].value == pytest.approx(1)
    assert found["new"].value == pytest.approx(1 / 300, rel=0.01)


def test_what_a_text_takes_that_the_replay_asked_stands_beside_one_that_it_did_not(
    race: Race,
) -> None:
    found = latency(race, {}, RULES).seen
    assert found["old"].value == pytest.approx(1)
    assert found["new"].value == pytest.approx(0.1)


def test_one_process_has_no_other_to_be_compared_with(race: Race) -> None:
    one = replace(
        race,
        elapsed_ns={arm: times[:1] for arm, times in race.elapsed_ns.items()},
        repeated_ns={arm: times[:1] for arm, times in race.repeated_ns.items()},
        unseen_ns={arm: times[:1] for arm, times in race.unseen_ns.items()},
    )
    found = latency(one, {"step": ("old", "new")}, RULES)
    assert found.aa == {}
    assert found.ratios["step"]["p50"].high == np.inf


def test_a_pair_that_did_not_race_has_no_ratio(race: Race) -> None:
    found = latency(race, {"step": ("old", "new"), "other": ("new", "newer")}, RULES)
    assert set(found.ratios) == {"step"}


def test_a_tail_too_far_out_has_no_upper_end(race: Race) -> None:
    found = latency(race, {}, RULES).percentiles["old"]
    assert found["p99"].high == np.inf
    assert found["p50"].high < np.inf
