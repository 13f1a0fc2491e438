"""Every promise of the contract has a planted fault and a way by which a user reaches it."""

from __future__ import annotations

import pytest

from tests.docs.contract import PAGE, rows, ways
from tests.docs.reached import missing, tools
from tests.mutants.listed import mutants

ROWS = rows()


def test_an_id_names_one_promise() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))
    assert {name[0] for name in names} == {"Q", "A", "W", "D", "C", "E"}
    assert len(names) == sum(line.startswith("| ") for line in PAGE.text.splitlines()) - 2 * sum(
        line.startswith("| id |") for line in PAGE.text.splitlines()
    )


def test_each_promise_has_a_fault_and_the_page_says_so() -> None:
    assert {row for one in mutants() for row in one.rows} == {row.name for row in ROWS}
    assert f"Each of the {len(ROWS)} rows has a planted fault" in PAGE.text


def test_each_way_to_a_promise_is_there() -> None:
    wrong = [
        f"{row.name}: {said}" for row in ROWS for way in row.reached_by if (said := missing(way))
    ]
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
        ("harness_engines.stacks.agent_mail.sqlite.journal.changed_of", "no page tells of"),
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
