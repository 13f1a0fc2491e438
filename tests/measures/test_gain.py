"""Gains other than the grade."""

from __future__ import annotations

import ir_measures
import pytest

from harness.core.errors import DatasetError
from harness.measures.name import LARGEST, as_gains


def test_exponential_gains_are_written_out() -> None:
    measure = as_gains(ir_measures.nDCG(dcg="exp-log2") @ 10, (-1, 0, 1, 2, 3))
    assert measure.params == {"gains": {-1: 0, 0: 0, 1: 1, 2: 3, 3: 7}, "cutoff": 10}


def test_given_gains_are_kept_and_never_negative() -> None:
    measure = as_gains(ir_measures.nDCG(gains={1: 5, 2: -3}), (0, 1, 2, 3))
    assert measure.params == {"gains": {0: 0, 1: 5, 2: 0, 3: 3}}


@pytest.mark.parametrize("measure", [ir_measures.nDCG @ 10, ir_measures.AP @ 100])
def test_linear_measures_are_returned_as_they_are(measure: ir_measures.Measure) -> None:
    assert as_gains(measure, (0, 1, 2)) is measure


@pytest.mark.parametrize(
    ("measure", "grade"),
    [
        (ir_measures.nDCG @ 10, LARGEST + 1),
        (ir_measures.AP, LARGEST + 1),
        (ir_measures.nDCG(dcg="exp-log2"), 21),
        (ir_measures.nDCG(gains={1: LARGEST + 1}), 1),
    ],
)
def test_gains_that_trec_eval_miscounts_are_refused(
    measure: ir_measures.Measure, grade: int
) -> None:
    with pytest.raises(DatasetError, match="smaller integers"):
        as_gains(measure, (0, grade))
    as_gains(ir_measures.nDCG(dcg="exp-log2"), (0, 20))
