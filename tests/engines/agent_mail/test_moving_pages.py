"""Paging while everything moves: what stays visible throughout comes exactly once.

Messages are inserted, edited and deleted, the engine is switched, the service is opened again, and
the scope is narrowed, between any two pages. Many more steps than the suite takes:
MAIL_PAGING_STEPS=10000.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from engines.stacks.agent_mail import arm as mail
from engines.stacks.agent_mail import ingest
from engines.stacks.agent_mail.contract import (
    Filters,
    Importance,
    RankingMode,
    SearchMode,
    SearchQuery,
)
from engines.stacks.agent_mail.ingest import Draft
from engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from engines.stacks.agent_mail.pipeline.retrievers import TierQuery, digits_of
from engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from engines.stacks.agent_mail.service import MailSearch
from tests.engines.agent_mail.whole import ByLength
from tests.make.mail.live_index import built, served
from tests.source import ROOT

pytestmark = pytest.mark.slow
STEPS = int(os.environ.get("MAIL_PAGING_STEPS", "60"))
AT_ONCE = 40
"""Steps over one index."""
WORDS = ("review", "plan", "token", "broker", "laptop", "reservoir", "read_csv", "br-2tnl", "lunch")
WAYS = ("tantivy", "fts5", "like", "semantic", "hybrid", "hybrid_rerank")
SUBJECTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
EVERYONE = Scope("operator", lambda _: Visibility.ALLOW, audited=True)


def viewer(hidden: frozenset[int]) -> Scope:
    """Show all but some messages."""
    return Scope(
        f"all but {sorted(hidden)}",
        lambda m: Visibility.DENY if m.message_id in hidden else Visibility.ALLOW,
    )


class Moving(RuleBasedStateMachine):
    """Pages through one query while messages, engine, scope and process change."""

    model: Path
    taken = 0

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="moving"))
        shutil.copytree(self.model, self.folder, dirs_exist_ok=True)
        self.open = ExitStack()
        self.restart()
        self.way, self.query = "tantivy", SearchQuery("review plan", limit=2)
        self.scope: Scope = EVERYONE
        self.hidden: frozenset[int] = frozenset()
        self.seen: list[int] = []
        self.lived: set[int] | None = None

    def teardown(self) -> None:
        self.open.close()
        shutil.rmtree(self.folder)

    @initialize(
        way=st.sampled_from(WAYS),
        text=st.sampled_from(["review plan", "token broker lunch", "br-2tnl"]),
        ranking=st.sampled_from(RankingMode),
        limit=st.integers(1, 4),
        audited=st.booleans(),
    )
    def begin(self, way: str, text: str, ranking: RankingMode, limit: int, audited: bool) -> None:  # noqa: FBT001  hypothesis passes by name
        self.way, self.query = way, SearchQuery(text, limit=limit, ranking=ranking)
        self.scope = EVERYONE if audited else viewer(frozenset())

    @rule(subject=SUBJECTS, times=st.integers(0, 20), many=st.integers(1, 3))
    def insert(self, subject: str, times: int, many: int) -> None:
        """Insert long and short texts, which move the scores of all others."""
        self.step()
        draft = Draft(1, subject, f"{subject} " * times, "Ann", ("Bob",))
        self.box.insert_all([draft] * many)

    @rule(at=st.integers(0, 99), subject=SUBJECTS)
    def edit(self, at: int, subject: str) -> None:
        self.step()
        self.box.edit(self.moved(at), subject=subject)

    @rule(at=st.integers(0, 99))
    def delete(self, at: int) -> None:
        """Delete a message, and write another, so that some are left."""
        self.step()
        self.box.delete(self.moved(at))
        self.box.insert(Draft(1, "review of the plan token", "", "Ann"))

    @rule(way=st.sampled_from(WAYS), dice=st.integers(0, 5))
    def switch(self, way: str, dice: int) -> None:
        """Let another engine answer, though not so often that no list is read to its end."""
        self.step()
        if not dice:
            self.way = way

    @rule()
    def restart(self) -> None:
        """Open everything anew, as another process does."""
        self.open.close()
        searcher = self.open.enter_context(served(self.folder, mode="hybrid"))
        table = self.folder / "index" / mail.STORE
        self.box = self.open.enter_context(ingest.opened(table))
        tiers = replace(searcher.service.tiers, reranker=ByLength())
        self.service = replace(searcher.service, tiers=tiers)

    @precondition(lambda self: self.scope is not EVERYONE)
    @rule(at=st.integers(0, 99))
    def narrow(self, at: int) -> None:
        self.step()
        self.hidden |= {self.moved(at)}
        self.scope = viewer(self.hidden)

    @rule()
    def read_on(self) -> None:
        self.page()

    @rule()
    def read_further(self) -> None:
        self.page()

    @rule()
    def page(self) -> None:
        """Read the next page; at the end of the list, what lived throughout has come."""
        self.step()
        service, query = self.asked()
        if self.lived is None:
            everything = service.search(replace(query, cursor=None, limit=1_000), self.scope)
            self.lived = {hit.message_id for hit in everything.hits}
        found = service.search(query, self.scope)
        assert not found.stale
        assert found.served_by == {"hybrid_rerank": "rerank"}.get(self.way, self.way)
        ids = [hit.message_id for hit in found.hits]
        if found.explain.cursor_invalidated:
            self.query, self.seen, self.lived = replace(self.query, cursor=None), [], None
            return
        alive = {row[0] for row in self.box.store.read("SELECT id FROM messages")}
        assert set(ids) <= alive - self.hidden
        self.seen += ids
        assert len(self.seen) == len(set(self.seen))
        self.query = replace(self.query, cursor=found.next_cursor)
        if found.next_cursor is None:
            assert self.lived <= set(self.seen)
            self.seen, self.lived = [], None

    def asked(self) -> tuple[MailSearch, SearchQuery]:
        """Give who answers by the way, and the query that it answers."""
        if self.way in {"tantivy", "fts5"}:
            return replace(self.service, switch=KillSwitch(self.way)), self.query
        if self.way == "like":
            tiers = self.service.tiers
            there = {FallbackTier.LIKE: tiers.lexical[FallbackTier.LIKE]}
            plain = replace(self.service, tiers=replace(tiers, lexical=there))
            return plain, replace(self.query, text="re")
        return self.service, replace(self.query, mode=SearchMode(self.way))

    def moved(self, at: int) -> int:
        """Name a message that will not have lived unchanged throughout."""
        ids = [row[0] for row in self.box.store.read("SELECT id FROM messages ORDER BY id")]
        chosen = int(ids[at % len(ids)])
        if self.lived is not None:
            self.lived.discard(chosen)
        return chosen

    def step(self) -> None:
        type(self).taken += 1


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    index = built(folder, mode="hybrid")
    with ingest.opened(index / mail.STORE) as box:
        texts = (f"{a} {b} the {c}" for a, b, c in zip(WORDS, WORDS[1:], WORDS[2:], strict=False))
        box.insert_all(Draft(1, text, "to all", "Ann", ("Bob",)) for text in texts)
    return folder


def test_what_stays_visible_comes_exactly_once_whatever_moves(model: Path) -> None:
    Moving.model, Moving.taken = model, 0
    how = settings(
        deadline=None,
        max_examples=max(1, STEPS // AT_ONCE),
        stateful_step_count=AT_ONCE,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    while Moving.taken < STEPS:
        run_state_machine_as_test(Moving, settings=how)


def test_another_process_knows_a_query_by_the_same_digits() -> None:
    """Sets of words have another order in each process."""
    code = "from tests.engines.agent_mail.test_moving_pages import digits; print(digits())"
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert said == {digits()}


def digits() -> str:
    """Tell one query with sets in its filters."""
    filters = Filters(importance=frozenset(Importance), product_projects=frozenset({3, 70, 9}))
    asked = TierQuery("review", filters, RankingMode.RELEVANCE, 60, 100)
    return digits_of(SearchQuery("review"), asked)
