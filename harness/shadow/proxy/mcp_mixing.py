"""One list of the answers of two MCP servers, in the shape of the control's answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import anyio
from anyio.abc import TaskGroup
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ListToolsRequest,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from harness.core.errors import HarnessError
from harness.core.formats import json_of
from harness.shadow.clicks.log import Click, ClickLog
from harness.shadow.clicks.mixing import ListMixer
from harness.shadow.live.side import told
from harness.shadow.proxy.interleaved import InterleavedCalls
from harness.shadow.proxy.mcp_control import McpControl
from harness.shadow.proxy.reading import Reading, RequestedQuery, Unreadable

LIST = "search-harness/list"
"""The key of an answer's ``_meta`` with the id of its list."""
MS = 1_000
ABOUT = (
    "Report that a document of a search was used. list: the id beside the search's answer."
    " document: the document's id."
)


class SentAnswer(NamedTuple):
    """What a client gets."""

    answer: CallToolResult
    shown: bool
    """Whether the log of clicks has its list, be it mixed or the control's own."""


@dataclass(slots=True)
class McpMixing:
    """A call whose list is being mixed."""

    call: CallToolRequestParams
    query: RequestedQuery
    user: str
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """Of the candidate's call; cancelled when no one waits for it any more."""
    came: anyio.Event = field(default_factory=anyio.Event)
    others: Mapping[str, Any] = field(default_factory=dict)
    """The candidate's hits by their ids."""
    failed: str = ""


class McpMixer:
    """Calls the candidate as the control is called, and makes one list of both answers.

    ``allowed`` says whether an operator lets users see mixed lists now; ``tell`` is told, once
    each, why lists are not mixed that could be.
    """

    def __init__(
        self,
        candidate: McpControl,
        reading: Reading,
        how: InterleavedCalls,
        log: ClickLog,
        *,
        allowed: Callable[[], bool],
        tell: Callable[[str], object],
    ) -> None:
        self.candidate = candidate
        self._reading, self._how, self._log = reading, how, log
        self._lists, self._allowed, self._tell = ListMixer(log, how.seed), allowed, tell
        self._told: set[str] = set()
        self.tool = _click_tool(how.click_tool) if how.click_tool else None

    def begun(self, call: CallToolRequestParams, group: TaskGroup) -> McpMixing | None:
        """Call the candidate too, in ``group``; None where the call is not mixed."""
        if call.name not in self._reading.request.compared or not self._allowed():
            return None
        arguments = {key: said for key, said in (call.arguments or {}).items() if said is not None}
        if not self._how.mixes(arguments):
            return None
        try:
            query = self._reading.asked(arguments)
        except Unreadable:
            return None
        mixing = McpMixing(call, query, self._how.user_of(arguments))
        group.start_soon(self._ask, mixing)
        return mixing

    async def _ask(self, mixing: McpMixing) -> None:
        with mixing.scope:
            try:
                request = CallToolRequest(params=mixing.call)
                found = await self.candidate.send(request, CallToolResult)
                mixing.others = self._reading.listed(structured(found), mixing.query.k)
            except Exception as exc:  # noqa: BLE001  whatever it does, the control's list is shown
                mixing.failed = told(exc)
            mixing.came.set()

    async def sent(self, mixing: McpMixing, answer: CallToolResult) -> SentAnswer:
        """Give what the client gets for a control's answer: mixed, where it can be.

        It waits for the candidate as long as the file says, and no longer.
        """
        own = SentAnswer(answer, shown=False)
        try:
            whole = structured(answer)
            hits = self._reading.listed(whole, mixing.query.k)
        except Unreadable:
            return own
        if not _says_the_same(answer):
            self._say(f"the text of {mixing.call.name} is not the JSON of its structured content")
            return own
        with anyio.move_on_after(self._how.wait_ms / MS):
            await mixing.came.wait()
        failed = mixing.failed
        if not mixing.came.is_set():
            failed = f"no answer within {self._how.wait_ms:g} ms of the control's"
        failed = failed and f"{self._how.arms[1]}: {failed}"
        try:
            shown = self._lists.show(
                self._how.arms, (tuple(hits), tuple(mixing.others)), mixing.query.k,
                query=mixing.query.text, user=mixing.user, failed=failed,
            )  # fmt: skip
        except OSError as exc:
            self._say(f"they cannot be written down: {exc}")
            return own
        if failed:
            return own._replace(shown=True)
        mixed = [hits[one] if one in hits else mixing.others[one] for one in shown.documents]
        made = self._reading.relisted(whole, mixed)
        content: list[ContentBlock] = [_text(made)] if answer.content else []
        return SentAnswer(self._with_list(answer, made, content, shown.id), shown=True)

    def _with_list(
        self,
        answer: CallToolResult,
        made: Any,  # noqa: ANN401  any JSON
        content: list[ContentBlock],
        list_id: str,
    ) -> CallToolResult:
        if self.tool is not None:
            content.append(_text({"list": list_id}))
        meta = {**(answer.meta or {}), LIST: list_id}
        changed = {"content": content, "structured_content": made, "meta": meta}
        return answer.model_copy(update=changed)

    def is_click(self, call: CallToolRequestParams) -> bool:
        """Tell whether a call reports a click."""
        return self.tool is not None and call.name == self.tool.name

    def clicked(self, call: CallToolRequestParams) -> CallToolResult:
        """Write a click down, and say so; or say why it was not."""
        said = call.arguments or {}
        named = said.get("list"), said.get("document")
        wrong = [one for one in named if isinstance(one, bool) or not isinstance(one, str | int)]
        if wrong or "" in named:
            return _words("list and document must be the ids of a list and of a document", ok=False)
        try:
            self._log.add(Click(*map(str, named)))
        except OSError as exc:
            return _words(f"the click could not be written down: {exc.strerror}", ok=False)
        return _words("noted", ok=True)

    def _say(self, why: str) -> None:
        if why not in self._told:
            self._told.add(why)
            self._tell(f"lists are not mixed, because {why}")


