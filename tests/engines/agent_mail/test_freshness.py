"""An answer that may miss a change says ``index_stale`` and is not signed as the arm's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from engines.contract.errors import EngineError
from engines.stacks.agent_mail import arm as mail
from engines.stacks.agent_mail.contract.query import SearchMode
from engines.stacks.agent_mail.freshness import Freshness
from engines.stacks.agent_mail.mcp_tools.search import Identity, Surface
from engines.stacks.agent_mail.pipeline.plan import Rung
from engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from engines.stacks.agent_mail.searcher import MailSearcher
from tests.engines.agent_mail.mcp_tools.conftest import DOCUMENTS, SETTINGS, Names, Tools

pytestmark = pytest.mark.slow
EDIT = "UPDATE messages SET subject = 'travel' WHERE id = 5"


@contextmanager
def served(folder: Path, **changed: str) -> Iterator[tuple[MailSearcher, Path]]:
    index = folder / "index"
    index.mkdir()
    arm = mail.Mail(mail.Settings.model_validate({**SETTINGS, **changed}), folder / "cache")
    arm.build(DOCUMENTS, index)
    with arm.open(index) as searcher:
        assert isinstance(searcher, MailSearcher)
        yield searcher, index


def write(index: Path, sql: str) -> None:
    with closing(sqlite3.connect(index / mail.STORE)) as db, db:
        db.execute(sql)


def stale(searcher: MailSearcher) -> bool:
    """Whether an answer says so; one that does is never signed as the arm's."""
    answer = searcher.search("review", 5)
    says = "index_stale" in answer.note
    assert says == (answer.served_by != searcher.manifest.fingerprint)
    return says


@pytest.mark.parametrize("mode", ["lexical", "semantic", "hybrid"])
@pytest.mark.parametrize("sql", [EDIT, "DELETE FROM messages WHERE id = 5"])
def test_an_engine_that_may_miss_a_change_does_not_sign(
    tmp_path: Path, mode: str, sql: str
) -> None:
    with served(tmp_path, mode=mode) as (searcher, index):
        assert not stale(searcher)
        write(index, sql)
        assert stale(searcher)


def test_fts5_sees_each_change_and_signs(tmp_path: Path) -> None:
    with served(tmp_path, search_engine="fts5") as (searcher, index):
        write(index, EDIT)
        answer = searcher.search("travel", 5)
        assert [hit.doc_id for hit in answer.hits] == ["m05"]
        assert not stale(searcher)


@pytest.mark.parametrize("mode", ["lexical", "semantic"])
def test_a_replaced_vector_file_is_noticed_where_vectors_answer(tmp_path: Path, mode: str) -> None:
    with served(tmp_path, mode=mode) as (searcher, index):
        new = index / "new"
        new.write_bytes((index / mail.VECTORS).read_bytes())
        new.replace(index / mail.VECTORS)
        assert stale(searcher) is (mode == "semantic")


def test_a_client_is_told_by_a_signal(tmp_path: Path) -> None:
    with served(tmp_path) as (searcher, index):
        identity = Identity("mine", searcher.manifest)
        tools = Tools(Surface(searcher.service, Names(), identity, SearchMode.LEXICAL))
        assert "diagnostics" not in tools.found()
        write(index, EDIT)
        found = tools.found()
        assert found["diagnostics"]["signals"] == ["index_stale"]
        assert found["diagnostics"]["degraded"] is True
        assert found["served_by"]["fingerprint"] != searcher.manifest.fingerprint


def test_a_viewer_is_not_told_of_changes_to_what_is_hidden(tmp_path: Path) -> None:
    with served(tmp_path) as (searcher, index):
        write(index, EDIT)
        scope = Scope("all", lambda _: Visibility.ALLOW)
        view = searcher.service.within(searcher.service.view_of(scope))
        assert view.behind(Rung.HYBRID) == ""


def test_a_store_that_cannot_count_its_changes_may_have_changed(tmp_path: Path) -> None:
    seen = iter([(0, 1)])

    def generation() -> tuple[int, int]:
        try:
            return next(seen)
        except StopIteration:
            raise EngineError("gone") from None

    fresh = Freshness.since_now(generation, tmp_path / "none")
    assert fresh.behind(Rung.TANTIVY) == (
        "index_stale: changes of the messages cannot be counted: gone"
    )
    assert fresh.behind(Rung.FTS5) == ""
