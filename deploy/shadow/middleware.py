"""Send copies of search requests from an ASGI application to `harness shadow receive`.

    app.add_middleware(Mirror, to="http://127.0.0.1:9400", paths={"/search"})

A copy that cannot be sent at once is dropped: nothing waits, and nothing fails.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import httpx

LEFT_OUT = {b"authorization", b"cookie", b"host", b"content-length", b"transfer-encoding"}
MOST_BYTES, MOST_WAITING, PATIENCE_S = 65_536, 64, 0.5


class Mirror:
    """Passes every request on to the application, and a copy of some to the receiver."""

    def __init__(self, app: Any, *, to: str, paths: Iterable[str]) -> None:
        self.app, self.to, self.paths = app, to, frozenset(paths)
        self.client = httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False)
        self.waiting: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        searched = scope["type"] == "http" and scope["path"] in self.paths
        if not searched or b"x-harness-shadow" in dict(scope["headers"]):
            await self.app(scope, receive, send)
            return
        body = bytearray()

        async def heard() -> Any:
            message = await receive()
            if len(body) <= MOST_BYTES:
                body.extend(message.get("body", b""))
            return message

        await self.app(scope, heard, send)
        if len(body) <= MOST_BYTES and len(self.waiting) < MOST_WAITING:
            task = asyncio.create_task(self.copy(scope, bytes(body)))
            self.waiting.add(task)
            task.add_done_callback(self.waiting.discard)

    async def copy(self, scope: Any, body: bytes) -> None:
        query = scope["query_string"]
        target = scope["raw_path"] + (b"?" + query if query else b"")
        url = httpx.URL(self.to).copy_with(raw_path=target)
        headers = [(name, value) for name, value in scope["headers"] if name not in LEFT_OUT]
        headers.append((b"x-real-ip", (scope.get("client") or ("",))[0].encode()))
        with suppress(httpx.HTTPError):
            await self.client.request(scope["method"], url, headers=headers, content=body)
