"""Paging to the end by any way: each visible message once, while messages are deleted too.

A threshold is a share of the best score, which a deletion may change: with one, only that nothing
deleted is shown, and nothing twice, is asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.stacks.agent_mail.contract import RankingMode, SearchHit, SearchMode, SearchQuery
from engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from tests.engines.agent_mail import anything
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail import changing
from tests.thinned import examples

pytestmark = pytest.mark.slow
MAIL = anything.messages(seed=61, count=120)
WAYS = ("tantivy", "fts5", "like", "semantic", "hybrid", "rerank")
QUERIES = st.builds(
    SearchQuery,
    text=st.sampled_from(["", "the deployment failed", "review br-2tnl", "index 部署", "a* done"]),
    project_id=st.none() | st.sampled_from([1, 2]),
    min_score=st.sampled_from([None, None, 0.0, 0.2]),
    ranking=st.sampled_from(RankingMode),
    rrf_k=st.none() | st.integers(1, 100),
    rerank_top_k=st.none() | st.integers(10, 60),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("any")
    build(folder, MAIL)
    return folder


@pytest.fixture(scope="module")
def mail(made: Path) -> Iterator[Whole]:
    with whole(made) as opened:
        yield opened


@contextmanager
def copied(made: Path, folder: Path) -> Iterator[Whole]:
    """Open a copy that may be written to, and remove it."""
    shutil.copytree(made, folder)
    try:
        with whole(folder) as opened:
            yield opened
    finally:
        shutil.rmtree(folder)


def by_way(mail: Whole, way: str, query: SearchQuery) -> tuple[Whole, SearchQuery]:
    """Ask so that ``way`` answers."""
    if way in {"fts5", "tantivy"}:
        return mail.under(KillSwitch(way)), query
    if way == "like":
        return mail.without(FallbackTier.TANTIVY, FallbackTier.FTS5), query
    mode = SearchMode.HYBRID_RERANK if way == "rerank" else SearchMode(way)
    asked = query.text or "the deployment failed"
    return mail, replace(query, mode=mode, text=asked)


def scope(seed: int) -> Scope:
    """Deny, redact and allow at random, at all shares; 0 denies nothing."""
    share = Random(seed).random() if seed else 0.0

    def verdict(message: object) -> Visibility:
        dice = Random(f"{seed} {message}").random()
        if dice < share:
            return Visibility.DENY
        return Visibility.REDACT if dice < (1 + share) / 2 else Visibility.ALLOW

    return Scope(f"random {seed}", verdict)


def ordered(mail: Whole, query: SearchQuery, seen_as: Scope) -> Sequence[SearchHit]:
    """Give all that may be seen on one page, which is never full."""
    found = mail.ask(replace(query, cursor=None, limit=1_000), seen_as)
    assert found.next_cursor is None
    return found.hits


@settings(
    deadline=None,
    max_examples=examples(120),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    query=QUERIES,
    way=st.sampled_from(WAYS),
    seen_as=st.integers(0, 50).map(scope),
    limits=st.lists(st.integers(1, 40), min_size=1, max_size=5),
)
def test_pages_in_a_row_are_the_whole_answer(
    mail: Whole, query: SearchQuery, way: str, seen_as: Scope, limits: list[int]
) -> None:
    asked, query = by_way(mail, way, query)
    everything = ordered(asked, query, seen_as)
    seen: list[SearchHit] = []
    for page in range(len(MAIL) + 1):
        limit = limits[page % len(limits)]
        found = asked.ask(replace(query, limit=limit), seen_as)
        assert way == found.explain.engine or found.explain.method == "empty"
        assert not found.explain.cursor_invalidated
        seen += found.hits
        if found.next_cursor is None:
            break
        assert len(found.hits) == limit
        query = replace(query, cursor=found.next_cursor)
    assert seen == [*everything]


@settings(
    deadline=None,
    max_examples=examples(50),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    query=QUERIES,
    way=st.sampled_from(WAYS),
    seen_as=st.integers(0, 20).map(scope),
    limit=st.integers(3, 20),
    rng=st.randoms(use_true_random=False),
    told=st.booleans(),
)
def test_what_is_deleted_between_pages_is_not_shown_and_nothing_else_is_lost_or_doubled(  # noqa: PLR0917  hypothesis passes by name
    made: Path,
    tmp_path: Path,
    query: SearchQuery,
    way: str,
    seen_as: Scope,
    limit: int,
    rng: Random,
    told: bool,  # noqa: FBT001  hypothesis passes by name
) -> None:
    with copied(made, tmp_path / "copy") as copy:
        asked, query = by_way(copy, way, replace(query, limit=limit))
        seen: list[int] = []
        gone: set[int] = set()
        for _ in range(len(MAIL) + 1):
            found = asked.ask(query, seen_as)
            ids = [hit.message_id for hit in found.hits]
            assert not gone & set(ids)
            seen += ids
            if found.next_cursor is None:
                break
            query = replace(query, cursor=found.next_cursor)
            gone |= delete(copy, rng, told=told)
        assert len(seen) == len(set(seen))
        if not query.min_score:
            assert {hit.message_id for hit in ordered(asked, query, seen_as)} <= set(seen)


def delete(copy: Whole, rng: Random, *, told: bool) -> set[int]:
    """Delete a few messages from the store, and from Tantivy too where it is told."""
    left = [m.message_id for m in copy.store.fetch_batch(-(2**63), 1_000)]
    chosen = rng.sample(left, min(rng.choice((0, 1, 5)), len(left)))
    changes = [changing.delete(copy.store, message_id) for message_id in chosen]
    if told:
        copy.tantivy.update_incremental(changes)
    return set(chosen)
