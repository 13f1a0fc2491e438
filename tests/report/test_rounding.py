"""Numbers as people read them."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.scores import Estimate
from harness.report import rounding

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.41237, "0.4124"),
        (-0.02, "\N{MINUS SIGN}0.0200"),
        (0.00001, "1.0e\N{MINUS SIGN}05"),
        (1.23456, "1.235"),
        (12345.6, "12,345.6"),
        (NAN, "not defined"),
        (INF, "not defined"),
        (None, "not defined"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert rounding.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "< 0.0001"),
        (0.00005, "< 0.0001"),
        (0.0001, "0.0001"),
        (0.25, "0.2500"),
        (None, ""),
        (NAN, ""),
    ],
)
def test_a_p_value_is_never_0(value: float | None, text: str) -> None:
    assert rounding.p_value(value) == text


def test_only_gains_carry_a_plus() -> None:
    assert rounding.signed(0.5) == "+0.5000"
    assert rounding.signed(0.0) == "0"
    assert rounding.signed(-0.5) == "\N{MINUS SIGN}0.5000"
    assert rounding.signed(NAN) == "not defined"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (523_456.0, "0.523"),
        (1.0e6, "1.00"),
        (12_345_678.0, "12.3"),
        (1.5e9, "1,500"),
        (NAN, "not defined"),
    ],
)
def test_times_are_milliseconds(value: float, text: str) -> None:
    assert rounding.milliseconds(value) == text


def test_an_infinite_end_is_named() -> None:
    assert rounding.interval(Estimate(1.0, 0.5, INF, 3)) == "[0.5000, unbounded]"
    assert rounding.interval_in(Estimate(1e6, 5e5, INF, 3), "ns") == "[0.500, unbounded]"


def test_values_carry_their_unit() -> None:
    assert rounding.in_unit(2e6, "ns") == "2.00 ms"
    assert rounding.in_unit(18.2517, "ratio") == "18.3 times"
    assert rounding.in_unit(0, "share") == "0 %"
    assert rounding.in_unit(0.0034, "share") == "0.340 %"
    assert rounding.in_unit(1.0, "share") == "100 %"
    assert rounding.interval_in(Estimate(2.0, 0.5, 3121.4, 3), "ratio") == "[0.500, 3,121]"
    assert rounding.in_unit(0.5, "") == "0.5000"
    assert rounding.in_unit(None, "ratio") == "not defined"


def test_a_share_of_nothing_is_words() -> None:
    assert rounding.share(1, 40) == "2.5 %"
    assert rounding.share(0, 0) == "not defined"


@given(st.floats())
def test_json_takes_every_number(value: float) -> None:
    found = rounding.for_json(value)
    json.dumps(found, allow_nan=False)
    assert (found is None) == (not math.isfinite(value))
    if found is not None:
        assert found == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("value", [None, NAN, INF, -INF])
def test_a_file_for_machines_has_no_word_for_what_is_not_finite(value: float | None) -> None:
    assert rounding.for_json(value) is None


@given(st.floats())
def test_no_number_reads_nan_or_inf(value: float) -> None:
    shown = rounding.number(value) + rounding.signed(value) + rounding.milliseconds(value)
    assert "nan" not in shown
    assert "inf" not in shown.replace("not defined", "")


def test_a_sequence_whose_ends_have_crossed_has_no_one_value() -> None:
    assert rounding.watched(Estimate(0.5, 0.4, 0.6, 9)) == "[0.4000, 0.6000]"
    assert rounding.watched(Estimate(0.5, 0.6, 0.4, 9)) == "no one value: it moved"


def test_a_sequence_that_does_not_hold_what_was_seen_has_no_one_value() -> None:
    """Twelve pairs of one kind and then 88 of another: 0.95 [0.847, 0.945] was shown."""
    assert rounding.watched(Estimate(0.95, 0.847, 0.945, 100)) == "no one value: it moved"
    assert rounding.watched(Estimate(0.3, 0.4, 0.6, 9)) == "no one value: it moved"
    assert rounding.watched(Estimate(0.4, 0.4, 0.4, 9)) == "[0.4000, 0.4000]"
