"""Why rounds of a load do not count, summed up."""

from __future__ import annotations

from harness.load.page import Objections, summed

LATE = "the generator was {} ms late (p99), more than 0.1 of what it measured"
STRAY = "{} answers were not those of the arm's run"


def test_texts_that_differ_in_numbers_alone_are_one_row() -> None:
    found = summed([
        LATE.format("21.30"),
        STRAY.format(3),
        LATE.format("0.41"),
        LATE.format("9.99"),
    ])
    assert found == (
        Objections(3, LATE.format("0.41 to 21.30")),
        Objections(1, STRAY.format(3)),
    )


def test_a_number_that_stays_is_said_once() -> None:
    assert summed([LATE.format("2.00")] * 4) == (Objections(4, LATE.format("2.00")),)


def test_nothing_is_no_row() -> None:
    assert summed(()) == ()


def test_a_text_with_markup_of_patterns_stays_as_it_is() -> None:
    assert summed([r"\g<0> # 7", r"\g<0> # 8"]) == (Objections(2, r"\g<0> # 7 to 8"),)
