"""Stage ``import`` for mail."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli import application
from harness.core.errors import DatasetError
from harness.corpus import card
from harness.corpus.prepared import Prepared
from harness.pipeline.imports import MboxImport, Target, import_mbox
from harness.pipeline.prepare import prepare

MAILS = (
    "From x\nFrom: a@x\nMessage-ID: <1@x>\nSubject: One\n"
    "Date: Mon, 06 Jan 2025 12:00:00 +0000\n\nfirst\n\n"
    "From x\nFrom: b@x\nMessage-ID: <2@x>\nIn-Reply-To: <1@x>\n\nsecond\n"
)


@pytest.fixture
def given(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "box").write_text(MAILS)
    (folder / "queries.jsonl").write_text('{"query_id": "q", "text": "first"}\n')
    (folder / "test.qrels").write_text("q 0 1@x 2\nq 0 2@x 1\n")
    return folder


def take(given: Path, root: Path) -> MboxImport:
    return import_mbox(
        Target("mail", root / "datasets", root / "qrels", split="test"),
        mbox_file=given / "box",
        queries_file=given / "queries.jsonl",
        qrels_file=given / "test.qrels",
    )


def test_mail_is_imported_and_prepared_without_complaint(given: Path, tmp_path: Path) -> None:
    mbox_import = take(given, tmp_path)
    assert (
        mbox_import.report.documents,
        mbox_import.report.queries,
        mbox_import.report.judgements,
    ) == (2, 1, 2)
    prepare(tmp_path / "datasets" / "mail", tmp_path / "qrels" / "mail", tmp_path / "data")
    read = Prepared.open(tmp_path / "data")
    assert [d.metadata["thread_id"] for d in read.documents()] == ["1@x", "1@x"]
    assert read.qrels().grades == {"q": {"1@x": 2, "2@x": 1}}


def test_what_is_odd_about_mails_is_on_the_card(given: Path, tmp_path: Path) -> None:
    mbox_import = take(given, tmp_path)
    assert [note.doc_id for note in mbox_import.notes] == ["2@x"]
    about = card.read(tmp_path / "datasets" / "mail")
    assert about.warnings == ["1 of the mails: it has no date (mail 2: 2@x)."]


def test_a_judged_mail_that_is_not_there_is_refused(given: Path, tmp_path: Path) -> None:
    (given / "test.qrels").write_text("q 0 3@x 1\n")
    with pytest.raises(DatasetError, match="not in the corpus: 3@x"):
        take(given, tmp_path)


def test_the_command_takes_files_of_questions_and_tells_odd_mails(
    given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "params.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    words = ["import", "mbox", str(given / "box"), "--name", "mail"]
    words += ["--queries", str(given / "queries.jsonl"), "--qrels", str(given / "test.qrels")]
    done = CliRunner().invoke(application(), words)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "datasets" / "mail" / "corpus.jsonl").exists()
