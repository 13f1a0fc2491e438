"""Message search that runs elsewhere and speaks MCP: any server with the tools of section 6."""

import json
import math
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from harness.core.digest import of_json
from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher
from harness.core.errors import IndexNotReady, first_of
from harness.core.records import Document, Scalar
from harness_engines import contract
from harness_engines.contract import StackSettings
from harness_engines.stacks.agent_mail.mcp_tools.arguments import written


class NoSuchArgument(Exception):
    """A param that the tools have no argument for; leaving it out would ask something else."""


def _text(name: str, value: Scalar) -> str:
    if not str(value).strip():
        raise NoSuchArgument(f"{name} is empty, which the tools take for not given")
    return str(value)


def _instant(name: str, value: Scalar) -> str:
    try:
        return written(int(value or 0))
    except (ValueError, OverflowError) as exc:
        raise NoSuchArgument(f"{name} {value!r} is not an instant of the years 1 to 9999") from exc


ARGUMENTS: Mapping[str, tuple[str, Callable[[str, Scalar], Scalar]]] = {
    "importance": ("importance", _text),
    "direction": ("direction", _text),
    "agent_name": ("agent_name", _text),
    "thread_id": ("thread_id", _text),
    "sender_name": ("sender", _text),
    "recipient_name": ("recipient", _text),
    "ranking": ("ranking", _text),
    "min_ts": ("date_start", _instant),
    "max_ts": ("date_end", _instant),
    "ack_required": ("ack_required", lambda _, value: bool(value)),
    "min_score": ("min_score", lambda _, value: value),
}
"""Params of queries: the tools' names for them, and how a value is written."""


class ToolFailed(Exception):
    """The server answered that the call failed."""


@dataclass(frozen=True, slots=True)
class McpConnection:
    """An open connection; calls block."""

    portal: BlockingPortal
    client: Client
    timeout_s: float
    server: str
    """Name and version that the server gave of itself; empty where it gave none."""

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call a tool and give the structured content of its answer."""
        json.dumps(arguments, ensure_ascii=False).encode()
        return self.portal.call(self._call, tool, arguments)

    async def _call(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call without the SDK's check of the whole answer against the tool's schema."""
        params = CallToolRequestParams(name=tool, arguments=dict(arguments))
        asked = CallToolRequest(params=params)
        with anyio.fail_after(self.timeout_s):
            found = await self.client.session.send_request(asked, CallToolResult)
        return structured(found, tool)


def structured(answer: CallToolResult, tool: str) -> Mapping[str, Any]:
    """Return the structured content of what a tool answered."""
    if answer.is_error:
        said = "; ".join(getattr(part, "text", part.type) for part in answer.content)
        raise ToolFailed(said or f"{tool} failed and does not say why")
    if not isinstance(answer.structured_content, dict):
        raise ToolFailed(f"{tool} gave no structured content")
    return answer.structured_content


def client_of(command: Sequence[str], url: str, timeout_s: float) -> Client:
    """Make a client of a server at ``url``, or, without one, of ``command`` over its pipes."""
    program = StdioServerParameters(command=command[0] if command else "", args=list(command[1:]))
    started = url or stdio_client(program, errlog=sys.__stderr__ or sys.stderr)  # not a test's own
    return Client(started, read_timeout_seconds=timeout_s, cache=None)


@contextmanager
def connected(command: Sequence[str], url: str, timeout_s: float) -> Iterator[McpConnection]:
    """Start ``command`` and speak to it over its pipes, or speak to ``url`` where that is given."""
    where = url.partition("?")[0] or " ".join(command)
    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())
        opened = portal.wrap_async_context_manager(_opened(command, url, timeout_s))
        try:
            client = opened.__enter__()
        except Exception as exc:
            first = first_of(exc)
            raise IndexNotReady(
                f"{where}: no MCP server answers ({type(first).__name__}: {first})."
                " Start it, or correct the arm"
            ) from exc
        about = client.server_info
        server = f"{about.name} {about.version}" if about else ""
        try:
            yield McpConnection(portal, client, timeout_s, server)
        finally:
            with suppress(Exception):  # each query of a lost connection has told it already
                opened.__exit__(None, None, None)


@asynccontextmanager
async def _opened(command: Sequence[str], url: str, timeout_s: float) -> AsyncIterator[Client]:
    deadline = anyio.current_time() + timeout_s
    with anyio.CancelScope(deadline=deadline) as scope:
        async with client_of(command, url, timeout_s) as client:
            scope.deadline = math.inf
            try:
                yield client
            finally:
                scope.deadline = anyio.current_time() + timeout_s
    if scope.cancelled_caught:
        raise TimeoutError(f"not within {timeout_s:g} s")


