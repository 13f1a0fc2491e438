"""``surface.guidance``: what to try, in a fixed order, told from the question alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest

from engines.stacks.agent_mail.contract import Importance, SearchQuery, TimeRange
from engines.stacks.agent_mail.mcp_tools.arguments import Slip
from engines.stacks.agent_mail.mcp_tools.search import guide

FILTERS: Sequence[tuple[str, dict[str, object]]] = (
    ("broaden_date_range", {"time_range": TimeRange(None, 5)}),
    ("drop_importance_filter", {"importance": (Importance.HIGH,)}),
    ("drop_agent_filter", {"sender_name": "Ann"}),
    ("drop_thread_filter", {"thread_id": "t1"}),
    ("drop_ack_filter", {"ack_required": False}),
)
SLIPS = (Slip("form:a", "from:a"), Slip("tread:b", "thread:b"))


def kinds(query: SearchQuery, slips: Sequence[Slip] = ()) -> list[str]:
    return [suggestion.kind for suggestion in guide(query, slips).suggestions]


@pytest.mark.parametrize("count", range(1, len(FILTERS) + 1))
def test_filters_come_in_one_order(count: int) -> None:
    for chosen in combinations(FILTERS, count):
        given = {key: value for _, about in chosen for key, value in about.items()}
        query = SearchQuery("x", **given)  # type: ignore[arg-type]
        assert kinds(query) == [kind for kind, _ in chosen]
        assert kinds(query, SLIPS) == [*(kind for kind, _ in chosen), "fix_typo", "fix_typo"]


@pytest.mark.parametrize("name", ["sender_name", "recipient_name", "agent_name"])
def test_any_agent_is_an_agent_filter(name: str) -> None:
    query = SearchQuery("x", **{name: "Ann"})  # type: ignore[arg-type]
    assert kinds(query) == ["drop_agent_filter"]


def test_without_a_filter_or_a_slip_the_text_is_what_is_left() -> None:
    assert kinds(SearchQuery("x")) == ["simplify_query"]
    assert kinds(SearchQuery("x", project_id=1, min_score=0.5)) == ["simplify_query"]
    assert kinds(SearchQuery("x"), SLIPS[:1]) == ["fix_typo"]


def test_a_suggestion_says_what_it_is_about() -> None:
    zero_result_guidance = guide(
        SearchQuery("x", sender_name="Ann", recipient_name="Bob"), SLIPS[:1]
    )
    agents, typo = zero_result_guidance.suggestions
    assert "sender Ann and recipient Bob" in agents.detail
    assert "form:a" in typo.detail
    assert "from:a" in typo.detail
