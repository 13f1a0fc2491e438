"""Stage ``index``: an index appears whole, with its manifest, and knows its arm."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from harness.core.errors import IndexNotReady, InvalidArm, UnknownName
from harness.corpus.prepared import Prepared
from harness.pipeline.index import check_index, check_settings, index, sources
from harness.pipeline.layout import FILES, NOTES
from harness_engines import registry as arms
from harness_engines.stacks.text.fts5 import Fts5
from tests.make.toy import ARMS, Toy


def test_the_manifest_says_what_was_indexed(measured: Toy) -> None:
    data = Prepared.open(measured.layout.data).manifest
    engines = set()
    for arm in ARMS:
        manifest = json.loads(measured.layout.manifest(arm).read_text())
        assert manifest["documents"] == data.documents == 60
        assert manifest["corpus_sha256"] == data.corpus_sha256
        engines.add(manifest["engine"])
    assert engines == {"sqlite-fts5", "tantivy", "blend"}


def test_building_again_gives_the_same_manifest(project: Toy) -> None:
    before = project.layout.manifest("tantivy").read_bytes()
    made = index(project.layout, "tantivy", project.cache)
    assert project.layout.manifest("tantivy").read_bytes() == before
    assert asdict(made) == json.loads(before)


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


def test_an_unknown_arm_is_told_which_there_are(project: Toy) -> None:
    with pytest.raises(UnknownName, match=r"no arm named 'fst5'; there is .*fts5.*tantivy"):
        index(project.layout, "fst5", project.cache)


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


def test_the_python_beside_an_arm_is_part_of_it(project: Toy, tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(arms.path_of("fts5").read_text())
    (tmp_path / "stack.py").write_text("")
    found = sources(arms.load(str(own), project.cache))
    assert [path.name for path in found] == ["mine.toml", "stack.py"]


def test_an_index_that_was_never_built_is_named(project: Toy) -> None:
    with pytest.raises(
        IndexNotReady, match=r"index/dense: no index here\. Run: harness stage index"
    ):
        check_settings(project.layout, arms.load("dense", project.cache))


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


def test_what_an_arm_reads_brings_no_file_into_its_index(project: Toy) -> None:
    for name in ARMS:
        of = arms.load(name, project.cache)
        with of.open(project.layout.index(name)) as searcher:
            searcher.search("balo", 5)
            check_index(project.layout, of)
        check_index(project.layout, of)


def test_an_engine_of_ones_own_may_write_where_it_reads(project: Toy) -> None:
    of = arms.load("fts5", project.cache)
    (project.layout.index("fts5") / FILES).unlink()
    with pytest.raises(IndexNotReady, match=r"files\.json: is not there"):
        check_index(project.layout, of)
    assert isinstance(of.engine, Fts5)
    check_index(project.layout, replace(of, engine=Foreign(of.engine.settings)))


class Foreign(Fts5):
    """An engine whose module is not of this project."""