class MalformedResult(Exception):
    """The server's answer is not the one that section 6 describes."""


class AnswerModel(BaseModel):
    """What is read of an answer; a server may say more."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class Item(AnswerModel):
    """A message found. A server that gives no scores gives an order all the same."""

    id: int | str
    score: FiniteFloat | None = None
    raw_score: FiniteFloat | None = None


class Explain(AnswerModel):
    """Who answered, as far as section 5 says it."""

    engine: str | None = None
    actual_mode: str | None = None
    mode_downgraded: bool = False
    used_like_fallback: bool = False
    cursor_invalidated: bool = False
    note: str = ""


class Diagnostics(AnswerModel):
    """Present where an answer is degraded, or the query says nothing."""

    degraded: bool = True
    reason: str = ""


class AnsweringIndex(AnswerModel):
    """Which index answered, where a server says so."""

    fingerprint: str
    documents: int | None = None
    corpus_sha256: str | None = None


class Page(AnswerModel):
    """One page."""

    result: list[Item]
    next_cursor: str | None = None
    explain: Explain | None = None
    diagnostics: Diagnostics | None = None
    served_by: AnsweringIndex | None = None

    @property
    def note(self) -> str:
        """How the query was understood or degraded, in the server's words."""
        if self.diagnostics is not None:
            return self.diagnostics.reason or "degraded"
        return self.explain.note if self.explain else ""

    def is_of(self, engine: str, mode: str, version: str) -> bool:
        """Return whether ``engine`` answered, fully, in ``mode`` (any where empty), and says so."""
        said = self.explain
        if said is None or said.engine != engine or (mode and said.actual_mode != mode):
            return False
        degraded = self.diagnostics is not None and self.diagnostics.degraded
        if degraded or said.mode_downgraded or said.used_like_fallback or said.cursor_invalidated:
            return False
        return self.served_by is None or self.served_by.fingerprint == version


def read_page(answer: Mapping[str, Any], limit: int) -> Page:
    """Read a page of at most ``limit`` messages."""
    try:
        page = Page.model_validate(answer)
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise MalformedResult(f"the answer's {place}: {first['msg']}") from exc
    if len(page.result) > limit:
        raise MalformedResult(f"{len(page.result)} messages came, {limit} were requested")
    if page.next_cursor is not None and not page.result:
        raise MalformedResult("an empty page has a next_cursor")
    scored = [item.score is not None for item in page.result]
    if any(scored) and not all(scored):
        raise MalformedResult("some messages have a score, some have not")
    return page


ENGINE, IDS = "remote-mcp", "ids.json"


class McpSettings(StackSettings):
    """Where the server is, how it is queried, and who is meant to answer."""

    transport: Literal["stdio", "http"]
    command: list[str]
    url: str
    tool: str
    product_tool: str
    project_key: str
    project_slug: str
    product_name: str
    mode: str
    engine: str
    ids: Literal["ordinal", "verbatim"]
    page_size: int = Field(ge=1, le=1000)
    timeout_s: float = Field(gt=0, le=86_400)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        stdio = self.transport == "stdio"
        if stdio != bool(self.command) or stdio == bool(self.url):
            raise ValueError("stdio needs a command and no url, http a url and no command")
        return self

    @property
    def server(self) -> tuple[list[str], str, float]:
        """What ``connected`` takes."""
        return self.command, self.url, self.timeout_s

    def call(self, text: str, params: Mapping[str, Scalar]) -> tuple[str, dict[str, Any]]:
        """Write a query as a tool and its arguments, but for limit and cursor."""
        given = {name: value for name, value in params.items() if value is not None}
        tool, arguments = self._within(given.pop("project_id", None), given.pop("product_id", None))
        if strange := sorted(given.keys() - ARGUMENTS.keys()):
            raise NoSuchArgument(f"the tools have no argument for {strange[0]}")
        arguments |= {"query": text, "explain": True, **({"mode": self.mode} if self.mode else {})}
        for name, value in given.items():
            argument, write = ARGUMENTS[name]
            arguments[argument] = write(name, value)
        return tool, arguments

    def _within(self, project: Scalar, product: Scalar) -> tuple[str, dict[str, Any]]:
        """Return where to search; a project goes before a product (section 7.2)."""
        if project is not None:
            return self.tool, {"project_key": _named("project_id", self.project_slug, project)}
        if product is None:
            return self.tool, {"project_key": self.project_key}
        if not self.product_tool:
            raise NoSuchArgument("the arm names no product_tool for product_id")
        return self.product_tool, {"product_key": _named("product_id", self.product_name, product)}


