"""``mcp_tools.guard``: who is let through to the tools over HTTP, and as whom."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
import httpx
import pytest
from starlette.types import Receive, Send
from starlette.types import Scope as Request

from engines.mcp_server import CALLER, admitted, digest
from engines.stacks.agent_mail.pipeline.scope import Scope, viewer

EYE = viewer("Ann", frozenset(), frozenset())
TOKENS: Mapping[str, Scope | None] = {digest("operator's"): None, digest("Ann's"): EYE}
ADDRESSES = [("127.0.0.1", "127.0.0.1"), ("127.0.0.2", "127.0.0.2"), ("::1", "[::1]")]


async def who(scope: Request, receive: Receive, send: Send) -> None:
    """Answer with the policy of whoever calls."""
    del scope, receive
    caller = CALLER.get()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    said = caller.policy if caller else "operator"
    await send({"type": "http.response.body", "body": said.encode()})


def shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def ask(
    host: str = "127.0.0.1",
    *,
    headers: Mapping[str, str] | None = None,
    query: str = "",
    tokens: Mapping[str, Scope | None] | None = None,
) -> tuple[int, str]:
    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(admitted(who, f"http://{shown(host)}:8080", tokens))
        async with httpx.AsyncClient(transport=transport) as client:
            given = {"host": "127.0.0.1:8080", **(headers or {})}
            return await client.post(f"http://127.0.0.1:8080/mcp{query}", headers=given)

    found = anyio.run(asked)
    return found.status_code, found.text


@pytest.mark.parametrize(("host", "named"), ADDRESSES)
def test_the_host_is_checked_whatever_loopback_address_is_served(host: str, named: str) -> None:
    for good in (f"{named}:8080", "localhost:8080", "LocalHost:8080"):
        assert ask(host, headers={"host": good}) == (200, "operator")
    strangers = ("evil.example", "evil.example:8080", "127.0.0.9:8080")
    for bad in (*strangers, f"{named}", f"{named}:80", ""):
        assert ask(host, headers={"host": bad})[0] == 421


@pytest.mark.parametrize(("host", "named"), ADDRESSES)
def test_a_page_of_another_origin_is_not_answered(host: str, named: str) -> None:
    own = {"host": f"{named}:8080"}
    assert ask(host, headers={**own, "origin": f"http://{named}:8080"})[0] == 200
    for bad in ("http://evil.example", "null", f"https://{named}:8080", f"http://{named}:80", ""):
        assert ask(host, headers={**own, "origin": bad})[0] == 403


@pytest.mark.parametrize(("token", "said"), [("operator's", "operator"), ("Ann's", "viewer:Ann")])
def test_a_token_says_who_calls(token: str, said: str) -> None:
    assert ask(headers={"authorization": f"Bearer {token}"}, tokens=TOKENS) == (200, said)
    assert ask(query=f"?token={token}", tokens=TOKENS) == (200, said)


@pytest.mark.parametrize("said", ["", "Bearer", "Bearer ", "Bearer wrong", "Basic Ann's", "Ann's"])
def test_without_a_token_no_one_is_answered(said: str) -> None:
    headers = {"authorization": said} if said else {}
    assert ask(headers=headers, tokens=TOKENS)[0] == 401
    assert ask(query="?token=Ann's&token=operator's", tokens=TOKENS)[0] == 401


def test_a_request_for_a_stream_takes_no_place() -> None:
    """The server sends no messages of its own; each such stream kept one of the places for ever."""

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(admitted(who, "http://127.0.0.1:8080", None))
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.get("http://127.0.0.1:8080/mcp")

    found = anyio.run(asked)
    assert (found.status_code, found.headers["allow"]) == (405, "POST")
