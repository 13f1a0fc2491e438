"""A live comparison of two MCP servers: the control behind a proxy, the candidate beside it."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from time import perf_counter_ns
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import httpx
from anyio.abc import TaskGroup, TaskStatus
from mcp import Client, MCPError
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.types import (
    CONNECTION_CLOSED,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    ListToolsRequest,
    ListToolsResult,
    PaginatedRequestParams,
)

from harness.core.engine import Answer, Searcher
from harness.core.errors import HarnessError, IndexNotReady, first_of
from harness.core.formats import json_of
from harness.core.mcp_pipes import pipes, run_until_signalled
from harness.core.records import Scalar
from harness.core.server import CONNECTIONS, Admission, bound, refuse_streams, server
from harness.shadow.comparison import LiveComparison, ShadowLog
from harness.shadow.log import Between
from harness.shadow.pair import ServedQuery, told
from harness.shadow.settings import Backend, TrafficReading
from harness_engines.stacks.remote import McpConnection, client_of, connected, structured

PAUSE_S = 0.05, 2.0
"""First and longest pause before it is tried again; each is twice the one before."""
Found = TypeVar("Found")
BROKEN = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, httpx.HTTPError)


class McpControl:
    """Sends requests over one connection, none twice: where it broke, the next one waits."""

    def __init__(self, opens: Callable[[], Client], patience_s: float) -> None:
        self._opens, self._patience_s = opens, patience_s
        self._client: Client | None = None
        self._up, self._held = anyio.Event(), anyio.CancelScope()
        self.server_info: Implementation | None = None
        self.instructions: str | None = None
        self.connections = 0
        """How often it was connected."""

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Hold a connection open until cancelled; started when the first one stands."""
        pause = PAUSE_S[0]
        while True:
            try:
                async with self._opens() as client:
                    self.server_info, self.instructions = client.server_info, client.instructions
                    self.connections += 1
                    if self.connections == 1:
                        task_status.started()
                    pause = PAUSE_S[0]
                    with anyio.CancelScope() as self._held:
                        self._client = client
                        self._up.set()
                        await anyio.sleep_forever()
            except Exception:
                if not self.connections:
                    raise
            finally:
                self._drop(self._client)
            await anyio.sleep(pause)
            pause = min(2 * pause, PAUSE_S[1])

    async def send(self, request: Any, kind: type[Found]) -> Found:  # noqa: ANN401  any of MCP's
        """Send one request and give its answer."""
        with anyio.move_on_after(self._patience_s):
            await self._up.wait()
        if (client := self._client) is None:
            raise MCPError(CONNECTION_CLOSED, "the server cannot be reached")
        try:
            return await client.session.send_request(request, kind)  # type: ignore[type-var]
        except MCPError as exc:
            if exc.code == CONNECTION_CLOSED:
                self._drop(client)
            raise
        except BROKEN as exc:
            self._drop(client)
            raise MCPError(CONNECTION_CLOSED, f"the connection broke: {exc!r}") from exc

    def _drop(self, client: Client | None) -> None:
        if client is not None and self._client is client:
            self._client, self._up = None, anyio.Event()
            self._held.cancel()


KIND, PATH = "mcp", "/mcp"
PASSED_ON_BYTES = 16 << 20
"""Of a message over pipes; the longest that is compared is set beside."""
CALLS = 2
"""Of one client at once; to the control all clients are one, and more of one's wait before all."""
Context = ServerRequestContext[Any]


