"""Formats of TREC, BEIR and other tools, as they are read and written."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import pytrec_eval
from hypothesis import example, given
from hypothesis import strategies as st

from harness.core.engine import Hit
from harness.core.errors import BadFile, DatasetError
from harness.core.reading import Malformed, numbered
from harness.core.records import Document, Judgement, Qrels, Query
from harness.core.run import Row, Run, Status
from harness.corpus import beir, exchange, judgements, runs, trec
from harness.corpus.beir import Beir
from harness.corpus.judgements import JudgingPair, Overtaken, Pool
from harness.corpus.prepared import IDENTIFIER, KEYWORD, NATURAL, form
from harness.corpus.runs import table_of
from harness.corpus.trec import UNCARRIED

Written = Callable[[str], Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(text: str) -> Path:
        path = tmp_path / "file"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        return path

    return write


# Judgements and runs as TREC wrote them

ID = st.text(st.characters(codec="utf-8", exclude_characters="\0 \t\n\r\v\f\ufeff"), min_size=1)
RANKINGS = st.dictionaries(ID, st.lists(ID, min_size=1, unique=True), min_size=1)


def of(rankings: dict[str, list[str]]) -> Run:
    hits = {q: [Hit(doc_id, 0.5, 1.0) for doc_id in docs] for q, docs in rankings.items()}
    return Run.of("arm", (Row(q, Status.ANSWERED, found) for q, found in hits.items()))


def through(write: Callable[..., object], read: Callable[[Path], Any], of: object) -> Any:  # noqa: ANN401
    """Write a file, and return what is read back from it."""
    with TemporaryDirectory() as folder:
        write(Path(folder) / "file", of)
        return read(Path(folder) / "file")


@given(RANKINGS)
def test_a_run_keeps_its_rankings(rankings: dict[str, list[str]]) -> None:
    read = through(trec.write_run, lambda path: trec.read_run(path, "arm"), of(rankings))
    assert {q: list(read.ranking(q)) for q in read.query_ids} == rankings


@given(st.dictionaries(ID, st.dictionaries(ID, st.integers(-3, 9), min_size=1), min_size=1))
def test_judgements_come_back_as_they_were(grades: dict[str, dict[str, int]]) -> None:
    qrels = Qrels.of(Judgement(q, d, g) for q, row in grades.items() for d, g in row.items())
    assert through(trec.write_qrels, trec.qrels, qrels) == qrels


TIED = ["9", "10", "z", "\u00e9", "\uffee", "\U00010000", "a", "A"]


def test_ties_fall_as_in_trec_eval(written: Written) -> None:
    path = written("".join(f"q Q0 {d} 1 0.5 t\n" for d in TIED) + "q Q0 top 9 0.7 t\n")
    ranking = trec.read_run(path, "arm").ranking("q")
    assert ranking[0] == "top"
    assert ranking[1:] == tuple(sorted(TIED, key=lambda d: d.encode(), reverse=True))
    scores = {"q": dict.fromkeys(TIED, 0.5) | {"top": 0.7}}
    for rank, doc_id in enumerate(ranking, start=1):
        seen = pytrec_eval.RelevanceEvaluator({"q": {doc_id: 1}}, {"recip_rank"}).evaluate(scores)
        assert seen["q"]["recip_rank"] == pytest.approx(1 / rank)


def test_scores_are_compared_as_float64(written: Written) -> None:
    path = written("q Q0 a 2 1.000000001 t\nq Q0 b 1 1.0 t\n")
    assert trec.read_run(path, "arm").ranking("q") == ("a", "b")


def test_the_highest_showing_of_a_document_stays_and_the_other_is_counted(written: Written) -> None:
    path = written("q Q0 a 1 1 t\nq Q0 b 2 2 t\nq Q0 a 3 3 t\n")
    run = trec.read_run(path, "arm")
    assert run.ranking("q") == ("a", "b")
    assert run.duplicates.tolist() == [1]


def test_scores_become_places_between_lowest_and_highest(written: Written) -> None:
    path = written("q Q0 a 1 -2 t\nq Q0 b 2 -3 t\nq Q0 c 3 -6 t\np Q0 a 1 7 t\n")
    run = trec.read_run(path, "arm")
    assert [(h.score, h.raw_score) for h in run.hits("q")] == [(1, -2), (0.75, -3), (0, -6)]
    assert [h.score for h in run.hits("p")] == [1]


def test_a_query_without_a_line_was_not_asked_and_a_strange_one_is_kept(written: Written) -> None:
    run = trec.read_run(written("b Q0 d 1 1 t\nx Q0 d 1 1 t\n"), "arm", asked=["a", "b"])
    assert run.query_ids == ("a", "b", "x")
    assert run.status.tolist() == [Status.NOT_ASKED, Status.ANSWERED, Status.ANSWERED]


@pytest.mark.parametrize(
    "score", ["nan", "inf", "-Infinity", "1e999", "high", "0x1", "1_000", "\u0663", "1e"]
)
def test_a_score_that_is_no_finite_number_is_refused(written: Written, score: str) -> None:
    path = written(f"q Q0 a 1 1 t\nq Q0 b 2 {score} t\n")
    with pytest.raises(BadFile, match=f"file:2: the score '{score}' is not a finite number"):
        trec.read_run(path, "arm")


def test_a_short_line_and_an_empty_run_are_refused(written: Written) -> None:
    with pytest.raises(BadFile, match=r"file:1: the line has 5 fields, not 6\. Write: query Q0"):
        trec.read_run(written("q Q0 a 1 1"), "arm")
    with pytest.raises(BadFile, match="the run is empty"):
        trec.read_run(written("\n"), "arm")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("q 0 e", "the line has 3 fields, not 4. Write: query 0 document grade"),
        ("q 0 e 0.5", "the grade '0.5' is not an integer. Map the scale"),
        ("q 0 d 1", "d is judged for query q on line 1 already. Keep one"),
    ],
)
def test_a_bad_judgement_is_told_with_its_line(written: Written, line: str, says: str) -> None:
    with pytest.raises(BadFile, match=rf"file:2: {says}"):
        trec.qrels(written(f"q 0 d 1\n{line}\n"))


# Topics of TREC

CLASSIC = """
<top>

