"""judge_trusted: a machine is used where it surely agrees with people, and never takes a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.qrels import Qrels
from harness.core.scores import Estimate
from harness.gates.judge_trusted import Settings, trusted
from tests.make import gate_inputs

COUNT = 40
SETTINGS = {"judge": "grader", "weights": "quadratic", "min_kappa": 0.4, "min_queries": 30}


def people(at: int, doc: int) -> int:
    return (at + doc) % 3


def evidence(machine: Callable[[int, int], int], count: int = COUNT) -> Evidence:
    def given(by: Callable[[int, int], int]) -> Qrels:
        grades = {q: {f"d{doc}": by(at, doc) for doc in range(3)}
                  for at, q in enumerate(gate_inputs.ids(count))}  # fmt: skip
        return Qrels(grades)

    return replace(
        gate_inputs.evidence(count), qrels=given(people), labels={"grader": given(machine)}
    )


def asked(of: Evidence, **changed: Any) -> Finding:  # noqa: ANN401  keys of the rule
    return gate_inputs.judge("judge_trusted", of, **{**SETTINGS, **changed})


def test_a_machine_that_agrees_is_used() -> None:
    found = asked(evidence(people))
    assert found.verdict is Verdict.PASS
    assert "kappa 1.0000 [1.0000, 1.0000] over 120 documents of 40 queries" in found.reason
    assert found.reason.endswith("its labels are used")
    assert (found.unit, found.limit, found.rule) == ("kappa", 0.4, "judge_trusted")


@pytest.mark.parametrize("machine", [lambda *_: 1, lambda at, doc: 2 - people(at, doc)])
def test_one_that_does_not_is_not_used_and_takes_nothing_back(
    machine: Callable[[int, int], int],
) -> None:
    found = asked(evidence(machine))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "its labels are not used: the agreement is not surely above the bound" in found.reason
    assert found.remedy.startswith("judge by people alone")


def test_how_far_off_it_is_counts_by_the_weights() -> None:
    """Off by one in every third query: no grade is two off."""

    def near(at: int, doc: int) -> int:
        grade = people(at, doc)
        return grade if at % 3 else abs(grade - 1)

    values = {}
    for weights in ("none", "linear", "quadratic"):
        found = asked(evidence(near), weights=weights)
        assert found.estimate is not None
        values[weights] = found.estimate.value
    assert values["none"] < values["linear"] < values["quadratic"]


def test_what_people_did_not_judge_is_not_compared() -> None:
    of = evidence(people)
    assert of.qrels is not None
    half = Qrels({q: docs for at, (q, docs) in enumerate(of.qrels.grades.items()) if at % 2})
    found = asked(replace(of, qrels=half))
    assert found.cause is Cause.TOO_FEW
    assert "both judged documents of 20 independent queries, and 30 are needed" in found.reason
    assert asked(replace(of, qrels=half), min_queries=20).verdict is Verdict.PASS


def test_near_duplicates_are_one_query() -> None:
    of = evidence(people)
    same = dict.fromkeys(gate_inputs.ids(COUNT)[:20], "one")
    assert asked(replace(of, clusters=same)).cause is Cause.TOO_FEW


@pytest.mark.parametrize("changed", [{"labels": {}}, {"qrels": None}])
def test_without_labels_nothing_is_known(changed: dict[str, object]) -> None:
    found = asked(replace(evidence(people), **changed))  # type: ignore[arg-type]
    assert found.cause is Cause.NO_EVIDENCE
    assert found.remedy == "take them in: harness labels FILE --dataset toy"


def test_an_agreement_that_touches_the_bound_is_not_above_it() -> None:
    assert not trusted(Estimate(0.6, 0.4, 0.8, 9), 0.4)
    assert trusted(Estimate(0.6, 0.41, 0.8, 9), 0.4)
    assert not trusted(Estimate(0.6, float("nan"), 0.8, 9), 0.4)


@pytest.mark.parametrize("changed", [{"min_kappa": 1}, {"weights": "cubic"}, {"judge": "../x"}])
def test_what_no_machine_could_keep_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({**SETTINGS, **changed})
