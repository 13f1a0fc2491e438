"""Between which values a measure lies."""

from __future__ import annotations

import pytest

from harness.measures.name import span_of, span_of_difference


@pytest.mark.parametrize(
    "measure",
    [
        "nDCG@10",
        "nDCG(dcg='exp-log2')@10",
        "RR(rel=2)@10",
        "AP",
        "Jaccard@50",
        "nDCG@10-of-serving",
    ],
)
def test_a_share_lies_between_0_and_1_and_its_difference_between_minus_1_and_1(
    measure: str,
) -> None:
    assert span_of(measure) == (0.0, 1.0)
    assert span_of_difference(measure) == (-1.0, 1.0)


def test_a_correlation_lies_between_minus_1_and_1() -> None:
    assert span_of("tau") == span_of("tauAP") == (-1.0, 1.0)
    assert span_of_difference("tau") == (-2.0, 2.0)


@pytest.mark.parametrize("measure", ["NumRet", "length_difference", "serving_only@10"])
def test_a_count_has_no_greatest_value(measure: str) -> None:
    assert span_of(measure) is None
    assert span_of_difference(measure) is None
