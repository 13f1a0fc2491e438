"""How Tantivy splits text."""

from __future__ import annotations

import pytest

from engines.lexical.tantivy import LONGEST_TERM_BYTES, Language, analyzer


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("none", "The Cats' read_csv, 2x!", ["the", "cats", "read", "csv", "2x"]),
        ("english", "The Cats' read_csv, 2x!", ["cat", "read", "csv", "2x"]),
        ("english", "running RUNS", ["run", "run"]),
        ("none", "running RUNS", ["running", "runs"]),
        ("none", "ÄÖ é", ["äö", "é"]),
        ("english", "to be or not to be", []),
        ("none", "", []),
        ("none", "!?", []),
    ],
)
def test_terms(language: Language, text: str, terms: list[str]) -> None:
    assert analyzer(language).analyze(text) == terms


@pytest.mark.parametrize("language", ["none", "english"])
def test_endless_words_are_dropped(language: Language) -> None:
    split = analyzer(language)
    assert split.analyze("x" * LONGEST_TERM_BYTES + " kept") == ["kept"]
    longest = "x" * (LONGEST_TERM_BYTES - 1)
    assert split.analyze(longest) == [longest]
