"""Judgements and runs as TREC wrote them."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from harness.core.engine import Hit
from harness.core.errors import BadFile
from harness.core.reading import Malformed, numbered
from harness.core.records import Document, Judgement, Qrels, Query
from harness.core.run import Row, Run, Status
from harness.corpus import beir, runs, trec
from harness.corpus.prepared import IDENTIFIER, KEYWORD, NATURAL, form
from harness.corpus.runs import table_of

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


@given(RANKINGS)
def test_a_run_keeps_its_rankings(rankings: dict[str, list[str]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        trec.write_run(path, of(rankings))
        read = trec.read_run(path, "arm")
    assert {q: list(read.ranking(q)) for q in read.query_ids} == rankings


@given(st.dictionaries(ID, st.dictionaries(ID, st.integers(-3, 9), min_size=1), min_size=1))
def test_judgements_come_back_as_they_were(grades: dict[str, dict[str, int]]) -> None:
    qrels = Qrels.of(Judgement(q, d, g) for q, row in grades.items() for d, g in row.items())
    with TemporaryDirectory() as folder:
        path = Path(folder) / "qrels"
        trec.write_qrels(path, qrels)
        assert trec.qrels(path) == qrels


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


@given(
    st.lists(st.tuples(ID_JSONL, TEXT, TEXT, st.dictionaries(TEXT, FINITE)), min_size=1),
)
def test_documents_come_back_as_they_were(rows: list[tuple[str, str, str, dict[str, str]]]) -> None:
    documents = [Document(f"{n}{row[0]}", *row[1:]) for n, row in enumerate(rows)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.jsonl"
        beir.write_documents(path, documents)
        assert list(beir.documents(path)) == documents


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
    with TemporaryDirectory() as folder:
        path = Path(folder) / "queries.jsonl"
        beir.write_queries(path, queries)
        assert list(beir.queries(path)) == queries


def test_beir_names_and_other_keys(written: Written) -> None:
    path = written(
        '{"_id": "1", "text": "t", "by": "c", "year": 1958, "metadata": {"by": ["a", "b"]}}'
    )
    (found,) = beir.documents(path)
    assert found == Document("1", "", "t", {"year": 1958, "by": '["a", "b"]'})


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
