"""Tools that change messages: for operators alone, and searches find what they did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from mcp.server.lowlevel import Server

from engines.stacks.agent_mail import arm as mail
from engines.stacks.agent_mail import ingest
from engines.stacks.agent_mail.contract import SearchMode
from engines.stacks.agent_mail.ingest import Ingest
from engines.stacks.agent_mail.mcp_tools.search import Identity, Surface
from engines.stacks.agent_mail.mcp_tools.server import TOOLS, application, writing
from engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from engines.stacks.agent_mail.sqlite import store
from tests.engines.agent_mail.mcp_tools.conftest import Tools
from tests.make.mail.live_index import built, served

pytestmark = pytest.mark.slow
NEW = {"project_key": "project-1", "sender": "Ann", "subject": "zeppelin", "recipients": "Bob, Cid"}


@dataclass(frozen=True)
class Writable(Tools):
    """The tools of a surface, and those that change its messages."""

    box: Ingest

    @cached_property
    def app(self) -> Server[Any]:
        return application(self.surface, self.box)

    def done(self, tool: str, **given: object) -> int:
        """Change a message, and give its id."""
        answer = self.call(tool, **given)
        assert not answer.is_error, answer.content
        assert isinstance(answer.structured_content, dict)
        return int(answer.structured_content["id"])

    def refusal(self, tool: str, **given: object) -> str:
        answer = self.call(tool, **given)
        assert answer.is_error
        (said,) = answer.content
        return str(getattr(said, "text", ""))


@pytest.fixture
def writable(tmp_path: Path) -> Iterator[Writable]:
    index = built(tmp_path, mode="hybrid")
    with (
        served(tmp_path, mode="hybrid") as searcher,
        store.opened(index / mail.STORE) as names,
        ingest.opened(index / mail.STORE) as box,
    ):
        identity = Identity("mine", searcher.manifest)
        yield Writable(Surface(searcher.service, names, identity, SearchMode.HYBRID), box)


def test_what_a_tool_changed_the_next_search_finds(writable: Writable) -> None:
    new = writable.done("insert_message", **NEW, importance="high")
    (shown,) = writable.found("zeppelin", limit=1)["result"]
    assert (shown["id"], shown["from"], shown["importance"]) == (new, "Ann", "high")
    assert writable.ids("zeppelin", recipient="Cid", mode="lexical") == [new]
    assert writable.done("edit_message", id=new, subject="balloon", recipients="Dee") == new
    assert writable.ids("zeppelin", mode="lexical") == []
    assert writable.ids("balloon", recipient="Dee", mode="lexical") == [new]
    assert writable.done("delete_message", id=new) == new
    assert writable.ids("balloon", mode="lexical") == []


def test_what_cannot_be_meant_is_refused_with_a_code(writable: Writable) -> None:
    assert "NOT_FOUND: no project 'nowhere'" in writable.refusal(
        "insert_message", **{**NEW, "project_key": "nowhere"}
    )
    said = writable.refusal("insert_message", **NEW, importance="dire")
    assert "INVALID_ARGUMENT: importance is 'dire', give one of low, normal, high, urgent" in said
    for tool in ("edit_message", "delete_message"):
        assert "NOT_FOUND: message 999 is missing" in writable.refusal(tool, id=999)


def test_a_failure_names_no_file(writable: Writable) -> None:
    writable.box.store.db.execute("PRAGMA query_only = ON")
    said = writable.refusal("delete_message", id=1)
    assert "FAILED: the message store cannot be written" in said
    assert "/" not in said


def test_a_viewer_changes_nothing(writable: Writable) -> None:
    before = writable.box.store.total_count()
    everyone = Scope("everyone", lambda _: Visibility.ALLOW)
    theirs = replace(writable, surface=replace(writable.surface, scope=everyone))
    asked: dict[str, dict[str, object]] = {
        "insert_message": {**NEW},
        "edit_message": {"id": 1, "subject": "x"},
        "delete_message": {"id": 1},
    }
    assert set(asked) == set(writing(writable.box))
    for tool, given in asked.items():
        assert "FORBIDDEN: only an operator may change" in theirs.refusal(tool, **given)
    assert writable.box.store.total_count() == before
    assert not set(asked) & set(TOOLS)
