"""Stage ``import``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.core.errors import BadFile, DatasetError
from harness.corpus import beir, card, trec
from harness.corpus.prepared import Prepared
from harness.pipeline.imports import (
    About,
    Target,
    import_beir,
    import_jsonl,
    import_trec,
    load_folder,
)
from harness.pipeline.prepare import prepare

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "datasets"
real = pytest.mark.skipif(not SHARED.exists(), reason="no collections beside the project")


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


def test_an_id_that_no_terminal_shows_stands_by_its_number(folder: Path, tmp_path: Path) -> None:
    judge(folder, "a\t3\u2028\t1")
    to = tmp_path / "datasets", tmp_path / "qrels"
    done = import_beir(folder, Target("toy", *to, split="test", allow_dangling=True))
    assert "1 judged document is not in the corpus: 3⟨U+2028⟩." in done.warnings


def test_an_import_is_prepared_without_complaint(folder: Path, tmp_path: Path) -> None:
    import_beir(folder, Target("toy", tmp_path / "datasets", tmp_path / "qrels", split="test"))
    prepare(tmp_path / "datasets" / "toy", tmp_path / "qrels" / "toy", tmp_path / "data")
    read = Prepared.open(tmp_path / "data")
    assert [d.doc_id for d in read.documents()] == ["1", "2"]
    assert [q.query_id for q in read.queries()] == ["a", "b"]
    assert read.qrels().grades == {"a": {"1": 1}, "b": {"1": 0}}


def test_the_report_counts_what_is_left_out_and_empty(folder: Path, tmp_path: Path) -> None:
    report = import_beir(
        folder, Target("toy", tmp_path / "datasets", tmp_path / "qrels", split="test")
    )
    assert (report.documents, report.queries, report.judgements) == (2, 2, 2)
    assert report.unjudged_queries == 1
    assert (report.empty_documents, report.empty_queries) == (("2",), ("b",))
    left_out = "Without a judgement, and so left out: 1 of 3 queries."
    assert report.warnings == (left_out, "1 document is empty: 2.", "1 query is empty: b.")
    prepare(tmp_path / "datasets" / "toy", tmp_path / "qrels" / "toy", tmp_path / "data")
    assert Prepared.open(tmp_path / "data").manifest.left_out == 1
    load_folder(folder, "test", tmp_path / "loaded")
    assert Prepared.open(tmp_path / "loaded").manifest.left_out == 1


def test_the_card_says_where_it_is_from_and_what_to_know(folder: Path, tmp_path: Path) -> None:
    about = About(title="Toy", source="by hand", licence="CC0-1.0", warnings=("small",))
    import_beir(folder, Target("toy", tmp_path / "d", tmp_path / "q", split="test", about=about))
    found = card.read(tmp_path / "d" / "toy")
    assert (found.title, found.source, found.licence) == ("Toy", "by hand", "CC0-1.0")
    left_out = "Without a judgement, and so left out: 1 of 3 queries."
    assert found.warnings[:2] == ["small", left_out]
    assert found.warnings[2:] == ["1 document is empty: 2.", "1 query is empty: b."]


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
        import_beir(folder, Target("toy", tmp_path / "datasets", tmp_path / "qrels", split="test"))
    assert not (tmp_path / "datasets" / "toy").exists()
    assert not (tmp_path / "qrels").exists()


def test_dangling_judgements_are_kept_and_listed_where_they_are_allowed(
    folder: Path, tmp_path: Path
) -> None:
    judge(folder, "a\t9\t1")
    judge(folder, "z\t1\t1")
    report = import_beir(
        folder, Target("toy", tmp_path / "d", tmp_path / "q", split="test", allow_dangling=True)
    )
    assert (report.dangling_documents, report.dangling_queries) == (("9",), ("z",))
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
    to = Target("toy", tmp_path / "d", tmp_path / "q", split="test", allow_dangling=True)
    with pytest.raises(DatasetError, match=says):
        import_beir(folder, to)


def test_a_taken_name_is_kept_unless_forced(folder: Path, tmp_path: Path) -> None:
    to = (tmp_path / "datasets", tmp_path / "qrels")
    import_beir(folder, Target("toy", *to, split="test"))
    (folder / "corpus.jsonl").write_text('{"_id": "1", "text": "changed"}\n')
    with pytest.raises(DatasetError, match=r"toy exists; choose another name.*--force"):
        import_beir(folder, Target("toy", *to, split="test"))
    assert card.read(to[0] / "toy").documents == 2
    import_beir(folder, Target("toy", *to, split="test", force=True))
    assert card.read(to[0] / "toy").documents == 1


def test_queries_and_judgements_of_two_collections_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "qrels" / "test.tsv").write_text("x\t1\t1\n")
    with pytest.raises(DatasetError, match=r"none of the 3 queries is judged .*example, x"):
        import_beir(folder, Target("toy", tmp_path / "d", tmp_path / "q", split="test"))


def test_a_second_document_of_one_id_is_refused(folder: Path, tmp_path: Path) -> None:
    with (folder / "corpus.jsonl").open("a") as out:
        out.write('{"_id": "1", "text": "again"}\n')
    with pytest.raises(BadFile, match=r"corpus\.jsonl:3: the id '1' is on line 1 already"):
        import_beir(folder, Target("toy", tmp_path / "d", tmp_path / "q", split="test"))


@pytest.mark.parametrize("name", ["topics.trec", "topics.tsv"])
def test_topics_and_qrels_of_trec(folder: Path, tmp_path: Path, name: str) -> None:
    tagged = "<top>\n<num> Number: a\n<title> first\n</top>\n"
    (folder / name).write_text("a\tfirst\n" if name.endswith("tsv") else tagged)
    (folder / "test.qrels").write_text("a 0 1 3\n")
    report = import_trec(
        Target("toy", tmp_path / "d", tmp_path / "q", split="test"),
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
        Target("toy", tmp_path / "d", tmp_path / "q", split="dev"),
        corpus_file=folder / "corpus.jsonl",
        queries_file=folder / "queries.jsonl",
        qrels_file=folder / name,
    )
    assert (tmp_path / "q" / "toy" / "dev.qrels").read_text() == "a 0 1 3\n"


def test_a_folder_is_loaded_without_being_registered(folder: Path, tmp_path: Path) -> None:
    judge(folder, "a\t9\t1")
    manifest = load_folder(folder, "test", tmp_path / "data")
    assert (manifest.name, manifest.split) == ("in", "test")
    assert (manifest.documents, manifest.queries, manifest.judgements) == (2, 2, 3)
    assert {path.name for path in tmp_path.iterdir()} == {"in", "data"}


@real
@pytest.mark.parametrize(
    ("name", "counts", "empty"),
    [("adi", (82, 35, 170), ()), ("cranfield", (1400, 225, 1837), ("471", "995"))],
)
def test_real_collections(
    tmp_path: Path, name: str, counts: tuple[int, int, int], empty: tuple[str, ...]
) -> None:
    to = (tmp_path / "datasets", tmp_path / "qrels")
    report = import_beir(SHARED / name, Target(name, *to, split="test"))
    assert (report.documents, report.queries, report.judgements) == counts
    assert report.empty_documents == empty
    prepare(to[0] / name, to[1] / name, tmp_path / "data")
    assert Prepared.open(tmp_path / "data").manifest.documents == counts[0]


@real
def test_only_the_judged_queries_of_a_split_are_taken(tmp_path: Path) -> None:
    report = import_beir(
        SHARED / "scifact", Target("s", tmp_path / "d", tmp_path / "q", split="test")
    )
    assert (report.queries, report.unjudged_queries) == (300, 809)
