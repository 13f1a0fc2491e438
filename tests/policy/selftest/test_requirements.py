"""Verdicts over many columns are the gate's own, and the shortcut hides no fault of an interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.core.scores import Estimate
from harness.policy.selftest import requirements as module
from harness.policy.selftest.planted import Pattern, draw
from harness.policy.selftest.requirements import Requirement, requirements
from tests.policy.tried import MARGIN, RULES, evidence, gate, judged

GATES = [
    gate("non_inferior"),
    gate("non_inferior", looks="anytime"),
    gate("non_inferior", slice="odd", margin=0.12),
    gate("superior", margin=0.05),
    gate("equivalent"),
]


def drawn(one: Requirement, truth: float, trials: int = 40) -> Any:  # noqa: ANN401  an array
    found = draw(Pattern.SCATTERED, one.values, truth, trials=trials, seed=5)
    assert found is not None
    return found.differences


@pytest.mark.slow
@pytest.mark.parametrize("asked", GATES)
@pytest.mark.parametrize("given", [evidence(), evidence(clusters=3), evidence(lost=3)])
def test_each_column_is_judged_as_the_gate_judges_it(asked: Any, given: Any) -> None:  # noqa: ANN401
    (one,) = requirements(asked, given)
    truth = 2.2 * one.limit if asked.name == "superior" else 0.4 * one.limit
    columns = drawn(one, truth, 12)
    ids = one.compared.paired.query_ids
    measured = given.candidate.scores["nDCG@10"].query_ids
    place = [ids.index(q) if q in ids else 0 for q in measured]
    said = one.passed(columns, RULES, seed=RULES.seed)
    alone = [judged(asked, given, columns[place, at], RULES.seed) for at in range(12)]
    assert said.tolist() == [verdict == "pass" for verdict in alone]


def test_a_gate_on_slices_requires_each_of_them() -> None:
    found = requirements(gate("no_slice_harmed", margins={"odd": 0.2}), evidence())
    assert [(one.what, one.limit) for one in found] == [
        ("nDCG@10 on slice even", -MARGIN),
        ("nDCG@10 on slice odd", -0.2),
    ]
    given = evidence()
    both = gate("no_slice_harmed")
    even, odd = requirements(both, given)
    columns = drawn(
        replace(even, compared=requirements(gate("non_inferior"), given)[0].compared), -0.04, 12
    )
    said = even.passed(columns[::2], RULES, seed=7) & odd.passed(columns[1::2], RULES, seed=7)
    alone = [judged(both, given, columns[:, at], RULES.seed) for at in range(12)]
    assert said.tolist() == [verdict == "pass" for verdict in alone]


def test_other_rules_require_no_mean() -> None:
    for rule in ("coverage", "identity"):
        assert requirements(gate(rule), evidence()) == ()


def test_too_few_queries_never_pass() -> None:
    (one,) = requirements(gate("non_inferior", min_queries=500), evidence())
    assert not one.enough
    assert not one.passed(np.ones((200, 5)), RULES, seed=7).any()


def test_most_columns_cost_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    honest = vars(module)["interval_each"]

    def counting(values: Any, **how: Any) -> Any:  # noqa: ANN401
        counted.append(values.shape[1])
        return honest(values, **how)

    monkeypatch.setattr(module, "interval_each", counting)
    (one,) = requirements(gate("non_inferior"), evidence())
    assert not one.passed(drawn(one, -1.3 * MARGIN, 200), RULES, seed=7).any()
    assert counted == [module.NEAREST]


FAULTS: dict[str, Callable[[Estimate], Estimate]] = {
    "ends swapped": lambda found: Estimate(found.value, found.high, found.low, found.n),
    "half as wide": lambda found: Estimate(
        found.value, (found.value + found.low) / 2, (found.value + found.high) / 2, found.n
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_interval_is_seen_past_the_shortcut(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = vars(module)["interval_each"]
    monkeypatch.setattr(
        module,
        "interval_each",
        lambda values, **how: tuple(map(FAULTS[fault], honest(values, **how))),
    )
    (one,) = requirements(gate("non_inferior"), evidence())
    assert one.passed(drawn(one, one.limit, 100), RULES, seed=7).mean() > 0.08