class McpProxy:
    """Passes calls on to one server, and offers those that are queries.

    ``later`` runs what a client need not wait for.
    """

    def __init__(
        self,
        control: McpControl,
        reading: TrafficReading,
        comparison: LiveComparison,
        later: TaskGroup,
    ) -> None:
        about = control.server_info
        self.control, self.comparison, self.later = control, comparison, later
        self._reading = reading
        self.backend = Backend(reading, KIND, f"{about.name} {about.version}" if about else "")

    async def tools(self, _: Context, asked: PaginatedRequestParams | None) -> ListToolsResult:
        """List the control's tools."""
        return await self.control.send(ListToolsRequest(params=asked), ListToolsResult)

    async def call(self, _: Context, asked: CallToolRequestParams) -> CallToolResult:
        """Answer as the control does; an error of the protocol is passed on too."""
        call = CallToolRequestParams(name=asked.name, arguments=asked.arguments)
        answer, error = None, ""
        start = perf_counter_ns()
        try:
            answer = await self.control.send(CallToolRequest(params=call), CallToolResult)
        except MCPError as exc:
            error = told(exc)
            raise
        finally:
            if call.name in self._reading.request.compared:
                offer = partial(self._offer, call, answer, error, perf_counter_ns() - start)
                self.later.start_soon(anyio.to_thread.run_sync, offer)
        return answer

    def _offer(
        self,
        call: CallToolRequestParams,
        shown: CallToolResult | None,
        error: str,
        elapsed_ns: int,
    ) -> None:
        try:
            text, k = self._reading.asked(call.arguments or {})
            arguments = json.dumps(call.arguments, sort_keys=True, ensure_ascii=False)
        except Exception as exc:  # noqa: BLE001  the client has its answer; the log is told
            self.comparison.fault(exc)
            return
        answer, generation = None, self.backend.now()
        try:
            if shown is not None:
                answer, generation = self.backend.read(structured(shown, call.name), k)
        except Exception as exc:  # noqa: BLE001  an answer that cannot be read is one that failed
            error = told(exc)
        error = error or ("" if shown else "it ended without an answer")
        params = {"tool": call.name, "arguments": arguments}
        served = ServedQuery(text, k, params, answer, error, elapsed_ns, generation)
        self.comparison.offer(served, self.backend.now)

    def app(self) -> Server[Any]:
        """Make a server that says of itself what the control says."""
        about = self.control.server_info
        return Server(
            about.name if about else KIND,
            version=about.version if about else "",
            title=about.title if about else None,
            instructions=self.control.instructions,
            on_list_tools=self.tools,
            on_call_tool=self.call,
        )


class McpServer(NamedTuple):
    """Where a server is: an address, or a program to start."""

    command: tuple[str, ...]
    url: str

    @classmethod
    def of(cls, said: str, token: str = "") -> "McpServer":
        """Read an argument, which other users of the machine see, so no token is taken from it."""
        if said.startswith(("http://", "https://")):
            if parse_qs(urlsplit(said).query).get("token"):
                raise HarnessError(
                    "the token is in the address, which other users see. Put it into the"
                    " environment: HARNESS_CONTROL_TOKEN or HARNESS_CANDIDATE_TOKEN"
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


class McpSearcher(Backend):
    """Makes the calls that ``params`` hold: ``tool``, and ``arguments`` as JSON."""

    def __init__(self, to: McpConnection, reading: TrafficReading) -> None:
        super().__init__(reading, KIND, to.server)
        self._to = to

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Call the tool again."""
        del text
        found = self._to.call(str(params["tool"]), json_of(str(params["arguments"])))
        return self.read(found, k)[0]


@contextmanager
def mcp_candidate(where: McpServer, reading: TrafficReading) -> Iterator[Searcher]:
    """Connect to a server."""
    with connected(where.command, where.url, reading.bounds.timeout_s) as to:
        yield McpSearcher(to, reading)


def shadow_mcp(
    control: McpServer,
    candidate: McpServer,
    reading: TrafficReading,
    log: ShadowLog,
    http: tuple[str, int] | None,
    *,
    ready: Callable[[str], object],
) -> None:
    """Serve as the control does, with the candidate as its shadow.

    Over the pipes of this process until they end, or over HTTP until interrupted.
    """
    timeout_s = reading.bounds.timeout_s
    opens = partial(mcp_candidate, candidate, reading)

    async def run() -> None:
        behind = McpControl(partial(client_of, *control, timeout_s), timeout_s)
        async with anyio.create_task_group() as group:
            try:
                await group.start(behind.run)
            except Exception as exc:
                first = first_of(exc)
                said = f"the control: {type(first).__name__}: {first}"
                raise IndexNotReady(f"{said}. Start it, or correct its address") from exc
            async with anyio.create_task_group() as later:
                app = McpProxy(behind, reading, comparison, later).app()
                if http is None:
                    async with pipes(PASSED_ON_BYTES) as (reads, writes):
                        await app.run(reads, writes, app.create_initialization_options())
                else:
                    await _serve_http(app, *http, reading.bounds.request_bytes, ready)
            group.cancel_scope.cancel()

    # without what may be secret; empty for a program
    hosts = (urlsplit(one.url).netloc.rpartition("@")[2] for one in (control, candidate))
    with log.compared(opens, between=Between(*hosts)) as comparison:
        run_until_signalled(run)


async def _serve_http(
    app: Server[Any], host: str, port: int, most: int, ready: Callable[[str], object]
) -> None:
    over_http = app.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=most,
        host=host,
    )
    with bound(host, port) as (opened, url):
        ready(f"{url}{PATH}")
        admission = Admission(over_http, None, refuse_streams, at_once=CALLS)
        await server(admission, CONNECTIONS).serve(sockets=[opened])
