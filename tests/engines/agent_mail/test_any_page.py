"""Paging to the end by any way: each visible message once, while messages are deleted too.

What a cursor cannot know is an order that a deletion changed: the scores of words and of ranks are
those of a collection. So where a deletion changed the order of what is left, or the scores of what
is left and the message of the cursor is gone, only that nothing deleted is shown is asked for.
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

from engines.stacks.agent_mail.contract.query import RankingMode, SearchMode, SearchQuery
from engines.stacks.agent_mail.contract.results import SearchHit
from engines.stacks.agent_mail.pipeline.plan import KillSwitch, Rung
from engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from tests.engines.agent_mail import anything
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.thinned import examples

pytestmark = pytest.mark.slow
MAIL = anything.messages(seed=61, count=120)
WAYS = ("tantivy", "fts5", "like", "semantic", "hybrid", "rerank")
STEADY = {"like", "semantic"}
"""Ways whose scores belong to one message and its query alone."""
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
        return mail.without(Rung.TANTIVY, Rung.FTS5), query
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
        before = ordered(asked, query, seen_as)
        seen: list[int] = []
        gone: set[int] = set()
        known = True
        for _ in range(len(MAIL) + 1):
            found = asked.ask(query, seen_as)
            ids = [hit.message_id for hit in found.hits]
            assert not gone & set(ids)
            seen += ids
            if found.next_cursor is None:
                break
            query = replace(query, cursor=found.next_cursor)
            new = delete(copy, rng, told=told) - gone
            gone |= new
            after = ordered(asked, query, seen_as)
            known = known and foreseen(before, after, cursor_is_gone=ids[-1] in new)
            before = after
        if known:
            assert len(seen) == len(set(seen))
            assert {hit.message_id for hit in before} <= set(seen)
        assert known or way not in STEADY


def delete(copy: Whole, rng: Random, *, told: bool) -> set[int]:
    """Delete a few messages from the store, and from Tantivy too where it is told."""
    left = [m.message_id for m in copy.store.fetch_batch(-(2**63), 1_000)]
    chosen = rng.sample(left, min(rng.choice((0, 1, 5)), len(left)))
    changes = [copy.store.delete(message_id) for message_id in chosen]
    if told:
        copy.tantivy.update_incremental(changes)
    return set(chosen)


def foreseen(
    before: Sequence[SearchHit], after: Sequence[SearchHit], *, cursor_is_gone: bool
) -> bool:
    """Say whether a deletion left the order as it was, and the scores where a cursor needs them."""
    left = {hit.message_id: hit for hit in after}
    kept = [hit for hit in before if hit.message_id in left]
    same_order = [hit.message_id for hit in kept] == [*left]
    same_scores = all(left[hit.message_id].score == hit.score for hit in kept)
    return same_order and (same_scores or not cursor_is_gone)
