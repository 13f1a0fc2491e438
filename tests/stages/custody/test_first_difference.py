"""The first value that differs is named as a person knows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.core.scores import Scores
from harness.stages.custody.recount import of_scores, of_values

STEP = {"step": "a", "findings": [{"gate": "g", "verdict": "pass", "n": 1}]}


def test_what_is_equal_differs_nowhere() -> None:
    assert of_values({"a": [1, None, "x"]}, {"a": [1, None, "x"]}) is None


@pytest.mark.parametrize(
    ("stored", "derived", "says"),
    [
        ([STEP], [{**STEP, "findings": [{"gate": "g", "verdict": "fail", "n": 1}]}],
         'a.findings.g.verdict: stored "pass", derived "fail"'),
        ({"a": 1}, {"a": 1, "b": 2}, "b: stored nothing, derived 2"),
        ({"a": [1, 2]}, {"a": [1]}, "a.1: stored 2, derived nothing"),
        ({"a": 1}, {"a": 1.0}, "a: stored 1, derived 1.0"),
        ({"a": None}, {"a": {"b": 1}}, 'a: stored null, derived {"b": 1}'),
        ({"a": "x" * 300}, {"a": 0}, f'a: stored "{"x" * 199}..., derived 0'),
    ],
)  # fmt: skip
def test_the_first_difference_is_named(stored: Any, derived: Any, says: str) -> None:  # noqa: ANN401
    assert str(of_values(stored, derived)) == says


def scores(*values: float, **undefined: tuple[str, ...]) -> dict[str, Scores]:
    ids = tuple(f"q{at}" for at in range(len(values)))
    return {"RR": Scores("RR", ids, np.array(values), undefined)}


def test_values_by_query_are_equal_to_the_last_bit() -> None:
    assert of_scores(scores(0.1, 0.3), scores(0.1, 0.3)) is None
    difference = of_scores(scores(0.1, 0.3), scores(0.1, 0.1 + 0.2))
    assert str(difference) == "RR of query q1: stored 0.3, derived 0.30000000000000004"


def test_a_query_without_a_value_differs_from_one_with() -> None:
    difference = of_scores(scores(0.1, failed=("q1",)), scores(0.1, 0.0))
    assert str(difference) == "RR of query q1: stored failed, derived 0.0"
    difference = of_scores(scores(0.1), scores(0.1, unjudged=("q1",)))
    assert str(difference) == "RR of query q1: stored nothing, derived unjudged"
    assert str(of_scores(scores(0.1), {})) == "RR: stored values, derived nothing"
