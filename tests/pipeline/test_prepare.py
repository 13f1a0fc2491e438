"""Data sets imported and prepared, and indexes built of them."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.core.errors import BadFile, DatasetError, IndexNotReady, InvalidArm
from harness.core.records import Document, Query
from harness.core.run import Status
from harness.corpus import beir, card, prepared, trec
from harness.corpus import judgements as corpus_judgements
from harness.corpus.card import DatasetCard
from harness.corpus.cells import Ids, write
from harness.corpus.judgements import JudgingPair, Pool
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.corpus.trec import MissingQuery
from harness.pipeline import imports, oneshot
from harness.pipeline.compare import ties
from harness.pipeline.imports import ImportTarget, import_beir
from harness.pipeline.index import check_index, check_settings, index
from harness.pipeline.layout import NOTES, Layout
from harness.pipeline.oneshot import Built
from harness.pipeline.prepare import prepare
from harness.pipeline.receipts import check_run, read_manifest
from harness.pipeline.replay import import_run
from harness_engines import registry as arms
from harness_engines.stacks.text.fts5 import Fts5
from harness_engines.vector.embedder import HASH
from tests.make.runs import qrels_of
from tests.make.toy import ARMS, Toy


class Folders:
    """A dataset, its judgements, and where prepared data goes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.dataset = root / "datasets" / "toy"
        self.qrels = root / "qrels" / "toy"
        self.out = root / "data"

    def prepare(self, *, update: bool = False) -> Prepared:
        prepare(self.dataset, self.qrels, self.out, update=update)
        return Prepared.open(self.out)

    def write_card(self) -> None:
        about: dict[str, object] = {
            "name": "toy", "title": "Toy", "source": "by hand", "licence": "CC0-1.0",
            "made_by": "hand", "kind": "files", "split": "test", "warnings": [], "slices": {},
            **dict.fromkeys(("documents", "queries", "judgements"), 1),
            "sha256": dict.fromkeys(("corpus", "queries", "qrels"), "0" * 64),
        }  # fmt: skip
        card.write(self.dataset, DatasetCard.model_validate(about))


@pytest.fixture
def files(tmp_path: Path) -> Folders:
    folders = Folders(tmp_path)
    folders.write_card()
    (folders.dataset / "corpus.jsonl").write_text('{"doc_id": "d", "text": "a"}\n')
    (folders.dataset / "queries.jsonl").write_text('{"query_id": "q", "text": "a"}\n')
    folders.qrels.mkdir(parents=True)
    (folders.qrels / "test.qrels").write_text("q 0 d 1\n")
    folders.prepare(update=True)
    return folders


def test_pairs_of_a_model_are_found_once_and_read_ever_after(
    files: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = "one two three four five six seven", "one two three four five six eight"
    lines = [f'{{"query_id": "q{at}", "text": "{text}"}}\n' for at, text in enumerate(texts)]
    (files.dataset / "queries.jsonl").write_text("".join(lines))
    assert files.prepare(update=True).near_duplicates() == []
    monkeypatch.setattr("harness.pipeline.prepare.MODEL", HASH)
    prepare(files.dataset, files.qrels, files.out, similar=True)
    monkeypatch.setattr("harness.pipeline.prepare.MODEL", "no model is here")
    found = files.prepare().found()
    assert found.near_duplicates == [["q0", "q1"]]
    assert found.similar.pairs == (("q0", "q1", 0.86),)
    assert found.similar.model.startswith("fnv1a")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("datasets/toy/corpus.jsonl", '{"doc_id": "d", "text": "b"}\n', "content of corpus"),
        ("datasets/toy/queries.jsonl", '{"query_id": "q", "text": "b"}\n', "content of queries"),
        ("qrels/toy/test.qrels", "q 0 d 2\n", "content of qrels"),
        ("qrels/toy/test.qrels", "q 0 d 1\nq 0 e 1\n", "judgements 1 in the card, 2 in the data"),
    ],
)
def test_changed_files_are_refused_and_the_old_data_stays(
    files: Folders, name: str, text: str, says: str
) -> None:
    (files.root / name).write_text(text)
    before = (files.out / "manifest.json").read_bytes()
    with pytest.raises(DatasetError, match=rf"toy: not what its card says: {says}.*Fetch the data"):
        files.prepare()
    assert (files.out / "manifest.json").read_bytes() == before


