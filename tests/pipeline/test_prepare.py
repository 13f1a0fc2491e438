"""Stage ``prepare``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.core.digest import of_documents
from harness.core.errors import BadFile, DatasetError
from harness.corpus import card
from harness.corpus.card import Card, Digests
from harness.corpus.prepared import Prepared
from harness.pipeline.prepare import MAKE, prepare
from harness_engines.vector.embedder import HASH
from tests.source import ROOT

ZOO = '''
def walk(where):
    """Go on foot to somewhere else.

    Slowly or at a good pace.

    See Also
    --------
    run : go faster
    """
def run(where):
    """Go with quick steps to somewhere.

    Never slowly, and out of breath.
    """
'''
TRAFFIC: dict[str, object] = {"messages": 1_000, "seed": 5, "queries": 2}


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

    def write_card(self, **changed: object) -> None:
        zeros = "0" * 64
        about = Card(
            name="toy",
            title="Toy",
            source="by hand",
            licence="CC0-1.0",
            made_by="hand",
            kind="files",
            split="test",
            documents=1,
            queries=1,
            judgements=1,
            warnings=[],
            sha256=Digests(corpus=zeros, queries=zeros, qrels=zeros),
            slices={},
        )
        card.write(self.dataset, about.model_copy(update=changed))

    def made(self, like: str, settings: dict[str, object], **changed: object) -> None:
        """Have the data made as a set of the project is, from other settings."""
        self.write_card(kind="made", make=settings, **changed)
        shutil.copy(ROOT / "datasets" / like / MAKE, self.dataset / MAKE)


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


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    (tmp_path / "site" / "zoo").mkdir(parents=True)
    (tmp_path / "site" / "zoo" / "__init__.py").write_text(ZOO)
    (tmp_path / "site" / "zoo-1.0.dist-info").mkdir()
    (tmp_path / "site" / "zoo-1.0.dist-info" / "METADATA").write_text("Name: zoo\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    folders = Folders(tmp_path)
    settings = {
        "namespaces": ["zoo"], "documents": 9, "natural_language": 9, "identifiers": 9,
        "fewest_words": 2, "characters": 500,
    }  # fmt: skip
    folders.made("python-docs", settings, packages={"zoo": "0.9"})
    folders.prepare(update=True)
    return folders


@pytest.fixture
def mail(tmp_path: Path) -> Folders:
    folders = Folders(tmp_path)
    folders.made("agent-mail", TRAFFIC)
    folders.prepare(update=True)
    return folders


def test_files_that_fit_their_card_are_written_in_one_form(files: Folders) -> None:
    read = files.prepare()
    assert read.manifest.corpus_sha256 == of_documents(read.documents())
    assert read.manifest.corpus_sha256 == card.read(files.dataset).sha256.corpus
    assert read.qrels().grades == {"q": {"d": 1}}


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


def test_an_update_makes_the_card_fit(files: Folders) -> None:
    (files.dataset / "corpus.jsonl").write_text('{"doc_id": "d", "text": "b"}\n')
    files.prepare(update=True)
    assert next(files.prepare().documents()).text == "b"


def test_a_missing_file_is_named(files: Folders) -> None:
    (files.qrels / "test.qrels").unlink()
    with pytest.raises(BadFile, match=r"test\.qrels: missing file"):
        files.prepare()


def test_docstrings_become_documents_questions_and_judgements(zoo: Folders) -> None:
    read = zoo.prepare()
    assert [d.text for d in read.documents()] == [
        "run(where)\n\nNever slowly, and out of breath.",
        "walk(where)\n\nSlowly or at a good pace.",
    ]
    assert read.qrels().grades["nl:zoo.walk"] == {"zoo.run": 1, "zoo.walk": 2}
    assert read.qrels().grades["nl:zoo.run"] == {"zoo.run": 2}
    assert read.manifest.slices == {"identifier": 2, "natural-language": 2}


def test_an_update_notes_the_installed_versions(zoo: Folders) -> None:
    assert card.read(zoo.dataset).packages == {"zoo": "1.0"}


def test_another_version_of_a_package_is_named_with_the_hint(zoo: Folders) -> None:
    site = zoo.root / "site"
    (site / "zoo" / "__init__.py").write_text(ZOO.replace("Slowly", "Quietly"))
    (site / "zoo-1.0.dist-info" / "METADATA").write_text("Name: zoo\nVersion: 1.1\n")
    with pytest.raises(DatasetError) as caught:
        zoo.prepare()
    assert str(caught.value) == (
        "toy: not what its card says: content of corpus. Installed: zoo 1.1 (card 1.0)."
        " Run: pip install zoo==1.0; if the change is meant,"
        " run: harness stage prepare --dataset toy --update"
    )


def test_judgements_that_someone_changed_are_refused(zoo: Folders) -> None:
    with (zoo.qrels / "test.qrels").open("a") as out:
        out.write("nl:zoo.run 0 zoo.walk 1\n")
    with pytest.raises(DatasetError, match=r"test\.qrels: not the judgements of the card"):
        zoo.prepare()


@pytest.mark.slow
def test_traffic_is_made_from_the_settings_of_the_card(mail: Folders) -> None:
    read = mail.prepare()
    assert read.manifest.documents == 1_000
    assert read.manifest.corpus_sha256 == card.read(mail.dataset).sha256.corpus
    assert {query.params.keys() >= {"project_id"} for query in read.queries()} == {True, False}


@pytest.mark.slow
def test_another_seed_is_not_what_the_card_says(mail: Folders) -> None:
    other = TRAFFIC | {"seed": 6}
    card.write(mail.dataset, card.read(mail.dataset).model_copy(update={"make": other}))
    with pytest.raises(DatasetError, match=r"content of corpus.*make\.py changed.*--update"):
        mail.prepare()


@pytest.mark.slow
def test_changed_judgements_of_traffic_are_refused(mail: Folders) -> None:
    judged = mail.qrels / "test.qrels"
    judged.write_text(judged.read_text().replace(" 2\n", " 1\n", 1))
    with pytest.raises(DatasetError, match=r"test\.qrels: not the judgements of the card"):
        mail.prepare()


def test_a_table_that_the_program_cannot_read_is_named(mail: Folders) -> None:
    wrong = TRAFFIC | {"messages": 3}
    card.write(mail.dataset, card.read(mail.dataset).model_copy(update={"make": wrong}))
    with pytest.raises(BadFile, match=r"card\.toml: messages: Input should be greater"):
        mail.prepare()


def test_a_set_without_the_program_that_makes_it_is_named(mail: Folders) -> None:
    (mail.dataset / MAKE).unlink()
    with pytest.raises(BadFile, match=r"make\.py: missing file"):
        mail.prepare()
