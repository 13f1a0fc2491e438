"""The drill of a migration, from the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.project import Project
from harness.migrate import ledger
from harness.migrate.ledger import SWITCH_FILE
from harness.pipeline.index import index
from harness.pipeline.receipts import read_manifest
from harness_engines.stacks.agent_mail.pipeline.plan import value_in
from tests.cli.conftest import Harness, Said
from tests.make.decisions import POLICY, day, decision, evidence
from tests.make.mail_project import ARM, NAME, command, listening, write
from tests.make.toy import Toy

pytestmark = pytest.mark.slow
FTS5 = "mail-fts5"


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Make a project with mail, indexed for the arm that is served and for the old one."""
    project = write(tmp_path_factory.mktemp("letters"))
    for arm in (ARM, FTS5):
        index(project.layout(NAME), arm, project.cache)
    return project


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Take Tantivy at once, so that the step before it is FTS5 alone."""
    folder = tmp_path / "migration"
    ledger.begin(folder, POLICY, "fts5", now=day(1), by="a test")
    steps = [step for step in POLICY.steps if step.name == "tantivy"]
    alone = replace(POLICY, steps=tuple(steps))
    found = evidence(decision(1))
    ledger.advance(folder, alone, found, now=day(1), by="a test", reason="a test")
    assert value_in(folder / SWITCH_FILE) == "tantivy"
    return folder


@pytest.fixture
def project(letters: Project) -> Toy:
    """Type commands in the folder of the mail."""
    return Toy(letters)


def drilled(harness: Harness, *words: str | Path) -> Said:
    return harness("migrate", "drill", "--dataset", NAME, "--arm", ARM, *words)


def test_it_is_proven_in_this_process(letters: Project, folder: Path, harness: Harness) -> None:
    said = drilled(harness, "--at", folder)
    assert said.code == 0, said
    own = read_manifest(letters.layout(NAME), ARM).fingerprint[:12]
    old = read_manifest(letters.layout(NAME), FTS5).fingerprint[:12]
    assert f"fts5 by fts5 {old} and tantivy by tantivy {own}" in said.out
    assert value_in(folder / SWITCH_FILE) == "tantivy"
    assert ledger.read(folder).state.taken[-1].drilled_at is not None


def test_a_running_server_follows_the_file_without_a_restart(
    letters: Project, folder: Path, harness: Harness
) -> None:
    words = command("--http", "0", "--switch-file", str(folder / SWITCH_FILE))
    with listening(words, letters.root) as (url, _):
        said = drilled(harness, "--at", folder, "--url", url, "--questions", "5")
        assert said.code == 0, said
        assert "PROVEN 5 queries" in said.out
