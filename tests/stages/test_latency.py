"""What a race says, with intervals."""

from __future__ import annotations

import numpy as np
import pytest

from harness.core.evidence import Race
from harness.gates.base.rules import Rules
from harness.stages.latency import latency

RULES = Rules(confidence=0.95, resamples=1_000, seed=7, power=0.8)


@pytest.fixture
def race() -> Race:
    rng = np.random.default_rng(7)
    control = rng.integers(1_000, 2_000, (40, 5))
    return Race(
        query_ids=tuple(f"q{at}" for at in range(40)),
        elapsed_ns={"old": control, "new": 3 * control},
        again_ns={"old": control.copy()},
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
        assert found.twins["old"][name].value == pytest.approx(1)
    assert set(found.twins) == {"old"}


def test_a_pair_that_did_not_race_has_no_ratio(race: Race) -> None:
    found = latency(race, {"step": ("old", "new"), "other": ("new", "newer")}, RULES)
    assert set(found.ratios) == {"step"}


def test_a_tail_too_far_out_is_left_out(race: Race) -> None:
    assert "p99.9" not in latency(race, {}, RULES).percentiles["old"]
