"""What every arm of the folder owes the harness, whatever its stack."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines import registry as arms
from harness.core.digest import of_documents
from harness.core.engine import Answer
from harness.core.errors import IndexNotReady
from harness.core.records import Document
from tests.engines.conftest import Standing
from tests.engines.corpus import DOCUMENTS, OBVIOUS

pytestmark = pytest.mark.slow


def many(count: int) -> list[str]:
    return [f"word{at}" for at in range(count)]


def stack_of(arm: str) -> str:
    return str(tomllib.loads(arms.path_of(arm).read_text(encoding="utf-8"))["stack"])


KNOWN = {document.doc_id for document in DOCUMENTS}
HOSTILE = {
    "nothing": "",
    "white space": " \t\n\u00a0\u2003",
    "one quote": '"',
    "three quotes": '"""',
    "open quote": '"water rises',
    "empty phrase": '""',
    "operators alone": "AND OR NOT",
    "operators around a word": "NOT AND water OR",
    "operators one after another": "NOT NOT NOT not",
    "query language": "a:b^~*",
    "a column": "title:water",
    "a function": "NEAR(water sea, 5)",
    "brackets": "((((water",
    "a range": "[a TO z] {1 TO *}",
    "SQL": "'; DROP TABLE search; --",
    "NUL": "water\0sea",
    "only NUL": "\0",
    "emoji": "😀",
    "joined emoji": "👩\u200d👩\u200d👧\u200d👦",
    "CJK": "東京",
    "right to left": "\u202e\u05e9\u05dc\u05d5\u05dd",
    "combining marks": "\u0301\u0301 e\u0301",
    "a word newer than SQLite": "\U0001e900\U0001e901",
    "half a surrogate pair": "\ud800",
    "half a surrogate pair in words": "water \udfff sea",
    "punctuation": "!?.,;:-_/\\|@#$%^&*()[]{}<>~`",
    "a minus": "-",
    "a plus": "+",
    "minus and a word": "-water",
    "minus and a phrase": '-"water rises" +',
    "plus and a quote": '+"',
    "both signs": "+-water -+sea",
    "a wildcard": "wat*",
    "a number": "-1e309 0x7f NaN inf",
}
LONG: dict[str, Callable[[int], str]] = {
    "words": lambda count: " ".join(many(count)),
    "a phrase": lambda count: '"' + " ".join(many(count)) + '"',
    "words joined": lambda count: "-".join(many(count)),
    "words that must be": lambda count: "+" + " +".join(many(count)),
    "words that must not be": lambda count: "-" + " -".join(many(count)),
    "one word": lambda count: "x" * (100 * count),
    "quotes": lambda count: '"' * (100 * count),
    "plusses": lambda count: "+" * (100 * count),
    "text": lambda count: "the water rises twice a day " * (4 * count),
}
"""Texts as long as ``count`` words, or about a hundred characters for each."""
LONGEST, LONG_ENOUGH = 10_000, 1_000
FIRSTS = {
    *{stack_of(name): name for name in reversed(arms.names())}.values(),
    "code-tantivy", "documents-pro", "hybrid", "mail-rerank", "mail-tantivy",
}  # fmt: skip
"""The first arm of each stack, and those with most parts: they are asked the longest texts, their
sisters a tenth of them."""


def check(answer: Answer, k: int) -> None:
    """Hold an answer against the contract of ``harness.core.engine``."""
    ids = [hit.doc_id for hit in answer.hits]
    assert len(ids) <= k
    assert len(set(ids)) == len(ids)
    assert set(ids) <= KNOWN
    assert all(0.0 <= hit.score <= 1.0 for hit in answer.hits)
    assert all(math.isfinite(hit.raw_score) for hit in answer.hits)
    assert [(-hit.score, hit.doc_id) for hit in answer.hits] == sorted(
        (-hit.score, hit.doc_id) for hit in answer.hits
    )


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_text_is_an_error(standing: Standing, text: str) -> None:
    answer = standing.searcher.search(text, 5)
    check(answer, 5)
    assert answer.served_by == standing.built.fingerprint


@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
def test_no_length_is_an_error(standing: Standing, text: Callable[[int], str]) -> None:
    longest = standing.arm.name in FIRSTS
    answer = standing.searcher.search(text(LONGEST if longest else LONG_ENOUGH), 5)
    check(answer, 5)
    assert answer.served_by == standing.built.fingerprint


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.one_of(
        st.text(max_size=60),
        st.text('ab "+-NOTANDR(:*_', max_size=40),
        st.lists(st.sampled_from(["water", "the", '"', "+", "-", "NOT", "sea"])).map(" ".join),
    ),
    k=st.integers(1, 20),
)
def test_any_text_keeps_the_contract(standing: Standing, text: str, k: int) -> None:
    check(standing.searcher.search(text, k), k)


