"""Filters and questions at random: nothing is lost, invented or reordered."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, astuple, replace
from functools import cache
from itertools import islice
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
from harness_engines.stacks.agent_mail.sqlite.search import ColumnWeights, Fts5Engine, where
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore
from tests.engines.agent_mail import anything
from tests.engines.agent_mail.anything import Case, Columns
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail.directory import Directory
from tests.make.mail.messages import (
    MINUTES,
    NOON,
    PHRASES,
    PRODUCTS,
    PROJECTS,
    STEP,
    Mail,
    one,
    passes,
    some_filters,
    some_mail,
    some_text,
)
from tests.make.mail.tantivy import ALL as TANTIVY_ALL
from tests.make.mail.tantivy import NONE as TANTIVY_NONE
from tests.make.mail.tantivy import Case as CaseTantivy
from tests.make.mail.tantivy import built
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


SQLITE_CASES = 2_000


def passing(store: MessageStore, filters: Filters) -> list[int]:
    condition = where(filters)
    rows = store.ask(
        f"SELECT m.id FROM messages AS m WHERE {condition.sql} ORDER BY m.id",  # noqa: S608  as engines do
        condition.params,
    )
    return [row[0] for row in rows]


def by_hand(mail: Mail, filters: Filters) -> list[int]:
    return [message.message_id for message in mail.messages if passes(message, filters)]


def mismatches_sqlite(store: MessageStore, mail: Mail, *, cases: int, seed: int) -> list[Filters]:
    """Find random filters for which SQL and the rule by hand differ."""
    rng = Random(seed)
    asked = (some_filters(rng) for _ in range(cases))
    return [f for f in asked if passing(store, f) != by_hand(mail, f)]


def test_random_filters_let_pass_what_the_rules_say(store: MessageStore, mail: Mail) -> None:
    assert mismatches_sqlite(store, mail, cases=SQLITE_CASES, seed=11) == []


def test_the_random_filters_are_worth_asking(mail: Mail) -> None:
    rng = Random(11)
    sizes = [len(by_hand(mail, some_filters(rng))) for _ in range(SQLITE_CASES)]
    assert sum(0 < size < len(mail.messages) for size in sizes) > SQLITE_CASES / 3


@pytest.mark.parametrize(
    ("some", "other"),
    [
        (
            Filters(project_id=1, product_projects=frozenset({2, 3})),
            Filters(project_id=1),
        ),
        (Filters(direction=Direction.INBOX), Filters()),
        (Filters(direction=Direction.OUTBOX), Filters()),
        (
            Filters(direction=Direction.OUTBOX, agent_name="TealOtter"),
            Filters(sender_name="TealOtter"),
        ),
        (
            Filters(direction=Direction.INBOX, agent_name="TealOtter"),
            Filters(recipient_name="TealOtter"),
        ),
        (Filters(time_range=TimeRange(-(2**80), 2**80)), Filters()),
        (Filters(importance=frozenset(Importance)), Filters()),
        (Filters(product_projects=frozenset(range(40_000))), Filters()),
    ],
)
def test_filters_that_mean_the_same(store: MessageStore, some: Filters, other: Filters) -> None:
    assert passing(store, some) == passing(store, other) != []


@pytest.mark.parametrize(
    "filters",
    [
        Filters(product_projects=frozenset()),
        Filters(project_id=2**80),
        Filters(time_range=TimeRange(NOON + STEP, NOON)),
        Filters(time_range=TimeRange(2**80, None)),
        Filters(sender_name="AMBERFOX"),
        Filters(sender_name="Amber%"),
        Filters(sender_name="\ud800"),
        Filters(thread_id="br_2tnl"),
        Filters(recipient_name="x') OR 1 --"),
    ],
)
def test_filters_that_nothing_passes(store: MessageStore, filters: Filters) -> None:
    assert passing(store, filters) == []


def test_bounds_of_time_include_their_moments(store: MessageStore, mail: Mail) -> None:
    at = NOON + STEP * (MINUTES // 2)
    exactly = [m.message_id for m in mail.messages if m.created_ts == at]
    assert passing(store, Filters(time_range=TimeRange(at, at))) == exactly != []


def test_cc_and_bcc_are_recipients_too(store: MessageStore, mail: Mail) -> None:
    ids = {m.message_id for m in mail.messages if "Zoë" in m.recipients[1:]}
    assert ids <= set(passing(store, Filters(recipient_name="Zoë")))
    assert ids


@given(name=st.text(max_size=20))
def test_no_name_is_an_error(store: MessageStore, mail: Mail, name: str) -> None:
    for filters in (Filters(agent_name=name), Filters(thread_id=name), Filters(sender_name=name)):
        assert passing(store, filters) == by_hand(mail, filters)


@pytest.mark.parametrize("ranking", RankingMode)
def test_no_hit_is_lost_to_a_filter(store: MessageStore, mail: Mail, ranking: RankingMode) -> None:
    engine = Fts5Engine(store, ColumnWeights(2.0, 1.0, 4.0))
    rng, text = Random(5), "deployment review br-2tnl 失败"
    everything = engine.search(text, Filters(), ranking, 1_000).candidates
    for _ in range(200):
        filters = some_filters(rng)
        kept = tuple(c for c in everything if passes(mail.by_id[c.message_id], filters))
        found = engine.search(text, filters, ranking, 3)
        assert found.candidates == kept[:3]
        assert found.exhausted == (len(kept) <= 3)


TANTIVY_MAIL = some_mail(3, 500)


@pytest.fixture(scope="module")
def mail_tantivy(tmp_path_factory: pytest.TempPathFactory) -> CaseTantivy:
    return built(tmp_path_factory.mktemp("filters") / "mail", TANTIVY_MAIL.messages)


def test_all_that_passes_and_nothing_else(mail_tantivy: CaseTantivy) -> None:
    rng = Random(17)
    mismatches = some = 0
    for _ in range(2_000):
        filters = some_filters(rng)
        by_hand = [m.message_id for m in TANTIVY_MAIL.messages if passes(m, filters)]
        mismatches += mail_tantivy.ids("", filters) != by_hand
        some += 0 < len(by_hand) < len(TANTIVY_MAIL.messages)
    assert mismatches == 0
    assert some > 800, "most filters should let some messages pass and not all"


def test_a_filter_chooses_and_changes_no_score(mail_tantivy: CaseTantivy) -> None:
    rng = Random(18)
    compared = 0
    for _ in range(250):
        text = rng.choice((some_text(rng), some_text(rng), "re*", "+d* review"))
        filters = some_filters(rng)
        unfiltered = mail_tantivy.candidates(text)
        kept = [c for c in unfiltered if passes(TANTIVY_MAIL.by_id[c.message_id], filters)]
        for depth in (3, TANTIVY_ALL):
            assert list(mail_tantivy.candidates(text, filters, depth=depth)) == kept[:depth]
        compared += 0 < len(kept) < len(unfiltered)
    assert compared > 50


@pytest.mark.parametrize(
    "filters",
    [
        Filters(project_id=2**80),
        Filters(project_id=-(2**80)),
        Filters(product_projects=frozenset()),
        Filters(product_projects=frozenset({2**64})),
        Filters(time_range=TimeRange(2**70, None)),
        Filters(time_range=TimeRange(None, -(2**70))),
        Filters(time_range=TimeRange(5, 4)),
        Filters(thread_id="\ud800"),
        Filters(agent_name="\udfff"),
        Filters(sender_name=""),
        Filters(sender_name="AmberFox "),
        Filters(thread_id="br"),
        Filters(recipient_name="x" * 100_000),
    ],
)
def test_what_no_message_has_finds_none(mail_tantivy: CaseTantivy, filters: Filters) -> None:
    for ranking in RankingMode:
        assert mail_tantivy.ids("", filters, ranking) == []
        assert mail_tantivy.ids("review", filters, ranking) == []


@pytest.mark.parametrize(
    "filters",
    [
        Filters(time_range=TimeRange(-(2**70), 2**70)),
        Filters(time_range=TimeRange(-(2**63), 2**63 - 1)),
        Filters(importance=frozenset(Importance)),
        Filters(direction=Direction.INBOX),
        Filters(product_projects=frozenset({1, 2, 3, 7, 2**64})),
    ],
)
def test_what_every_message_has_finds_all(mail_tantivy: CaseTantivy, filters: Filters) -> None:
    assert (
        mail_tantivy.ids("", filters)
        == mail_tantivy.ids("")
        == [m.message_id for m in TANTIVY_MAIL.messages]
    )


def test_times_at_the_ends_of_the_range_pass(tmp_path: Path) -> None:
    sent = {1: NOON - 1, 2: NOON, 3: NOON + 1, 4: -(2**63), 5: 2**63 - 1, 6: 0, 7: -1}
    mail_tantivy = built(tmp_path / "mail", [one(at, created_ts=ts) for at, ts in sent.items()])
    for low in sent.values():
        for high in sent.values():
            within = TimeRange(low, high)
            by_hand = [at for at, ts in sent.items() if low <= ts <= high]
            assert mail_tantivy.ids("", Filters(time_range=within)) == by_hand
    newest = sorted(sent, key=lambda at: -sent[at])
    assert mail_tantivy.ids("", TANTIVY_NONE, RankingMode.RECENCY) == newest


def test_a_product_is_its_projects_and_they_may_move(mail_tantivy: CaseTantivy) -> None:
    one_and_two = Filters(product_projects=frozenset({1, 2}))
    found = mail_tantivy.ids("", one_and_two)
    assert {TANTIVY_MAIL.by_id[at].project_id for at in found} == {1, 2}
    moved = mail_tantivy.ids("", replace(one_and_two, product_projects=frozenset({2})))
    assert moved == [at for at in found if TANTIVY_MAIL.by_id[at].project_id == 2]
    assert mail_tantivy.ids("", replace(one_and_two, project_id=3)) == mail_tantivy.ids(
        "", Filters(project_id=3)
    )


MAIL_ANY_QUESTION = anything.messages(seed=53, count=150)
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
        st.sampled_from([m.message_id for m in MAIL_ANY_QUESTION])
        | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.sampled_from(CursorEngine),
    )
)
FOUND = st.builds(
    lambda *seen: SearchCursor(*seen).encode(),
    st.floats(0.3, 1) | st.sampled_from([float(at) for at in anything.TIMES]),
    st.sampled_from([m.message_id for m in MAIL_ANY_QUESTION]) | st.integers(1, 9),
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
def mail_any_question(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("any")
    build(folder, MAIL_ANY_QUESTION)
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
    mail_any_question: Whole, query: SearchQuery, switch: KillSwitch | None, seed: int
) -> None:
    mail_any_question.log.events.clear()
    check(query, switch, mail_any_question.under(switch).ask(query, by_id(seed) if seed else None))


@settings(deadline=None, max_examples=examples(80))
@given(query=FEW, switch=st.none() | st.sampled_from(KillSwitch), missing=MISSING)
def test_whatever_is_missing(
    mail_any_question: Whole,
    query: SearchQuery,
    switch: KillSwitch | None,
    missing: set[FallbackTier],
) -> None:
    left = mail_any_question.under(switch).without(*missing)
    check(query, switch, left.ask(query))


@settings(deadline=None, max_examples=examples(60))
@given(query=FEW, switch=st.none() | st.sampled_from(KillSwitch))
def test_the_same_question_has_the_same_answer(
    mail_any_question: Whole, query: SearchQuery, switch: KillSwitch | None
) -> None:
    first, second = (mail_any_question.under(switch).ask(query) for _ in range(2))
    same = {"explain": replace(second.explain, timing=first.explain.timing)}
    assert first == replace(second, **same)  # type: ignore[arg-type]


def test_a_threshold_that_is_no_number_is_none(mail_any_question: Whole) -> None:
    plain, least = SearchQuery("review"), SearchQuery("review", min_score=float("nan"))
    assert mail_any_question.ask(least).hits == mail_any_question.ask(plain).hits != ()
    assert mail_any_question.ask(least).explain.facets_applied == ()
    assert mail_any_question.ask(replace(plain, min_score=float("inf"))).hits == ()
    assert (
        mail_any_question.ask(replace(plain, min_score=float("-inf"))).hits
        == mail_any_question.ask(plain).hits
    )
    assert "the query is empty" in mail_any_question.ask(replace(least, text="")).explain.note
