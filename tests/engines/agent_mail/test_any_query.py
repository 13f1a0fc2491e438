"""Filters and questions at random: nothing is lost, invented or reordered."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, astuple, replace
from functools import cache
from itertools import islice, product
from pathlib import Path
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
    MailProject,
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
from harness_engines.stacks.agent_mail.pipeline.retrievers import Semantic, TierQuery
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from harness_engines.stacks.agent_mail.sqlite.search import ColumnWeights
from tests.engines.agent_mail import anything
from tests.engines.agent_mail.anything import Case, Columns
from tests.engines.agent_mail.whole import MAIL as POST
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail_changing import Directory
from tests.make.mail_engines import built
from tests.make.mail_messages import MINUTES, NOON, PHRASES, PRODUCTS, PROJECTS, STEP, one, passes
from tests.thinned import examples

pytestmark = pytest.mark.slow
CASES = int(os.environ.get("MAIL_FILTER_CASES", "1000"))
MAIL = anything.messages(seed=31, count=250)
COLUMNS = anything.columns(MAIL)
TEXTS = ("", "", *(anything.text(Random(at)) for at in range(40)))
ALL, NONE = 10_000, Filters()
Search = Callable[[str, Filters, RankingMode, int], CandidateList]


@pytest.fixture(scope="module")
def opened_mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("any")
    build(folder, MAIL)
    with whole(folder) as opened:
        yield opened


def cases() -> Iterator[Case]:
    return islice(anything.cases(seed=47, texts=TEXTS), CASES)


def mismatches(search: Search, columns: Columns) -> list[Case]:
    """Find cases in which a filter does anything but choose from the unfiltered answer."""

    @cache
    def unfiltered(text: str, ranking: RankingMode) -> CandidateList:
        return search(text, NONE, ranking, ALL)

    def differs(case: Case) -> bool:
        passing = columns.passing(case.filters)
        base = unfiltered(case.text, case.ranking).candidates
        expected = tuple(c for c in base if c.message_id in passing)
        found = search(*case)
        ends = found.exhausted == (len(expected) <= case.depth)
        return found.candidates != expected[: case.depth] or not ends

    return [case for case in cases() if differs(case)]


@pytest.mark.parametrize("tier", [FallbackTier.FTS5, FallbackTier.TANTIVY, FallbackTier.LIKE])
def test_a_filter_chooses_from_what_words_find(opened_mail: Whole, tier: FallbackTier) -> None:
    search = opened_mail.service.tiers.lexical[tier].search
    everything = search("", NONE, RankingMode.RELEVANCE, ALL).candidates
    assert [c.message_id for c in everything] == [m.message_id for m in MAIL]
    assert mismatches(search, COLUMNS) == []


def test_a_filter_chooses_from_what_is_near(opened_mail: Whole) -> None:
    semantic = opened_mail.service.tiers.semantic
    assert isinstance(semantic, Semantic)

    @cache
    def unfiltered(text: str) -> Mapping[int, float]:
        found = semantic.search(text, NONE, ALL).candidates
        return {c.message_id: c.raw_score for c in found}

    wrong = []
    for text, filters, _, some in cases():
        depth = max(some, 1)
        passing = COLUMNS.passing(filters)
        expected = {at: cosine for at, cosine in unfiltered(text).items() if at in passing}
        found = semantic.search(text, filters, depth).candidates
        if {c.message_id: c.raw_score for c in found} != dict([*expected.items()][:depth]):
            wrong.append((text, filters, depth))
    assert wrong == []


def test_a_filter_chooses_from_either_leg_of_hybrid(opened_mail: Whole) -> None:
    def ids(tier: FallbackTier, text: str, filters: Filters) -> frozenset[int]:
        asked = TierQuery(text, filters, RankingMode.RELEVANCE, rrf_k=60, rerank_top_k=10)
        return frozenset(
            h.message_id for h in opened_mail.service.tiers.rank(tier, asked, ALL).hits
        )

    @cache
    def either(text: str) -> frozenset[int]:
        return ids(FallbackTier.TANTIVY, text, NONE) | ids(FallbackTier.SEMANTIC, text, NONE)

    asked = [case for case in cases() if case.text.strip("\0 \t\n")]
    wrong = [
        case
        for case in asked
        if ids(FallbackTier.HYBRID, case.text, case.filters)
        != either(case.text) & COLUMNS.passing(case.filters)
    ]
    assert wrong == []


def test_the_columns_say_what_the_rule_by_hand_says_and_the_cases_are_worth_asking() -> None:
    some = 0
    for case in islice(cases(), 500):
        passing = COLUMNS.passing(case.filters)
        assert passing == {m.message_id for m in MAIL if passes(m, case.filters)}
        some += 0 < len(passing) < len(MAIL)
    assert some > 200


LEXICAL = (FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE)


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
    return [message.message_id for message in POST.messages if passes(message, filters)]


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
    exactly = [m.message_id for m in POST.messages if m.created_ts == at]
    assert by_each(post, Filters(time_range=TimeRange(at, at))) == exactly != []
    copied = {m.message_id for m in POST.messages if "Zoë" in m.recipients[1:]}
    assert set() < copied <= set(by_each(post, Filters(recipient_name="Zoë")))
    both = by_each(post, Filters(product_projects=frozenset({1, 2})))
    assert {POST.by_id[at].project_id for at in both} == {1, 2}
    moved = by_each(post, Filters(product_projects=frozenset({2})))
    assert moved == [at for at in both if POST.by_id[at].project_id == 2]


@given(name=st.text(max_size=20))
def test_no_name_is_an_error(post: Whole, name: str) -> None:
    for filters in (Filters(agent_name=name), Filters(thread_id=name), Filters(sender_name=name)):
        assert by_each(post, filters) == by_hand(filters)


def test_times_at_the_ends_of_the_range_pass(tmp_path: Path) -> None:
    sent = {1: NOON - 1, 2: NOON, 3: NOON + 1, 4: -(2**63), 5: 2**63 - 1, 6: 0, 7: -1}
    mail = built(tmp_path / "mail", [one(at, created_ts=ts) for at, ts in sent.items()])
    for low, high in product(sent.values(), repeat=2):
        within = [at for at, ts in sent.items() if low <= ts <= high]
        assert mail.ids("", Filters(time_range=TimeRange(low, high))) == within
    newest = sorted(sent, key=lambda at: -sent[at])
    assert mail.ids("", Filters(), RankingMode.RECENCY) == newest


ANY_MAIL = anything.messages(seed=53, count=150)
ANY_TEXT = st.text(st.characters(), max_size=40)
TEXTS_ANY_QUESTION = (
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
        st.sampled_from([m.message_id for m in ANY_MAIL]) | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.sampled_from(CursorEngine),
    )
)
FOUND = st.builds(
    lambda *seen: SearchCursor(*seen).encode(),
    st.floats(0.3, 1) | st.sampled_from([float(at) for at in anything.TIMES]),
    st.sampled_from([m.message_id for m in ANY_MAIL]) | st.integers(1, 9),
    st.none() | st.sampled_from(CursorEngine),
)
NUMBERS = st.none() | INTS
QUERIES = st.builds(
    SearchQuery,
    text=TEXTS_ANY_QUESTION,
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
def any_mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("any")
    build(folder, ANY_MAIL)
    with whole(folder) as opened:
        rng, known = Random(59), Directory(opened.store)
        for name in anything.NAMES:
            known.register(1, name, program=anything.text(rng), task_description=anything.text(rng))
        for at, (project_id, slug) in enumerate(PROJECTS.items()):
            known.describe(
                MailProject(project_id, slug, anything.text(rng), " ".join(PHRASES[at:]))
            )
        others = entities(opened.store, ColumnWeights(2.0, 1.0, 4.0))
        yield replace(opened, service=replace(opened.service, entities=others))


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
@given(query=QUERIES | FEW, switch=st.none() | st.sampled_from(KillSwitch), seed=st.integers(0, 9))
def test_any_question_is_answered_in_order_and_explained(
    any_mail: Whole, query: SearchQuery, switch: KillSwitch | None, seed: int
) -> None:
    any_mail.log.events.clear()
    check(query, switch, any_mail.under(switch).ask(query, by_id(seed) if seed else None))


@settings(deadline=None, max_examples=examples(80))
@given(query=FEW, switch=st.none() | st.sampled_from(KillSwitch), missing=MISSING)
def test_whatever_is_missing(
    any_mail: Whole, query: SearchQuery, switch: KillSwitch | None, missing: set[FallbackTier]
) -> None:
    left = any_mail.under(switch).without(*missing)
    check(query, switch, left.ask(query))


@settings(deadline=None, max_examples=examples(60))
@given(query=FEW, switch=st.none() | st.sampled_from(KillSwitch))
def test_the_same_question_has_the_same_answer(
    any_mail: Whole, query: SearchQuery, switch: KillSwitch | None
) -> None:
    first, second = (any_mail.under(switch).ask(query) for _ in range(2))
    same = {"explain": replace(second.explain, timing=first.explain.timing)}
    assert first == replace(second, **same)  # type: ignore[arg-type]


def test_a_threshold_that_is_no_number_is_none(any_mail: Whole) -> None:
    plain = SearchQuery("review")
    everything = any_mail.ids(plain)
    for least, ids in (("nan", everything), ("inf", []), ("-inf", everything)):
        assert any_mail.ids(replace(plain, min_score=float(least))) == ids
    nan = replace(plain, min_score=float("nan"))
    assert any_mail.ask(nan).explain.facets_applied == ()
    assert "the query is empty" in any_mail.ask(replace(nan, text="")).explain.note
