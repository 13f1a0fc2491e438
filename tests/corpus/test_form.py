"""The form of a query, told from its text."""

from __future__ import annotations

import pytest

from harness.core.records import Query
from harness.corpus.prepared import IDENTIFIER, KEYWORD, NATURAL, form, with_forms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("br-2tnl", IDENTIFIER),
        ("BR- and then", IDENTIFIER),
        ("thread: abc", IDENTIFIER),
        ("where is read_csv used", IDENTIFIER),
        ("why does src/main fail", IDENTIFIER),
        ("a segfault in lme4 again", IDENTIFIER),
        ("re-use no-op", IDENTIFIER),
        ("re-use it", KEYWORD),
        ("- --", KEYWORD),
        ("disk full", KEYWORD),
        ("2026 11", KEYWORD),
        ("internationalisation", NATURAL),
        ("abcdefghij abcdefghij", KEYWORD),
        ("abcdefghij abcdefghijk", NATURAL),
        ("one two three", NATURAL),
        ("停止 応答", KEYWORD),
        ("", None),
        (" \t", None),
    ],
)
def test_the_form_of_a_text(text: str, expected: str | None) -> None:
    assert form(text) == expected


def test_a_query_keeps_its_own_slices() -> None:
    asked = (Query("q1", "disk full", ("mine",)), Query("q2", " "))
    assert [query.slices for query in with_forms(asked)] == [("mine", KEYWORD), ()]
