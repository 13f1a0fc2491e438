"""Messages of an arm's index, changed and followed."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from benchmarks.moving_mail import moved
from harness.cli.pipeline import followed
from harness.cli.project import Project
from harness.core.errors import HarnessError, IndexNotReady
from harness.pipeline.index import index
from harness.pipeline.mail import follow, mail_box
from harness_engines.stacks.agent_mail.arm import STORE
from harness_engines.stacks.agent_mail.ingest import Draft
from tests.make.mail.live_index import in_tantivy, table
from tests.make.mail.project import ARM, BOUNDED_S, DOCUMENTS, NAME, write
from tests.programs import PYTHON, Program

pytestmark = pytest.mark.slow
NEW = Draft(1, "zeppelin", "over the reservoir", "Ann", ("Bob",))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = write(tmp_path_factory.mktemp("followed"))
    index(project.layout(NAME), ARM, project.cache)
    return project.root


@pytest.fixture
def letters(made: Path, tmp_path: Path) -> Project:
    """Give a copy of a project whose mail is indexed."""
    return Project(shutil.copytree(made, tmp_path / "letters"))


def test_an_index_follows_until_it_has_caught_up(letters: Project) -> None:
    layout, told = letters.layout(NAME), list[int]()
    follow(layout, ARM, letters.cache, told.append, rounds=1)
    with mail_box(layout, ARM, letters.cache) as box:
        now = box.insert_all([NEW, NEW]).generation
    follow(layout, ARM, letters.cache, told.append, rounds=2)
    assert told == [0, now]
    folder = layout.index(ARM)
    assert [one for one, _, _ in in_tantivy(folder)] == [*table(folder)]
    assert len(table(folder)) == DOCUMENTS + 2


def test_the_command_follows_until_it_is_interrupted(letters: Project) -> None:
    words = [*PYTHON, "stage", "index", "--dataset", NAME, "--arm", ARM, "--follow"]
    with Program(words, cwd=letters.root, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"{ARM} has reached change 0\n"
        with mail_box(letters.layout(NAME), ARM, letters.cache) as box:
            now = box.insert(NEW).generation
        assert process.stderr.readline() == f"{ARM} has reached change {now}\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=BOUNDED_S) == 130


def test_what_cannot_be_followed_or_changed_is_refused(letters: Project, tmp_path: Path) -> None:
    layout = letters.layout(NAME)
    index(layout, "fts5", letters.cache)
    with pytest.raises(HarnessError, match="only arms of the stack mail"):
        follow(layout, "fts5", letters.cache, print, rounds=1)
    with pytest.raises(HarnessError, match="stack mail"), mail_box(layout, "fts5", tmp_path):
        pass
    shutil.rmtree(layout.index(ARM))
    assert not followed(letters, NAME, ARM)
    with pytest.raises(IndexNotReady, match=STORE), mail_box(layout, ARM, letters.cache):
        pass


@pytest.mark.sampled(1)
@pytest.mark.parametrize("minutes", [0.05, 0.5])
def test_a_served_mailbox_answers_rightly_while_it_changes(minutes: float) -> None:
    tally = moved(minutes, seed=2)
    assert tally.wrong == []
    assert {"search_messages", "complete_subject", "insert_message"} < tally.offered
    assert tally.offered == set(tally.calls)
