"""A viewer's answers are the same bytes whatever is hidden from it.

Many more steps than the suite takes: MAIL_SCOPE_STEPS=10000.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness_engines.stacks.agent_mail.contract import (
    Direction,
    DocKind,
    Importance,
    RankingMode,
    SearchMode,
    SearchQuery,
)
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from tests.engines.agent_mail.worlds import EYE, World, world
from tests.make.mail import changing
from tests.make.mail.messages import AGENTS, THREADS, one

STEPS = int(os.environ.get("MAIL_SCOPE_STEPS", "60"))
HIDDEN = (0, 9, 60)
"""Messages that are hidden in each world; the visible ones are the same forty."""
pytestmark = pytest.mark.slow
TEXTS = (
    "", "merger", "deployment", "the deployment failed", "review br-2tnl", "+merger review",
    '"secret task"', "deploy*", "index 部署", "review -merger", "NOT", "((", "AmberFox", "harbour",
)  # fmt: skip
MAYBE_AGENT = st.none() | st.sampled_from((*AGENTS, "nobody"))
QUERIES = st.builds(
    SearchQuery,
    text=st.sampled_from(TEXTS),
    mode=st.sampled_from(SearchMode),
    doc_kind=st.sampled_from([DocKind.MESSAGE] * 4 + [DocKind.AGENT, DocKind.PROJECT]),
    project_id=st.sampled_from([None, None, 1, 2, 99]),
    product_id=st.sampled_from([None, None, 1, 2]),
    importance=st.sampled_from([(), (), (Importance.HIGH,)]),
    direction=st.none() | st.sampled_from(Direction),
    agent_name=MAYBE_AGENT,
    thread_id=st.sampled_from([None, None, *THREADS]),
    sender_name=MAYBE_AGENT,
    recipient_name=MAYBE_AGENT,
    min_score=st.sampled_from([None, None, 0.0, 0.3, 0.8]),
    ranking=st.sampled_from(RankingMode),
    limit=st.sampled_from([1, 3, 10, None]),
    explain=st.booleans(),
)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, ...]]:
    folder = tmp_path_factory.mktemp("worlds")
    with ExitStack() as stack:
        yield tuple(
            stack.enter_context(world(folder / str(hidden), 5, hidden)) for hidden in HIDDEN
        )


@settings(
    deadline=None,
    max_examples=STEPS,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(query=QUERIES, switch=st.none() | st.sampled_from(KillSwitch), pages=st.integers(1, 3))
def test_every_page_of_a_search_is_the_same_bytes(
    worlds: tuple[World, ...], query: SearchQuery, switch: KillSwitch | None, pages: int
) -> None:
    for _ in range(pages):
        first, *others = (one.answer(query, switch) for one in worlds)
        assert all(other == first for other in others)
        cursor = json.loads(first)["next_cursor"]
        if cursor is None:
            break
        query = replace(query, cursor=cursor)


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("text", ["merger", "the deployment failed", "", "project:quarry review"])
@pytest.mark.parametrize("key", ["*", "harbour", "quarry"])
def test_every_answer_of_the_tool_is_the_same_bytes(
    worlds: tuple[World, ...], mode: SearchMode, text: str, key: str
) -> None:
    asked = {"query": text, "project_key": key, "sender": "" if text else "SlateHeron"}
    said = {one.tool(mode, explain=True, **asked) for one in worlds}
    assert len(said) == 1


PREFIXES = st.one_of(
    st.text(max_size=12),
    st.sampled_from((
        "re",
        "de",
        "deployment fa",
        "mer",
        "部",
        "sec",
        "a" * 50_000,
        "de*",
        "-de",
        "re (",
    )),
    st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=3),
)


@settings(deadline=None, max_examples=STEPS)
@given(
    prefix=PREFIXES,
    limit=st.integers(1, 50),
    key=st.sampled_from(["*", "harbour", "quarry", "no such"]),
)
def test_every_completed_subject_is_the_same_bytes(
    worlds: tuple[World, ...], prefix: str, limit: int, key: str
) -> None:
    assert len({one.completed(prefix, limit, key) for one in worlds}) == 1


def test_a_beginning_completes_subjects_of_what_is_shown(worlds: tuple[World, ...]) -> None:
    (said,) = {one.completed("re", 50) for one in worlds}
    shown = [one["subject"] for one in json.loads(said)["subjects"]]
    assert shown
    assert all(any(word.startswith("re") for word in text.lower().split()) for text in shown)


def test_the_worlds_do_differ(worlds: tuple[World, ...]) -> None:
    found = [len(one.mail.ids(SearchQuery("merger", limit=1000))) for one in worlds]
    assert found == [0, 9, 60]
    orders = {tuple(one.mail.ids(SearchQuery("the deployment failed"))) for one in worlds}
    assert len(orders) == len(worlds)


def test_what_is_registered_of_a_hidden_project_is_hidden(worlds: tuple[World, ...]) -> None:
    query = SearchQuery("secret", doc_kind=DocKind.AGENT)
    known = worlds[-1].mail.ask(query, EYE).entities
    assert {hit.entity.project_id for hit in known if "Amber" not in str(hit)} == {1}
    assert len(worlds[-1].mail.ask(query).entities) > len(known) > 0


@pytest.mark.parametrize("said", [None, "deny", "allow", True, 0, "ALLOW"])
def test_whatever_is_not_allow_itself_denies(worlds: tuple[World, ...], said: object) -> None:
    wrong = Scope("wrong", lambda _: said)  # type: ignore[arg-type, return-value]
    found = worlds[-1].mail.ask(SearchQuery("the deployment failed"), wrong)
    assert (found.hits, found.explain.denied_count) == ((), 0)
    audited = replace(wrong, audited=True)
    assert worlds[-1].mail.ask(SearchQuery("merger"), audited).hits == ()


def test_a_policy_that_fails_denies_and_tells_no_caller(worlds: tuple[World, ...]) -> None:
    def verdict(message: object) -> Visibility:
        raise OSError(f"/etc/policy: {message}")

    found = worlds[-1].mail.ask(SearchQuery("merger"), Scope("broken", verdict))
    assert found.hits == ()
    assert "policy" not in str(found.explain.note)


def test_a_view_follows_its_messages_and_a_revoked_verdict_at_once(tmp_path: Path) -> None:
    with world(tmp_path / "moving", 3, 4) as moving:
        mail = moving.mail
        changing.insert(mail.store, one(3, "freshly harboured"))
        fresh = SearchQuery("harboured")
        assert mail.ids(fresh, EYE) == [3]
        changing.delete(mail.store, 3)
        assert mail.ids(fresh, EYE) == []
        shown = [Visibility.ALLOW]
        open_to_all = Scope("revoked", lambda _: shown[0])
        assert mail.ids(SearchQuery("merger"), open_to_all) != []
        shown[0] = Visibility.DENY
        assert mail.ids(SearchQuery("merger"), open_to_all) == []
