"""Which texts are the same words."""

from __future__ import annotations

import pytest

from harness.corpus.clusters import normalised, stem, wording


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("how do I reset my password", "password reset steps"),
        ("Resetting passwords", "reset the password?"),
        ("colour organised by centre", "organized centers by color"),
        ("men's shoes", "shoe for men"),
        ("ÜBER uns", "über uns!"),
        ("1,000 genomes", "1000 genome"),
        ("I don't sync", "not to sync"),
        ("***", " *** "),
        ("to be", "To be"),
    ],
)
def test_forms_order_and_spelling_change_no_wording(one: str, other: str) -> None:
    assert wording(one).signature == wording(other).signature


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("iphone 12", "iphone 13"),
        ("version 2 to 3", "version 3 to 2"),
        ("men shoes", "women shoes"),
        ("expression", "suppression"),
        ("json.loads", "json.load"),
        ("C++ string", "C string"),
        ("Set the label for the x-axis", "set the label for the y-axis"),
        ("log in", "log out"),
        ("when was it built", "where was it built"),
        ("sync with a password", "sync without a password"),
        ("***", '"""'),
        ("", "a"),
    ],
)
def test_a_number_a_name_a_negation_or_a_word_makes_another(one: str, other: str) -> None:
    assert wording(one).signature != wording(other).signature


@pytest.mark.parametrize(
    ("one", "other", "parted"),
    [
        ("weather in Paris", "weather in London", 1),
        ("weather in Paris", "will it rain in paris", 0),
        ("galaxy S22 case", "cover of a galaxy S23", 1),
        ("remove a file", "do not remove a file", 1),
        ("remove a file", "delete a file", 0),
    ],
)
def test_names_numbers_and_negations_part_texts_that_are_alike(
    one: str, other: str, parted: int
) -> None:
    assert wording(one).parted(wording(other)) == parted
    assert wording(other).parted(wording(one)) == parted


def test_a_stem_loses_the_inflection_alone() -> None:
    forms = ("shoe", "shoes"), ("query", "queries"), ("movie", "movies"), ("cache", "caches")
    for one, other in (*forms, ("string", "strings"), ("plan", "planning"), ("plan", "planned")):
        assert stem(one) == stem(other)
    assert stem("expression") != stem("express")


def test_a_text_without_words_is_itself() -> None:
    assert normalised("  *** ") == "***"
    assert normalised("ÜBER, uns") == "über uns"