async def check_free(control: McpControl, tool: Tool | None) -> None:
    """Check that the control has no tool of the name by which clicks come.

    Raises:
        HarnessError: it has one.
    """
    page: PaginatedRequestParams | None = None
    while tool is not None:
        listed = await control.send(ListToolsRequest(params=page), ListToolsResult)
        if any(one.name == tool.name for one in listed.tools):
            raise HarnessError(
                f"the control has a tool {tool.name} of its own; write another name for click_tool"
                " into the file of --interleaved"
            )
        if not listed.next_cursor:
            return
        page = PaginatedRequestParams(cursor=listed.next_cursor)


def structured(answer: CallToolResult) -> dict[str, Any]:
    """Give the structured content of an answer.

    Raises:
        Unreadable: the tool failed, or there is none.
    """
    if answer.is_error:
        said = "; ".join(getattr(part, "text", part.type) for part in answer.content)
        raise Unreadable(f"the tool failed: {said}")
    if not isinstance(answer.structured_content, dict):
        raise Unreadable("structured content is missing")
    return answer.structured_content


def _says_the_same(answer: CallToolResult) -> bool:
    """Tell whether the text of an answer, if it has one, is its structured content as JSON."""
    match answer.content:
        case []:
            return True
        case [TextContent(text=text)]:
            try:
                return bool(json_of(text) == answer.structured_content)
            except ValueError:
                return False
    return False


def _text(value: object) -> TextContent:
    return TextContent(type="text", text=json.dumps(value, ensure_ascii=False))


def _words(said: str, *, ok: bool) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=said)], is_error=not ok)


def _click_tool(name: str) -> Tool:
    ids = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    fields = {"list": {"type": "string"}, "document": ids}
    schema = {"type": "object", "properties": fields, "required": [*fields]}
    return Tool(name=name, description=ABOUT, input_schema=schema)