def test_a_build_that_fails_leaves_the_old_index(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("disk full")

    before = (project.layout.index("fts5") / "fts5.db").read_bytes()
    monkeypatch.setattr(Fts5, "build", fails)
    with pytest.raises(InvalidArm, match="disk full"):
        index(project.layout, "fts5", project.cache)
    assert (project.layout.index("fts5") / "fts5.db").read_bytes() == before
    assert {path.name for path in project.layout.index("fts5").parent.iterdir()} == set(ARMS)


def test_an_arm_changed_since_its_index_was_built_is_refused(project: Toy, tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(arms.path_of("fts5").read_text())
    index(project.layout, str(own), project.cache)
    check_settings(project.layout, arms.load(str(own), project.cache))
    own.write_text(own.read_text().replace("title_weight = 2.0", "title_weight = 9.0"))
    says = r"mine\.toml: was changed since .*harness stage index .*mine"
    with pytest.raises(IndexNotReady, match=says):
        check_settings(project.layout, arms.load(str(own), project.cache))


@pytest.mark.parametrize("arm", ["fts5", "tantivy", "hash-hybrid"])
def test_a_flipped_byte_of_any_index_file_is_named(project: Toy, arm: str) -> None:
    """Half of such flips gave wrong answers, or none, signed as the arm's."""
    of = arms.load(arm, project.cache)
    folder = project.layout.index(arm)
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in NOTES]
    assert files
    for path in (path for path in files if path.stat().st_size):
        whole = path.read_bytes()
        middle = len(whole) // 2
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        with pytest.raises(IndexNotReady, match=rf"{re.escape(str(path))}: was changed since"):
            check_index(project.layout, of)
        path.write_bytes(whole)
    check_index(project.layout, of)


@pytest.mark.parametrize("name", ["fts5.db-wal", "fts5.db-journal", "more", "below/files.json"])
def test_a_file_that_came_later_is_named(project: Toy, name: str) -> None:
    """SQLite read the first of these as a part of the index, which nothing noticed."""
    of = arms.load("fts5", project.cache)
    path = project.layout.index("fts5") / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    with pytest.raises(IndexNotReady, match=rf"{re.escape(str(path))}: came into the index after"):
        check_index(project.layout, of)
    path.unlink()
    check_index(project.layout, of)
    path.symlink_to("nowhere")
    with pytest.raises(IndexNotReady, match="came into the index after"):
        check_index(project.layout, of)


def test_a_run_that_is_done_leaves_nothing_of_one_that_was_killed(tmp_path: Path) -> None:
    """It writes no note where all indexes were there, so no writer had swept."""
    layout = Layout(tmp_path / "build", tmp_path / "perf", tmp_path / "cache")
    Built(layout).forget()
    assert not layout.cache.exists()
    left = layout.cache / ".harness-0123456789abcdef.partial"
    left.mkdir(parents=True)
    (left / ".lock").touch()
    (left / "file").touch()
    (layout.cache / "built.json").write_text("{}")
    Built(layout).forget()
    assert [*layout.cache.iterdir()] == []


@pytest.mark.parametrize("other", ["file", "code", "documents"])
def test_an_index_with_more_in_it_or_of_other_code_or_documents_is_built_again(
    measured: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """More that a failing disk left was refused, however often the command was run again."""
    layout = measured.copied(tmp_path / "project").layout
    arm = arms.load("fts5", layout.cache)
    Built(layout).note(arm)
    assert Built(layout).has(arm)
    if other == "file":
        (layout.index("fts5") / ".lock").touch()
    elif other == "code":
        monkeypatch.setattr(oneshot, "code_sha256", lambda: "0" * 64)
    else:
        prepared = layout.data / "manifest.json"
        was = json.loads(prepared.read_text())["corpus_sha256"]
        prepared.write_text(prepared.read_text().replace(was, was[::-1]))
    assert not Built(layout).has(arm)


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


@pytest.fixture
def target(tmp_path: Path) -> ImportTarget:
    return ImportTarget("toy", tmp_path / "datasets", tmp_path / "qrels", split="test")


def judge(folder: Path, line: str) -> None:
    with (folder / "qrels" / "test.tsv").open("a") as out:
        out.write(line + "\n")


def test_dangling_judgements_are_kept_and_listed(folder: Path, target: ImportTarget) -> None:
    judge(folder, "a\t9\t1")
    judge(folder, "z\t1\t1")
    report = import_beir(folder, target)
    assert "1 judged document is not in the corpus: 9." in report.warnings
    kept = trec.qrels(target.qrels / "toy" / "test.qrels")
    assert kept.grades["a"]["9"] == 1
    assert kept.query_ids == ("a", "b", "z")
    about = card.read(target.datasets / "toy")
    assert "1 judged query is not in the query set: z." in about.warnings


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("C\t1\t1", "name the query C, which is c in the data"),
        ("a\t02.0\t1", "name the document 02.0, which is 2 in the data"),
    ],
)
def test_judgements_that_write_ids_in_another_way_are_refused(
    folder: Path, target: ImportTarget, tmp_path: Path, line: str, says: str
) -> None:
    judge(folder, line)
    with pytest.raises(DatasetError, match=says):
        imports.load_folder(folder, "test", tmp_path / "loaded")
    with pytest.raises(DatasetError, match=says):
        import_beir(folder, target)


