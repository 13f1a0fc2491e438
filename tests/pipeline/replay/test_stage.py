"""Stage ``replay``: every query asked, nothing taken from another index, nothing lost to a kill."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harness.core.engine import Answer
from harness.core.errors import IndexNotReady, InvalidArm
from harness.core.run import Status
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.pipeline.index import index, note_files
from harness.pipeline.layout import MADE_WITH
from harness.pipeline.receipts import read_manifest
from harness.pipeline.replay import replay
from harness.replay import drive
from harness_engines.stacks.text.fts5 import FILE, Fts5Searcher
from tests.make.toy import ARMS, NOTHING, Toy


def again(project: Toy, arm: str = "fts5") -> None:
    replay(project.layout, arm, project.cache, project.params.replay)


@pytest.mark.parametrize("arm", ARMS)
def test_a_run_has_a_row_for_each_query_in_their_order(measured: Toy, arm: str) -> None:
    asked = tuple(query.query_id for query in Prepared.open(measured.layout.data).queries())
    for path in (measured.layout.run(arm), measured.layout.again(arm)):
        run = read_run(path)
        assert run.query_ids == asked
        assert run.count(Status.ANSWERED) == len(asked)
        assert set(run.served_by) == {read_manifest(measured.layout, arm).fingerprint}
        assert run.lengths.max() <= measured.params.replay.k


def test_nothing_found_is_an_answer(measured: Toy) -> None:
    run = read_run(measured.layout.run("fts5"))
    assert run.ranking(NOTHING) == ()
    assert run.status[run.positions[NOTHING]] == Status.ANSWERED


def test_no_part_is_left_behind(measured: Toy) -> None:
    assert not any(measured.layout.parts(arm).exists() for arm in ARMS)


def test_a_replay_without_an_index_says_how_to_build_one(project: Toy) -> None:
    project.layout.manifest("fts5").unlink()
    with pytest.raises(
        IndexNotReady, match=r"has no index\. Run: harness stage index --dataset toy --ar"
    ):
        again(project)


def test_an_index_that_was_deleted_is_named(project: Toy) -> None:
    shutil.rmtree(project.layout.index("fts5"))
    with pytest.raises(IndexNotReady, match="no index here"):
        again(project)


def test_a_dropped_table_is_no_run(project: Toy) -> None:
    before = project.layout.run("fts5").read_bytes()
    with closing(sqlite3.connect(project.layout.index("fts5") / FILE)) as db, db:
        db.execute("DROP TABLE search")
    with pytest.raises(IndexNotReady, match=r"fts5\.db: was changed since"):
        again(project)
    note_files(project.layout.index("fts5"))
    with pytest.raises(IndexNotReady, match=r"fts5\.db: no such table"):
        again(project)
    assert project.layout.run("fts5").read_bytes() == before


def test_an_index_of_other_settings_than_the_manifest_is_refused(project: Toy) -> None:
    built = project.layout.index("fts5")
    noted = (built / MADE_WITH).read_bytes()
    index(project.layout, "fts5-porter", project.cache)
    shutil.rmtree(built)
    shutil.copytree(project.layout.index("fts5-porter"), built)
    (built / MADE_WITH).write_bytes(noted)
    with pytest.raises(IndexNotReady):
        again(project)


def test_a_manifest_of_another_index_is_refused(project: Toy) -> None:
    path = project.layout.manifest("fts5")
    path.write_text(path.read_text().replace("sqlite-fts5", "sqlite-fts4"))
    with pytest.raises(
        IndexNotReady, match=r"is not the index that .*manifests/fts5\.json describes"
    ):
        again(project)


def test_an_index_of_other_documents_is_refused(project: Toy) -> None:
    path = project.layout.data / "manifest.json"
    sha = Prepared.open(project.layout.data).manifest.corpus_sha256
    path.write_text(path.read_text().replace(sha, "0" * 64))
    with pytest.raises(IndexNotReady, match="built of other documents than those in"):
        again(project)


def test_an_arm_that_answers_nothing_is_invalid(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Answer:
        raise ValueError("broken pipe")

    monkeypatch.setattr(Fts5Searcher, "search", fails)
    with pytest.raises(InvalidArm, match=r"not one of 41 queries was answered; .* broken pipe"):
        again(project)


def test_a_killed_replay_goes_on_where_it_was(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = project.layout.run("fts5").read_bytes()
    asked: list[str] = []
    honest = Fts5Searcher.search

    def killed(searcher: Fts5Searcher, text: str, k: int) -> Answer:
        asked.append(text)
        if len(asked) == 25:
            raise KeyboardInterrupt
        return honest(searcher, text, k)

    monkeypatch.setattr(drive, "PART", 10)
    monkeypatch.setattr(Fts5Searcher, "search", killed)
    with pytest.raises(KeyboardInterrupt):
        again(project)
    assert project.layout.run("fts5").read_bytes() == before
    seed = str(project.params.replay.seed)
    assert len(list((project.layout.parts("fts5") / seed).iterdir())) == 2
    again(project)
    assert len(asked) == 25 + (41 - 20) + 41
    assert project.layout.run("fts5").read_bytes() == before


def test_the_run_of_another_index_is_not_resumed(
    project: Toy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    params = project.params.replay
    own = tmp_path / "fts5.toml"
    own.write_text('summary = "x"\nstack = "fts5"\n[settings]\ntokenize = "unicode61"\n')
    with own.open("a") as out:
        out.write('title_weight = 2.0\ntext_weight = 1.0\njoined = "both"\n')
    index(project.layout, str(own), project.cache)
    replay(project.layout, str(own), project.cache, params, keep_parts=True)
    own.write_text(own.read_text().replace("title_weight = 2.0", "title_weight = 50.0"))
    index(project.layout, str(own), project.cache)
    asked: list[str] = []
    honest = Fts5Searcher.search

    def counted(searcher: Fts5Searcher, text: str, k: int) -> Answer:
        asked.append(text)
        return honest(searcher, text, k)

    monkeypatch.setattr(Fts5Searcher, "search", counted)
    replay(project.layout, str(own), project.cache, params)
    assert len(asked) == 2 * 41
