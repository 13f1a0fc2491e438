"""The page of metrics: beside the tools, under the same rules, and for operators alone.

How many messages change tells a viewer of messages that it may not see.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Request

from engines.stacks.agent_mail.mcp_tools.callers import CALLER
from engines.stacks.agent_mail.mcp_tools.metrics import CONTENT_TYPE

PATH = "/metrics"


class MetricsPage:
    """Answers ``GET /metrics``, and leaves all else to ``app``; ``guard.Guard`` stands before."""

    def __init__(self, app: ASGIApp, text: Callable[[], str]) -> None:
        self._app, self._text = app, text

    async def __call__(self, scope: Request, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH:
            await self._app(scope, receive, send)
            return
        await self._page(scope["method"])(scope, receive, send)

    def _page(self, method: str) -> Response:
        if CALLER.get(None) is not None:
            return PlainTextResponse("metrics are for operators", 403)
        if method not in {"GET", "HEAD"}:
            return PlainTextResponse("metrics are read with GET", 405, {"allow": "GET, HEAD"})
        return Response(self._text(), media_type=CONTENT_TYPE)
