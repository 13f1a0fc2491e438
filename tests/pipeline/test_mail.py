"""Mail through the stages: shadow, and an index that changes."""

import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import sleep

import pytest

from benchmarks.moving_mail import moved
from harness.cli.project import Project
from harness.core.errors import EvidenceError
from harness.pipeline.index import index
from harness.pipeline.mail import mail_box, mail_service
from harness.shadow import log as shadow_log
from harness.shadow.comparison import ShadowLog
from harness.shadow.log import LogContents
from harness.shadow.mail import watched
from harness.shadow.settings import read_settings
from harness_engines import registry as arms
from harness_engines.stacks.agent_mail.ingest import Draft
from harness_engines.stacks.agent_mail.mcp_tools.arguments import InProject
from harness_engines.stacks.agent_mail.mcp_tools.server import Surface
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch
from tests.make.mail_project import ARM, BOUNDED_S, NAME, write
from tests.programs import PYTHON, Program
from tests.source import ROOT

pytestmark = pytest.mark.slow
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


def search(service: Surface, text: str, more: dict[str, object] | None = None) -> object:
    return service.now.search(InProject(project_key="*", query=text, **(more or {}))).result  # type: ignore[arg-type]


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


@pytest.mark.parametrize(("given", "kept"), [(250.0, 250.0), (60_000.0, 30_000.0), (0.0, 30_000.0)])
def test_a_served_query_has_a_deadline(letters: Project, given: float, kept: float) -> None:
    layout = letters.layout(NAME)
    with mail_service(layout, ARM, letters.cache, lambda: None, budget_ms=given) as service:
        assert service.service.budget_ms == kept


NEW = Draft(1, "zeppelin", "over the reservoir", "Ann", ("Bob",))


def test_the_command_follows_until_it_is_interrupted(tmp_path: Path) -> None:
    project = write(tmp_path / "letters")
    index(project.layout(NAME), ARM, project.cache)
    words = [*PYTHON, "stage", "index", "--dataset", NAME, "--arm", ARM, "--follow"]
    with Program(words, cwd=project.root, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"{ARM} has reached change 0\n"
        with mail_box(project.layout(NAME), ARM, project.cache) as box:
            now = box.insert(NEW).generation
        assert process.stderr.readline() == f"{ARM} has reached change {now}\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=BOUNDED_S) == 130


def test_a_served_mailbox_answers_rightly_while_it_changes() -> None:
    tally = moved(0.05, seed=2)
    assert tally.wrong == []
    assert {"search_messages", "complete_subject", "insert_message"} < tally.offered
    assert tally.offered == set(tally.calls)
