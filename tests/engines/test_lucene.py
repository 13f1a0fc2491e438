"""Lucene as a stack."""

from __future__ import annotations

import sys
from pathlib import Path
from shutil import which
from types import SimpleNamespace

import pytest

from harness.check.checks import check
from harness.core.errors import BadPolicy, IndexNotReady, InvalidArm, ModelNotReady
from harness.core.records import Document
from harness_engines import registry
from harness_engines.registry import Arm
from harness_engines.stacks.lucene import arm as lucene
from harness_engines.stacks.lucene.arm import Lucene
from tests.source import ROOT

EXAMPLES = ROOT / "examples" / "lucene"
DOCUMENTS = (
    Document("b", "cone", "red"), Document("B", "cone", "red"), Document("c", "", "blue cubes"),
    Document("d", "pandas.read_csv", "reads a table"), Document("e", "", ""),
)  # fmt: skip
HERE = bool(which("java") and [*Path("/usr/share/java").glob("lucene-c*")])
live = pytest.mark.skipif(
    not HERE, reason="needs Lucene: apt-get install default-jre-headless liblucene8-java"
)


@pytest.fixture
def english(tmp_path: Path) -> Arm:
    return registry.load(str(EXAMPLES / "lucene-english.toml"), tmp_path)


@live
@pytest.mark.slow
def test_it_keeps_the_contract(tmp_path: Path) -> None:
    found = check(str(EXAMPLES / "lucene.toml"), tmp_path / "cache")
    assert found.holds, [str(one) for one in found.findings if one.broken]


@live
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("red cone", ["B", "b"]),
        ("cube", ["c"]),
        ('"read csv"', ["d"]),
        ("read_csv", ["d"]),
        ("read", ["d"]),
        ("+cone -red", []),
        ("+cone the", ["B", "b"]),
        ("the", []),
        ("!!!", []),
    ],
)
def test_what_a_text_finds(english: Arm, tmp_path: Path, text: str, wanted: list[str]) -> None:
    index = tmp_path / "index"
    index.mkdir()
    english.build(DOCUMENTS, index)
    with english.open(index) as searcher:
        assert [hit.doc_id for hit in searcher.search(text, 10).hits] == wanted


@live
def test_weights_and_settings_count_and_another_index_is_refused(tmp_path: Path) -> None:
    path, index = tmp_path / "mine.toml", tmp_path / "index"
    index.mkdir()

    def arm(lines: str) -> Arm:
        path.write_text(f'summary = "x"\nstack = "lucene"\n[settings]\n{lines}\n', "utf-8")
        return registry.load(str(path), tmp_path)

    documents = [Document("text", "", "cone and more"), Document("title", "cone", "and more")]
    made = arm("title_weight = 0.0\nk1 = 0.9\nb = 0.4").build(documents, index)
    assert "Lucene 8" in made.version
    with arm("title_weight = 0.0\nk1 = 0.9\nb = 0.4").open(index) as searcher:
        assert [hit.doc_id for hit in searcher.search("cone", 10).hits] == ["text"]
    with pytest.raises(IndexNotReady), arm("title_weight = 3.0").open(index):
        pass
    with pytest.raises(BadPolicy, match=r"settings\.analyzer"):
        arm('analyzer = "german"')
    with pytest.raises(BadPolicy, match="needs a whole title_weight"):
        arm("title_weight = 1.5")
    other = tmp_path / "other"
    other.mkdir()
    fields = 'bm25_over = "fields"\ntitle_weight = 9.5'
    arm(fields).build(documents, other)
    with arm(fields).open(other) as searcher:
        assert [hit.doc_id for hit in searcher.search("cone", 10).hits] == ["title", "text"]


@live
def test_a_damaged_index_is_refused(english: Arm, tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    english.build(DOCUMENTS, index)
    (index / "segments_1").write_bytes(b"nothing")
    with pytest.raises(IndexNotReady, match="Build it again"), english.open(index):
        pass
    assert english.shared
    assert isinstance(english.engine, Lucene)
    for name in lucene.JARS:
        (tmp_path / f"{name}-8.7.0.jar").touch()
    with pytest.raises(InvalidArm, match="this process has Lucene of other jars"):
        lucene.lucene(tmp_path)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ([], "lacks lucene-core. Install Lucene 8 .apt install liblucene8-java"),
        (["lucene-core-8.7.0.jar"], "lacks lucene-analyzers-common"),
        (["lucene-core-8.7.0.jar", "lucene-core-9.1.jar"], "has 2 versions of lucene-core"),
    ],
)
def test_a_jar_that_is_missing_is_named(tmp_path: Path, names: list[str], says: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(ModelNotReady, match=says):
        lucene.jars_in(tmp_path)


def test_java_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: str, **__: object) -> None:
        raise OSError("No JVM shared library file (libjvm.so) found.")

    for name in lucene.JARS:
        (tmp_path / f"{name}-8.7.0.jar").touch()
    jpype = SimpleNamespace(isJVMStarted=lambda: False, startJVM=absent)
    monkeypatch.setitem(sys.modules, "jpype", jpype)
    with pytest.raises(ModelNotReady, match=r"Java cannot be started .*libjvm.*openjdk"):
        lucene.lucene(tmp_path)
