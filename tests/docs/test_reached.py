"""Every promise of the contract names a way by which a user reaches it, and the way is there."""

from __future__ import annotations

import pytest

from tests.docs.contract import PAGE, rows, ways
from tests.docs.reached import missing, tools

ROWS = rows(PAGE.read_text("utf-8"))


def test_each_way_to_a_promise_is_there() -> None:
    wrong = [f"{row}: {said}" for row in ROWS for way in row.reached_by if (said := missing(way))]
    assert wrong == []


def test_each_tool_is_a_way_to_something() -> None:
    named = {way.partition("(")[0] for row in ROWS for way in row.reached_by}
    assert {"search_messages", "search_messages_product", "complete_subject"} <= named
    assert {"rag_retrieve", "search_collection", "search_code"} <= named & tools().keys()


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("harness ask --explain", ""),
        ("harness notes ask --limit", ""),
        ("harness conjure", "no command conjure"),
        ("harness notes", "group of commands"),
        ("harness ask --loudly", "no option --loudly"),
        ("search_messages(sender, from_agent)", ""),
        ("search_messages(colour)", "takes no colour"),
        ("search_dreams(query)", "no tool search_dreams"),
        ("harness.engine_contract", ""),
        ("harness.no_such_thing", "cannot be called"),
        ("engines.stacks.agent_mail.sqlite.journal.changed_of", "no page tells of"),
        ("by hand", "is no way"),
    ],
)
def test_what_is_not_there_is_told(way: str, said: str) -> None:
    assert said in missing(way) if said else not missing(way)


def test_a_cell_is_a_list_of_ways() -> None:
    assert ways("`harness ask`, `search_code(query)`") == ("harness ask", "search_code(query)")
    for wrong in ("", "harness ask", "`harness ask` and more"):
        with pytest.raises(ValueError, match="not `command`"):
            ways(wrong)
