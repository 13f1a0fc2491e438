"""The CSV of a Quepid case."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.corpus.exchange import read_quepid, text_quepid

CASE = "query,docid,rating\n"


def written(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "case.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_case_is_read_with_queries_that_are_not_rated(tmp_path: Path) -> None:
    rows = '"shoes, red",d1,3\nboots,d2,0\nboots,d3,\nslippers\n'
    found = read_quepid(written(tmp_path, CASE + rows))
    assert [query.text for query in found.queries] == ["shoes, red", "boots", "slippers"]
    assert found.qrels.grades == {"boots": {"d2": 0}, "shoes,%20red": {"d1": 3}}
    assert found.unrated == 1


@pytest.mark.parametrize(
    "head",
    ["Query;DocID;Rating", "rating;query;docid", "Team Name;Query Text;Doc ID;Doc Position;Rating"],
)
def test_columns_are_found_by_their_names(tmp_path: Path, head: str) -> None:
    values = {"query": "a", "querytext": "a", "docid": "d", "rating": "1"}
    row = [values.get("".join(name.lower().split()), "9") for name in head.split(";")]
    found = read_quepid(written(tmp_path, f"\ufeff{head}\n{';'.join(row)}\n"))
    assert found.qrels.grades == {"a": {"d": 1}}


DETAILED = "Team Name,Query Text,Doc ID,Rating,description\n"


@pytest.mark.parametrize(
    "content",
    [
        CASE + "shoes,p-1,3\nsandals,,\n",
        CASE + "shoes,p-1,3\nsandals,\n",
        CASE + 'shoes,p-1,3\n"sandals","",""\n',
        DETAILED + "Shop,shoes,p-1,3,Red\nShop,sandals\n",
        DETAILED + 'Shop,shoes,p-1,3,"Soft.\r\nLight, ""new"".\n\nEnd"\nShop,sandals,,,\n',
        DETAILED.replace("\n", "\r\n") + 'Shop,shoes,p-1,3,"a\r\nb"\r\nShop,sandals\r\n',
    ],
)
def test_queries_without_hits_and_line_breaks_are_read(tmp_path: Path, content: str) -> None:
    found = read_quepid(written(tmp_path, content))
    assert [query.text for query in found.queries] == ["shoes", "sandals"]
    assert found.qrels.grades == {"shoes": {"p-1": 3}}
    assert found.unrated == 0


def test_a_row_after_a_line_break_is_named_by_its_own_line(tmp_path: Path) -> None:
    rows = 'Shop,shoes,p-1,3,"a\nb\nc"\nShop,boots,p-2,good,x\n'
    with pytest.raises(BadFile, match=r"case\.csv:5: the grade 'good'"):
        read_quepid(written(tmp_path, DETAILED + rows))


@pytest.mark.parametrize("said", ["=1+1", "-shoes", "+41", "@home", " leading", "plain", "a = b"])
def test_a_formula_is_written_as_text_and_read_back(tmp_path: Path, said: str) -> None:
    found = read_quepid(written(tmp_path, f'{CASE}"{said}",d,1\n'))
    out = text_quepid(found.queries, found.qrels)
    assert out.splitlines()[1][:1] not in "=+-@"
    again = read_quepid(written(tmp_path, out))
    assert again == found
    assert again.queries[0].text == said


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (CASE + "boots,d1\n", r"case\.csv:2: the row has 2 cells, too few.* Complete the row"),
        (CASE + '"boots,d1,1\n', r"case\.csv:2: the row is not CSV .* Close the quote"),
        (CASE + "boots,d1,good\n", r"case\.csv:2: the grade 'good' is not an integer"),
        (CASE + "boots,d1,1\nboots,d1,2\n", r"case\.csv:3: d1 is rated for query 'boots' at 2"),
        (CASE + ",d1,1\n", r"case\.csv:2: the query has no text"),
        (CASE + "boots,,1\n", r"case\.csv:2: the document id '' is empty"),
        (CASE + "only\n", r"case\.csv: it holds no rating"),
        ("query,doc\n", r"case\.csv:1: no one column docid \(columns: query, doc\)\. Head it with"),
        ("", r"case\.csv: it holds no rating"),
        (CASE.encode() + b"b\xf6\xf6ts,d1,1\n", r"case\.csv:2: .*UTF-8.*iconv"),
    ],
)
def test_a_broken_case_names_its_line(tmp_path: Path, content: str | bytes, says: str) -> None:
    with pytest.raises(BadFile, match=says):
        read_quepid(written(tmp_path, content))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"none\.csv: missing file"):
        read_quepid(tmp_path / "none.csv")