def _named(param: str, form: str, value: Scalar) -> str:
    if not form:
        raise NoSuchArgument(f"the arm does not say how the server names a {param}")
    return form.replace("{}", str(value))


@dataclass(frozen=True, slots=True)
class Remote:
    settings: McpSettings

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        """Note the documents' ids, and which server holds them; nothing is sent to it."""

        def fill(passing: Iterable[Document]) -> None:
            contract.write_ids(index / IDS, sorted(one.doc_id for one in passing))

        with connected(*self.settings.server) as to:
            made = contract.record(index, documents, fill, **self._made_by(to))
            tool, arguments = self.settings.call("a", {})
            try:
                said = read_page(to.call(tool, {**arguments, "limit": 1}), 1).served_by
            except Exception as exc:
                problem = f"{to.server}: cannot be queried ({exc}). Correct the arm"
                raise IndexNotReady(problem) from exc
            if said is not None and said.corpus_sha256 not in {None, made.corpus_sha256}:
                raise IndexNotReady(
                    f"{to.server}: holds other documents ({said.documents}, here {made.documents})."
                    " Index the same data set there"
                )
        return made

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        made = contract.read(index)
        doc_ids = contract.read_ids(index / IDS)
        contract.check_count(index, made, len(doc_ids))
        with connected(*self.settings.server) as to:
            contract.check_made_by(index, made, **self._made_by(to))
            yield RemoteSearcher(to, doc_ids, made, self.settings)

    def _made_by(self, to: McpConnection) -> dict[str, Any]:
        return {"engine": ENGINE, "version": to.server, "settings": self.settings.model_dump()}


@dataclass(frozen=True, slots=True)
class RemoteSearcher:
    to: McpConnection
    doc_ids: tuple[str, ...]
    manifest: Manifest
    settings: McpSettings

    def search(self, text: str, k: int) -> Answer:
        return self.search_with(text, k, {})

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Show at most ``k`` hits, page by page."""
        tool, wanted = self.settings.call(text, params)
        hits: list[Hit] = []
        read: list[Page] = []
        cursors: set[str] = set()
        cursor: str | None = None
        while len(hits) < k:
            limit = min(self.settings.page_size, k - len(hits))
            going_on = {} if cursor is None else {"cursor": cursor}
            arguments = {**wanted, "limit": limit, **going_on}
            page = read_page(self.to.call(tool, arguments), limit)
            for item in page.result:  # without scores, 1 / place keeps the order
                score = 1.0 / (len(hits) + 1) if item.score is None else item.score
                raw = score if item.raw_score is None else item.raw_score
                hits.append(Hit(self._doc_id(item.id), score, raw))
            read.append(page)
            cursor = page.next_cursor
            if cursor is None:
                break
            if cursor in cursors:
                raise MalformedResult(f"the cursor {cursor} came twice")
            cursors.add(cursor)
        return self._signed(hits, read)

    def _doc_id(self, found: int | str) -> str:
        if self.settings.ids == "verbatim":
            return str(found)
        if not isinstance(found, int) or not 1 <= found <= len(self.doc_ids):
            raise MalformedResult(f"{found!r} is not an ordinal of {len(self.doc_ids)} documents")
        return self.doc_ids[found - 1]

    def _signed(self, hits: Sequence[Hit], read: Sequence[Page]) -> Answer:
        """Return the arm's fingerprint only where every page says that the arm's engine made it."""
        given, server = self.settings, self.manifest.version
        version = server.rpartition(" ")[2]
        note = next((page.note for page in read if page.note), "")
        if server and all(page.is_of(given.engine, given.mode, version) for page in read):
            return Answer(tuple(hits), self.manifest.fingerprint, note)
        said = [page.explain.engine if page.explain else None for page in read]
        other = of_json([self.manifest.fingerprint, said, note])
        engines = " and ".join(dict.fromkeys(one or "nobody" for one in said))
        told = f"{server or 'a server without a name'} says that {engines} answered"
        return Answer(tuple(hits), other, "; ".join(filter(None, (told, note))))


def engine(settings: Mapping[str, Any], _cache: Path) -> Engine:
    """Make the engine from an arm's settings; nothing is kept between runs."""
    return Remote(McpSettings.model_validate(settings))
