"""Judgements, and exchange with other tools."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.core.errors import BadFile, DatasetError
from harness.core.records import Document, Qrels, Query
from harness.corpus import judgements
from harness.corpus.beir import Beir
from harness.corpus.exchange import (
    READ,
    Collector,
    Data,
    id_of,
    read_quepid,
    read_rank_eval,
    reader,
    rows_of,
    writer,
)
from harness.corpus.judgements import JudgingPair, Overtaken, Pool
from harness.corpus.trec import UNCARRIED


# Ids that are made of texts, and grades as tools write them
@given(st.lists(st.text(min_size=1), unique=True))
@example(["a b", "a%20b", "a%2520b"])
def test_other_texts_have_other_ids_that_a_line_can_carry(texts: list[str]) -> None:
    ids = [id_of(text) for text in texts]
    assert len({*ids}) == len(texts)
    assert not any(one in UNCARRIED for found in ids for one in found)


def test_a_pair_without_a_grade_is_counted_and_a_query_without_pairs_kept() -> None:
    collector = Collector(Path("f"))
    query_id = collector.add_query("a", "x[0]")
    collector.add_query("b", "x[1]")
    collector.add_grade(query_id, "d", None, "x[0]")
    collector.add_grade(query_id, "e", 1, "x[0]")
    found = collector.done()
    assert found.unrated == 1
    assert [query.text for query in found.queries] == ["a", "b"]
    assert [query.text for query, _ in rows_of(found.qrels, found.queries)] == ["a"]


def test_what_is_wrong_is_named_with_its_place() -> None:
    collector = Collector(Path("f"))
    query_id = collector.add_query("a", "x[0]", "q 1")
    assert query_id == "q%201"
    with pytest.raises(BadFile, match=r"f: x\[1\]: the query 'q%201' has another text already"):
        collector.add_query("b", "x[1]", "q 1")
    with pytest.raises(BadFile, match=r"f: x\[2\]: the query has no text"):
        collector.add_query(" ", "x[2]")
    collector.add_grade(query_id, "d", 1, "x[0].ratings[0]")
    with pytest.raises(BadFile, match=r"d is rated for query 'q%201' at x\[0\]\.ratings\[0\] alr"):
        collector.add_grade(query_id, "d", 2, "x[0].ratings[1]")
    with pytest.raises(BadFile, match="the document id 'd e' is empty or holds white space"):
        collector.add_grade(query_id, "d e", 1, "x[0].ratings[2]")
    with pytest.raises(BadFile, match="f: it holds no rating"):
        Collector(Path("f")).done()


# What is written in a format is read back from it
DOCUMENTS = (
    Document("d1", "Title", "first\ttext\nof two lines", {"lang": "en"}),
    Document("d2", "", "zweiter ö", {}),
)
QUERIES = (
    Query("q1", "red shoes", ("short",), "shoes"),
    Query("q2", '=SUM(A1;A2), “quoted” "q" 100%'),
    Query("q3", "unjudged"),
)
GRADES = {"q1": {"d1": 3, "d2": 0}, "q2": {"d2": 1}}
DATA = Data("Mine", lambda: iter(DOCUMENTS), QUERIES, Qrels(GRADES))


def by_text(queries: tuple[Query, ...], qrels: Qrels) -> dict[str, dict[str, int]]:
    texts = {query.query_id: query.text for query in queries}
    return {texts[query_id]: dict(grades) for query_id, grades in qrels.grades.items()}


@pytest.mark.parametrize("kind", READ)
def test_ratings_come_back(tmp_path: Path, kind: str) -> None:
    writer(kind)(tmp_path, DATA)
    (path,) = tmp_path.iterdir()
    found = reader(kind)(path, "")
    assert by_text(found.queries, found.qrels) == by_text(QUERIES, DATA.qrels)
    again = tmp_path / "again"
    again.mkdir()
    writer(kind)(again, Data("Mine", DATA.documents, found.queries, found.qrels))
    (second,) = again.iterdir()
    assert reader(kind)(second, "") == found


def test_beir_comes_back_whole(tmp_path: Path) -> None:
    writer("beir")(tmp_path, DATA)
    read = Beir(tmp_path, "test")
    assert tuple(read.documents()) == DOCUMENTS
    assert read.queries() == QUERIES
    assert read.qrels() == DATA.qrels
    assert '{"_id": "d1"' in (tmp_path / "corpus.jsonl").read_text()


def test_two_queries_of_one_text_are_no_two_in_a_format_without_ids(tmp_path: Path) -> None:
    twice = (*QUERIES, Query("q4", "red shoes"))
    judged = Qrels({**GRADES, "q4": {"d1": 1}})
    with pytest.raises(DatasetError, match=r"q1 and q4 have the same text.* use rank-eval"):
        writer("quepid")(tmp_path, Data("Mine", DATA.documents, twice, judged))
    assert not [*tmp_path.iterdir()]
    writer("quepid")(tmp_path, Data("Mine", DATA.documents, twice, DATA.qrels))


# Requests of the ranking evaluation API
RATED = [{"_index": "i", "_id": "d", "rating": 1}]


def written_rank_eval(tmp_path: Path, *requests: object) -> Path:
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"requests": list(requests), "metric": {"precision": {"k": 5}}}))
    return path


@pytest.mark.parametrize(
    "query",
    [
        {"match": {"text": "red shoes"}},
        {"match": {"text": {"query": "red shoes", "operator": "and"}}},
        {"multi_match": {"query": "red shoes", "fields": ["title^2", "text"]}},
        {"bool": {"must": [{"match": {"text": "red shoes"}}], "filter": [{"term": {"k": "v"}}]}},
        {"bool": {"should": [{"match_phrase": {f: "red shoes"}} for f in ("title", "text")]}},
        {"query_string": {"query": "red shoes"}},
    ],
)
def test_the_one_text_that_is_searched_for_is_the_query(tmp_path: Path, query: object) -> None:
    body = {"id": "JFK query", "request": {"query": query, "size": 5}, "ratings": RATED}
    found = read_rank_eval(written_rank_eval(tmp_path, body))
    assert [(query.query_id, query.text) for query in found.queries] == [
        ("JFK%20query", "red shoes")
    ]
    assert found.qrels.grades == {"JFK%20query": {"d": 1}}


# The CSV of a Quepid case
CASE = "query,docid,rating\n"


def written_quepid(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "case.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_case_is_read_with_queries_that_are_not_rated(tmp_path: Path) -> None:
    rows = '"shoes, red",d1,3\nboots,d2,0\nboots,d3,\nslippers\n'
    found = read_quepid(written_quepid(tmp_path, CASE + rows))
    assert [query.text for query in found.queries] == ["shoes, red", "boots", "slippers"]
    assert found.qrels.grades == {"boots": {"d2": 0}, "shoes,%20red": {"d1": 3}}
    assert found.unrated == 1


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
    found = read_quepid(written_quepid(tmp_path, content))
    assert [query.text for query in found.queries] == ["shoes", "sandals"]
    assert found.qrels.grades == {"shoes": {"p-1": 3}}
    assert found.unrated == 0


@pytest.mark.parametrize("said", ["=1+1", "-shoes", "+41", "@home", " leading", "plain", "a = b"])
def test_a_formula_is_written_as_text_and_read_back(tmp_path: Path, said: str) -> None:
    found = read_quepid(written_quepid(tmp_path, f'{CASE}"{said}",d,1\n'))
    writer("quepid")(tmp_path, Data("Mine", lambda: iter(()), found.queries, found.qrels))
    out = (tmp_path / "ratings.csv").read_text()
    assert out.splitlines()[1][:1] not in "=+-@"
    again = read_quepid(written_quepid(tmp_path, out))
    assert again == found
    assert again.queries[0].text == said


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (CASE + "boots,d1\n", r"case\.csv:2: the row has 2 cells, too few.* Complete the row"),
        (CASE + '"boots,d1,1\n', r"case\.csv:2: the row is not CSV .* Close the quote"),
        (CASE + 'x,d,1\n"b\n\nc",d1,good\n', r"case\.csv:3: the grade 'good' is not an integer"),
        (CASE + "boots,d1,good\n", r"case\.csv:2: the grade 'good' is not an integer"),
        (CASE + "boots,d1,1\nboots,d1,2\n", r"case\.csv:3: d1 is rated for query 'boots' at 2"),
        (
            "query,doc\n",
            r"case\.csv:1: no one column each of .* \(columns: query, doc\)\. Head",
        ),
        (CASE.encode() + b"b\xf6\xf6ts,d1,1\n", r"case\.csv:2: .*UTF-8.*iconv"),
    ],
)
def test_a_broken_case_names_its_line(tmp_path: Path, content: str | bytes, says: str) -> None:
    with pytest.raises(BadFile, match=says):
        read_quepid(written_quepid(tmp_path, content))


# ``harness.corpus.judgements``: pairs that wait for a grade, in a file for TREC's tools
def pair(doc_id: str, query_id: str = "q1") -> JudgingPair:
    return JudgingPair(
        query_id=query_id,
        doc_id=doc_id,
        query="what?",
        title="A title",
        snippet="words \u2028 of it",
        narrows=0.25,
        scale=(0, 1, 2),
    )


def written_judgements(path: Path) -> Pool:
    made = Pool((pair("a"), pair("b"), pair("a", "q2")), (None, None, None))
    judgements.begin(path, made)
    return made


def test_a_pair_that_somebody_else_judged_keeps_their_grade(tmp_path: Path) -> None:
    path = tmp_path / "p.qrels"
    first = written_judgements(path).pairs[0]
    judgements.regrade(path, first, None, 2)
    with pytest.raises(Overtaken, match="somebody else judged it 2 meanwhile") as found:
        judgements.regrade(path, first, None, 0)
    assert found.value.grade == 2
    with pytest.raises(Overtaken, match="took its grade away"):
        judgements.regrade(path, judgements.read_pool(path).pairs[1], 1, 0)
    assert judgements.read_pool(path).grades == (2, None, None)
    assert judgements.regrade(path, first, None, 2).grades == (2, None, None)
    assert judgements.regrade(path, first, 2, 0).grades == (0, None, None)


def test_no_grade_is_lost_where_many_judge_at_once(tmp_path: Path) -> None:
    path = tmp_path / "p.qrels"
    made = Pool(tuple(pair(f"d{at}") for at in range(40)), (None,) * 40)
    judgements.begin(path, made)
    with ThreadPoolExecutor(8) as judges:
        list(judges.map(lambda one: judgements.regrade(path, one, None, 1), made.pairs))
    assert judgements.read_pool(path).grades == (1,) * 40
