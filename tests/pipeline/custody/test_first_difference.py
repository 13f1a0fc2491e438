"""The first value that differs is named as a person knows it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.pipeline.difference import first_difference

STEP = {"step": "a", "findings": [{"gate": "g", "verdict": "pass", "n": 1}]}


def test_what_is_equal_differs_nowhere() -> None:
    assert first_difference({"a": [1, None, "x"]}, {"a": [1, None, "x"]}) is None


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
    assert str(first_difference(stored, derived)) == says
