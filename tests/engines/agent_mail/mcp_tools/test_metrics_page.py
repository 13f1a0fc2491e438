"""``mcp_tools.metrics_page``: who may read the metrics, and how."""

from __future__ import annotations

import anyio
import httpx
import pytest

from engines.stacks.agent_mail.mcp_tools.metrics import CONTENT_TYPE
from engines.stacks.agent_mail.mcp_tools.serving import Guard, MetricsPage
from tests.engines.agent_mail.mcp_tools.test_guard import TOKENS, who


def ask(
    method: str = "GET", path: str = "/metrics", *, caller: str = "operator's"
) -> httpx.Response:
    async def asked() -> httpx.Response:
        app = Guard(MetricsPage(who, lambda: "a 1\n"), "127.0.0.1", 80_80, TOKENS)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
            headers = {"authorization": f"Bearer {caller}"}
            return await client.request(method, f"http://127.0.0.1:8080{path}", headers=headers)

    return anyio.run(asked)


def test_an_operator_reads_them() -> None:
    response = ask()
    assert (response.status_code, response.text) == (200, "a 1\n")
    assert response.headers["content-type"] == CONTENT_TYPE


@pytest.mark.parametrize(("caller", "status"), [("Ann's", 403), ("a guess", 401)])
def test_no_one_else_does(caller: str, status: int) -> None:
    response = ask(caller=caller)
    assert response.status_code == status
    assert "a 1" not in response.text


def test_they_are_only_read() -> None:
    assert ask("POST").status_code == 405


@pytest.mark.parametrize("path", ["/mcp", "/metrics/", "/"])
def test_all_else_is_the_tools(path: str) -> None:
    assert ask("POST", path).text == "operator"
