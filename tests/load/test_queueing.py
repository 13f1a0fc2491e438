"""queueing: the time in the system at a stated rate of arrivals, against a budget."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.core.evidence import AtRate, Load
from harness.core.gate import Finding, Verdict
from tests.make import gate_inputs

MS = 1e6
QUEUEING: dict[str, Any] = {
    "rate": 10.0,
    "percent": "p99",
    "max_ms": 5.0,
    "reference_ms": 1.0,
    "max_scale": 2,
    "max_noise": 1.5,
    "max_busy": 0.1,
    "min_arrivals": 100,
}


def at_rate(*p99_ms: float, **changes: Any) -> AtRate:  # noqa: ANN401  fields of AtRate
    """Six rounds or more; the other percentiles are quicker."""
    found = np.array(p99_ms) * MS
    quiet = AtRate({"p50": found / 9, "p95": found / 3, "p99": found}, np.zeros(6), (), 150)
    return replace(quiet, **changes)


def load(rounds: AtRate, **changes: Any) -> Load:  # noqa: ANN401  fields of Load
    quiet = Load(
        at={"new": {10.0: rounds}},
        noise={10.0: np.ones(6)},
        reference_ns=np.full(5, 1_000_000),
        machine=gate_inputs.MACHINE,
        loaded_at="2026-11-01T12:00:00+00:00",
    )
    return replace(quiet, **changes)


def judged(found: Load | None, **settings: object) -> Finding:
    return gate_inputs.judge(
        "queueing", gate_inputs.evidence(10, load=found), **QUEUEING | settings
    )


@pytest.mark.parametrize(
    ("p99_ms", "verdict"),
    [
        ((2, 3, 3, 4, 4, 4.9), Verdict.PASS),
        ((2, 3, 3, 4, 4, 5.1), Verdict.INCONCLUSIVE),
        ((5.1, 6, 6, 7, 8, 9), Verdict.FAIL),
        ((5.1, 6, 6, 7, 8, math.inf), Verdict.FAIL),
        ((math.inf,) * 6, Verdict.FAIL),
    ],
)
def test_rounds_lie_on_one_side_of_the_budget(p99_ms: tuple[float, ...], verdict: Verdict) -> None:
    finding = judged(load(at_rate(*p99_ms)))
    assert finding.verdict is verdict, finding.reason
    assert finding.timed
    assert (finding.unit, finding.limit) == ("ms", 5.0)


def test_the_percentile_is_the_one_that_is_asked_for() -> None:
    rounds = at_rate(*[9.0] * 6)
    assert judged(load(rounds)).verdict is Verdict.FAIL
    assert judged(load(rounds), percent="p95").verdict is Verdict.PASS


def test_a_slower_machine_has_a_longer_budget_up_to_a_point() -> None:
    rounds = at_rate(*[7.0] * 6)
    slower = load(rounds, reference_ns=np.full(5, 1_600_000))
    finding = judged(slower)
    assert finding.verdict is Verdict.PASS
    assert "The budget there is 8 ms" in finding.reason
    far = judged(load(rounds, reference_ns=np.full(5, 2_100_000)))
    assert far.verdict is Verdict.INCONCLUSIVE
    assert "2.1 times as long" in far.reason


COMMAND = "run: harness load --arm old --arm new --rate 10"


@pytest.mark.parametrize(
    ("found", "why", "remedy"),
    [
        (None, "no load of these indexes", COMMAND),
        (load(at_rate(1), at={}), "the last load had none", COMMAND),
        (load(at_rate(*[1.0] * 6), at={"new": {20.0: at_rate(1)}}), "had 20", COMMAND),
        (load(at_rate(*[1.0] * 6), noise={}), "was not loaded twice", COMMAND),
        (load(at_rate(*[1.0] * 6), noise={10.0: np.array([1, 0.6])}), "1.67 times", COMMAND),
        (load(at_rate(*[1.0] * 6, busy=np.array([0.0, 0.2]))), "used 20.0%", COMMAND),
        (load(at_rate(*[1.0] * 6, arrivals=99)), "a round had 99 arrivals", "--seconds 12"),
        (load(at_rate(*[1.0] * 5, objections=("late",))), "1 rounds do not count: late", "N"),
    ],
)
def test_what_says_nothing_is_inconclusive_and_names_the_command(
    found: Load | None, why: str, remedy: str
) -> None:
    said = judged(found)
    assert said.verdict is Verdict.INCONCLUSIVE
    assert why in said.reason
    assert said.remedy.endswith(remedy)
