"""The file of the kill switch: strict at the start, steady while it serves."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from engines.stacks.agent_mail.budget import SwitchFile, value_in
from engines.stacks.agent_mail.pipeline.plan import KillSwitch
from harness.core.errors import BadFile, UnknownName


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "switch.env"
    path.write_text("# a comment\n\nOTHER=1\nSEARCH_ENGINE=shadow\n")
    return path


def put(path: Path, text: str) -> None:
    """Replace the file as its writer does."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.replace(path)


def test_it_is_read_at_the_start_and_when_it_is_replaced(file: Path) -> None:
    switch = SwitchFile(file)
    assert switch.read() is KillSwitch.SHADOW
    put(file, "SEARCH_ENGINE = 'fts5'\n")
    assert switch.read() is KillSwitch.FTS5
    put(file, "SEARCH_ENGINE=\n")
    assert switch.read() is None


@pytest.mark.parametrize("text", ["SEARCH_ENGINE=lucene\n", "", "SEARCH_ENGINE\n", "\udcff"])
def test_what_is_spoilt_while_it_serves_changes_nothing_and_is_told_once(
    file: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    switch = SwitchFile(file)
    with caplog.at_level(logging.ERROR):
        file.unlink()
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert {switch.read() for _ in range(3)} == {KillSwitch.SHADOW}
        assert len(caplog.records) == 1
    put(file, "SEARCH_ENGINE=tantivy\n")
    assert switch.read() is KillSwitch.TANTIVY


def test_a_file_that_is_gone_changes_nothing(file: Path) -> None:
    switch = SwitchFile(file)
    file.unlink()
    assert switch.read() is KillSwitch.SHADOW
    put(file, "SEARCH_ENGINE=fts5\n")
    assert switch.read() is KillSwitch.FTS5


def test_at_the_start_a_file_that_says_nothing_sure_is_refused(file: Path) -> None:
    put(file, "SEARCH_ENGINE=fts5\nSEARCH_ENGINE=tantivy\n")
    with pytest.raises(BadFile, match="sets SEARCH_ENGINE 2 times"):
        SwitchFile(file)
    put(file, "SEARCH_ENGINE=lucene\n")
    with pytest.raises(UnknownName, match="lucene"):
        SwitchFile(file)
    file.unlink()
    with pytest.raises(BadFile, match="cannot be read"):
        value_in(file)
