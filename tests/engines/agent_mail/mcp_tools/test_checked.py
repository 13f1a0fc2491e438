"""``mcp_tools.checked``: what a caller is told of arguments that cannot be meant."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from engines.mcp_server import Code, Given, Refused, Tool, called
from tests.engines.agent_mail.mcp_tools.conftest import Tools

EVERY = (
    "limit", "offset", "ranking", "sender", "importance", "thread_id", "date_start", "explain",
    "cursor", "mode", "recipient", "agent_name", "direction", "ack_required", "min_score", "since",
)  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
def test_null_is_absent(tools: Tools, name: str) -> None:
    null: dict[str, Any] = {name: None}
    plain, given = tools.found(), tools.found(**null)
    assert given["result"] == plain["result"]
    assert given["served_by"] == plain["served_by"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"limit": "many"}, "limit is 'many', give a whole number"),
        ({"limit": 1.5}, "limit is 1.5, give a whole number"),
        ({"offset": -1}, "offset is -1, give at least 0"),
        ({"offset": 10**6}, "offset is 1000000, give at most 5000"),
        ({"explain": "perhaps"}, "explain is 'perhaps', give true or false"),
        ({"min_score": "high"}, "min_score is 'high', give a number"),
        ({"sender": 7}, "sender is 7, give a text"),
        ({"query": None}, "query is missing, give it"),
        ({"sendr": "Ann"}, "no parameter named 'sendr'"),
        ({"sendr": "Ann"}, "Did you mean sender?"),
        ({"limit": "x" * 10_000}, f"limit is '{'x' * 59}..., give a whole number"),
        ({"limit": [], "offset": -1}, "limit is [], give a whole number; offset is -1, give"),
    ],
)
def test_what_is_wrong_is_said_with_a_code_and_the_remedy(
    tools: Tools, given: dict[str, Any], said: str
) -> None:
    told = tools.refused(**given)
    assert told.startswith("INVALID_ARGUMENT: ")
    assert said in told
    assert "pydantic" not in told
    assert len(told) < 800


@pytest.mark.parametrize("name", ["ranking", "importance", "date_start", "mode", "project_key"])
def test_a_value_of_any_length_makes_no_long_message(tools: Tools, name: str) -> None:
    told = tools.refused(**{name: "x\u202e\x1b" * 50_000})
    assert len(told) < 1_100
    assert told.isprintable()


class Mode(Given):
    """Takes a mode."""

    mode: Literal["code", "prose"]


def act(args: Mode) -> dict[str, Any]:
    raise Refused("the index is gone", Code.FAILED) if args.mode == "code" else ValueError("secret")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("both", "INVALID_ARGUMENT: mode is 'both', give 'code' or 'prose'"),
        ("code", "FAILED: the index is gone"),
        ("prose", "FAILED: act failed; its server's log says why"),
    ],
)
def test_a_refusal_begins_with_its_code_and_a_crash_tells_nothing(given: str, said: str) -> None:
    found = called(Tool("act", "Act.", Mode, act), {"mode": given})
    assert found.is_error
    assert [getattr(part, "text", "") for part in found.content] == [said]


def test_a_tool_that_there_is_not_is_named(tools: Tools) -> None:
    (said,) = tools.call("search_mesages").content
    told = getattr(said, "text", "")
    assert told.startswith("NOT_FOUND: no tool named 'search_mesages'")
    assert "Did you mean search_messages?" in told
