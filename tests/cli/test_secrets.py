"""What is in the environment stays there: no log, page, report or provenance of ours has it."""

from __future__ import annotations

import shutil

import pytest

from harness.core.errors import HarnessError
from harness.shadow.http_searcher import check_address
from tests.cli.conftest import Harness
from tests.make.secrets import NAMES, PLANTED, holding
from tests.make.toy import Toy
from tests.source import ROOT

pytestmark = pytest.mark.slow
LEAKS = '''
"""The stack fts5, whose errors tell what is in the environment."""

import os

from engines.stacks.text import fts5

SETTINGS = {"tokenize": "unicode61", "title_weight": 2.0, "text_weight": 1.0, "joined": "both"}


def engine(settings, cache):
    raise RuntimeError(os.environ["GITHUB_TOKEN"])
'''
COMMANDS = (
    ("run", "--dataset", "toy", "--arms", "fts5,tantivy", "--control", "fts5", "--out", "out"),
    ("shadow", "run", "--dataset", "toy", "--control", "fts5", "--candidate", "tantivy",
     "--out", "log", "--count", "5", "--shadow-settings", "shadow.toml"),
    ("export", "--dataset", "toy", "--control", "fts5", "--out", "tables"),
    ("doctor",),
    ("stage", "index", "--dataset", "toy", "--arm", "none", "--debug"),
)  # fmt: skip


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, project: Toy) -> Toy:
    """Put a secret into every variable that usually has one."""
    for name in NAMES:
        monkeypatch.setenv(name, f"{PLANTED}-{name}")
    shutil.copy(ROOT / "policy" / "shadow.toml", project.root)
    return project


def test_no_secret_of_the_environment_is_written_or_said(planted: Toy, harness: Harness) -> None:
    for words in COMMANDS:
        done = harness(*words)
        assert done.code == (2 if "none" in words else 0), done.err
        assert PLANTED not in done.out + done.err, words
    assert (planted.root / "out" / "index.html").is_file()
    assert holding(planted.root) == []


def test_a_secret_that_is_written_would_be_seen(planted: Toy, harness: Harness) -> None:
    (planted.root / "leaks.toml").write_text('summary = "fts5"\nstack = "leaks.py"\n')
    (planted.root / "leaks.py").write_text(LEAKS)
    assert PLANTED in harness("stage", "index", "--dataset", "toy", "--arm", "leaks.toml").err
    (planted.root / "log.txt").write_text(PLANTED)
    assert holding(planted.root) == ["log.txt"]


@pytest.mark.parametrize(
    "address", [f"http://me:{PLANTED}@127.0.0.1:9", f"http://127.0.0.1:9/?key={PLANTED}"]
)
def test_a_secret_of_an_address_is_not_in_its_refusal(address: str) -> None:
    with pytest.raises(HarnessError, match="is not an address of a server") as told:
        check_address(address)
    assert PLANTED not in str(told.value)
