"""The stack remote/mcp: questions as calls, pages, connections and servers."""

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.core.digest import of_documents
from harness.core.engine import TakesParams
from harness.core.errors import IndexNotReady
from harness.core.records import Document
from harness_engines.stacks import remote as mcp

SETTINGS: dict[str, Any] = {
    "transport": "http", "command": [], "url": "http://127.0.0.1:9/mcp", "mode": "",
    "tool": "search_messages", "product_tool": "", "engine": "tantivy", "ids": "ordinal",
    "project_key": "*", "project_slug": "", "product_name": "", "page_size": 3, "timeout_s": 5.0,
}  # fmt: skip
NAMED = {"project_slug": "project-{}", "product_name": "product-{}"}
TOOLS = {"tool": "find", "product_tool": "find_in_product"}
ASKING = mcp.McpSettings.model_validate({**SETTINGS, **NAMED, **TOOLS})


@pytest.mark.parametrize(
    ("params", "arguments"),
    [
        ({}, {}),
        ({"project_id": 7}, {"project_key": "project-7"}),
        ({"sender_name": "Ann"}, {"sender": "Ann"}),
        ({"recipient_name": "Bob", "agent_name": "A"}, {"recipient": "Bob", "agent_name": "A"}),
        ({"direction": "inbox", "thread_id": 5}, {"direction": "inbox", "thread_id": "5"}),
        (
            {"importance": "low", "ack_required": False},
            {"importance": "low", "ack_required": False},
        ),
        ({"ack_required": None, "thread_id": None}, {}),
        ({"ranking": "recency", "min_score": 0.25}, {"ranking": "recency", "min_score": 0.25}),
        ({"min_ts": 0}, {"date_start": "1970-01-01T00:00:00Z"}),
        ({"max_ts": 10}, {"date_end": "1970-01-01T00:00:00.000010Z"}),
        ({"product_id": 5}, {"product_key": "product-5"}),
        ({"project_id": 7, "product_id": 5}, {"project_key": "project-7"}),
    ],
)
def test_a_param_is_an_argument(params: dict[str, Any], arguments: dict[str, Any]) -> None:
    place = {} if "product_key" in arguments else {"project_key": "*"}
    tool = "find_in_product" if "product_key" in arguments else "find"
    assert ASKING.call("plan", params) == (
        tool, {"query": "plan", "explain": True, **place, **arguments},
    )  # fmt: skip


ROW = {"id": 1, "score": 1.0, "raw_score": 7.5, "subject": "more than is read"}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({}, "result"),
        ({"result": [{"score": 1.0}]}, r"result\.0\.id"),
        ({"result": [{"id": 1, "score": "1"}]}, "score"),
        ({"result": [{"id": 1, "score": float("nan")}]}, "finite"),
        ({"result": [ROW, {"id": 2}]}, "some messages have a score"),
        ({"result": [ROW] * 3}, "3 messages came, 2 were requested"),
        ({"result": [], "next_cursor": "x"}, "empty page"),
    ],
)
def test_what_is_malformed_is_a_failure(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(mcp.MalformedResult, match=says):
        mcp.read_page(wrong, 2)


SERVER = """\
import os
import time

from mcp.server import MCPServer

app = MCPServer("odd", version="7", log_level="ERROR")


@app.tool()
def act(what: str) -> dict[str, str]:
    if what == "hang":
        time.sleep(600)
    if what == "die":
        os._exit(3)
    return {"did": what}


app.run("stdio")
"""
PATIENCE_S = 60.0


@pytest.mark.slow
def test_a_server_that_hangs_or_dies_is_left(tmp_path: Path) -> None:
    path = tmp_path / "server.py"
    path.write_text(SERVER, encoding="utf-8")
    with mcp.connected([sys.executable, str(path)], "", PATIENCE_S) as to:
        bounded = mcp.McpConnection(to.portal, to.client, 0.2, to.server)
        with pytest.raises(TimeoutError):
            bounded.call("act", {"what": "hang"})
        for what in ("die", "sing"):
            with pytest.raises(Exception, match=r"(?i)clos"):
                to.call("act", {"what": what})


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["no-such-program-anywhere"], [sys.executable, "-c", "raise SystemExit(3)"]]
)
def test_nobody_to_speak_to_is_an_arm_that_did_not_run(words: list[str]) -> None:
    with pytest.raises(IndexNotReady, match="no MCP server"), mcp.connected(words, "", 30.0):
        pytest.fail("connected")


DOCUMENTS = [Document(f"d{at}", "", f"text {at}") for at in range(10)]
TEN = [{"id": at, "score": 1 / at, "raw_score": 9.0 / at} for at in range(1, 11)]
Change = Callable[[dict[str, Any]], object]


