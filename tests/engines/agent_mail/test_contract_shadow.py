"""The shadow: what it is compared by, and that nobody who asks sees anything of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from math import log2

import pytest

from engines.stacks.agent_mail.contract import (
    Event,
    QueryExplain,
    RankingMode,
    SearchMode,
    SearchQuery,
    ShadowComparison,
    compare_with_shadow,
)
from engines.stacks.agent_mail.pipeline.plan import KillSwitch
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail.messages import some_mail

TEXT = "deployment review br-2tnl"


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("shadow")
    build(folder, some_mail(56, 120).messages)
    with whole(folder) as made:
        yield made


def test_its_fields_are_the_contracts() -> None:
    assert [field.name for field in fields(ShadowComparison)] == [
        "serving_engine", "shadow_engine", "overlap_jaccard", "ndcg_at_10", "mrr_delta",
        "serving_only", "shadow_only",
    ]  # fmt: skip


def test_a_worked_example_of_a_comparison() -> None:
    found = compare_with_shadow("fts5", [1, 2, 3], "tantivy", [2, 4, 1, 5])
    assert (found.serving_engine, found.shadow_engine) == ("fts5", "tantivy")
    assert found.overlap_jaccard == 2 / 5
    assert (found.serving_only, found.shadow_only) == (1, 2)
    assert found.mrr_delta == pytest.approx(1 / 3 - 1)
    ideal = 10 / log2(2) + 9 / log2(3) + 8 / log2(4)
    assert found.ndcg_at_10 == pytest.approx((9 / log2(2) + 10 / log2(4)) / ideal)


def test_the_same_list_is_perfect_agreement_and_another_is_none() -> None:
    same = compare_with_shadow("a", [3, 1, 2], "b", [3, 1, 2])
    assert (same.overlap_jaccard, same.ndcg_at_10, same.mrr_delta) == (1.0, 1.0, 0.0)
    other = compare_with_shadow("a", [3, 1, 2], "b", [6, 7])
    assert (other.overlap_jaccard, other.ndcg_at_10, other.mrr_delta) == (0.0, 0.0, -1.0)


def test_what_is_not_defined_is_no_number() -> None:
    nothing = compare_with_shadow("a", [], "b", [])
    assert (nothing.overlap_jaccard, nothing.ndcg_at_10, nothing.mrr_delta) == (None, None, None)
    alone = compare_with_shadow("a", [], "b", [1])
    assert (alone.overlap_jaccard, alone.ndcg_at_10, alone.shadow_only) == (0.0, None, 1)


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("ranking", RankingMode)
def test_the_answer_is_that_of_fts5_alone(
    mail: Whole, mode: SearchMode, ranking: RankingMode
) -> None:
    query = SearchQuery(TEXT, mode=mode, ranking=ranking, limit=7)
    alone = mail.under(KillSwitch.FTS5).ask(query)
    shadowed = mail.under(KillSwitch.SHADOW).ask(query)
    assert shadowed.hits == alone.hits != ()
    assert shadowed.next_cursor == alone.next_cursor
    assert shadowed.explain.engine == "fts5"
    own = {"timing", "shadow", "downgrade_reason", "note"}
    for name in {field.name for field in fields(QueryExplain)} - own:
        assert getattr(shadowed.explain, name) == getattr(alone.explain, name)


def test_both_ran_and_the_comparison_is_logged_and_explained(mail: Whole) -> None:
    query = SearchQuery(TEXT, limit=7)
    mail.log.events.clear()
    told = mail.under(KillSwitch.SHADOW).ask(query).explain.shadow
    assert told is not None
    assert mail.log.events == [(Event.SHADOW_COMPARISON, asdict(told))]
    by_hand = compare_with_shadow(
        "fts5",
        mail.under(KillSwitch.FTS5).ids(query),
        "tantivy",
        mail.under(KillSwitch.TANTIVY).ids(query),
    )
    assert told == by_hand


def test_a_later_page_is_not_held_against_a_first(mail: Whole) -> None:
    """A cursor is one engine's, so only first pages can be compared."""
    shadowed = mail.under(KillSwitch.SHADOW)
    query = SearchQuery(TEXT, limit=7)
    first = shadowed.ask(query)
    mail.log.events.clear()
    second = shadowed.ask(replace(query, cursor=first.next_cursor))
    assert {hit.message_id for hit in second.hits}.isdisjoint(h.message_id for h in first.hits)
    assert second.explain.shadow is None
    assert not second.explain.cursor_invalidated
    assert mail.log.events == []


def test_a_token_that_is_none_is_a_first_page_for_both(mail: Whole) -> None:
    shadowed, query = mail.under(KillSwitch.SHADOW), SearchQuery(TEXT, limit=7)
    mail.log.events.clear()
    told = shadowed.ask(replace(query, cursor="no token")).explain
    assert told.cursor_invalidated
    assert told.shadow == shadowed.ask(query).explain.shadow
    invalidated, *others = (event for event, _ in mail.log.events)
    assert invalidated is Event.CURSOR_INVALIDATED
    assert others == [Event.SHADOW_COMPARISON] * 2
