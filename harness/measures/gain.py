"""The gain of a grade in nDCG: linear unless the measure's name says otherwise."""

from __future__ import annotations

from collections.abc import Iterable

from ir_measures import Measure, nDCG

from harness.core.errors import DatasetError

LARGEST = 1 << 20
"""Above it trec_eval's code, which counts documents by gain, fills memory or answers 0."""


def as_gains(measure: Measure, grades: Iterable[int]) -> Measure:
    """Write an nDCG with other than linear gains as a mapping from ``grades`` to gains.

    ``nDCG(dcg='exp-log2')`` gains 2^grade - 1 (Burges et al. 2005). ir-measures hands that name
    to a program that rounds to five places; as a mapping it is computed in full. No grade gains
    less than 0. Other measures are returned as they are.

    Raises:
        ValueError: a gain is not an integer, or gains are given together with another formula.
        DatasetError: a gain is above ``LARGEST``.
    """
    grades = tuple(grades)
    _small(max(grades, default=0), "grade")
    if measure.NAME != nDCG.NAME:
        return measure
    others = {key: value for key, value in measure.params.items() if key not in {"dcg", "gains"}}
    given = measure.params.get("gains")
    exponential = measure["dcg"] == "exp-log2"
    if given is None:
        if not exponential:
            return measure
        _small(max(grades, default=0), "exponent", LARGEST.bit_length() - 1)
        mapping = {grade: 2 ** max(grade, 0) - 1 for grade in grades}
    elif exponential or any(type(n) is not int for pair in given.items() for n in pair):
        raise ValueError("gains map integers to integers and replace dcg")
    else:
        mapping = {grade: max(given.get(grade, grade), 0) for grade in grades}
        _small(max(mapping.values(), default=0), "gain")
    written: Measure = nDCG(gains=mapping, **others)
    return written


def _small(value: int, what: str, largest: int = LARGEST) -> None:
    if value > largest:
        raise DatasetError(
            f"{what} {value} is above {largest}, where gains are no longer counted exactly;"
            " map the scale of the judgements to smaller integers"
        )
