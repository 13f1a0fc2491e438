"""Documents and queries as JSON lines."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import BadFile
from harness.core.records import Document, Query
from harness.corpus import beir
from tests.corpus.conftest import Written

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
ID = st.text(st.characters(codec="utf-8", exclude_characters="\0 \t\n\r\v\f"), min_size=1)
SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
FINITE = SCALAR.filter(lambda value: value not in (float("inf"), float("-inf")))


@given(
    st.lists(st.tuples(ID, TEXT, TEXT, st.dictionaries(TEXT, FINITE)), min_size=1),
)
def test_documents_come_back_as_they_were(rows: list[tuple[str, str, str, dict[str, str]]]) -> None:
    documents = [Document(f"{n}{row[0]}", *row[1:]) for n, row in enumerate(rows)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.jsonl"
        beir.write_documents(path, documents)
        assert list(beir.documents(path)) == documents


@given(
    st.lists(
        st.tuples(ID, TEXT, st.lists(TEXT), st.none() | TEXT, st.dictionaries(TEXT, FINITE)),
        min_size=1,
    )
)
def test_queries_come_back_as_they_were(
    rows: list[tuple[str, str, list[str], str | None, dict[str, str]]],
) -> None:
    queries = [
        Query(f"{n}{i}", text, tuple(s), intent, params)
        for n, (i, text, s, intent, params) in enumerate(rows)
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "queries.jsonl"
        beir.write_queries(path, queries)
        assert list(beir.queries(path)) == queries


def test_beir_names_and_other_keys(written: Written) -> None:
    path = written('{"_id": "1", "text": "t", "year": 1958, "metadata": {"by": ["a", "b"]}}')
    (found,) = beir.documents(path)
    assert found == Document("1", "", "t", {"year": 1958, "by": '["a", "b"]'})


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"text": "t"}', "missing key 'doc_id' .keys: text.. Add 'doc_id'"),
        ('{"doc_id": "2"}', "missing key 'text'"),
        ('{"doc_id": 2, "text": "t"}', "'doc_id' is 2, not a string. Write 'doc_id' as a string"),
        ('{"doc_id": "2", "text": null}', "'text' is null, not a string"),
        ('{"doc_id": "2", "text": "t", "title": 3}', "'title' is 3, not a string"),
        ('{"doc_id": "2", "text": "t", "metadata": 3}', "'metadata' is 3, not an object"),
        ('{"doc_id": "2", "text": "t", "n": NaN}', "it is not JSON .NaN is not JSON"),
        ('{"doc_id": "2", "text": "t"', "it is not JSON .*one JSON object a line"),
        ('["2", "t"]', "the line is not a JSON object but '"),
        ('{"doc_id": "a b", "text": "t"}', "the doc id 'a b' is empty or holds white space"),
        ('{"doc_id": "", "text": "t"}', "the doc id '' is empty"),
        ('{"doc_id": "2", "text": "\\ud800"}', "half of a surrogate pair"),
        ('{"doc_id": "1", "text": "t"}', "the id '1' is on line 1 already"),
    ],
)
def test_a_bad_document_is_told_with_its_line(written: Written, line: str, says: str) -> None:
    path = written('{"doc_id": "1", "text": "t"}\n\n' + line + "\n")
    with pytest.raises(BadFile, match=rf"file:3: .*{says}"):
        list(beir.documents(path))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"query_id": "2"}', "missing key 'text'"),
        ('{"query_id": "1", "text": "t"}', "the id '1' is on line 1 already"),
        ('{"query_id": "2", "text": "t", "slices": "a"}', "'slices' is \"a\", not a list of str"),
        ('{"query_id": "2", "text": "t", "intent": 4}', "'intent' is 4, not a string"),
        ('{"query_id": "2", "text": "t", "params": "x"}', "'params' is \"x\", not an object of s"),
        (
            '{"query_id": "2", "text": "t", "params": {"a": []}}',
            "'params' is .*, not an object of scalars",
        ),
    ],
)
def test_a_bad_query_is_told_with_its_line(written: Written, line: str, says: str) -> None:
    path = written('{"query_id": "1", "text": "t"}\n' + line)
    with pytest.raises(BadFile, match=rf"file:2: {says}"):
        list(beir.queries(path))


def test_nothing_is_an_error(written: Written) -> None:
    path = written("\n \n")
    with pytest.raises(BadFile, match="it holds no document"):
        list(beir.documents(path))
    with pytest.raises(BadFile, match="it holds no query"):
        list(beir.queries(path))


def test_nul_odd_unicode_and_whole_surrogate_pairs_are_text(written: Written) -> None:
    path = written('{"query_id": "1", "text": "\\u0000 \\ud83d\\ude00 \u202e"}')
    (found,) = beir.queries(path)
    assert found.text == "\0 \U0001f600 \u202e"
