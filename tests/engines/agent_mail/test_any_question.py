"""Whatever is asked, in whatever mode: an answer, in order, and an explain that adds up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, astuple, replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness_engines.stacks.agent_mail.contract import (
    Direction,
    DocKind,
    Importance,
    Project,
    RankingMode,
    SearchMode,
    SearchQuery,
    SearchResponse,
    TimeRange,
)
from harness_engines.stacks.agent_mail.pipeline.pages import entities
from harness_engines.stacks.agent_mail.pipeline.plan import (
    LIFTED,
    CursorEngine,
    FallbackTier,
    KillSwitch,
    SearchCursor,
)
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from harness_engines.stacks.agent_mail.sqlite.search import Weights
from tests.engines.agent_mail import anything
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail.directory import Directory
from tests.make.mail.messages import PHRASES, PRODUCTS, PROJECTS
from tests.thinned import examples

pytestmark = pytest.mark.slow
MAIL = anything.messages(seed=53, count=150)
ANY_TEXT = st.text(st.characters(), max_size=40)
TEXTS = (
    ANY_TEXT
    | st.sampled_from(["", "NOT", '"', "+-", "a* OR b", "部", "🎉", "\u202eabc", "\ud800x"])
    | st.text(anything.SIGNS, max_size=30)
    | st.builds(lambda text, times: text * times, ANY_TEXT, st.integers(1, 2_000))
)
KNOWN = sorted({word for phrase in PHRASES for word in phrase.split()} | {*PROJECTS.values()})
WORDS = st.lists(st.sampled_from(KNOWN), min_size=1, max_size=6).map(" ".join)
NAMES = ANY_TEXT | st.sampled_from(anything.NAMES)
INTS = st.integers() | st.sampled_from([0, -1, 2**31, 2**63 - 1, -(2**63), 2**63, 2**200])
TIMES = st.none() | st.sampled_from(anything.TIMES) | INTS
TOKENS = (
    st.none()
    | st.text(st.characters(), max_size=40)
    | st.from_regex(r"s[0-9a-f]{16}:i-?[0-9]{1,19}(:e[a-z0-9]{1,9})?", fullmatch=True)
    | st.builds(
        lambda *seen: SearchCursor(*seen).encode(),
        st.floats(width=64),
        st.sampled_from([m.message_id for m in MAIL]) | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.sampled_from(CursorEngine),
    )
)
FOUND = st.builds(
    lambda *seen: SearchCursor(*seen).encode(),
    st.floats(0.3, 1) | st.sampled_from([float(at) for at in anything.TIMES]),
    st.sampled_from([m.message_id for m in MAIL]) | st.integers(1, 9),
    st.none() | st.sampled_from(CursorEngine),
)
NUMBERS = st.none() | INTS
QUERIES = st.builds(
    SearchQuery,
    text=TEXTS,
    mode=st.sampled_from(SearchMode),
    doc_kind=st.sampled_from([DocKind.MESSAGE, *DocKind]),
    project_id=st.none() | st.sampled_from([*PROJECTS]) | INTS,
    product_id=st.none() | st.sampled_from([*PRODUCTS]) | INTS,
    importance=st.lists(st.sampled_from(Importance), max_size=5).map(tuple),
    direction=st.none() | st.sampled_from(Direction),
    agent_name=st.none() | NAMES,
    thread_id=st.none() | NAMES | st.sampled_from(anything.THREADS),
    ack_required=st.none() | st.booleans(),
    time_range=st.builds(TimeRange, TIMES, TIMES),
    sender_name=st.none() | NAMES,
    recipient_name=st.none() | NAMES,
    min_score=st.none() | st.floats() | st.floats(0, 1),
    ranking=st.sampled_from(RankingMode),
    limit=NUMBERS | st.integers(1, 9),
    cursor=TOKENS,
    explain=st.booleans(),
    rerank_top_k=NUMBERS,
    rrf_k=NUMBERS,
)
FEW = st.builds(
    SearchQuery,
    text=WORDS,
    mode=st.sampled_from(SearchMode),
    doc_kind=st.sampled_from([DocKind.MESSAGE, *DocKind]),
    project_id=st.none() | st.sampled_from([*PROJECTS]),
    ack_required=st.none() | st.booleans(),
    min_score=st.none() | st.floats(0, 1),
    ranking=st.sampled_from(RankingMode),
    limit=st.none() | st.integers(1, 9),
    cursor=st.none() | FOUND,
)
"""Questions that mostly find something."""
MISSING = st.sets(
    st.sampled_from([
        FallbackTier.RERANK,
        FallbackTier.SEMANTIC,
        FallbackTier.TANTIVY,
        FallbackTier.FTS5,
        FallbackTier.LIKE,
    ])
)


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("any")
    build(folder, MAIL)
    with whole(folder) as opened:
        rng, known = Random(59), Directory(opened.store)
        for name in anything.NAMES:
            known.register(1, name, program=anything.text(rng), task_description=anything.text(rng))
        for at, (project_id, slug) in enumerate(PROJECTS.items()):
            known.describe(Project(project_id, slug, anything.text(rng), " ".join(PHRASES[at:])))
        others = entities(opened.store, Weights(2.0, 1.0, 4.0))
        yield replace(opened, service=replace(opened.service, entities=others))


def by_id(seed: int) -> Scope:
    """Allow, redact and deny messages at random, the same ones for a seed."""
    return Scope(
        f"random {seed}",
        lambda m: Random(f"{seed} {m.message_id}").choice(tuple(Visibility)),
    )


def facets(query: SearchQuery) -> tuple[str, ...]:
    """Say which filters count (section 7), written apart from the planner."""
    of_all = {
        "project_id": query.project_id is not None,
        "min_score": query.min_score is not None and query.min_score == query.min_score,
    }
    if query.doc_kind is not DocKind.MESSAGE:
        return tuple(name for name, on in of_all.items() if on)
    low, high = astuple(query.time_range)
    named = ("agent_name", "thread_id", "ack_required")
    on = {
        "project_id": of_all["project_id"],
        "product_id": query.product_id is not None and query.project_id is None,
        "importance": query.importance != (),
        "direction": query.direction is not None and query.agent_name is not None,
        **{name: getattr(query, name) is not None for name in named},
        "time_range": (low, high) != (None, None),
        "sender_name": query.sender_name is not None,
        "recipient_name": query.recipient_name is not None,
        "min_score": of_all["min_score"],
    }
    return tuple(name for name, is_on in on.items() if is_on)


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
    assert explain.facets_applied == facets(query)
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
@given(query=QUERIES | FEW, switch=st.none() | st.sampled_from(KillSwitch), seed=st.integers(0, 9))
def test_any_question_is_answered_in_order_and_explained(
    mail: Whole, query: SearchQuery, switch: KillSwitch | None, seed: int
) -> None:
    mail.log.events.clear()
    check(query, switch, mail.under(switch).ask(query, by_id(seed) if seed else None))


@settings(deadline=None, max_examples=examples(80))
@given(query=FEW, switch=st.none() | st.sampled_from(KillSwitch), missing=MISSING)
def test_whatever_is_missing(
    mail: Whole, query: SearchQuery, switch: KillSwitch | None, missing: set[FallbackTier]
) -> None:
    left = mail.under(switch).without(*missing)
    check(query, switch, left.ask(query))


@settings(deadline=None, max_examples=examples(60))
@given(query=FEW, switch=st.none() | st.sampled_from(KillSwitch))
def test_the_same_question_has_the_same_answer(
    mail: Whole, query: SearchQuery, switch: KillSwitch | None
) -> None:
    first, second = (mail.under(switch).ask(query) for _ in range(2))
    same = {"explain": replace(second.explain, timing=first.explain.timing)}
    assert first == replace(second, **same)  # type: ignore[arg-type]


def test_a_threshold_that_is_no_number_is_none(mail: Whole) -> None:
    plain, least = SearchQuery("review"), SearchQuery("review", min_score=float("nan"))
    assert mail.ask(least).hits == mail.ask(plain).hits != ()
    assert mail.ask(least).explain.facets_applied == ()
    assert mail.ask(replace(plain, min_score=float("inf"))).hits == ()
    assert mail.ask(replace(plain, min_score=float("-inf"))).hits == mail.ask(plain).hits
    assert "the query is empty" in mail.ask(replace(least, text="")).explain.note