<num> Number: 301
<title> International
 Organized Crime

<desc> Description:
Identify organizations.
<narr> Narrative:
A relevant document names one.
</top>
<top><num>302</num><title>Topic: Polio</title> not this
</top>
"""


def test_the_title_is_the_query(written: Written) -> None:
    assert trec.tagged(written(CLASSIC)) == (
        Query("301", "International Organized Crime"),
        Query("302", "Polio"),
    )


def test_a_table_keeps_its_texts(written: Written) -> None:
    found = trec.table(written("1\ta  b\tc\n2\td\n"))
    assert found == (Query("1", "a  b\tc"), Query("2", "d"))


@pytest.mark.parametrize(
    "content",
    [
        "qid\tquery\n7\tred shoes\n",
        "text\tid\nred shoes\t7\n",
        "ID\tlang\tText\n7\ten\tred shoes\n",
    ],
)
def test_columns_of_a_table_go_by_their_names(written: Written, content: str) -> None:
    assert trec.table(written(content)) == (Query("7", "red shoes"),)


# Lines with their numbers


def test_only_a_line_feed_ends_a_line(written: Written) -> None:
    odd = "a\u2028b\x85c\x0bd\x1ce"
    assert list(numbered(written(odd + "\nf"))) == [(1, odd), (2, "f")]


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="absent: missing file"):
        list(numbered(tmp_path / "absent"))
    with pytest.raises(BadFile, match="it is a folder"):
        list(numbered(tmp_path))


# Folders as BEIR lays them out


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("corpus-id\tquery-id\tscore", "d\tq\t{}"),
        ("Score\tQuery ID\tCorpus ID", "{}\tq\td"),
        ("query-id\titer\tcorpus-id\tscore", "q\t0\td\t{}"),
        ("qid\tdocno\tlabel\tannotator", "q\td\t{}\tme"),
        ("some\tother\tgrade", "q\td\t{}"),
    ],
)
@pytest.mark.parametrize("grade", ["2", "2.0", "+2", "2.000"])
def test_columns_go_by_their_names_where_there_is_a_head(
    written: Written, head: str, row: str, grade: str
) -> None:
    assert beir.qrels(written(f"{head}\n{row.format(grade)}\n")).grades == {"q": {"d": 2}}


def test_only_the_fields_asked_for_are_there(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d", "title": "head", "text": "body"}\n')
    both, text, title = (
        [(d.title, d.text) for d in beir.Beir(tmp_path, "test", fields).documents()]
        for fields in (("title", "text"), ("text",), ("title",))
    )
    assert (both, text, title) == ([("head", "body")], [("", "body")], [("head", "")])


# Documents and queries as JSON lines

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
ID_JSONL = st.text(st.characters(codec="utf-8", exclude_characters="\0 \t\n\r\v\f"), min_size=1)
SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
FINITE = SCALAR.filter(lambda value: value not in (float("inf"), float("-inf")))


@given(st.lists(st.tuples(ID_JSONL, TEXT, TEXT, st.dictionaries(TEXT, FINITE)), min_size=1))
def test_documents_come_back_as_they_were(rows: list[tuple[str, str, str, dict[str, str]]]) -> None:
    documents = [Document(f"{n}{row[0]}", *row[1:]) for n, row in enumerate(rows)]
    back = through(beir.write_documents, lambda path: [*beir.documents(path)], documents)
    assert back == documents


@given(
    st.lists(
        st.tuples(ID_JSONL, TEXT, st.lists(TEXT), st.none() | TEXT, st.dictionaries(TEXT, FINITE)),
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
    assert through(beir.write_queries, lambda path: [*beir.queries(path)], queries) == queries


def test_beir_names_and_other_keys(written: Written) -> None:
    path = written(
        '{"_id": "1", "text": "t", "by": "c", "year": 1958, "metadata": {"by": ["a", "b"]}}'
    )
    (found,) = beir.documents(path)
    assert found == Document("1", "", "t", {"year": 1958, "by": '["a", "b"]'})


def test_an_id_inside_of_the_metadata_stays_there(written: Written) -> None:
    path = written('{"_id": "1", "doc_id": "2", "text": "t", "metadata": {"_id": "3"}}')
    (found,) = beir.documents(path)
    assert found == Document("2", "", "t", {"_id": "3"})


# One Parquet file as a table

TABLE = pa.table(
    {"id": ["a", "b", "c"], "docs": pa.array([["x"], [], ["x", "y"]])}, metadata={"arm": "own"}
)
ANY = pa.schema([])


def test_a_column_that_contradicts_its_schema_is_an_error_and_no_crash() -> None:
    """Where pyarrow is asked for such a column, the process ends."""
    path = Path(__file__).parents[1] / "fuzz" / "finds" / "scores" / "levels-of-another-schema"
    with pytest.raises(Malformed, match="histogram size mismatch"):
        table_of(path, pa.schema([]))


def test_values_beyond_the_size_of_their_file_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "one.parquet"
    pq.write_table(pa.table({"a": [0] * 400_000}), path, row_group_size=100_000)
    assert table_of(path, ANY).num_rows == 400_000
    monkeypatch.setattr(runs, "UNPACKED_ANYWAY", 1_000_000)
    monkeypatch.setattr(runs, "MAX_UNPACKED", 1)
    with pytest.raises(Malformed, match=r"its values take \d+ bytes, more than 1000000"):
        table_of(path, ANY)


def test_a_text_that_comes_often_is_not_written_out_beyond_the_size_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, wanted = tmp_path / "one.parquet", pa.schema([("id", pa.string())])
    table = pa.table({"id": ["x" * 1_000] * 2_000}, schema=wanted.with_metadata({"arm": "own"}))
    pq.write_table(table, path)
    assert table_of(path, wanted) == table
    assert table_of(path, wanted).schema.equals(table.schema, check_metadata=True)
    monkeypatch.setattr(runs, "UNPACKED_ANYWAY", 1_000_000)
    monkeypatch.setattr(runs, "MAX_UNPACKED", 1)
    with pytest.raises(Malformed, match="the texts of id take 2000000 bytes, more than 1000000"):
        table_of(path, wanted)
    assert table_of(path, wanted, coded=True).num_rows == 2_000


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (TABLE.drop_columns(["id"]), r"it lacks \['id'\]"),
        (TABLE.set_column(0, "id", pa.array([1, 2, 3])), "id is int64 instead of string"),
        (TABLE.append_column("id", TABLE.column("id")), "it has id twice"),
        (TABLE.set_column(0, "id", pa.array(["a", None, "c"])), "id is not given in every row"),
    ],
)
def test_columns_are_those_that_are_wanted(tmp_path: Path, table: pa.Table, says: str) -> None:
    pq.write_table(table, tmp_path / "one.parquet")
    with pytest.raises(Malformed, match=says):
        table_of(tmp_path / "one.parquet", pa.schema([("id", pa.string())]))


# The form of a query, told from its text


FORMS = {
    IDENTIFIER: "br-2tnl|BR- and then|thread: abc|where is read_csv used|why does src/main fail"
    "|a segfault in lme4 again|re-use no-op",
    KEYWORD: "re-use it|- --|disk full|2026 11|abcdefghij abcdefghij|停止 応答",
    NATURAL: "internationalisation|abcdefghij abcdefghijk|one two three",
    None: "| \t",
}


@pytest.mark.parametrize(
    ("text", "expected"), [(text, of) for of, texts in FORMS.items() for text in texts.split("|")]
)
def test_the_form_of_a_text(text: str, expected: str | None) -> None:
    assert form(text) == expected


# Ids that are made of texts, and grades as tools write them
@given(st.lists(st.text(min_size=1), unique=True))
@example(["a b", "a%20b", "a%2520b"])
def test_other_texts_have_other_ids_that_a_line_can_carry(texts: list[str]) -> None:
    ids = [exchange.id_of(text) for text in texts]
    assert len({*ids}) == len(texts)
    assert not any(one in UNCARRIED for found in ids for one in found)


def test_what_is_wrong_is_named_with_its_place() -> None:
    collector = exchange.Collector(Path("f"))
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
        exchange.Collector(Path("f")).done()


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
DATA = exchange.Data("Mine", lambda: iter(DOCUMENTS), QUERIES, Qrels(GRADES))


def by_text(queries: tuple[Query, ...], qrels: Qrels) -> dict[str, dict[str, int]]:
    texts = {query.query_id: query.text for query in queries}
    return {texts[query_id]: dict(grades) for query_id, grades in qrels.grades.items()}


@pytest.mark.parametrize("kind", exchange.READ)
def test_ratings_come_back(tmp_path: Path, kind: str) -> None:
    exchange.writer(kind)(tmp_path, DATA)
    (path,) = tmp_path.iterdir()
    found = exchange.reader(kind)(path, "")
    assert by_text(found.queries, found.qrels) == by_text(QUERIES, DATA.qrels)
    again = tmp_path / "again"
    again.mkdir()
    exchange.writer(kind)(again, exchange.Data("Mine", DATA.documents, found.queries, found.qrels))
    (second,) = again.iterdir()
    assert exchange.reader(kind)(second, "") == found


def test_beir_comes_back_whole(tmp_path: Path) -> None:
    exchange.writer("beir")(tmp_path, DATA)
    read = Beir(tmp_path, "test")
    assert tuple(read.documents()) == DOCUMENTS
    assert read.queries() == QUERIES
    assert read.qrels() == DATA.qrels
    assert '{"_id": "d1"' in (tmp_path / "corpus.jsonl").read_text()


def test_two_queries_of_one_text_are_no_two_in_a_format_without_ids(tmp_path: Path) -> None:
    twice = (*QUERIES, Query("q4", "red shoes"))
    judged = Qrels({**GRADES, "q4": {"d1": 1}})
    with pytest.raises(DatasetError, match=r"q1 and q4 have the same text.* use rank-eval"):
        exchange.writer("quepid")(tmp_path, exchange.Data("Mine", DATA.documents, twice, judged))
    assert not [*tmp_path.iterdir()]
    exchange.writer("quepid")(tmp_path, exchange.Data("Mine", DATA.documents, twice, DATA.qrels))


# Requests of the ranking evaluation API
RATED = [{"_index": "i", "_id": "d", "rating": 1}]


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
def test_the_one_text_that_is_searched_for_is_the_query(written: Written, query: object) -> None:
    body = {"id": "JFK query", "request": {"query": query, "size": 5}, "ratings": RATED}
    asked = json.dumps({"requests": [body], "metric": {"precision": {"k": 5}}})
    found = exchange.read_rank_eval(written(asked))
    assert {query.query_id: query.text for query in found.queries} == {"JFK%20query": "red shoes"}
    assert found.qrels.grades == {"JFK%20query": {"d": 1}}


# The CSV of a Quepid case
CASE = "query,docid,rating\n"


def test_a_case_is_read_with_queries_that_are_not_rated(written: Written) -> None:
    rows = '"shoes, red",d1,3\nboots,d2,0\nboots,d3,\nslippers\n'
    found = exchange.read_quepid(written(CASE + rows))
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
def test_queries_without_hits_and_line_breaks_are_read(written: Written, content: str) -> None:
    found = exchange.read_quepid(written(content))
    assert [query.text for query in found.queries] == ["shoes", "sandals"]
    assert found.qrels.grades == {"shoes": {"p-1": 3}}
    assert found.unrated == 0


@pytest.mark.parametrize("said", ["=1+1", "-shoes", "+41", "@home", " leading", "plain", "a = b"])
def test_a_formula_is_written_as_text_and_read_back(
    written: Written, tmp_path: Path, said: str
) -> None:
    found = exchange.read_quepid(written(f'{CASE}"{said}",d,1\n'))
    exchange.writer("quepid")(
        tmp_path, exchange.Data("Mine", lambda: iter(()), found.queries, found.qrels)
    )
    out = (tmp_path / "ratings.csv").read_text()
    assert out.splitlines()[1][:1] not in "=+-@"
    again = exchange.read_quepid(written(out))
    assert again == found
    assert again.queries[0].text == said


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (CASE + "boots,d1\n", "2: the row has 2 cells, too few.* Complete the row"),
        (CASE + '"boots,d1,1\n', "2: the row is not CSV .* Close the quote"),
        (CASE + 'x,d,1\n"b\n\nc",d1,good\n', "3: the grade 'good' is not an integer"),
        (CASE + "boots,d1,good\n", "2: the grade 'good' is not an integer"),
        (CASE + "boots,d1,1\nboots,d1,2\n", "3: d1 is rated for query 'boots' at 2"),
        ("query,doc\n", r"1: no one column each of .* \(columns: query, doc\)\. Head"),
        (CASE + "b\udcf6\udcf6ts,d1,1\n", "2: .*UTF-8.*iconv"),
    ],
)
def test_a_broken_case_names_its_line(written: Written, content: str, says: str) -> None:
    with pytest.raises(BadFile, match=f"file:{says}"):
        exchange.read_quepid(written(content))


# ``harness.corpus.judgements``: pairs that wait for a grade, in a file for TREC's tools
def pair(doc_id: str, query_id: str = "q1") -> JudgingPair:
    texts = {"query": "what?", "title": "A title", "snippet": "words \u2028 of it"}
    return JudgingPair(query_id=query_id, doc_id=doc_id, narrows=0.25, scale=(0, 1, 2), **texts)


def test_a_pair_that_somebody_else_judged_keeps_their_grade(tmp_path: Path) -> None:
    path, first = tmp_path / "p.qrels", pair("a")
    judgements.begin(path, Pool((first, pair("b"), pair("a", "q2")), (None, None, None)))
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
