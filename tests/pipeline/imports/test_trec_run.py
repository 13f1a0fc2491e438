"""TREC runs of other engines as arms."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadFile, DatasetError
from harness.core.records import Document, Judgement, Qrels, Query
from harness.core.run import Status
from harness.corpus import prepared
from harness.corpus.cells import Ids, write
from harness.corpus.runs import read_run
from harness.corpus.trec import Missing
from harness.pipeline.compare import ties
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import check_run, read_manifest
from harness.pipeline.replay import import_run


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "build", tmp_path / "perf", tmp_path / "cache")
    prepared.write(
        made.data,
        "two",
        "test",
        [Document("a", "", "one"), Document("b", "", "two")],
        [Query("q1", "one"), Query("q2", "two")],
        Qrels.of([Judgement("q1", "a", 1), Judgement("q2", "b", 1)]),
    )
    return made


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "other.trec"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_run_file_becomes_an_arm_that_names_its_file(layout: Layout, tmp_path: Path) -> None:
    file = written(tmp_path, "q1 Q0 b 1 2.0 x\nq1 Q0 a 2 3.0 x\n")
    import_run(layout, "other", file)
    run = read_run(layout.run("other"))
    assert run.query_ids == ("q1", "q2")
    assert run.ranking("q1") == ("a", "b")
    assert run.count(Status.NOT_ASKED) == 1
    manifest = read_manifest(layout, "other")
    assert manifest.engine == "imported run"
    assert run.served_by == (manifest.fingerprint, "")
    check_run(layout, "other")


def test_a_query_without_a_line_may_be_said_to_be_an_empty_answer(
    layout: Layout, tmp_path: Path
) -> None:
    file = written(tmp_path, "q1 Q0 a 1 1.0 x\n")
    assert import_run(layout, "lost", file).run.count(Status.NOT_ASKED) == 1
    run = import_run(layout, "empty", file, missing=Missing.EMPTY).run
    assert run.count(Status.NOT_ASKED) == 0
    lost, empty = (read_manifest(layout, arm).fingerprint for arm in ("lost", "empty"))
    assert run.served_by == (empty, empty)
    assert lost != empty


def test_another_file_is_another_arm(layout: Layout, tmp_path: Path) -> None:
    import_run(layout, "one", written(tmp_path, "q1 Q0 a 1 1.0 x\n"))
    import_run(layout, "two", written(tmp_path, "q1 Q0 b 1 1.0 x\n"))
    assert read_manifest(layout, "one").fingerprint != read_manifest(layout, "two").fingerprint


def test_documents_of_another_corpus_are_refused(layout: Layout, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"1 document that two does not have.*zz"):
        import_run(layout, "other", written(tmp_path, "q1 Q0 zz 1 1.0 x\n"))
    assert not layout.run("other").exists()


@pytest.mark.parametrize("missing", Missing)
@pytest.mark.parametrize("strange", ["q02", "Q2", "q02 Q0 b 1 1 x\nq1", "other", "\uff512"])
def test_queries_of_no_split_are_refused_where_others_seem_to_be_missing(
    layout: Layout, tmp_path: Path, strange: str, missing: Missing
) -> None:
    file = written(tmp_path, f"q1 Q0 a 2 3.0 x\n{strange} Q0 b 1 2.0 x\n")
    perhaps = "other" if strange == "other" else r"\(perhaps q2\)"
    says = rf"1 query that two does not have .*{perhaps}.* and no line for 1 of 2"
    with pytest.raises(DatasetError, match=says):
        import_run(layout, "other", file, missing=missing)
    assert not layout.run("other").exists()


def test_queries_of_no_split_are_named_where_none_is_missing(
    layout: Layout, tmp_path: Path
) -> None:
    lines = "q1 Q0 a 1 3.0 x\nq2 Q0 a 1 3.0 x\nq9 Q0 a 1 1.0 x\n"
    taken = import_run(layout, "other", written(tmp_path, lines))
    assert taken.strange == ("q9",)
    assert "1 query is not in the data set and left out, for example q9" in taken.said[0]


def test_queries_of_another_split_are_left_out(layout: Layout, tmp_path: Path) -> None:
    write(layout.data, Ids(frozenset(), frozenset({"train7"})))
    file = written(tmp_path, "q1 Q0 a 1 3.0 x\ntrain7 Q0 a 1 1.0 x\n")
    taken = import_run(layout, "other", file)
    assert taken.strange == ()
    assert "say --missing empty" in taken.said[0]
    assert read_run(layout.run("other")).query_ids == ("q1", "q2")


def test_a_hit_that_is_the_query_itself_is_taken_out(layout: Layout, tmp_path: Path) -> None:
    documents = [
        Document("q1", "", "One  more"),
        Document("q2", "", "other"),
        Document("a", "", "x"),
    ]
    queries = [Query("q1", "one more"), Query("q2", "two")]
    judged = Qrels.of([Judgement("q1", "a", 1), Judgement("q2", "a", 1)])
    prepared.write(layout.data, "two", "test", documents, queries, judged)
    lines = "".join(
        f"{q} Q0 {d} 1 {9 - n} x\n" for q in ("q1", "q2") for n, d in enumerate(("q1", "q2", "a"))
    )
    run = import_run(layout, "other", written(tmp_path, lines)).run
    assert run.ranking("q1") == ("q2", "a")
    assert run.ranking("q2") == ("q1", "q2", "a")
    assert read_run(layout.again("other")).ranking("q1") == ("q2", "a")


def test_a_score_that_is_no_number_names_its_line(layout: Layout, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"other\.trec:2"):
        import_run(layout, "other", written(tmp_path, "q1 Q0 a 1 1.0 x\nq1 Q0 b 2 nan x\n"))


def test_what_ties_could_do_stands_beside_the_scores(layout: Layout, tmp_path: Path) -> None:
    lines = "q1 Q0 a 1 1.0 x\nq1 Q0 b 2 1.0 x\nq2 Q0 b 1 2.0 x\nq2 Q0 a 2 1.0 x\n"
    import_run(layout, "other", written(tmp_path, lines))
    counted, written_out = ties(layout, ("other",), ("RR@10", "ERR@10"))
    assert (counted["other"].hits, counted["other"].tied) == (4, 2)
    assert written_out == {
        "other": {
            "hits": 4,
            "tied": 2,
            "tied_in_float32_only": 0,
            "measures": {"RR@10": {"least": 0.75, "expected": 0.875, "most": 1.0}},
        }
    }
