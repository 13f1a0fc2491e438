"""``surface.server`` and ``surface.results``: what a client is told of the tools."""

from __future__ import annotations

import json

import anyio
import jsonschema
from mcp import Client
from mcp.types import Implementation, Tool

from engines.stacks.agent_mail.mcp_tools import results, server
from tests.engines.agent_mail.mcp_tools.conftest import Tools


def told(tools: Tools) -> tuple[Implementation | None, dict[str, Tool]]:
    async def ask() -> tuple[Implementation | None, dict[str, Tool]]:
        async with Client(tools.app) as client:
            found = await client.list_tools()
            return client.server_info, {tool.name: tool for tool in found.tools}

    return anyio.run(ask)


def test_the_server_says_which_index_it_serves(tools: Tools) -> None:
    about, _ = told(tools)
    assert about is not None
    assert (about.name, about.title) == (server.NAME, "mine")
    assert about.version == tools.surface.identity.manifest.fingerprint


def test_all_tools_are_there_and_every_parameter_says_what_it_is(tools: Tools) -> None:
    _, found = told(tools)
    assert set(found) == {"search_messages", "search_messages_product", "complete_subject"}
    for tool in found.values():
        assert tool.description
        assert tool.input_schema["additionalProperties"] is False
        for about in tool.input_schema["properties"].values():
            assert about["description"]
    assert set(found["search_messages"].input_schema["required"]) == {"project_key", "query"}
    required = found["search_messages_product"].input_schema["required"]
    assert set(required) == {"product_key", "query"}


def test_every_kind_of_answer_keeps_the_schema(tools: Tools) -> None:
    _, found = told(tools)
    schema = found["search_messages"].output_schema
    assert schema is not None
    for given in (
        {},
        {"explain": True, "limit": 1},
        {"query": "nowhere form:x from:Ann"},
        {"query": ""},
        {"mode": "hybrid_rerank", "explain": True},
    ):
        answer = tools.found(**given)
        jsonschema.validate(answer, schema)
        assert None not in answer.values()
        results.SearchResult.model_validate(answer)


def test_the_text_of_an_answer_is_its_structure(tools: Tools) -> None:
    answer = tools.call("search_messages", project_key="*", query="review")
    (said,) = answer.content
    assert json.loads(getattr(said, "text", "")) == answer.structured_content
