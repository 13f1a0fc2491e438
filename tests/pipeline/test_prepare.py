"""The stages prepare and index, and what they convert."""

import re
import shutil
from pathlib import Path

import pytest

from harness.core.errors import DatasetError, IndexNotReady, InvalidArm
from harness.corpus import card
from harness.corpus.card import DatasetCard, Digests
from harness.corpus.prepared import Prepared
from harness.pipeline.index import check_index, check_settings, index
from harness.pipeline.layout import NOTES, Layout
from harness.pipeline.oneshot import Built
from harness.pipeline.prepare import MAKE, prepare
from harness_engines import registry
from harness_engines import registry as arms
from harness_engines.stacks.text.fts5 import Fts5
from harness_engines.vector.embedder import HASH
from tests.make.toy import ARMS, Toy
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
        about = DatasetCard(
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
    with pytest.raises(
        IndexNotReady, match=r"mine\.toml: was changed since .*harness stage index .*mine"
    ):
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
    (left / "file").touch()
    (layout.cache / "built.json").write_text("{}")
    Built(layout).forget()
    assert [*layout.cache.iterdir()] == []


def test_an_index_that_a_failing_disk_left_more_in_is_built_again(
    measured: Toy, tmp_path: Path
) -> None:
    """It was taken for built, and then refused, however often the command was run again."""
    project = measured.copied(tmp_path / "project")
    arm = registry.load("fts5", project.cache)
    Built(project.layout).note(arm)
    assert Built(project.layout).has(arm)
    (project.layout.index("fts5") / ".lock").touch()
    assert not Built(project.layout).has(arm)