@pytest.mark.parametrize("text", ["", " ", "\0", "\ud800"])
def test_nothing_typed_finds_nothing_and_says_so(standing: Standing, text: str) -> None:
    answer = standing.searcher.search(text, 10)
    assert answer.hits == ()


@pytest.mark.parametrize(("text", "doc_id"), OBVIOUS.items())
def test_the_obvious_document_comes_first(standing: Standing, text: str, doc_id: str) -> None:
    assert standing.searcher.search(text, 3).hits[0].doc_id == doc_id


@pytest.mark.parametrize("text", ["same words in two places", '"very same words" copy'])
def test_equal_documents_come_by_id(standing: Standing, text: str) -> None:
    first, second = standing.searcher.search(text, 2).hits
    assert (first.doc_id, second.doc_id) == ("twin-a", "twin-b")


def test_a_tie_across_the_last_place_goes_by_id(standing: Standing) -> None:
    (only,) = standing.searcher.search("same words in two places", 1).hits
    assert only.doc_id == "twin-a"


@pytest.mark.parametrize("text", [*OBVIOUS, "the water of a day", "words"])
def test_fewer_hits_are_the_first_of_more(standing: Standing, text: str) -> None:
    most = standing.searcher.search(text, 50).hits
    for k in (1, 2, 10):
        few = standing.searcher.search(text, k).hits
        assert [hit.doc_id for hit in few] == [hit.doc_id for hit in most[:k]]


@pytest.mark.parametrize("k", [len(DOCUMENTS) + 1, 10_000, 10**9])
def test_more_may_be_asked_for_than_there_is(standing: Standing, k: int) -> None:
    answer = standing.searcher.search("the water rises twice a day", k)
    check(answer, len(DOCUMENTS))
    assert answer.hits


def test_who_answers_is_the_index_that_was_built(standing: Standing) -> None:
    assert standing.searcher.manifest == standing.built
    assert standing.built.documents == len(DOCUMENTS)
    assert standing.built.corpus_sha256 == of_documents(DOCUMENTS)


def test_opened_again_it_answers_the_same(standing: Standing) -> None:
    with standing.arm.engine.open(standing.index) as again:
        for text in (*OBVIOUS, "the", "words that occur"):
            assert again.search(text, 10) == standing.searcher.search(text, 10)


def test_documents_may_come_in_any_order(standing: Standing, index: Path) -> None:
    standing.arm.engine.build(DOCUMENTS[::-1], index)
    with standing.arm.engine.open(index) as turned:
        for text in (*OBVIOUS, "the", "same words"):
            assert turned.search(text, 10).hits == standing.searcher.search(text, 10).hits


def test_no_two_arms_share_an_identity(tmp_path: Path) -> None:
    made = {}
    for name in arms.names():
        (tmp_path / name).mkdir()
        engine = arms.load(name, tmp_path / "cache").engine
        made[name] = engine.build(DOCUMENTS[:1], tmp_path / name).fingerprint
    assert len(set(made.values())) == len(made)


def test_other_documents_are_another_identity(standing: Standing, index: Path) -> None:
    changed = (Document("bread", "Sourdough bread", "Another text."), *DOCUMENTS[1:])
    assert standing.arm.engine.build(changed, index).fingerprint != standing.built.fingerprint


def test_an_index_of_nothing_answers_nothing(standing: Standing, index: Path) -> None:
    assert standing.arm.engine.build((), index).documents == 0
    with standing.arm.engine.open(index) as empty:
        assert empty.search("water", 10).hits == ()


def test_a_folder_without_an_index_is_not_ready(standing: Standing, index: Path) -> None:
    with pytest.raises(IndexNotReady, match="harness index"), standing.arm.engine.open(index):
        pass


def _other_settings(text: str) -> str:
    return text.replace('"settings_sha256": "', '"settings_sha256": "0')


def _other_version(text: str) -> str:
    return text.replace('"version": "', '"version": "0.')


def _other_count(text: str) -> str:
    return text.replace(f'"documents": {len(DOCUMENTS)}', '"documents": 3')


@pytest.mark.parametrize(
    "changed", [_other_settings, _other_version, _other_count, lambda _: "{", lambda _: "[]"]
)
def test_an_index_that_is_not_its_manifests_is_not_ready(
    standing: Standing, changed: Callable[[str], str]
) -> None:
    path = standing.index / "manifest.json"
    whole = path.read_text()
    try:
        path.write_text(changed(whole))
        assert path.read_text() != whole
        with pytest.raises(IndexNotReady), standing.arm.engine.open(standing.index):
            pass
    finally:
        path.write_text(whole)


def test_opening_and_asking_leaves_the_folder_as_it_was(standing: Standing) -> None:
    before = {path: path.stat().st_mtime_ns for path in standing.index.rglob("*")}
    with standing.arm.engine.open(standing.index) as again:
        again.search("water", 10)
    assert {path: path.stat().st_mtime_ns for path in standing.index.rglob("*")} == before
