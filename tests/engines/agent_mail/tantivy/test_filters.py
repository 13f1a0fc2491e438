"""Filters against what they say, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from engines.stacks.agent_mail.contract import (
    Direction,
    Filters,
    Importance,
    RankingMode,
    TimeRange,
)
from tests.make.mail.messages import NOON, one, passes, some_filters, some_mail, some_text
from tests.make.mail.tantivy import ALL, NONE, Case, built

pytestmark = pytest.mark.slow
MAIL = some_mail(3, 500)


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return built(tmp_path_factory.mktemp("filters") / "mail", MAIL.messages)


def test_all_that_passes_and_nothing_else(mail: Case) -> None:
    rng = Random(17)
    mismatches = some = 0
    for _ in range(2_000):
        filters = some_filters(rng)
        by_hand = [m.message_id for m in MAIL.messages if passes(m, filters)]
        mismatches += mail.ids("", filters) != by_hand
        some += 0 < len(by_hand) < len(MAIL.messages)
    assert mismatches == 0
    assert some > 800, "most filters should let some messages pass and not all"


def test_a_filter_chooses_and_changes_no_score(mail: Case) -> None:
    rng = Random(18)
    compared = 0
    for _ in range(250):
        text = rng.choice((some_text(rng), some_text(rng), "re*", "+d* review"))
        filters = some_filters(rng)
        unfiltered = mail.candidates(text)
        kept = [c for c in unfiltered if passes(MAIL.by_id[c.message_id], filters)]
        for depth in (3, ALL):
            assert list(mail.candidates(text, filters, depth=depth)) == kept[:depth]
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
def test_what_no_message_has_finds_none(mail: Case, filters: Filters) -> None:
    for ranking in RankingMode:
        assert mail.ids("", filters, ranking) == []
        assert mail.ids("review", filters, ranking) == []


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
def test_what_every_message_has_finds_all(mail: Case, filters: Filters) -> None:
    assert mail.ids("", filters) == mail.ids("") == [m.message_id for m in MAIL.messages]


def test_times_at_the_ends_of_the_range_pass(tmp_path: Path) -> None:
    sent = {1: NOON - 1, 2: NOON, 3: NOON + 1, 4: -(2**63), 5: 2**63 - 1, 6: 0, 7: -1}
    mail = built(tmp_path / "mail", [one(at, created_ts=ts) for at, ts in sent.items()])
    for low in sent.values():
        for high in sent.values():
            within = TimeRange(low, high)
            by_hand = [at for at, ts in sent.items() if low <= ts <= high]
            assert mail.ids("", Filters(time_range=within)) == by_hand
    newest = sorted(sent, key=lambda at: -sent[at])
    assert mail.ids("", NONE, RankingMode.RECENCY) == newest


def test_a_product_is_its_projects_and_they_may_move(mail: Case) -> None:
    one_and_two = Filters(product_projects=frozenset({1, 2}))
    found = mail.ids("", one_and_two)
    assert {MAIL.by_id[at].project_id for at in found} == {1, 2}
    moved = mail.ids("", replace(one_and_two, product_projects=frozenset({2})))
    assert moved == [at for at in found if MAIL.by_id[at].project_id == 2]
    assert mail.ids("", replace(one_and_two, project_id=3)) == mail.ids("", Filters(project_id=3))
