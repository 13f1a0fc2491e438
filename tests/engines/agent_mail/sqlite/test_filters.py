"""Every filter lets pass what section 7 says, for random messages and random filters."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.stacks.agent_mail.contract import (
    Direction,
    Filters,
    Importance,
    RankingMode,
    TimeRange,
)
from engines.stacks.agent_mail.sqlite.search import Fts5Engine, Weights, where
from engines.stacks.agent_mail.sqlite.store import MessageStore
from tests.make.mail.messages import MINUTES, NOON, STEP, Mail, passes, some_filters

pytestmark = pytest.mark.slow
CASES = 2_000


def passing(store: MessageStore, filters: Filters) -> list[int]:
    condition = where(filters)
    rows = store.ask(
        f"SELECT m.id FROM messages AS m WHERE {condition.sql} ORDER BY m.id",  # noqa: S608  as engines do
        condition.params,
    )
    return [row[0] for row in rows]


def by_hand(mail: Mail, filters: Filters) -> list[int]:
    return [message.message_id for message in mail.messages if passes(message, filters)]


def mismatches(store: MessageStore, mail: Mail, *, cases: int, seed: int) -> list[Filters]:
    """Find random filters for which SQL and the rule by hand differ."""
    rng = Random(seed)
    asked = (some_filters(rng) for _ in range(cases))
    return [f for f in asked if passing(store, f) != by_hand(mail, f)]


def test_random_filters_let_pass_what_the_rules_say(store: MessageStore, mail: Mail) -> None:
    assert mismatches(store, mail, cases=CASES, seed=11) == []


def test_the_random_filters_are_worth_asking(mail: Mail) -> None:
    rng = Random(11)
    sizes = [len(by_hand(mail, some_filters(rng))) for _ in range(CASES)]
    assert sum(0 < size < len(mail.messages) for size in sizes) > CASES / 3


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
