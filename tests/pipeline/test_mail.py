"""Mail through the stages: shadow, and an index that changes."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import sleep

import pytest

from benchmarks.moving_mail import moved
from harness.agreement import Class
from harness.cli.pipeline import followed
from harness.cli.project import Project
from harness.core.errors import EvidenceError, HarnessError, IndexNotReady
from harness.pipeline.index import index
from harness.pipeline.mail import follow, mail_box, mail_service
from harness.shadow import log as shadow_log
from harness.shadow.comparison import ShadowLog
from harness.shadow.divergences import Now, again, questions
from harness.shadow.log import LogContents
from harness.shadow.mail import watched
from harness.shadow.record import AGREED, ProblemKind
from harness.shadow.settings import read_settings
from harness_engines import registry as arms
from harness_engines.stacks.agent_mail.arm import STORE
from harness_engines.stacks.agent_mail.ingest import Draft
from harness_engines.stacks.agent_mail.mcp_tools.arguments import InProject
from harness_engines.stacks.agent_mail.mcp_tools.server import Switched
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch
from tests.make.mail_engines import in_tantivy, table
from tests.make.mail_project import ARM, BOUNDED_S, DOCUMENTS, NAME, write
from tests.programs import PYTHON, Program
from tests.source import ROOT

SETTINGS = read_settings(ROOT / "policy" / "shadow.toml")
MORE: tuple[dict[str, object], ...] = (
    {}, {"importance": "high,urgent"}, {"sender": "Ann"}, {"ranking": "recency"},
    {"min_score": 0.5}, {"ack_required": False}, {"mode": "hybrid"},
)  # fmt: skip
TEXTS = ("review plan", "token broker", "br-2tnl", "nowhere to be found", '"review plan" -lunch')


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = write(tmp_path_factory.mktemp("letters"))
    for arm in (ARM, "mail-fts5"):
        index(project.layout(NAME), arm, project.cache)
    return project


@pytest.fixture(scope="module")
def log(letters: Project, tmp_path_factory: pytest.TempPathFactory) -> LogContents:
    """Serve under the shadow, and under another value of the switch before and after."""
    folder = tmp_path_factory.mktemp("log")
    switch = [KillSwitch.TANTIVY]
    layout = letters.layout(NAME)
    observed = partial(watched, log=ShadowLog(folder, SETTINGS))
    with mail_service(layout, ARM, letters.cache, lambda: switch[0], observed) as service:
        search(service, "review")
        switch[0] = KillSwitch.FTS5
        alone = [search(service, text, more) for text in TEXTS for more in MORE]
        switch[0] = KillSwitch.SHADOW
        with pytest.raises(EvidenceError, match="another"):
            mail_service(layout, ARM, letters.cache, lambda: None, observed).__enter__()
        assert [search(service, text, more) for text in TEXTS for more in MORE] == alone
        switch[0] = KillSwitch.TANTIVY
        search(service, "review")
        wait_for(lambda: len(shadow_log.read_logs(folder).observations) == len(alone))
    return shadow_log.read_logs(folder)


def wait_for(done: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if done():
            return
        sleep(0.01)
    raise AssertionError("it is still not done")


def search(service: Switched, text: str, more: dict[str, object] | None = None) -> object:
    return service.now.search(InProject(project_key="*", query=text, **(more or {}))).result  # type: ignore[arg-type]


@pytest.mark.slow
def test_every_question_under_the_switch_is_an_attempt_and_no_other(log: LogContents) -> None:
    assert log.tally.attempted == len(TEXTS) * len(MORE)
    assert log.tally.attempted == log.tally.compared
    assert not log.degradations
    assert not log.missing
    assert {one.k for one in log.observations} == {20}


def test_each_side_is_signed_by_the_arm_that_has_its_switch(
    log: LogContents, letters: Project
) -> None:
    layout = letters.layout(NAME)
    for arm, sides in (
        ("mail-fts5", {one.control.served_by for one in log.observations if one.control}),
        ("mail-tantivy", {one.candidate.served_by for one in log.observations if one.candidate}),
    ):
        with arms.load(arm, letters.cache).engine.open(layout.index(arm)) as searcher:
            assert sides == {searcher.manifest.fingerprint}


def test_filters_are_part_of_the_question_and_the_mode_is_not(log: LogContents) -> None:
    keys = [one.query for one in log.observations]
    assert len(set(keys)) == len(TEXTS) * (len(MORE) - 1)
    assert all(one.params.get("ranking", "recency") == "recency" for one in log.divergences)
    assert {"ranking", "min_score"} & {name for one in log.divergences for name in one.params}


def test_both_engines_find_the_same_letters_here(log: LogContents) -> None:
    by_class = {one.outcome for one in log.observations}
    assert by_class & AGREED
    assert Class.ERROR not in by_class
    assert not {one.kind for one in log.degradations} & {ProblemKind.FALLBACK}


def test_what_diverged_can_be_asked_again_of_the_arms(log: LogContents, letters: Project) -> None:
    layout = letters.layout(NAME)
    with (
        arms.load("mail-fts5", letters.cache).engine.open(layout.index("mail-fts5")) as control,
        arms.load(ARM, letters.cache).engine.open(layout.index(ARM)) as candidate,
    ):
        asked = questions(log.divergences)
        found = list(again(asked, control, candidate, time_limit_ns=10**11))
    assert asked
    assert {one.now for one in found} == {Now.STILL}
    assert not any(one.control_moved for one in found)


NEW = Draft(1, "zeppelin", "over the reservoir", "Ann", ("Bob",))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = write(tmp_path_factory.mktemp("followed"))
    index(project.layout(NAME), ARM, project.cache)
    return project.root


@pytest.fixture
def letters_changing(made: Path, tmp_path: Path) -> Project:
    """Give a copy of a project whose mail is indexed."""
    return Project(shutil.copytree(made, tmp_path / "letters"))


@pytest.mark.slow
def test_an_index_follows_until_it_has_caught_up(letters_changing: Project) -> None:
    layout, told = letters_changing.layout(NAME), list[int]()
    follow(layout, ARM, letters_changing.cache, told.append, rounds=1)
    with mail_box(layout, ARM, letters_changing.cache) as box:
        now = box.insert_all([NEW, NEW]).generation
    follow(layout, ARM, letters_changing.cache, told.append, rounds=2)
    assert told == [0, now]
    folder = layout.index(ARM)
    assert [one for one, _, _ in in_tantivy(folder)] == [*table(folder)]
    assert len(table(folder)) == DOCUMENTS + 2


@pytest.mark.slow
def test_the_command_follows_until_it_is_interrupted(letters_changing: Project) -> None:
    words = [*PYTHON, "stage", "index", "--dataset", NAME, "--arm", ARM, "--follow"]
    with Program(words, cwd=letters_changing.root, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"{ARM} has reached change 0\n"
        with mail_box(letters_changing.layout(NAME), ARM, letters_changing.cache) as box:
            now = box.insert(NEW).generation
        assert process.stderr.readline() == f"{ARM} has reached change {now}\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=BOUNDED_S) == 130


@pytest.mark.slow
def test_what_cannot_be_followed_or_changed_is_refused(
    letters_changing: Project, tmp_path: Path
) -> None:
    layout = letters_changing.layout(NAME)
    index(layout, "fts5", letters_changing.cache)
    with pytest.raises(HarnessError, match="only arms of the stack mail"):
        follow(layout, "fts5", letters_changing.cache, print, rounds=1)
    with pytest.raises(HarnessError, match="stack mail"), mail_box(layout, "fts5", tmp_path):
        pass
    shutil.rmtree(layout.index(ARM))
    assert not followed(letters_changing, NAME, ARM)
    with pytest.raises(IndexNotReady, match=STORE), mail_box(layout, ARM, letters_changing.cache):
        pass


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("minutes", [0.05, 0.5])
def test_a_served_mailbox_answers_rightly_while_it_changes(minutes: float) -> None:
    tally = moved(minutes, seed=2)
    assert tally.wrong == []
    assert {"search_messages", "complete_subject", "insert_message"} < tally.offered
    assert tally.offered == set(tally.calls)
