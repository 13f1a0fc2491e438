"""What the log lost or shed, and one query or client for ever, keep live traffic from a PASS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.core.evidence import LOST, SHED, Traffic
from harness.core.gate import Cause, Finding, Verdict
from harness.shadow.live import MOST_SHED
from tests.make import gate_inputs
from tests.shadow.test_anytime import RULES, flags, judged, of

PAIRS = 1_400


def on(rule: str, settings: dict[str, object] | None = None, **changed: object) -> Finding:
    """Judge traffic without a fault."""
    honest = of(rule, flags(PAIRS, 0.0)).of(Traffic)
    found = replace(honest, attempted=2 * PAIRS, **changed)  # type: ignore[arg-type]
    return judged(rule, gate_inputs.evidence(5, traffic=found), **(settings or {}))


@pytest.mark.parametrize("rule", RULES)
def test_what_the_log_lost_counts_as_the_worst(rule: str) -> None:
    finding = on(rule, passed_over={LOST: 600})
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "but 600 numbered attempts are not in the log; if all of them were bad" in finding.reason
    assert "the lines that are missing" in finding.remedy
    assert on(rule, passed_over={LOST: 2}).verdict is Verdict.PASS


@pytest.mark.parametrize("rule", RULES)
def test_more_shed_than_compared_is_no_picture(rule: str) -> None:
    most = int(MOST_SHED * 2 * PAIRS)
    assert on(rule, passed_over={SHED: most}).verdict is Verdict.PASS
    finding = on(rule, passed_over={SHED: most + 1})
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert f"{most + 1} of {2 * PAIRS} attempts were shed, more than 50%" in finding.reason
    assert finding.cause is Cause.SAMPLE


@pytest.mark.parametrize("rule", RULES)
def test_one_query_asked_for_ever_is_no_traffic(rule: str) -> None:
    finding = on(rule, asked=np.array([PAIRS]))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "; 1 different query, the most asked 100.0% of all" in finding.reason
    assert "but one query has 100.0% of the pairs, and 10.0% is the most" in finding.reason
    assert on(rule, asked=np.full(10, PAIRS // 10)).verdict is Verdict.PASS
    assert on(rule, asked=np.array([200, *([1] * 1_200)])).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("rule", RULES)
def test_one_client_with_a_third_of_the_pairs_is_no_traffic(rule: str) -> None:
    asked = np.ones(PAIRS, dtype=np.int64)
    finding = on(rule, asked=asked, largest_client=int(0.3 * PAIRS))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "but one client has 30.0% of the pairs, and 10.0% is the most" in finding.reason
    assert on(rule, asked=asked, largest_client=PAIRS // 10).verdict is Verdict.PASS


@pytest.mark.parametrize("rule", RULES)
def test_clients_that_are_unknown_are_assumed_by_the_policy_or_open(rule: str) -> None:
    asked = np.ones(PAIRS, dtype=np.int64)
    finding = on(rule, asked=asked, unnamed=7)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert f"but 7 of {PAIRS} pairs name no client" in finding.reason
    assert "assume_clients" in finding.remedy
    why: dict[str, object] = {"assume_clients": "a login is needed, and each has a rate limit"}
    assumed = on(rule, why, asked=asked, unnamed=7)
    assert assumed.verdict is Verdict.PASS
    assert "clients are taken to be many: a login is needed" in assumed.reason
    assert on(rule, why, asked=asked, unnamed=7, largest_client=900).verdict is not Verdict.PASS
