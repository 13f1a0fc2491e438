"""Lists of two MCP servers as one (mcp_mixing), whatever the candidate does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, cast

import anyio
import pytest
from mcp import Client, MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    CallToolRequest,
    CallToolResult,
    Implementation,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from harness.core.engine import Searcher
from harness.core.errors import BadPolicy, EvidenceError, HarnessError
from harness.shadow.clicks.log import ClickLog, Clicks
from harness.shadow.clicks.log import read as read_clicks
from harness.shadow.clicks.team_draft import team_draft
from harness.shadow.clicks.users import preferences
from harness.shadow.log.streams import Read
from harness.shadow.proxy.mcp_control import McpControl
from harness.shadow.proxy.mcp_mixing import LIST, McpMixer, check_free
from harness.shadow.proxy.mcp_proxy import McpProxy
from harness.stages.shadow.files import read_interleaved_calls, read_reading
from tests.make.shadow.comparisons import comparison, drained, on_thread
from tests.shadow.arms import OTHER, Arm
from tests.source import ROOT

EXAMPLES = ROOT / "examples" / "shadow"
READING = read_reading(EXAMPLES / "mcp.toml")
SHIPPED = EXAMPLES / "interleaved_mcp.toml"
HOW = read_interleaved_calls(SHIPPED)
PATIENT = HOW.model_copy(update={"wait_ms": 20_000.0})
CONTROL, CANDIDATE = (3, 1, 2), (2, 9, 3, 8)
ASKED = {"query": "ab", "sender": None, "cursor": None}
SEARCH = "search_messages"


def found(ids: tuple[int, ...], **more: object) -> CallToolResult:
    hits = [{"id": one, "raw_score": 9.5 - at, "of": ids[0]} for at, one in enumerate(ids)]
    whole = {"result": hits, "served_by": ids[0], **more}
    text = TextContent(type="text", text=json.dumps(whole))
    return CallToolResult(content=[text], structured_content=whole, _meta={"own": 1})


class Server:
    """Says the same whatever it is called for, or fails as it is told; notes its calls."""

    def __init__(self, says: CallToolResult | Exception | float, tools: int = 1) -> None:
        self.server_info = Implementation(name="letters", version="7")
        self.instructions = None
        self.says, self.heard = says, list[tuple[str, Any]]()
        self.tools = [[Tool(name=f"t{n}", input_schema={"type": "object"})] for n in range(tools)]

    async def send(self, request: Any, kind: type) -> CallToolResult | ListToolsResult:  # noqa: ANN401
        if kind is ListToolsResult:
            page = int(request.params.cursor) if request.params and request.params.cursor else 0
            more = f"{page + 1}" if page + 1 < len(self.tools) else None
            return ListToolsResult(tools=self.tools[page], next_cursor=more)
        assert isinstance(request, CallToolRequest)
        self.heard.append((request.params.name, request.params.arguments))
        if isinstance(self.says, Exception):
            raise self.says
        if isinstance(self.says, float):
            await anyio.sleep(self.says)
            return found(CANDIDATE)
        return self.says.model_copy(deep=True)


@dataclass
class Desk:
    """A proxy that mixes, its client, and what is written down."""

    client: Client
    folder: Path
    told: list[str]

    async def search(self, **more: object) -> CallToolResult:
        answer: CallToolResult = await self.client.session.call_tool(SEARCH, {**ASKED, **more})
        return answer

    async def click(self, **said: object) -> CallToolResult:
        answer: CallToolResult = await self.client.session.call_tool("record_click", said)
        return answer


@dataclass
class Written:
    """What both logs have in the end."""

    given: Any
    clicks: Clicks
    log: Read
    told: list[str] = field(default_factory=list)


@contextmanager
def letters() -> Iterator[Searcher]:
    yield Arm(OTHER)


def mixing(
    tmp_path: Path,
    servers: tuple[Server, Server],
    use: Callable[[Desk], Any],
    *,
    how: Any = PATIENT,  # noqa: ANN401
    on: bool = True,
) -> Written:
    """Use a proxy before the first server that mixes its lists with those of the second."""
    folder, told = tmp_path / "clicks", list[str]()
    folder.mkdir()
    log = ClickLog(folder)
    control, beside = (cast("McpControl", one) for one in servers)

    async def run(made: Any) -> Any:  # noqa: ANN401  a comparison
        mixer = McpMixer(beside, READING, how, log, allowed=lambda: on, tell=told.append)
        async with anyio.create_task_group() as later:
            app = McpProxy(control, READING, made, later, mixer).app()
            async with Client(app) as client:
                return await use(Desk(client, folder, told))

    with comparison(tmp_path / "log", on_thread(letters)) as made:
        given = anyio.run(run, made)
        written = drained(made)
    log.close()
    return Written(given, read_clicks(folder), written, told)


def ids(answer: CallToolResult) -> list[str]:
    return [str(hit["id"]) for hit in answer.structured_content["result"]]


def test_a_list_is_mixed_in_the_shape_of_the_controls_answer(tmp_path: Path) -> None:
    servers = Server(found(CONTROL, note="own")), Server(found(CANDIDATE))
    written = mixing(tmp_path, servers, Desk.search)
    answer = written.given
    (shown,) = written.clicks.shown
    assert (shown.query, shown.arms, shown.failed) == ("ab", HOW.arms, "")
    rankings = [[*map(str, CONTROL)], [*map(str, CANDIDATE)]]
    assert team_draft(rankings, 20, Random(f"1 {shown.id}")) == shown.mixed
    assert ids(answer) == [*shown.documents]
    whole: Mapping[str, Any] = answer.structured_content
    assert (whole["note"], whole["served_by"]) == ("own", 3)
    by_id = {hit["id"]: hit for hit in whole["result"]}
    assert by_id[3] == {"id": 3, "raw_score": 9.5, "of": 3}
    assert by_id[9] == {"id": 9, "raw_score": 8.5, "of": 2}
    first, second = answer.content
    assert json.loads(first.text) == whole
    assert json.loads(second.text) == {"list": shown.id}
    assert (answer.meta["own"], answer.meta[LIST]) == (1, shown.id)
    assert servers[0].heard == servers[1].heard == [(SEARCH, ASKED)]
    assert written.log.tally.attempted == 0


def test_without_a_tool_for_clicks_the_text_is_the_list_alone(tmp_path: Path) -> None:
    async def use(desk: Desk) -> tuple[CallToolResult, list[str]]:
        listed = await desk.client.session.list_tools()
        return await desk.search(), [tool.name for tool in listed.tools]

    servers = Server(found(CONTROL)), Server(found(CANDIDATE))
    quiet = PATIENT.model_copy(update={"click_tool": ""})
    written = mixing(tmp_path, servers, use, how=quiet)
    answer, tools = written.given
    assert len(answer.content) == 1
    assert answer.meta[LIST] == written.clicks.shown[0].id
    assert tools == ["t0"]


def test_while_it_is_off_the_candidate_is_not_called_and_the_call_is_compared(
    tmp_path: Path,
) -> None:
    servers = Server(found(CONTROL)), Server(found(CANDIDATE))
    written = mixing(tmp_path, servers, Desk.search, on=False)
    assert written.given.content == found(CONTROL).content
    assert servers[1].heard == []
    assert written.clicks.shown == ()
    assert written.log.tally.attempted == 1


@pytest.mark.parametrize("more", [{"cursor": "c2"}, {"limit": "few"}, {"query": 7}])
def test_another_page_and_a_call_that_cannot_be_read_are_the_controls(
    tmp_path: Path, more: dict[str, object]
) -> None:
    async def use(desk: Desk) -> CallToolResult:
        return await desk.search(**more)

    servers = Server(found(CONTROL)), Server(found(CANDIDATE))
    written = mixing(tmp_path, servers, use)
    assert written.given.content == found(CONTROL).content
    assert servers[1].heard == []


FAILS: dict[str, CallToolResult | Exception | float] = {
    "an error of the protocol": MCPError(CONNECTION_CLOSED, "gone"),
    "an exception": OSError("gone"),
    "a tool that fails": CallToolResult(content=[], is_error=True),
    "prose": CallToolResult(content=[TextContent(type="text", text="I am sorry")]),
    "too many hits": found(tuple(range(21))),
    "a document twice": found((4, 4)),
    "a partial answer": found(CANDIDATE, diagnostics={"degraded": True}),
    "silence": 60.0,
}


@pytest.mark.parametrize("how", FAILS)
def test_a_candidate_that_fails_changes_nothing_and_counts_for_no_one(
    tmp_path: Path, how: str
) -> None:
    servers = Server(found(CONTROL)), Server(FAILS[how])
    start = monotonic()
    waits = HOW if how == "silence" else PATIENT
    written = mixing(tmp_path, servers, Desk.search, how=waits)
    assert monotonic() - start < PATIENT.wait_ms / 1_000
    assert written.given.content == found(CONTROL).content
    assert written.given.structured_content == found(CONTROL).structured_content
    (shown,) = written.clicks.shown
    assert shown.failed.startswith(f"{HOW.arms[1]}: ")
    assert ("no answer within 200 ms" in shown.failed) == (how == "silence")
    assert (shown.documents, set(shown.teams)) == (("3", "1", "2"), {0})


PLAIN = found(CONTROL).model_copy(update={"content": [TextContent(type="text", text="3, 1, 2")]})
REFUSED = {
    "a tool that fails": CallToolResult(content=[], is_error=True),
    "a document twice": found((1, 1)),
    "text for people": PLAIN,
}


@pytest.mark.parametrize("how", REFUSED)
def test_a_control_whose_answer_is_no_list_is_passed_on_and_compared(
    tmp_path: Path, how: str
) -> None:
    servers = Server(REFUSED[how]), Server(found(CANDIDATE))
    written = mixing(tmp_path, servers, Desk.search)
    assert written.given.content == REFUSED[how].content
    assert written.clicks.shown == ()
    assert written.log.tally.attempted == 1
    says = "the text of search_messages is not the JSON of its structured content"
    assert written.told == ([f"lists are not mixed, because {says}"] if how[:4] == "text" else [])


def test_a_control_that_fails_is_an_attempt_and_lets_the_candidate_go(tmp_path: Path) -> None:
    async def use(desk: Desk) -> str:
        with pytest.raises(MCPError) as raised:
            await desk.search()
        return str(raised.value)

    start = monotonic()
    servers = Server(MCPError(CONNECTION_CLOSED, "gone")), Server(60.0)
    written = mixing(tmp_path, servers, use)
    assert "gone" in written.given
    assert monotonic() - start < 30
    assert written.log.tally.attempted == 1
    assert written.clicks.shown == ()


def test_clicks_are_credited_and_reported(tmp_path: Path) -> None:
    async def use(desk: Desk) -> list[str]:
        for _ in range(20):
            shown = await desk.search()
            click = {"list": (shown.meta or {})[LIST], "document": 9}
            assert not (await desk.click(**click)).is_error
        await desk.click(list="unknown", document="9")
        listed = await desk.client.session.list_tools()
        return [tool.name for tool in listed.tools]

    servers = Server(found(CONTROL)), Server(found(CANDIDATE))
    written = mixing(tmp_path, servers, use)
    assert written.given == ["t0", "record_click"]
    assert all(name == SEARCH for name, _ in servers[0].heard)
    found_clicks = written.clicks
    assert len(found_clicks.shown) == len(found_clicks.clicked) == 20
    assert found_clicks.strays == 1
    with pytest.raises(EvidenceError, match="0 users are known"):
        preferences(found_clicks, confidence=0.95)


@pytest.mark.parametrize(
    "said",
    [{}, {"list": "x"}, {"list": "x", "document": ""}, {"list": "x", "document": True}],
)
def test_a_click_that_cannot_be_read_is_refused(tmp_path: Path, said: dict[str, object]) -> None:
    async def use(desk: Desk) -> CallToolResult:
        return await desk.click(**said)

    written = mixing(tmp_path, (Server(found(CONTROL)), Server(found(CANDIDATE))), use)
    assert written.given.is_error
    assert written.clicks.strays == 0


def test_a_log_that_cannot_be_written_mixes_nothing_and_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "no space left")

    async def use(desk: Desk) -> CallToolResult:
        monkeypatch.setattr(ClickLog, "add", full)
        for _ in range(2):
            assert (await desk.search()).content == found(CONTROL).content
        return await desk.click(list="x", document="1")

    written = mixing(tmp_path, (Server(found(CONTROL)), Server(found(CANDIDATE))), use)
    assert written.given.is_error
    assert "no space left" in written.given.content[0].text
    assert len(written.told) == 1
    assert "they cannot be written down" in written.told[0]
    assert written.log.tally.attempted == 2


@pytest.mark.parametrize("place", [0, 1])
def test_a_tool_of_the_controls_own_is_not_hidden(place: int) -> None:
    control = Server(found(CONTROL), tools=2)
    name = control.tools[place][0].name
    tool = Tool(name=name, input_schema={"type": "object"})
    with pytest.raises(HarnessError, match=f"has a tool {name} of its own"):
        anyio.run(check_free, cast("McpControl", control), tool)
    other = Tool(name="other", input_schema={"type": "object"})
    anyio.run(check_free, cast("McpControl", control), other)


def test_the_tool_for_clicks_is_on_the_last_page_alone(tmp_path: Path) -> None:
    async def use(desk: Desk) -> list[list[str]]:
        pages, cursor = [], None
        for _ in range(2):
            params = PaginatedRequestParams(cursor=cursor)
            listed = await desk.client.session.list_tools(params=params)
            pages.append([tool.name for tool in listed.tools])
            cursor = listed.next_cursor
        return pages

    servers = Server(found(CONTROL), tools=2), Server(found(CANDIDATE))
    assert mixing(tmp_path, servers, use).given == [["t0"], ["t1", "record_click"]]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("record_click", "POST /click", "should match pattern"),
        ("seed = 1\n", "", "seed: is missing"),
        ("click_tool", "click", "unknown key"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "mixed.toml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(BadPolicy, match=says):
        read_interleaved_calls(path)
