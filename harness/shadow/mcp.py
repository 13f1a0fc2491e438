"""A live comparison of two MCP servers: the control behind a proxy, the candidate beside it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from engines.stacks.remote.mcp import Connection, connected
from harness.core.engine import Answer, Manifest, Searcher
from harness.core.errors import BadFile, HarnessError, IndexNotReady, first_of
from harness.core.formats import json_of
from harness.core.mcp_pipes import run_until_signalled
from harness.core.reading import Malformed, text_of
from harness.core.records import Scalar
from harness.shadow.comparison import ShadowLog
from harness.shadow.log import Between
from harness.shadow.mcp_proxy import KIND, McpControl, serve
from harness.shadow.server import Backend, Reading, Unreadable


@dataclass(frozen=True, slots=True)
class McpServer:
    """Where a server is: an address, or a program to start."""

    command: tuple[str, ...]
    url: str

    @property
    def host(self) -> str:
        """Name the server without what may be secret; empty for a program."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @classmethod
    def of(cls, said: str, token: str = "") -> McpServer:
        """Read an argument, which other users of the machine see, so no token is taken from it."""
        if said.startswith(("http://", "https://")):
            if parse_qs(urlsplit(said).query).get("token"):
                raise HarnessError(
                    "the token is in the address, which other users see. Put it into a file, and"
                    " name the file with --control-token or --candidate-token"
                )
            between = "&" if urlsplit(said).query else "?"
            return cls((), f"{said}{between}{urlencode({'token': token})}" if token else said)
        try:
            words = tuple(shlex.split(said))
        except ValueError as exc:
            raise HarnessError(f"{said}: {exc}") from exc
        if not words:
            raise HarnessError("a server is an address as http://127.0.0.1:8765/mcp, or a command")
        return cls(words, "")


def token_for(file: Path | None, given: str | None) -> str:
    """Read the token of a server from a file; without one it is what the environment has given."""
    if file is None:
        return (given or "").strip()
    try:
        words = text_of(file).split()
    except (OSError, Malformed) as exc:
        raise BadFile(file, f"cannot be read ({exc})", "Name another file") from exc
    if len(words) != 1:
        raise BadFile(file, "does not hold one token", "Write the token into it, and nothing else")
    return words[0]


@dataclass(frozen=True, slots=True)
class McpSearcher:
    """Makes the calls that ``params`` hold: ``tool``, and ``arguments`` as JSON."""

    to: Connection
    backend: Backend

    @property
    def manifest(self) -> Manifest:
        return self.backend.manifest

    @property
    def generation(self) -> int | str | None:
        return self.backend.generation

    def search(self, text: str, k: int) -> Answer:
        """Refuse: a text alone is not a call."""
        del text, k
        raise Unreadable("a query without its call")

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Call the tool again."""
        del text
        found = self.to.call(str(params["tool"]), json_of(str(params["arguments"])))
        return self.backend.read(found, k).answer


@contextmanager
def mcp_candidate(where: McpServer, reading: Reading) -> Iterator[Searcher]:
    """Connect to a server."""
    with connected(where.command, where.url, reading.bounds.timeout_s) as to:
        yield McpSearcher(to, Backend(reading, KIND, to.server))


def shadow_mcp(
    control: McpServer,
    candidate: McpServer,
    reading: Reading,
    log: ShadowLog,
    http: tuple[str, int] | None,
    *,
    ready: Callable[[str], object],
) -> None:
    """Serve as the control does, over pipes or over HTTP, with the candidate as its shadow."""
    opens = partial(mcp_candidate, candidate, reading)
    between = Between(control.host, candidate.host)
    with log.compared(opens, between=between, process=True) as comparison:

        async def run() -> None:
            timeout_s = reading.bounds.timeout_s
            behind = McpControl(partial(_control, control, timeout_s), timeout_s)
            async with anyio.create_task_group() as group:
                try:
                    await group.start(behind.run)
                except Exception as exc:
                    first = first_of(exc)
                    said = f"{type(first).__name__}: {first}"
                    hint = "Start it, or correct its address"
                    raise IndexNotReady(f"the control: {said}. {hint}") from exc
                await serve(behind, reading, comparison, http, ready)
                group.cancel_scope.cancel()

        run_until_signalled(run)


def _control(where: McpServer, timeout_s: float) -> Client:
    log = sys.__stderr__ or sys.stderr
    started = where.url or stdio_client(
        StdioServerParameters(command=where.command[0], args=list(where.command[1:])), errlog=log
    )
    return Client(started, read_timeout_seconds=timeout_s, cache=None)
