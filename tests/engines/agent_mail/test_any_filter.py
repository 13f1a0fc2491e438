"""Filters: each chooses what passes, in every engine and mode."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_engines.stacks.agent_mail.contract import (
    CandidateList,
    Direction,
    Filters,
    Importance,
    RankingMode,
    TimeRange,
)
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier
from harness_engines.stacks.agent_mail.pipeline.retrievers import Semantic, TierQuery
from harness_engines.stacks.agent_mail.sqlite.search import Fts5Engine, Weights, where
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore
from tests.engines.agent_mail import anything
from tests.engines.agent_mail.anything import Case, Columns
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail.messages import (
    MINUTES,
    NOON,
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
    engine = Fts5Engine(store, Weights(2.0, 1.0, 4.0))
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
