"""``mcp_tools.checked``: a server of tools alone answers whatever the protocol knows, and ends."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp.server.lowlevel import Server
from mcp.types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.methods import SPEC_CLIENT_METHODS

from engines.kept.kit import NOTES
from engines.mcp_server import BY_THE_GUARD
from tests.engines.agent_mail.mcp_tools.conftest import Tools
from tests.engines.kept.test_index import live

VERSIONS = ("2025-06-18", "2026-07-28")
PATIENCE_S = 20
"""Far more than any answer takes; a stream would take for ever."""


@pytest.fixture(params=["mail", "notes"])
def app(request: pytest.FixtureRequest, tools: Tools, tmp_path: Path) -> Server[Any]:
    if request.param == "mail":
        return tools.app
    return NOTES.application(live("notes", tmp_path, tmp_path / "kept"), "notes")


async def asked(app: Server[Any], method: str, version: str) -> httpx.Response:
    """Send one request as a client of this version of the protocol does."""
    asgi = app.streamable_http_app(
        json_response=True, stateless_http=True, transport_security=BY_THE_GUARD
    )
    meta = {PROTOCOL_VERSION_META_KEY: version, CLIENT_CAPABILITIES_META_KEY: {}}
    given = {"name": "none", "uri": "file:///etc/passwd", "notifications": {}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": given}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": version,
        "mcp-method": method,
        "mcp-name": "file:///etc/passwd" if method.startswith("resources") else "none",
    }
    transport = httpx.ASGITransport(asgi)
    async with (
        asgi.router.lifespan_context(asgi),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        with anyio.fail_after(PATIENCE_S):
            return await client.post("/mcp", json=body, headers=headers)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_method_is_answered_and_none_is_a_crash(
    app: Server[Any], version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A stream kept one of the places for ever, and an unknown prompt was a traceback."""
    said = {name: anyio.run(asked, app, name, version) for name in sorted(SPEC_CLIENT_METHODS)}
    assert {name for name, one in said.items() if one.status_code >= 500} == set()
    assert said["tools/list"].json()["result"]["tools"]
    assert "error" in said["subscriptions/listen"].json()
    assert said["prompts/get"].json()["error"]["message"] == "Method not found"
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []
