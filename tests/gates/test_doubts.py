"""What the log lost or shed, and one query asked for ever, keep live traffic from a PASS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.core.evidence import LOST, SHED, Traffic
from harness.core.gate import Cause, Finding, Verdict
from harness.gates.base.doubts import FEWEST_QUERIES, MOST_SHED
from tests.gates.test_anytime import RULES, flags, judged, of
from tests.make import gate_inputs

PAIRS = 1_400


def on(rule: str, **changed: object) -> Finding:
    """Judge traffic without a fault."""
    evidence = of(rule, flags(PAIRS, 0.0))
    assert isinstance(evidence.traffic, Traffic)
    found = replace(evidence.traffic, attempted=2 * PAIRS, **changed)  # type: ignore[arg-type]
    return judged(rule, gate_inputs.evidence(5, traffic=found))


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
    assert "as varied as 1.0" in finding.reason
    assert finding.remedy == "more different queries"
    even = np.full(FEWEST_QUERIES, PAIRS // FEWEST_QUERIES)
    assert on(rule, asked=even).verdict is Verdict.PASS
    hidden = np.array([PAIRS // 2, *([1] * (PAIRS // 2))])
    assert on(rule, asked=hidden).verdict is Verdict.INCONCLUSIVE
