"""collapse: a count over these queries, as they are judged, that no interval softens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from harness.core.evidence import Evidence
from harness.core.gate import Cause, Verdict
from harness.gates.collapse import collapsed
from tests.make import gate_inputs

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
