"""Chunks that an operator of the query allows."""

from __future__ import annotations

import numpy as np
import pytest

from engines.stacks.documents.collection import gate

TEXTS = ("Salt water, and sea-salt.", "Saltwater.", "Water\nand SALT", "the dead\nsea", "")


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("+salt", [0, 2]),
        ("-salt", [1, 3, 4]),
        ('"salt water"', [0]),
        ('"sea salt"', [0]),
        ('"dead sea" -salt', [3]),
        ("+nowhere salt", []),
    ],
)
def test_whole_words_count_in_any_case(query: str, rows: list[int]) -> None:
    found = gate(lambda: TEXTS, query, None)
    assert found is not None
    assert np.flatnonzero(found).tolist() == rows
    even = np.array([True, False, True, False, True])
    both = gate(lambda: TEXTS, query, even)
    assert both is not None
    assert np.flatnonzero(both).tolist() == [row for row in rows if row % 2 == 0]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("A café in the Straße", "+cafe +STRASSE"),
        ("住在東京大学的人", "+東京大学"),
        ("an inter-\nnational line", '+international "international line"'),
        ("ok 👍🏽", "+👍"),
    ],
)
def test_words_count_as_a_word_index_has_them(text: str, query: str) -> None:
    found = gate(lambda: [text, "else"], query, None)
    assert found is not None
    assert found.tolist() == [True, False]


@pytest.mark.parametrize("query", ["salt water", '"salt" OR "sea"', ""])
def test_without_a_constraint_no_text_is_read(query: str) -> None:
    def unread() -> tuple[str, ...]:
        raise AssertionError

    assert gate(unread, query, None) is None
