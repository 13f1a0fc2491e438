"""Runs as Parquet: what is written is read, and the same run gives the same bytes."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.api.data import load_qrels
from harness.core.engine import Hit
from harness.core.errors import BadFile
from harness.core.records import Document, Judgement, Qrels, Query
from harness.core.run import Conditions, Row, Run, Status
from harness.core.scores import Scores
from harness.corpus import beir, exchange, judgements, prepared, runs, trec
from harness.corpus.cells import FILE, Ids, OwnDocuments, whole, without_own
from harness.corpus.prepared import Prepared
from harness.corpus.runs import ARM_SCORES, COLUMNS, Key, ScoreTable, read_run, write_run
from tests.make.runs import rows

# Runs as Parquet: what is written is read, and the same run gives the same bytes

RUN = Run.of(
    "arm é",
    [
        Row("q2", Status.ANSWERED, (Hit("b", 1.0, -9.5), Hit("a", 1.0, -9.5)), "me", duplicates=2),
        Row("q1", Status.ANSWERED, (), "me"),
        Row("q3", Status.FAILED, error="ValueError: 東京"),
        Row("q4", Status.TIMED_OUT, error="late"),
        Row("q5", Status.NOT_ASKED),
    ],
)
SLOW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def same(left: Run, right: Run) -> bool:
    arrays = ("offsets", "docs", "score", "raw_score", "status", "duplicates")
    return all(
        (getattr(left, name) == getattr(right, name)).all()
        and getattr(left, name).dtype == getattr(right, name).dtype
        and getattr(left, name).shape == getattr(right, name).shape
        for name in arrays
    ) and all(
        getattr(left, name) == getattr(right, name)
        for name in ("arm", "query_ids", "vocabulary", "served_by", "errors")
    )


def test_a_run_of_several_row_groups_is_read_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "PARTITION", 1)
    hits = [(Hit("a", 1.0, 1.0),), (Hit("b", 1.0, 1.0), Hit("a", 0.5, 0.5)), ()]
    run = Run.of("own", [Row(str(at), Status.ANSWERED, of) for at, of in enumerate(hits)])
    write_run(run, tmp_path / "run.parquet")
    assert pq.ParquetFile(tmp_path / "run.parquet").num_row_groups == len(run)
    assert same(runs.RUN_PART.read(tmp_path / "run.parquet"), run)  # it has written nothing


def test_retries_are_kept_and_a_run_without_any_has_the_bytes_of_before(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    write_run(replace(RUN, retries=3, rate_limited=2), path)
    assert (read_run(path).retries, read_run(path).rate_limited) == (3, 2)
    write_run(RUN, path)
    assert b"retries" not in path.read_bytes()


@SLOW
@given(given_rows=rows())
def test_any_run_goes_in_and_out_with_the_same_bytes(
    tmp_path: Path, given_rows: Sequence[Row]
) -> None:
    run = Run.of("arm", given_rows)
    one, two = tmp_path / "one", tmp_path / "two"
    write_run(run, one)
    read = read_run(one)
    assert same(read, run)
    write_run(read, two)
    assert two.read_bytes() == one.read_bytes()


def refused(path: Path, why: str) -> None:
    with pytest.raises(BadFile, match=why) as told:
        read_run(path)
    assert told.value.path == path
    assert "harness stage replay" in told.value.hint


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_file_cut_short(tmp_path: Path, share: float) -> None:
    path = tmp_path / "run.parquet"
    write_run(RUN, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    refused(path, "not a run")


def another_status(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("status")
    return table.set_column(at, COLUMNS.field("status"), pa.array(["green"] * len(table)))


def documents_as_they_came(table: pa.Table) -> pa.Table:
    turned = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["b", "a"]))
    lists = pa.ListArray.from_arrays(table.column("docs").combine_chunks().offsets, turned)
    return table.set_column(2, COLUMNS.field("docs"), lists)


@pytest.mark.parametrize(
    ("change", "why"),
    [(another_status, "unknown status .*green"), (documents_as_they_came, "not in byte order")],
)
def test_other_tables_are_no_runs(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table], why: str
) -> None:
    path = tmp_path / "run.parquet"
    write_run(RUN, path)
    pq.write_table(change(pq.read_table(path)), path)
    refused(path, why)


# Scores as a table: undefined values keep their reason

Table = dict[Key, dict[str, Scores]]


def scores(measure: str, values: dict[str, float], undefined: dict[str, tuple[str, ...]]) -> Scores:
    return Scores(measure, tuple(values), np.array(list(values.values()), dtype=float), undefined)


def plain(table: ScoreTable) -> dict[Key, dict[str, tuple[str, dict[str, float], object]]]:
    return {
        key: {name: (of.measure, dict(of.by_query), of.undefined) for name, of in by.items()}
        for key, by in table.items()
    }


words = st.text(st.characters(codec="utf-8"), max_size=3)


known = st.dictionaries(words, st.floats(0, 1), min_size=1, max_size=4)
gone = st.dictionaries(words, st.lists(words, min_size=1, max_size=3), max_size=2)


@SLOW
@given(st.dictionaries(words, st.tuples(known, gone), max_size=3))
def test_any_scores_go_in_and_out(
    tmp_path: Path, drawn: dict[str, tuple[dict[str, float], dict[str, list[str]]]]
) -> None:
    table: Table = {
        ("arm",): {
            name: scores(name, values, {why: tuple(ids) for why, ids in gone.items()})
            for name, (values, gone) in drawn.items()
        }
    }
    ARM_SCORES.write(tmp_path / "scores", table)
    assert plain(ARM_SCORES.read(tmp_path / "scores")) == plain(table if drawn else {})


# Grades, as every reader of judgements takes them


@pytest.mark.parametrize(
    "found", ["2", "2.0", "2.", " 2.000 ", "+2", 2, 2.0, np.int64(2), np.float32(2)]
)
def test_a_whole_number_is_a_grade_however_it_is_written(found: object) -> None:
    assert whole(found) == 2


NONE = "2.5 two 2,0 1_0 1e1 \u0662 nan 9999999999"


@pytest.mark.parametrize("found", ["", *NONE.split(), 2.5, True, None, [2], np.nan, np.inf, 1e30])
def test_all_else_is_none(found: object) -> None:
    assert whole(found) is None


def test_every_reader_takes_a_grade_that_a_tool_wrote_as_a_float(tmp_path: Path) -> None:
    def file(text: str) -> Path:
        path = tmp_path / "file"
        path.write_text(text)
        return path

    label = {"query_id": "q", "doc_id": "d", "grade": 2.0, "kind": "person", "by": "me"}
    request = {"id": "q", "params": {"s": "q"}, "ratings": [{"_id": "d", "rating": 2.0}]}
    requests = {"requests": [request]}
    found = {
        "trec": trec.qrels(file("q 0 d 2.0\n")).grades,
        "beir": beir.qrels(file("q\td\t2.0\n")).grades,
        "labels": {"q": {"d": judgements.read_labels(file(json.dumps(label)))[0].grade}},
        "quepid": exchange.read_quepid(file("query,docid,rating\nq,d,2.0\n")).qrels.grades,
        "rank-eval": exchange.read_rank_eval(file(json.dumps(requests))).qrels.grades,
        "api": load_qrels({"q": {"d": 2.0}}).grades,
    }
    assert {name: grades for name, grades in found.items() if grades != {"q": {"d": 2}}} == {}


# Ids that tools write otherwise, and queries that are themselves documents

DOCUMENTS = [
    Document("same", "", "Ban  zoos now"),
    Document("titled", "Ban zoos", "now"),
    Document("1", "", "a wing in a slipstream"),
    Document("other", "", "x"),
]
QUERIES = (
    Query("same", "ban zoos now"),
    Query("titled", "Ban zoos now"),
    Query("1", "what laws hold"),
    Query("q", "x"),
)


@pytest.mark.parametrize(
    ("rule", "own"),
    [(None, {"same", "titled"}), ("drop", {"same", "titled", "1"}), ("keep", set())],
)
def test_the_hit_goes_where_texts_are_equal_or_the_card_says(
    tmp_path: Path, rule: OwnDocuments | None, own: set[str]
) -> None:
    judged = Qrels.of([Judgement("q", "other", 1)])
    prepared.write(tmp_path / "d", "d", "test", DOCUMENTS, QUERIES, judged, own=rule)
    assert Prepared.open(tmp_path / "d").ids() == Ids(frozenset(own), frozenset())
    assert (tmp_path / "d" / FILE).exists() == bool(own)


def test_only_the_own_hit_is_taken_out_and_the_rest_stays() -> None:
    hits = [Hit("a", 1.0, 3.0), Hit("b", 0.5, 2.0), Hit("c", 0.0, 1.0)]
    rows = [Row(name, Status.ANSWERED, hits) for name in ("a", "b", "z")]
    asked = Run.of("x", [*rows, Row("lost", Status.NOT_ASKED)])
    run = replace(asked, conditions=Conditions(100, 1.0))
    shown = without_own(run, {"a", "lost"})
    assert ["".join(shown.ranking(q)) for q in shown.query_ids] == ["bc", "abc", "abc", ""]
    assert shown.conditions == run.conditions
    assert shown.hits("a")[0].raw_score == 2.0
    assert shown.status.tolist() == run.status.tolist()
    assert without_own(run, frozenset()) is run
