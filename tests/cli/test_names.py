"""A name on the command line, in a file or from Python makes no path but its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.api.data import load_run
from harness.core.errors import BadName, HarnessError
from harness.pipeline.layout import Layout
from tests.cli.conftest import Harness
from tests.make.toy import Toy

pytestmark = pytest.mark.slow
NAMES = (".", "", "..", "../x", "../../../x", "/", "a/b", "-x", "a b", "a\0b", "x" * 300, "a,b")
IMPORT = ("import", "beir", "beir", "--split", "test")
FILES = ("beir/corpus.jsonl", "beir/queries.jsonl", "qrels/toy/test.qrels")
RUN = ("run", "--dataset", "toy", "--out", "out")


def seen(folder: Path) -> Mapping[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


def changed(folder: Path, before: Mapping[str, bytes]) -> set[str]:
    after = seen(folder)
    assert not before.keys() - after.keys()
    return {path for path, text in after.items() if before.get(path) != text}


def test_an_import_of_a_hostile_name_touches_nothing(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    """``--name . --force`` deleted all of ``datasets/``; an absolute name deleted any tree."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("mine")
    before = seen(tmp_path)
    for name in (str(victim), *NAMES):
        for force in ((), ("--force",)):
            said = harness(*IMPORT, f"--name={name}", *force)
            assert "is not a name of a data set" in said.error, name
    assert seen(tmp_path) == before
    assert project


def test_a_hostile_split_touches_nothing(project: Toy, harness: Harness, tmp_path: Path) -> None:
    before = seen(tmp_path)
    for name in NAMES:
        for words in (
            ("import", "beir", "beir", "--name", "new"),
            ("import", "jsonl", *FILES, "--name", "new"),
            ("run", "--dataset", "beir", "--arms", "fts5", "--out", "out"),
            ("run", "--dataset", "toy", "--arms", "fts5", "--out", "out"),
        ):
            assert "is not a name of a split" in harness(*words, f"--split={name}").error, name
    assert changed(tmp_path, before) == {"project/out", "project/out/harness-run.txt"}
    assert project


