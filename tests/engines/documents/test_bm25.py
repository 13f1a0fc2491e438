"""The specification's words and BM25, against a formula written out and against FTS5."""

from __future__ import annotations

import math
import re
import sqlite3
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.stacks.documents.recall import STOP_WORDS, best, unbroken, words
from harness.check.subject import DOCUMENTS
from tests.engines.documents.small import bm25_of

WORDS = ("moon", "sea", "water", "tide", "salt")
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), max_size=12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What does the Report say", ["what", "does", "report", "say"]),
        ("customer-retention, read_csv/2024", ["customer", "retention", "read", "csv", "2024"]),
        ("Don't 'quote' the dogs' o'clock", ["don't", "quote", "dogs", "o'clock"]),
        ("don\u2019t", ["don't"]),
        ("a b c x 7 42", ["42"]),
        (
            "\u00c9t\u00e9 \u6771\u4eac",
            ["ete", "\u6771\u4eac"],
        ),
        ("inter-\nnational trade-\nOff", ["inter", "national", "trade", "off", "international"]),
        ("co\xad\noperate", ["co", "operate", "cooperate"]),
        ("猫 東京大学 β", ["猫", "東京", "京大", "大学"]),
        ("The THE and ' '' _", []),
    ],
)
def test_words_are_those_of_section_3(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.text(max_size=80))
def test_any_text_gives_words_that_are_no_stop_words_nor_single_letters(text: str) -> None:
    for word in words(text):
        assert len(word) > 1 or word.lower() == word.upper()
        assert word not in STOP_WORDS
        assert not re.search(r"[\s_]", word)
    assert words(" ".join(words(text))) == words(text)


def by_the_formula(texts: list[str], query: str) -> list[float]:
    """BM25 with k1 = 1.2 and b = 0.75, word by word."""
    bags = [Counter(text.split()) for text in texts]
    mean = sum(bag.total() for bag in bags) / len(bags)
    scores = []
    for bag in bags:
        score = 0.0
        for word in query.split():
            having = sum(word in other for other in bags)
            weight = math.log(1 + (len(bags) - having + 0.5) / (having + 0.5))
            length = 1 - 0.75 + 0.75 * bag.total() / mean if mean else 1.0
            score += weight * bag[word] * 2.2 / (bag[word] + 1.2 * length)
        scores.append(score)
    return scores


@given(texts=TEXTS, query=st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join))
def test_scores_and_order_are_those_of_the_formula(texts: list[str], query: str) -> None:
    index = bm25_of(texts)
    found = index.search(query, 5).tolist()
    scores = by_the_formula(texts, query) if texts else []
    assert index.scores(query).tolist() == pytest.approx(scores, abs=1e-8)
    order = sorted(range(len(texts)), key=lambda n: (-round(scores[n], 9), n))
    assert found == [n for n in order if scores[n] > 0][:5]


def test_a_query_asks_the_hand_made_documents_as_fts5_does() -> None:
    texts = [f"{document.title} {document.text}" for document in DOCUMENTS]
    index = bm25_of(texts)
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE VIRTUAL TABLE found USING fts5(text)")
        db.executemany("INSERT INTO found VALUES (?)", [(" ".join(words(t)),) for t in texts])
        for query in ("honey bees hive", "moon sea water", "molten rock", "soprano orchestra"):
            asked = " OR ".join(query.split())
            first = db.execute(
                "SELECT rowid - 1 FROM found WHERE found MATCH ? ORDER BY rank, rowid LIMIT 1",
                (asked,),
            ).fetchone()[0]
            assert index.search(query, 1).tolist() == [first]
    db.close()


@given(texts=TEXTS, allowed=st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_filter_hides_and_changes_no_weight(texts: list[str], allowed: list[bool]) -> None:
    mask = np.array(allowed[: len(texts)], dtype=np.bool_)
    index = bm25_of(texts)
    everything = index.search("moon sea", len(texts))
    assert index.search("moon sea", 100, mask).tolist() == [n for n in everything if mask[n]]


def test_a_word_asked_twice_counts_twice() -> None:
    index = bm25_of(["moon moon sea", "sea sea moon salt", "tide"])
    assert index.search("moon sea sea sea", 1).tolist() == [1]
    assert index.search("moon moon moon sea", 1).tolist() == [0]


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), max_size=30), st.integers(1, 10))
def test_the_best_are_those_of_a_full_sort(scores: list[float], limit: int) -> None:
    order = sorted((n for n in range(len(scores)) if scores[n] > 0), key=lambda n: (-scores[n], n))
    assert best(np.array(scores), limit).tolist() == order[:limit]


def test_a_megabyte_without_a_space_is_one_word_and_quick() -> None:
    """Where a line break may part a word was looked for from each of its letters."""
    before = time.process_time()
    assert len(words("b" * 1_000_000)) == 1
    assert unbroken("b" * 1_000_000 + "-\nc") == "b" * 1_000_000 + "c\n"
    assert time.process_time() - before < 5
