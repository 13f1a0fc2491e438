"""Filters and questions at random: nothing is lost, invented or reordered."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple
from functools import cache
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness_engines.stacks.agent_mail.contract import (
    CandidateList,
    Direction,
    DocKind,
    Filters,
    Importance,
    RankingMode,
    SearchMode,
    SearchQuery,
    SearchResponse,
    TimeRange,
)
from harness_engines.stacks.agent_mail.pipeline.plan import (
    LIFTED,
    CursorEngine,
    FallbackTier,
    KillSwitch,
    SearchCursor,
)
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from tests.engines.agent_mail.whole import MAIL, Whole
from tests.make.mail_messages import (
    AGENTS,
    MINUTES,
    NOON,
    PHRASES,
    PRODUCTS,
    PROJECTS,
    STEP,
    THREADS,
    passes,
    some_filters,
    some_text,
)
from tests.thinned import examples

pytestmark = pytest.mark.slow
ALL = 10_000
LEXICAL = (FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE)


@pytest.mark.parametrize("tier", LEXICAL)
def test_a_filter_chooses_from_what_words_find(post: Whole, tier: FallbackTier) -> None:
    search, rng = post.service.tiers.lexical[tier].search, Random(47)

    @cache
    def unfiltered(text: str, ranking: RankingMode) -> CandidateList:
        return search(text, Filters(), ranking, ALL)

    texts = ("", *(some_text(rng) for _ in range(40)))
    for _ in range(600):
        text, filters = rng.choice(texts), some_filters(rng)
        ranking, depth = rng.choice([*RankingMode]), rng.choice((0, 1, 3, 20, ALL))
        base = unfiltered(text, ranking).candidates
        expected = tuple(c for c in base if passes(MAIL.by_id[c.message_id], filters))
        found = search(text, filters, ranking, depth)
        assert found.candidates == expected[:depth], (text, filters)
        assert found.exhausted == (len(expected) <= depth)


def by_each(post: Whole, filters: Filters, text: str = "") -> list[int]:
    """Ask the three engines in both orders, and see that they find the same."""
    found = {
        tuple(sorted(c.message_id for c in engine.search(text, filters, ranking, ALL).candidates))
        for engine in (post.service.tiers.lexical[tier] for tier in LEXICAL)
        for ranking in RankingMode
    }
    (ids,) = found
    return list(ids)


def by_hand(filters: Filters) -> list[int]:
    return [message.message_id for message in MAIL.messages if passes(message, filters)]


@pytest.mark.parametrize(
    ("some", "other"),
    [
        (Filters(project_id=1, product_projects=frozenset({2, 3})), Filters(project_id=1)),
        (Filters(direction=Direction.INBOX), Filters()),
        (Filters(direction=Direction.OUTBOX), Filters()),
        (Filters(direction=Direction.OUTBOX, agent_name="Zoë"), Filters(sender_name="Zoë")),
        (Filters(direction=Direction.INBOX, agent_name="Zoë"), Filters(recipient_name="Zoë")),
        (Filters(time_range=TimeRange(-(2**80), 2**80)), Filters()),
        (Filters(time_range=TimeRange(-(2**63), 2**63 - 1)), Filters()),
        (Filters(importance=frozenset(Importance)), Filters()),
        (Filters(product_projects=frozenset(range(40_000))), Filters()),
        (Filters(product_projects=frozenset({*PROJECTS, 2**64})), Filters()),
    ],
)
def test_filters_that_mean_the_same(post: Whole, some: Filters, other: Filters) -> None:
    assert by_each(post, some) == by_each(post, other) == by_hand(other) != []


@pytest.mark.parametrize(
    "filters",
    [
        Filters(product_projects=frozenset()),
        Filters(product_projects=frozenset({2**64})),
        Filters(project_id=2**80),
        Filters(project_id=-(2**80)),
        Filters(time_range=TimeRange(NOON + STEP, NOON)),
        Filters(time_range=TimeRange(5, 4)),
        Filters(time_range=TimeRange(2**80, None)),
        Filters(time_range=TimeRange(None, -(2**70))),
        Filters(sender_name="AMBERFOX"),
        Filters(sender_name="Amber%"),
        Filters(sender_name="AmberFox "),
        Filters(sender_name=""),
        Filters(sender_name="\ud800"),
        Filters(agent_name="\udfff"),
        Filters(thread_id="\ud800"),
        Filters(thread_id="br_2tnl"),
        Filters(thread_id="br"),
        Filters(recipient_name="x') OR 1 --"),
        Filters(recipient_name="x" * 100_000),
    ],
)
def test_filters_that_nothing_passes(post: Whole, filters: Filters) -> None:
    assert by_each(post, filters) == by_each(post, filters, "review") == []


def test_bounds_of_time_and_all_recipients_and_projects_count(post: Whole) -> None:
    at = NOON + STEP * (MINUTES // 2)
    exactly = [m.message_id for m in MAIL.messages if m.created_ts == at]
    assert by_each(post, Filters(time_range=TimeRange(at, at))) == exactly != []
    copied = {m.message_id for m in MAIL.messages if "Zoë" in m.recipients[1:]}
    assert set() < copied <= set(by_each(post, Filters(recipient_name="Zoë")))
    both = by_each(post, Filters(product_projects=frozenset({1, 2})))
    assert {MAIL.by_id[at].project_id for at in both} == {1, 2}
    moved = by_each(post, Filters(product_projects=frozenset({2})))
    assert moved == [at for at in both if MAIL.by_id[at].project_id == 2]


FEW = st.none() | st.integers(-1, 9) | st.just(2**70)
NAMES = st.none() | st.sampled_from([*AGENTS, "a'b", "%", "x\0y", "\ud800"])
QUERIES = st.builds(
    SearchQuery,
    text=st.integers().map(lambda seed: some_text(Random(seed))) | st.text(max_size=40),
    mode=st.sampled_from(SearchMode),
    doc_kind=st.sampled_from([DocKind.MESSAGE, *DocKind]),
    project_id=st.none() | st.sampled_from([*PROJECTS, 2**70]),
    product_id=st.none() | st.sampled_from([*PRODUCTS, -1]),
    importance=st.lists(st.sampled_from(Importance), max_size=3).map(tuple),
    direction=st.none() | st.sampled_from(Direction),
    agent_name=NAMES,
    thread_id=st.none() | st.sampled_from(THREADS),
    ack_required=st.none() | st.booleans(),
    time_range=st.builds(TimeRange, st.none() | st.just(NOON + STEP), st.none() | st.just(2**80)),
    sender_name=NAMES,
    recipient_name=NAMES,
    min_score=st.none() | st.floats() | st.floats(0, 1),
    ranking=st.sampled_from(RankingMode),
    limit=FEW,
    cursor=st.none()
    | st.text(max_size=40)
    | st.builds(
        lambda *seen: SearchCursor(*seen).encode(),
        st.floats(width=64),
        st.integers(1, 500),
        st.none() | st.sampled_from(CursorEngine),
    ),
    rerank_top_k=FEW,
    rrf_k=FEW,
)


def by_id(seed: int) -> Scope:
    """Allow, redact and deny messages at random, the same ones for a seed."""
    return Scope(
        f"random {seed}", lambda m: Random(f"{seed} {m.message_id}").choice(tuple(Visibility))
    )


def check(query: SearchQuery, switch: KillSwitch | None, found: SearchResponse) -> None:
    """Hold an answer to what is promised of every answer."""
    hits = found.hits or found.entities
    ids = [h.message_id for h in found.hits] or [h.doc_id for h in found.entities]
    scores = [hit.score for hit in hits]
    assert not found.hits if query.doc_kind is not DocKind.MESSAGE else not found.entities
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert len(ids) == len(set(ids)) <= query.effective_limit
    times = [-h.created_ts for h in found.hits]
    recent = query.ranking is RankingMode.RECENCY and query.doc_kind is DocKind.MESSAGE
    order = times if recent else [-score for score in scores]
    assert [*zip(order, ids, strict=True)] == sorted(zip(order, ids, strict=True))
    least = query.min_score
    assert least is None or not any(score < least for score in scores)
    assert found.next_cursor is None or len(hits) == query.effective_limit
    explain = found.explain

    assert explain.facet_count == len(explain.facets_applied)
    total, *parts = astuple(explain.timing)
    assert all(part is None or part >= 0 for part in parts)
    assert sum(part or 0 for part in parts) <= total
    assert explain.requested_mode == query.mode
    assert explain.mode_downgraded == (explain.downgrade_reason is not None)
    assert explain.downgrade_reason != ""
    lifted = switch in LIFTED and query.doc_kind is DocKind.MESSAGE
    same = explain.actual_mode == query.mode
    assert explain.mode_downgraded != same or (lifted and query.mode is SearchMode.LEXICAL)
    assert explain.engine == found.served_by
    assert explain.redacted_count == sum(hit.redacted for hit in found.hits)
    assert not explain.cursor_invalidated or query.cursor is not None
    if not hits and explain.method == "empty":
        assert explain.note
    json.dumps(asdict(found), allow_nan=False).encode()


@settings(
    deadline=None,
    max_examples=examples(250),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    query=QUERIES | st.builds(SearchQuery, st.sampled_from(PHRASES), st.sampled_from(SearchMode)),
    switch=st.none() | st.sampled_from(KillSwitch),
    seed=st.integers(0, 3),
)
def test_any_question_is_answered_in_order_and_explained(
    post: Whole, query: SearchQuery, switch: KillSwitch | None, seed: int
) -> None:
    check(query, switch, post.under(switch).ask(query, by_id(seed) if seed else None))