def test_a_hostile_name_of_a_run_touches_nothing(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    (project.root / "x.trec").write_text("q00 Q0 d00 1 1.5 x\n")
    before = seen(tmp_path)
    for name in NAMES:
        assert harness(*RUN, "--trec-run", f"{name}=x.trec").error, name
    assert changed(tmp_path, before) == set()


@pytest.mark.parametrize(
    "words",
    [
        ("stage", "prepare", "--dataset={}"),
        ("gate", "--dataset={}"),
        ("stage", "index", "--dataset", "toy", "--arm={}"),
        ("stage", "replay", "--dataset", "toy", "--arm={}"),
        ("ask", "x", "--dataset", "toy", "--arm={}"),
        ("decompose", "--dataset", "toy", "--control", "fts5", "--candidate={}"),
        ("pool", "--dataset", "toy", "--control={}", "--candidate", "fts5", "--measure", "nDCG@10",
         "--size", "1", "--out", "new.pool"),
        ("shadow", "traffic", "log", "--dataset", "toy", "--control={}", "--candidate", "fts5"),
        ("judge", "x.pool", "--by", "a", "--merge={}"),
        (*RUN, "--arms={}"),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_hostile_name_of_an_arm_or_a_data_set_is_refused(
    project: Toy, harness: Harness, words: tuple[str, ...]
) -> None:
    before = seen(project.root)
    for name in ("../../x", "/", "..", "a\0b", "x" * 300):
        said = harness(*(word.format(name) for word in words)).error
        assert len(said) < 1_600
    assert {path for path in changed(project.root, before) if not path.startswith("out")} == set()


def test_a_folder_that_is_run_has_a_name(project: Toy, harness: Harness) -> None:
    (project.root / "beir").rename(project.root / "my data")
    said = harness("run", "--dataset", "my data", "--arms", "fts5", "--out", "out").error
    assert "'my data' is not a name of a data set" in said


def test_names_that_differ_by_their_case_are_refused(project: Toy, harness: Harness) -> None:
    assert "toy differs from it only by its case" in harness(*IMPORT, "--name", "Toy").error
    (project.root / "x.trec").write_text("q00 Q0 d00 1 1.5 x\n")
    words = (*RUN, "--arms", "fts5", "--trec-run", "FTS5=x.trec")
    assert "differs from it only by its case" in harness(*words).error


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("params.yaml", "datasets: [toy]", "datasets: [../toy]"),
        ("params.yaml", "arms: [fts5,", "arms: [../fts5,"),
        ("policy/toy.toml", 'candidate = "tantivy"', 'candidate = "../tantivy"'),
        ("policy/toy.toml", 'name = "tantivy"', 'name = "tan\\ntivy"'),
        ("policy/toy.toml", 'name = "toy migration"', 'name = "\\u001b[31m"'),
        ("datasets/toy/card.toml", 'name = "toy"', 'name = ".."'),
        ("datasets/toy/card.toml", 'split = "test"', 'split = "../test"'),
    ],
)
def test_a_hostile_name_in_a_file_is_refused_where_it_stands(
    project: Toy, harness: Harness, file: str, old: str, new: str
) -> None:
    path = project.root / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    words = ("stage", "prepare", "--dataset", "toy") if path.name == "card.toml" else ("gate",)
    assert path.name in harness(*words).error


def test_an_arm_has_the_name_of_its_file(project: Toy, harness: Harness) -> None:
    arm = project.root / "my arm.toml"
    arm.write_text('summary = "s"\nstack = "fts5"\n')
    said = harness("stage", "index", "--dataset", "toy", "--arm", arm).error
    assert "'my arm' is not a name of an arm" in said


def test_no_layout_makes_a_path_of_anything_else(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "build", tmp_path / "perf", tmp_path / "cache")
    for make in (layout.index, layout.manifest, layout.run, layout.again, layout.run_receipt,
                 layout.replayed, layout.parts):  # fmt: skip
        assert make("fts5").is_relative_to(tmp_path)
        with pytest.raises(BadName, match="is not a name of an arm"):
            make("../../fts5")


def test_from_python_a_run_has_a_name(tmp_path: Path) -> None:
    (tmp_path / "my run.trec").write_text("q00 Q0 d00 1 1.5 x\n")
    assert load_run(tmp_path / "my run.trec", "mine").arm == "mine"
    for arm in ("", "../x"):
        with pytest.raises(HarnessError, match="is not a name of an arm"):
            load_run(tmp_path / "my run.trec", arm)


def test_force_replaces_only_what_an_import_wrote(project: Toy, harness: Harness) -> None:
    root = project.root
    words = (*IMPORT, "--name", "other")
    assert harness(*words).code == 0
    assert "exists; choose another name, or replace it" in harness(*words).error
    assert harness(*words, "--force").code == 0
    for name in ("notes.md", "corpus.jsonl.dvc", "raw/corpus.jsonl"):
        own = root / "datasets" / "other" / name
        own.parent.mkdir(exist_ok=True)
        own.write_text("mine")
        before = seen(root)
        said = harness(*words, "--force").error
        assert "was not written by an import; move it away" in said
        assert seen(root) == before
        own.unlink()
        if own.parent.name == "raw":
            own.parent.rmdir()
    card = root / "datasets" / "other" / "card.toml"
    card.write_text(card.read_text().replace('name = "other"', 'name = "another"'))
    assert "its card is of 'another'" in harness(*words, "--force").error
    card.unlink()
    before = seen(root)
    assert "bears no card of an import" in harness(*words, "--force").error
    assert seen(root) == before


def test_force_follows_no_link_and_takes_no_judgements(project: Toy, harness: Harness) -> None:
    root = project.root
    (root / "elsewhere").mkdir()
    (root / "datasets" / "other").symlink_to(root / "elsewhere")
    assert "a link" in harness(*IMPORT, "--name", "other", "--force").error
    (root / "datasets" / "other").unlink()
    (root / "qrels" / "other").mkdir()
    (root / "qrels" / "other" / "test.qrels").write_text("mine")
    for force in ((), ("--force",)):
        said = harness(*IMPORT, "--name", "other", *force).error
        assert "test.qrels: is there, and no data set" in said
    assert (root / "qrels" / "other" / "test.qrels").read_text() == "mine"


def test_an_import_never_replaces_what_it_reads(project: Toy, harness: Harness) -> None:
    root = project.root
    (root / "qrels" / "toy" / "toy.qrels").write_text("q00 0 d00 1\n")
    corpus, queries = root / "datasets/toy/corpus.jsonl", root / "datasets/toy/queries.jsonl"
    before = seen(root)
    words = ("import", "jsonl", corpus, queries, root / "qrels" / "toy" / "toy.qrels")
    assert "which is read" in harness(*words, "--name", "toy", "--force").error
    assert seen(root) == before
