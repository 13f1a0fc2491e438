"""The server behind the MCP proxy, connected to anew whenever its connection breaks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import httpx
from anyio.abc import TaskStatus
from mcp import Client, MCPError
from mcp.types import CONNECTION_CLOSED, Implementation

PAUSE_S = 0.05, 2.0
"""First and longest pause before it is tried again; each is twice the one before."""
Found = TypeVar("Found")
BROKEN = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, httpx.HTTPError)


class McpControl:
    """Sends requests over one connection; a request that finds it broken fails, and the next waits.

    A request is never sent twice: a tool may do more than search.
    """

    def __init__(self, opens: Callable[[], Client], patience_s: float) -> None:
        self._opens, self._patience_s = opens, patience_s
        self._client: Client | None = None
        self._changed = anyio.Event()
        self._broken = anyio.Event()
        self.server_info: Implementation | None = None
        self.instructions: str | None = None
        self.connections = 0
        """How often it was connected."""

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Hold a connection open until cancelled; started when the first one stands.

        Raises:
            BaseException: whatever the first connection fails with; later ones are tried again.
        """
        pause = PAUSE_S[0]
        while True:
            try:
                async with self._opens() as client:
                    self.server_info, self.instructions = client.server_info, client.instructions
                    self.connections += 1
                    self._broken = anyio.Event()
                    self._is(client)
                    if self.connections == 1:
                        task_status.started()
                    pause = PAUSE_S[0]
                    await self._broken.wait()
            except Exception:
                if not self.connections:
                    raise
            finally:
                self._is(None)
            await anyio.sleep(pause)
            pause = min(2 * pause, PAUSE_S[1])

    async def send(self, request: Any, kind: type[Found]) -> Found:  # noqa: ANN401  any of MCP's
        """Send one request and give its answer.

        Raises:
            MCPError: the server says so, or its connection broke, or there is none in time.
        """
        client = await self._connected()
        try:
            return await client.session.send_request(request, kind)  # type: ignore[type-var]
        except MCPError as exc:
            if exc.code == CONNECTION_CLOSED:
                self._drop(client)
            raise
        except BROKEN as exc:
            self._drop(client)
            raise MCPError(CONNECTION_CLOSED, f"the connection broke: {exc!r}") from exc

    async def _connected(self) -> Client:
        with suppress(TimeoutError), anyio.fail_after(self._patience_s):
            while self._client is None:
                await self._changed.wait()
        if self._client is None:
            raise MCPError(CONNECTION_CLOSED, "the server cannot be reached")
        return self._client

    def _drop(self, client: Client) -> None:
        """Let go of a connection that broke, unless another request did so already."""
        if self._client is client:
            self._is(None)
            self._broken.set()

    def _is(self, client: Client | None) -> None:
        self._client = client
        self._changed.set()
        self._changed = anyio.Event()
