"""Slices, and queries that no document answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from harness.core.engine import Hit
from harness.core.errors import EvidenceError
from harness.core.evidence import ArmResult, Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.run import Row, Run, Status
from tests.make import gate_inputs

SETTINGS = {"measure": "nDCG@10", "margin": 0.1}


def sliced(*by: float, size: int = 60) -> Evidence:
    """Give one slice of ``size`` queries for each mean difference."""
    control = gate_inputs.levels(size * len(by))
    parts = [
        gate_inputs.shifted(control[at * size : (at + 1) * size], mean, 0.05, seed=at)
        for at, mean in enumerate(by)
    ]
    names = gate_inputs.ids(len(control))
    slices = {f"kind{at}": frozenset(names[at * size : (at + 1) * size]) for at in range(len(by))}
    return gate_inputs.scored(control, np.concatenate(parts), slices=slices)


def losing(*lost: int, size: int) -> Evidence:
    """Give one slice of ``size`` queries for each number of queries that lose all they had."""
    control = np.ones(size * len(lost))
    candidate = control.copy()
    for at, count in enumerate(lost):
        candidate[at * size : at * size + count] = 0.0
    names = gate_inputs.ids(len(control))
    slices = {f"kind{at}": frozenset(names[at * size : (at + 1) * size]) for at in range(len(lost))}
    return gate_inputs.scored(control, candidate, slices=slices)


def test_harm_to_one_slice_is_found_behind_a_good_mean() -> None:
    evidence = sliced(0.2, 0.2, -0.3)
    whole = gate_inputs.judge("non_inferior", evidence, **SETTINGS)
    finding = gate_inputs.judge("no_slice_harmed", evidence, **SETTINGS)
    assert whole.verdict is Verdict.PASS
    assert finding.verdict is Verdict.FAIL
    assert "kind2 -0.3000" in finding.reason
    assert finding.reason.count("harmed") == 1
    assert finding.estimate is not None
    assert finding.estimate.value == pytest.approx(-0.3)


def test_no_harm_passes() -> None:
    finding = gate_inputs.judge("no_slice_harmed", sliced(0.0, 0.01, -0.01), **SETTINGS)
    assert finding.verdict is Verdict.PASS


def test_absence_of_evidence_is_not_green() -> None:
    """Four queries that lose everything, and a slice that loses everything on a part of twenty."""
    for lost, size in ((4, 4), (0, 4), (4, 20), (6, 20), (8, 20), (0, 20)):
        evidence = losing(lost, 0, 0, size=size)
        finding = gate_inputs.judge("no_slice_harmed", evidence, measure="nDCG@10", margin=0.05)
        assert finding.verdict is not Verdict.PASS, (lost, size)
        assert "kind0" in finding.reason


def test_a_small_slice_is_named_with_the_queries_that_it_lacks() -> None:
    evidence = losing(0, 0, size=80)
    few = dict(evidence.slices) | {"rare": frozenset(gate_inputs.ids(5))}
    finding = gate_inputs.judge(
        "no_slice_harmed", replace(evidence, slices=few), measure="nDCG@10", margin=0.05
    )
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.remedy.startswith("rare: about 74 judged queries (now 5)")
    assert "kind" not in finding.remedy


def test_fewer_than_the_policy_asks_for_is_not_green() -> None:
    finding = gate_inputs.judge("no_slice_harmed", sliced(0.0, 0.0), **SETTINGS, min_queries=61)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "2 slices, none with 61 independent queries" in finding.reason
    assert finding.cause is Cause.TOO_FEW


def test_a_slice_may_have_a_margin_of_its_own() -> None:
    evidence = losing(0, 0, size=40)
    tight = gate_inputs.judge("no_slice_harmed", evidence, **SETTINGS | {"margin": 0.05})
    own = {"margin": 0.05, "margins": {"kind0": 0.1, "kind1": 0.1}}
    wide = gate_inputs.judge("no_slice_harmed", evidence, **SETTINGS | own)
    assert tight.verdict is Verdict.INCONCLUSIVE
    assert wide.verdict is Verdict.PASS
    assert "kind1 less than 0.1" in wide.bound
    assert (tight.limit, wide.limit) == (-0.05, None)


def test_a_margin_of_a_slice_that_is_not_looked_at_is_refused() -> None:
    with pytest.raises(ValidationError, match="kind9"):
        gate_inputs.judge(
            "no_slice_harmed", sliced(0.0), **SETTINGS, slices=["kind0"], margins={"kind9": 0.2}
        )


def test_without_slices_or_queries_nothing_passes() -> None:
    empty = gate_inputs.scored(np.empty(0), np.empty(0), slices={"kind0": frozenset()})
    for evidence in (replace(sliced(0.0), slices={}), empty):
        finding = gate_inputs.judge("no_slice_harmed", evidence, **SETTINGS)
        assert finding.verdict is Verdict.INCONCLUSIVE


def test_correction_keeps_many_slices_from_crying_wolf() -> None:
    alone = gate_inputs.judge("no_slice_harmed", sliced(-0.21), **SETTINGS)
    among = gate_inputs.judge("no_slice_harmed", sliced(-0.21, *[0.0] * 9), **SETTINGS)
    assert alone.p_value is not None
    assert among.p_value == pytest.approx(10 * alone.p_value)
    assert alone.verdict is Verdict.FAIL
    assert among.verdict is Verdict.INCONCLUSIVE


def test_harm_by_failures_alone_is_left_open() -> None:
    evidence = sliced(0.0, 0.0)
    full = evidence.candidate.scores["nDCG@10"]
    cut = gate_inputs.scores("nDCG@10", full.values[:110], {"failed": gate_inputs.ids(120)[110:]})
    lossy = replace(evidence, candidate=replace(evidence.candidate, scores={"nDCG@10": cut}))
    finding = gate_inputs.judge("no_slice_harmed", lossy, **SETTINGS)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "new has no value for 10 queries" in finding.reason


def test_a_nan_never_passes() -> None:
    evidence = sliced(0.0)
    evidence.candidate.scores["nDCG@10"].values[4] = np.nan
    with pytest.raises(EvidenceError, match="q0004"):
        gate_inputs.judge("no_slice_harmed", evidence, **SETTINGS)


def test_only_the_slices_that_are_named_are_looked_at() -> None:
    evidence = sliced(0.0, -0.3)
    first = gate_inputs.judge("no_slice_harmed", evidence, **SETTINGS, slices=["kind0"])
    both = gate_inputs.judge("no_slice_harmed", evidence, **SETTINGS, slices=["kind0", "kind1"])
    assert first.verdict is Verdict.PASS
    assert "kind1" not in first.reason
    assert both.verdict is Verdict.FAIL


def test_a_named_slice_that_nobody_has_is_not_green() -> None:
    found = gate_inputs.judge("no_slice_harmed", sliced(0.0), **SETTINGS, slices=["kind0", "kind9"])
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "too small: kind9 (0 of 2 queries)" in found.reason
    assert found.cause is Cause.TOO_FEW


EMPTY = {"measure": "nDCG@10", "depth": 10, "max_more": 0.1, "min_queries": 30}
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
    return gate_inputs.judge("negatives", shown(control, candidate), **EMPTY)


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
        "negatives",
        gate_inputs.scored(gate_inputs.levels(60), gate_inputs.levels(60)),
        **EMPTY,
    )
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.cause is Cause.TOO_FEW


def test_a_measure_that_was_not_scored_is_named() -> None:
    bare = replace(shown([0] * 40, [0] * 40), control=replace(side("old", [0] * 40), scores={}))
    with pytest.raises(EvidenceError, match="old has no nDCG@10"):
        gate_inputs.judge("negatives", bare, **EMPTY)
