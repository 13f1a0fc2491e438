"""``remote.client.asking``: a question as arguments, or none at all."""

from __future__ import annotations

from typing import Any

import pytest

from engines.stacks.agent_mail.arm import KNOWN
from engines.stacks.agent_mail.mcp_tools.arguments import earliest, latest
from engines.stacks.remote.mcp import SAME, TIMES, WITHIN, Asking, NotExpressible

ASKING = Asking(
    tool="find",
    product_tool="find_in_product",
    project_key="*",
    project_slug="project-{}",
    product_name="product-{}",
    mode="",
)


@pytest.mark.parametrize(
    ("params", "arguments"),
    [
        ({}, {"project_key": "*"}),
        ({"project_id": 7}, {"project_key": "project-7"}),
        ({"sender_name": "Ann"}, {"project_key": "*", "sender": "Ann"}),
        ({"recipient_name": "Bob"}, {"project_key": "*", "recipient": "Bob"}),
        (
            {"agent_name": "Ann", "direction": "inbox"},
            {"project_key": "*", "agent_name": "Ann", "direction": "inbox"},
        ),
        ({"importance": "low,high"}, {"project_key": "*", "importance": "low,high"}),
        ({"thread_id": 5}, {"project_key": "*", "thread_id": "5"}),
        ({"ack_required": False}, {"project_key": "*", "ack_required": False}),
        ({"ack_required": None, "thread_id": None}, {"project_key": "*"}),
        ({"min_ts": 0}, {"project_key": "*", "date_start": "1970-01-01T00:00:00Z"}),
        ({"max_ts": 10}, {"project_key": "*", "date_end": "1970-01-01T00:00:00.000010Z"}),
    ],
)
def test_a_param_is_an_argument(params: dict[str, Any], arguments: dict[str, Any]) -> None:
    call = ASKING.call("plan", params)
    assert call.tool == "find"
    assert call.arguments == {"query": "plan", "explain": True, **arguments}


def test_a_product_has_a_tool_of_its_own_and_a_project_goes_before_it() -> None:
    call = ASKING.call("plan", {"product_id": 5})
    assert (call.tool, call.arguments["product_key"]) == ("find_in_product", "product-5")
    assert "project_key" not in call.arguments
    both = ASKING.call("plan", {"product_id": 5, "project_id": 2})
    assert (both.tool, both.arguments["project_key"]) == ("find", "project-2")


def test_a_mode_is_sent_where_the_arm_has_one() -> None:
    assert "mode" not in ASKING.call("x", {}).arguments
    assert ASKING.model_copy(update={"mode": "hybrid"}).call("x", {}).arguments["mode"] == "hybrid"


@pytest.mark.parametrize("moment", [0, 1, 1_780_000_000_123_456, -5])
def test_a_moment_arrives_to_the_microsecond(moment: int) -> None:
    sent = ASKING.call("x", {"min_ts": moment, "max_ts": moment}).arguments
    assert earliest(sent["date_start"]) == latest(sent["date_end"]) == moment


@pytest.mark.parametrize(
    ("changed", "params", "says"),
    [
        ({}, {"folder": "x"}, "folder"),
        ({}, {"sender_name": " "}, "sender_name is empty"),
        ({}, {"thread_id": ""}, "thread_id is empty"),
        ({}, {"min_ts": 10**18}, "min_ts"),
        ({}, {"max_ts": "soon"}, "max_ts"),
        ({"project_slug": ""}, {"project_id": 1}, "project_id"),
        ({"product_name": ""}, {"product_id": 1}, "product_id"),
        ({"product_tool": ""}, {"product_id": 1}, "product_tool"),
    ],
)
def test_what_cannot_be_said_is_not_left_out(
    changed: dict[str, Any], params: dict[str, Any], says: str
) -> None:
    with pytest.raises(NotExpressible, match=says):
        ASKING.model_copy(update=changed).call("plan", params)


def test_the_order_and_the_least_score_are_said_as_they_are() -> None:
    found = ASKING.call("plan", {"ranking": "recency", "min_score": 0.25}).arguments
    assert (found["ranking"], found["min_score"]) == ("recency", 0.25)


def test_every_param_of_the_stack_in_process_can_be_said() -> None:
    assert set(SAME) | set(TIMES) | WITHIN >= set(KNOWN)