def test_a_taken_name_is_kept_unless_forced(folder: Path, target: ImportTarget) -> None:
    import_beir(folder, target)
    (folder / "corpus.jsonl").write_text('{"_id": "1", "text": "changed"}\n')
    with pytest.raises(DatasetError, match=r"toy exists; choose another name.*--force"):
        import_beir(folder, target)
    assert card.read(target.datasets / "toy").documents == 2
    import_beir(folder, replace(target, force=True))
    assert card.read(target.datasets / "toy").documents == 1


def files_of(folder: Path, names: Mapping[str, str]) -> dict[str, Path]:
    return {f"{name}_file": folder / file for name, file in names.items()}


@pytest.mark.parametrize("name", ["topics.trec", "topics.tsv"])
def test_topics_and_qrels_of_trec(folder: Path, target: ImportTarget, name: str) -> None:
    tagged = "<top>\n<num> Number: a\n<title> first\n</top>\n"
    (folder / name).write_text("a\tfirst\n" if name.endswith("tsv") else tagged)
    (folder / "test.qrels").write_text("a 0 1 3\n")
    names = {"topics": name, "qrels": "test.qrels", "corpus": "corpus.jsonl"}
    report = imports.import_trec(target, **files_of(folder, names))
    assert (report.queries, report.judgements) == (1, 1)
    assert [q.text for q in beir.queries(target.datasets / "toy" / "queries.jsonl")] == ["first"]


@pytest.mark.parametrize("name", ["x.qrels", "x.tsv"])
def test_json_lines_with_either_kind_of_judgements(
    folder: Path, target: ImportTarget, name: str
) -> None:
    (folder / name).write_text("a 0 1 3\n" if name.endswith("qrels") else "a\t1\t3\n")
    names = {"corpus": "corpus.jsonl", "queries": "queries.jsonl", "qrels": name}
    imports.import_jsonl(replace(target, split="dev"), **files_of(folder, names))
    assert (target.qrels / "toy" / "dev.qrels").read_text() == "a 0 1 3\n"


