"""negatives: what is shown where there is nothing to find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from harness.core.engine import Hit
from harness.core.errors import EvidenceError
from harness.core.evidence import ArmResult, Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.run import Row, Run, Status
from tests.make import gate_inputs

SETTINGS = {"measure": "nDCG@10", "depth": 10, "max_more": 0.1, "min_queries": 30}
NEGATIVE, ANSWERABLE = 40, 10


def side(arm: str, hits: Sequence[int | None]) -> ArmResult:
    """Give an arm that shows so many hits of each query without an answer; None is a failure."""
    names = gate_inputs.ids(NEGATIVE + ANSWERABLE)
    who = gate_inputs.manifest(arm).fingerprint
    rows = [
        Row(name, Status.FAILED, error="broken pipe")
        if count is None
        else Row(name, Status.ANSWERED, tuple(Hit(f"d{at}", -at, -at) for at in range(count)), who)
        for name, count in zip(names, [*hits, *[5] * ANSWERABLE], strict=True)
    ]
    values = np.full(ANSWERABLE, 0.5)
    found = gate_inputs.scores("nDCG@10", values, {"negative_query": names[:NEGATIVE]})
    return ArmResult(arm, gate_inputs.manifest(arm), Run.of(arm, rows), {"nDCG@10": found})


def shown(control: Sequence[int | None], candidate: Sequence[int | None]) -> Evidence:
    sides = {"control": side("old", control), "candidate": side("new", candidate)}
    return gate_inputs.evidence(NEGATIVE + ANSWERABLE, **sides)


def judged(control: Sequence[int | None], candidate: Sequence[int | None]) -> Finding:
    return gate_inputs.judge("negatives", shown(control, candidate), **SETTINGS)


def test_a_candidate_that_is_as_silent_passes() -> None:
    finding = judged([0, 3] * 20, [0, 3] * 19 + [1, 3])
    assert finding.verdict is Verdict.PASS
    assert finding.bound == "fills less than 0.1 more of the first 10 places"
    assert finding.unit == "Empty@10"


def test_a_candidate_that_fills_the_page_with_anything_fails() -> None:
    finding = judged([0] * NEGATIVE, [100] * NEGATIVE)
    assert finding.verdict is Verdict.FAIL
    assert finding.estimate is not None
    assert (finding.estimate.value, finding.estimate.n) == (-1.0, NEGATIVE)


def test_what_is_below_the_page_does_not_count() -> None:
    assert judged([10] * NEGATIVE, [100] * NEGATIVE).verdict is Verdict.PASS


def test_only_queries_without_an_answer_are_looked_at() -> None:
    finding = judged([2] * NEGATIVE, [2] * NEGATIVE)
    assert finding.estimate is not None
    assert (finding.estimate.value, finding.estimate.n) == (0.0, NEGATIVE)


def test_a_failure_is_not_silence() -> None:
    finding = judged([5] * NEGATIVE, [5] * (NEGATIVE - 8) + [None] * 8)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "new has no value for 8 queries" in finding.reason


def test_a_set_that_asks_nothing_unanswerable_passes_nothing() -> None:
    found = gate_inputs.judge(
        "negatives", gate_inputs.scored(gate_inputs.levels(60), gate_inputs.levels(60)), **SETTINGS
    )
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.cause is Cause.TOO_FEW


def test_a_measure_that_was_not_scored_is_named() -> None:
    bare = replace(shown([0] * 40, [0] * 40), control=replace(side("old", [0] * 40), scores={}))
    with pytest.raises(EvidenceError, match="old has no nDCG@10"):
        gate_inputs.judge("negatives", bare, **SETTINGS)