@dataclass
class Scripted:
    """A server that has ten messages and gives them by pages; ``change`` spoils its answers."""

    server: str = "own v1"
    change: Change = lambda _: None
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=lambda: TEN)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append((tool, arguments))
        start = int(arguments.get("cursor", 0))
        end = start + arguments["limit"]
        answer = {"result": self.rows[start:end], "explain": {"engine": "tantivy"}}
        if end < len(self.rows):
            answer["next_cursor"] = str(end)
        self.change(answer)
        return answer


def remote(to: Scripted, monkeypatch: pytest.MonkeyPatch, **changed: object) -> mcp.Remote:
    monkeypatch.setattr(mcp, "connected", lambda *_: nullcontext(to))
    return mcp.Remote(mcp.McpSettings.model_validate({**SETTINGS, **changed}))


@dataclass
class Arm:
    """A remote stack that is built and can be asked."""

    stack: mcp.Remote
    index: Path
    to: Scripted

    def ask(self, k: int = 8, text: str = "plan", **params: Any) -> tuple[list[str], bool]:  # noqa: ANN401
        """Return the ids shown, and whether the arm's own fingerprint is on them."""
        with self.stack.open(self.index) as searcher:
            assert isinstance(searcher, TakesParams)
            found = searcher.search_with(text, k, params)
            return [h.doc_id for h in found.hits], found.served_by == searcher.manifest.fingerprint


Make = Callable[..., Arm]


@pytest.fixture
def make(index: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    def made(to: Scripted | None = None, **changed: object) -> Arm:
        server = to or Scripted()
        stack = remote(server, monkeypatch, **changed)
        stack.build(DOCUMENTS[::-1], index)
        server.asked.clear()
        return Arm(stack, index, server)

    return made


@pytest.mark.parametrize(
    ("k", "limits"),
    [(0, []), (1, [1]), (3, [3]), (8, [3, 3, 2]), (10, [3, 3, 3, 1]), (50, [3] * 4)],
)
def test_pages_are_turned_until_there_are_enough(make: Make, k: int, limits: list[int]) -> None:
    arm = make()
    assert arm.ask(k) == ([f"d{at}" for at in range(min(k, 10))], True)
    assert [arguments["limit"] for _, arguments in arm.to.asked] == limits
    assert [a.get("cursor") for _, a in arm.to.asked] == [None, "3", "6", "9"][: len(limits)]


def test_scores_are_the_servers_and_without_them_the_order_counts(make: Make) -> None:
    arm = make()
    with arm.stack.open(arm.index) as searcher:
        found = searcher.search("x", 2).hits
        assert [(hit.score, hit.raw_score) for hit in found] == [(1, 9), (0.5, 4.5)]
        arm.to.rows = [{"id": at} for at in range(1, 6)]
        found = searcher.search("x", 5).hits
        assert [hit.score for hit in found] == [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]


def _set(**changed: object) -> Change:
    return lambda answer: answer.update(changed)


def _second_page_of(engine: str) -> Change:
    def change(answer: dict[str, Any]) -> None:
        if answer["result"] and answer["result"][0]["id"] > 3:
            answer["explain"] = {"engine": engine}

    return change


@pytest.mark.parametrize(
    ("change", "own"),
    [
        (_set(), True),
        (_set(explain=None), False),
        (_set(explain={"engine": "fts5"}), False),
        (_set(served_by={"fingerprint": "v2"}), False),
        (_second_page_of("fts5"), False),
    ],
)
def test_only_the_arms_engine_is_signed(make: Make, change: Change, *, own: bool) -> None:
    arm = make()
    arm.to.change = change
    assert arm.ask() == ([f"d{at}" for at in range(8)], own)


def test_a_mode_that_is_sent_must_have_answered(make: Make) -> None:
    arm = make(mode="hybrid")
    assert arm.ask()[1] is False
    arm.to.change = _set(explain={"engine": "tantivy", "actual_mode": "hybrid"})
    assert arm.ask()[1] is True


def test_a_server_of_others_is_refused(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(IndexNotReady, match="cannot be queried"):
        remote(Scripted(change=_set(result=5)), monkeypatch).build(DOCUMENTS, index)
    says = {"fingerprint": "v1", "documents": 3, "corpus_sha256": of_documents(DOCUMENTS)}
    stack = remote(Scripted(change=_set(served_by=says)), monkeypatch)
    assert stack.build(DOCUMENTS, index).documents == 10
    says["corpus_sha256"] = "0" * 64
    with pytest.raises(IndexNotReady, match="other documents"):
        stack.build(DOCUMENTS, index)