ir_datasets: Any = pytest.importorskip("ir_datasets", reason="the extra ir-datasets is absent")


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
    report = imports.import_ir_datasets(target, collection="own")
    assert (report.documents, report.queries, report.judgements) == (2, 1, 1)
    corpus = tuple(beir.documents(target.datasets / "toy" / "corpus.jsonl"))
    assert corpus == (Document("d1", "Red", "shoes"), Document("d2", "", "boots"))
    assert trec.qrels(target.qrels / "toy" / "test.qrels").grades == {"q1": {"d1": 2}}


def test_mail_is_imported_and_what_is_odd_about_it_is_on_the_card(
    target: ImportTarget, tmp_path: Path
) -> None:
    head = "From x Mon Jan  6 00:00:00 2025\nFrom: a@x\nMessage-ID: <{}@x>\n"
    mails = f"{head.format(1)}Date: Mon, 06 Jan 2025 12:00:00 +0000\n\nfirst\n\n"
    (tmp_path / "box").write_text(f"{mails}{head.format(2)}In-Reply-To: <1@x>\n\nsecond\n")
    (tmp_path / "queries.jsonl").write_text('{"query_id": "q", "text": "first"}\n')
    (tmp_path / "test.qrels").write_text("q 0 1@x 2\nq 0 2@x 1\n")
    names = {"mbox": "box", "queries": "queries.jsonl", "qrels": "test.qrels"}
    files = files_of(tmp_path, names)
    report, _ = imports.import_mbox(target, **files)
    assert (report.documents, report.queries, report.judgements) == (2, 1, 2)
    about = card.read(target.datasets / "toy")
    assert about.warnings == ["1 of the mails: it has no date (mail 2: 2@x)."]
    (tmp_path / "box").write_text(f"{mails}{head.format(chr(0))}\nsecond\n")
    with pytest.raises(BadFile, match=r"box: the 2\. mail's id .* holds white space or a NUL"):
        imports.import_mbox(replace(target, force=True), **files)


def a_pool(path: Path, *grades: int | None) -> Path:
    empty: dict[str, object] = {
        "query": "",
        "title": "",
        "snippet": "",
        "narrows": 0.0,
        "scale": (0, 1),
    }
    pairs = [
        JudgingPair.model_validate(empty | {"query_id": "q", "doc_id": f"d{at}"})
        for at in range(len(grades))
    ]
    corpus_judgements.begin(path, Pool(tuple(pairs), grades))
    return path


def test_a_pool_is_taken_as_far_as_it_is_judged(tmp_path: Path) -> None:
    found, odd = imports.judgements(a_pool(tmp_path / "p", 1, None, 0))
    assert found.grades == {"q": {"d0": 1, "d2": 0}}
    assert odd == ("The pool leaves 1 pair open.",)
    whole, odd = imports.judgements(a_pool(tmp_path / "w", 1))
    assert whole.grades == {"q": {"d0": 1}}
    assert odd == ()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "build", tmp_path / "perf", tmp_path / "cache")
    documents = [Document("a", "", "one"), Document("b", "", "two")]
    queries = [Query("q1", "one"), Query("q2", "two")]
    judged = qrels_of({"q1": {"a": 1}, "q2": {"b": 1}})
    prepared.write(made.data, "two", "test", documents, queries, judged)
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
    texts = {"q1": "One  more", "q2": "other", "a": "x"}
    documents = [Document(doc_id, "", text) for doc_id, text in texts.items()]
    queries = [Query("q1", "one more"), Query("q2", "two")]
    judged = qrels_of({"q1": {"a": 1}, "q2": {"a": 1}})
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
    measures = {"RR@10": {"least": 0.75, "expected": 0.875, "most": 1.0}}
    wanted = {"hits": 4, "tied": 2, "tied_in_float32_only": 0, "measures": measures}
    assert written_out == {"other": wanted}
