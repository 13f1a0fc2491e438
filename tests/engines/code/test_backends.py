"""Each engine for words by itself: what it finds, how it weighs, and the gate of allowed rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from engines.kept.index import built
from engines.lexical.grammar import exact_clauses as clauses
from engines.lexical.terms import Occur
from engines.stacks.code import store
from engines.stacks.code import words as tantivy
from engines.stacks.code.store import StoredWords
from engines.stacks.code.units import Rows, Texts
from engines.stacks.code.words import (
    OpenBackend,
    TermClause,
    match_expression,
    terms_of,
    wanted,
)

TEXTS = [
    Texts(name="read csv readcsv", doc="tea and water"),
    Texts(doc="water and tea"),
    Texts(name="tea"),
    Texts(body="tea", comment="stone"),
    Texts(),
]
WEIGHTS = {"name": 3, "signature": 1, "doc": 1, "comment": 1, "body": 1}
Asked = tuple[TermClause, ...]
UNIT = "INSERT INTO unit VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


@contextmanager
def stored(folder: Path, texts: Sequence[Texts], keys: Rows) -> Iterator[StoredWords]:
    with built(folder, store.TABLES) as db:
        for row, key in enumerate(keys.tolist()):
            db.execute(UNIT, (key, "", f"d{row}", "", "", "", "", b""))
            db.execute(store.TERMS, (key, *texts[row]))
        yield StoredWords(db, keys, "rowid" if keys[0] == 1 else "doc_id", WEIGHTS)


@pytest.fixture(params=["sqlite", "sqlite by ids", "tantivy"])
def words(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenBackend]:
    keys = np.arange(len(TEXTS), dtype=np.int64) + 1
    if request.param == "tantivy":
        tantivy.build(tmp_path, TEXTS, WEIGHTS)
        with tantivy.opened(tmp_path) as opened:
            yield opened
    else:
        ordered = keys if request.param == "sqlite" else keys[::-1].copy()
        with stored(tmp_path, TEXTS, ordered) as opened:
            yield opened


def test_equal_scores_go_by_row_and_not_by_when_they_were_taken_in(tmp_path: Path) -> None:
    alike = [Texts(name="tea")] * 4
    with stored(tmp_path, alike, np.array([3, 1, 4, 2])) as found:
        assert [one.row for one in found.search(asked("tea"), 3, None)] == [0, 1, 2]


def asked(text: str) -> Asked:
    return wanted(clauses(text), "none")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("tea", {0, 1, 2, 3}),
        ('"water and tea"', {1}),
        ("+tea -water", {2, 3}),
        ("+stone tea", {3}),
        ("ReadCSV", {0}),
        ("readcsv", {0}),
        ("nothing", set()),
        ("-tea -water", set()),
    ],
)
def test_clauses_mean_the_same(words: OpenBackend, text: str, rows: set[int]) -> None:
    assert {one.row for one in words.search(asked(text), 10, None)} == rows
    assert words.units == len(TEXTS)


def test_a_weight_counts_and_the_best_comes_first(words: OpenBackend) -> None:
    found = words.search(asked("tea"), 10, None)
    assert found[0].row == 2
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert words.search(asked("tea"), 2, None) == found[:2]


def test_the_gate_takes_away_and_changes_no_score(words: OpenBackend) -> None:
    found = words.search(asked("tea water"), 10, None)
    gated = words.search(asked("tea water"), 10, np.array([1, 3, 4]))
    assert [one.row for one in gated] == [one.row for one in found if one.row in {1, 3}]
    assert dict(gated) == pytest.approx({row: score for row, score in found if row in {1, 3}})
    assert list(words.search(asked("tea"), 10, np.zeros(0, dtype=np.int64))) == []


def test_what_is_asked_of_fts5() -> None:
    assert match_expression(asked("read_csv")) == '("read" OR "csv" OR "readcsv")'
    both = match_expression(asked("+a b -c"))
    assert both == '((("a")) AND (("a") OR ("b") OR ("b"))) NOT (("c"))'
    assert match_expression(()) == ""


def test_a_question_is_taken_apart() -> None:
    assert asked('+tea "hot water"') == (
        TermClause(Occur.MUST, (("tea",),)),
        TermClause(Occur.SHOULD, (("hot", "water"),)),
    )
    assert wanted(clauses("the"), "english") == ()
    assert terms_of(clauses("read_csv -tea"), "none") == ("read", "csv")
