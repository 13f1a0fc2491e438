"""Imports of collections, runs, judgements, ratings and mail."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.core.errors import BadFile, DatasetError
from harness.core.records import Document, Judgement, Qrels, Query
from harness.core.run import Status
from harness.corpus import beir, card, prepared, trec
from harness.corpus import judgements as corpus_judgements
from harness.corpus.cells import Ids, write
from harness.corpus.judgements import JudgingPair, Pool
from harness.corpus.runs import read_run
from harness.corpus.trec import MissingQuery
from harness.pipeline.compare import ties
from harness.pipeline.imports import (
    NOTHING_STATED,
    ImportTarget,
    import_beir,
    import_ir_datasets,
    import_jsonl,
    import_mbox,
    import_trec,
    judgements,
    load_folder,
)
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import check_run, read_manifest
from harness.pipeline.replay import import_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    (path / "qrels").mkdir(parents=True)
    documents = [{"_id": "1", "text": "one"}, {"_id": "2", "text": " "}]
    queries = [{"_id": "a", "text": "first"}, {"_id": "b", "text": ""}, {"_id": "c", "text": "c"}]
    for name, rows in (("corpus", documents), ("queries", queries)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (path / f"{name}.jsonl").write_text(lines)
    (path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\na\t1\t1\nb\t1\t0\n")
    return path


def judge(folder: Path, line: str) -> None:
    with (folder / "qrels" / "test.tsv").open("a") as out:
        out.write(line + "\n")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("a\t9\t1", "'test' name 1 document not in the corpus: 9;.*--allow-dangling"),
        ("z\t1\t1", "'test' name 1 query not in the query set: z;"),
    ],
)
def test_dangling_judgements_are_refused(
    folder: Path, tmp_path: Path, line: str, says: str
) -> None:
    judge(folder, line)
    with pytest.raises(DatasetError, match=says):
        import_beir(
            folder, ImportTarget("toy", tmp_path / "datasets", tmp_path / "qrels", split="test")
        )
    assert not (tmp_path / "datasets" / "toy").exists()
    assert not (tmp_path / "qrels").exists()


def test_dangling_judgements_are_kept_and_listed_where_they_are_allowed(
    folder: Path, tmp_path: Path
) -> None:
    judge(folder, "a\t9\t1")
    judge(folder, "z\t1\t1")
    report = import_beir(
        folder,
        ImportTarget("toy", tmp_path / "d", tmp_path / "q", split="test", allow_dangling=True),
    )
    assert "1 judged document is not in the corpus: 9." in report.warnings
    kept = trec.qrels(tmp_path / "q" / "toy" / "test.qrels")
    assert kept.grades["a"]["9"] == 1
    assert kept.query_ids == ("a", "b", "z")
    assert "1 judged query is not in the query set: z." in card.read(tmp_path / "d/toy").warnings


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("C\t1\t1", "name the query C, which is c in the data"),
        ("a\t02.0\t1", "name the document 02.0, which is 2 in the data"),
    ],
)
def test_judgements_that_write_ids_in_another_way_are_refused(
    folder: Path, tmp_path: Path, line: str, says: str
) -> None:
    judge(folder, line)
    with pytest.raises(DatasetError, match=says):
        load_folder(folder, "test", tmp_path / "loaded")
    to = ImportTarget("toy", tmp_path / "d", tmp_path / "q", split="test", allow_dangling=True)
    with pytest.raises(DatasetError, match=says):
        import_beir(folder, to)


def test_a_taken_name_is_kept_unless_forced(folder: Path, tmp_path: Path) -> None:
    to = (tmp_path / "datasets", tmp_path / "qrels")
    import_beir(folder, ImportTarget("toy", *to, split="test"))
    (folder / "corpus.jsonl").write_text('{"_id": "1", "text": "changed"}\n')
    with pytest.raises(DatasetError, match=r"toy exists; choose another name.*--force"):
        import_beir(folder, ImportTarget("toy", *to, split="test"))
    assert card.read(to[0] / "toy").documents == 2
    import_beir(folder, ImportTarget("toy", *to, split="test", force=True))
    assert card.read(to[0] / "toy").documents == 1


@pytest.mark.parametrize("name", ["topics.trec", "topics.tsv"])
def test_topics_and_qrels_of_trec(folder: Path, tmp_path: Path, name: str) -> None:
    tagged = "<top>\n<num> Number: a\n<title> first\n</top>\n"
    (folder / name).write_text("a\tfirst\n" if name.endswith("tsv") else tagged)
    (folder / "test.qrels").write_text("a 0 1 3\n")
    report = import_trec(
        ImportTarget("toy", tmp_path / "d", tmp_path / "q", split="test"),
        topics_file=folder / name,
        qrels_file=folder / "test.qrels",
        corpus_file=folder / "corpus.jsonl",
    )
    assert (report.queries, report.judgements) == (1, 1)
    assert [q.text for q in beir.queries(tmp_path / "d/toy/queries.jsonl")] == ["first"]


@pytest.mark.parametrize("name", ["x.qrels", "x.tsv"])
def test_json_lines_with_either_kind_of_judgements(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).write_text("a 0 1 3\n" if name.endswith("qrels") else "a\t1\t3\n")
    import_jsonl(
        ImportTarget("toy", tmp_path / "d", tmp_path / "q", split="dev"),
        corpus_file=folder / "corpus.jsonl",
        queries_file=folder / "queries.jsonl",
        qrels_file=folder / name,
    )
    assert (tmp_path / "q" / "toy" / "dev.qrels").read_text() == "a 0 1 3\n"


ir_datasets: Any = pytest.importorskip("ir_datasets", reason="the extra ir-datasets is absent")


@pytest.fixture
def target(tmp_path: Path) -> ImportTarget:
    to = tmp_path / "datasets", tmp_path / "qrels"
    return ImportTarget("mine", *to, split="test")


MAIL_FILES = {"mbox": "box", "queries": "queries.jsonl", "qrels": "test.qrels"}


def test_a_collection_of_ir_datasets_is_taken_with_its_titles(
    target: ImportTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = SimpleNamespace(doc_id="d1", title="Red", text="shoes")
    plain = SimpleNamespace(doc_id="d2", default_text=lambda: "boots")
    query = SimpleNamespace(query_id="q1", default_text=lambda: "red shoes")
    found = SimpleNamespace(
        docs_iter=lambda: iter((document, plain)),
        queries_iter=lambda: iter((query,)),
        qrels_iter=lambda: iter((SimpleNamespace(query_id="q1", doc_id="d1", relevance=2),)),
        **{f"has_{part}": lambda: True for part in ("docs", "queries", "qrels")},
    )
    monkeypatch.setattr(ir_datasets, "load", lambda _: found)
    report = import_ir_datasets(target, collection="own", download=False)
    assert (report.documents, report.queries, report.judgements) == (2, 1, 1)
    corpus = tuple(beir.documents(target.datasets / "mine" / "corpus.jsonl"))
    assert corpus == (Document("d1", "Red", "shoes"), Document("d2", "", "boots"))
    assert trec.qrels(target.qrels / "mine" / "test.qrels").grades == {"q1": {"d1": 2}}


def test_mail_is_imported_and_what_is_odd_about_it_is_on_the_card(
    target: ImportTarget, tmp_path: Path
) -> None:
    head = "From x Mon Jan  6 00:00:00 2025\nFrom: a@x\nMessage-ID: <{}@x>\n"
    mails = f"{head.format(1)}Date: Mon, 06 Jan 2025 12:00:00 +0000\n\nfirst\n\n"
    (tmp_path / "box").write_text(f"{mails}{head.format(2)}In-Reply-To: <1@x>\n\nsecond\n")
    (tmp_path / "queries.jsonl").write_text('{"query_id": "q", "text": "first"}\n')
    (tmp_path / "test.qrels").write_text("q 0 1@x 2\nq 0 2@x 1\n")
    files = {f"{name}_file": tmp_path / file for name, file in MAIL_FILES.items()}
    report, _ = import_mbox(target, **files)
    assert (report.documents, report.queries, report.judgements) == (2, 1, 2)
    about = card.read(target.datasets / "mine")
    assert about.warnings == ["1 of the mails: it has no date (mail 2: 2@x)."]
    (tmp_path / "box").write_text(f"{mails}{head.format(chr(0))}\nsecond\n")
    with pytest.raises(BadFile, match=r"box: the 2\. mail's id .* holds white space or a NUL"):
        import_mbox(replace(target, force=True), **files)


def test_nothing_is_downloaded_unasked(
    target: ImportTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[str] = []
    monkeypatch.setattr(ir_datasets.lazy_libs, "requests", lambda: requested.append("x"))
    with pytest.raises(DatasetError, match=r"vaswani: its files are not on this machine.*--downl"):
        import_ir_datasets(target, collection="vaswani", download=False)
    assert not requested
    assert not target.datasets.exists()
    with pytest.raises(Exception, match="NoneType"):
        import_ir_datasets(target, collection="vaswani", download=True)
    assert requested


def a_pool(path: Path, *grades: int | None) -> Path:
    pairs = tuple(
        JudgingPair(
            query_id="q", doc_id=f"d{at}", query="", title="", snippet="", narrows=0.0, scale=(0, 1)
        )
        for at in range(len(grades))
    )
    corpus_judgements.begin(path, Pool(pairs, grades))
    return path


def test_a_pool_is_taken_as_far_as_it_is_judged(tmp_path: Path) -> None:
    found, about = judgements(a_pool(tmp_path / "p", 1, None, 0), NOTHING_STATED)
    assert found.grades == {"q": {"d0": 1, "d2": 0}}
    assert about.warnings == ("The pool leaves 1 pair open.",)
    whole, about = judgements(a_pool(tmp_path / "w", 1), NOTHING_STATED)
    assert whole.grades == {"q": {"d0": 1}}
    assert about == NOTHING_STATED


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
    assert import_run(layout, "lost", file)[0].count(Status.NOT_ASKED) == 1
    run, _ = import_run(layout, "empty", file, missing=MissingQuery.EMPTY)
    assert run.count(Status.NOT_ASKED) == 0
    lost, empty = (read_manifest(layout, arm).fingerprint for arm in ("lost", "empty"))
    assert run.served_by == (empty, empty)
    assert lost != empty


def test_documents_of_another_corpus_are_refused(layout: Layout, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"1 document that two does not have.*zz"):
        import_run(layout, "other", written(tmp_path, "q1 Q0 zz 1 1.0 x\n"))
    assert not layout.run("other").exists()


@pytest.mark.parametrize("missing", MissingQuery)
@pytest.mark.parametrize("strange", ["q02", "Q2", "q02 Q0 b 1 1 x\nq1", "other", "\uff512"])
def test_queries_of_no_split_are_refused_where_others_seem_to_be_missing(
    layout: Layout, tmp_path: Path, strange: str, missing: MissingQuery
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
    _, said = import_run(layout, "other", written(tmp_path, lines))
    assert said == ("1 query is not in the data set and left out, for example q9",)


def test_queries_of_another_split_are_left_out(layout: Layout, tmp_path: Path) -> None:
    write(layout.data, Ids(frozenset(), frozenset({"train7"})))
    file = written(tmp_path, "q1 Q0 a 1 3.0 x\ntrain7 Q0 a 1 1.0 x\n")
    _, (said,) = import_run(layout, "other", file)
    assert "say --missing empty" in said
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
    run, _ = import_run(layout, "other", written(tmp_path, lines))
    assert run.ranking("q1") == ("q2", "a")
    assert run.ranking("q2") == ("q1", "q2", "a")
    assert read_run(layout.again("other")).ranking("q1") == ("q2", "a")


def test_what_ties_could_do_stands_beside_the_scores(layout: Layout, tmp_path: Path) -> None:
    lines = "q1 Q0 a 1 1.0 x\nq1 Q0 b 2 1.0 x\nq2 Q0 b 1 2.0 x\nq2 Q0 a 2 1.0 x\n"
    run, _ = import_run(layout, "other", written(tmp_path, lines))
    data = prepared.Prepared.open(layout.data)
    counted, written_out = ties(data, {"other": run}, ("RR@10", "ERR@10"))
    assert (counted["other"].hits, counted["other"].tied) == (4, 2)
    assert written_out == {
        "other": {
            "hits": 4,
            "tied": 2,
            "tied_in_float32_only": 0,
            "measures": {"RR@10": {"least": 0.75, "expected": 0.875, "most": 1.0}},
        }
    }
