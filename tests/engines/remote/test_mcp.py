"""``remote.mcp``: pages until there are enough, ids, and whose fingerprint an answer carries."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from engines import registry as arms
from engines.stacks.remote import mcp
from engines.stacks.remote.mcp import Connection, Malformed, NotExpressible, ToolFailed
from harness.core.digest import of_documents
from harness.core.engine import TakesParams
from harness.core.errors import BadPolicy, IndexNotReady
from harness.core.records import Document, Query
from harness.core.run import Status
from harness.replay.drive import observe

DOCUMENTS = [Document(f"d{at}", "", f"text {at}") for at in range(10)]
SETTINGS: dict[str, Any] = {
    "transport": "http",
    "command": [],
    "url": "http://127.0.0.1:9/mcp",
    "tool": "search_messages",
    "product_tool": "",
    "project_key": "*",
    "project_slug": "",
    "product_name": "",
    "mode": "",
    "engine": "tantivy",
    "ids": "ordinal",
    "page_size": 3,
    "timeout_s": 5.0,
}
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
    def connected(*_: object) -> AbstractContextManager[Connection]:
        return nullcontext(cast("Connection", to))

    monkeypatch.setattr(mcp, "connected", connected)
    return mcp.Remote(mcp.Settings.model_validate({**SETTINGS, **changed}))


@dataclass
class Arm:
    """A remote stack that is built and can be asked."""

    stack: mcp.Remote
    index: Path
    to: Scripted

    def ask(self, k: int = 8, text: str = "plan", **params: Any) -> tuple[list[str], bool]:  # noqa: ANN401
        """Give the ids shown, and whether the arm's own fingerprint is on them."""
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
        assert [(h.score, h.raw_score) for h in searcher.search("x", 2).hits] == [
            (1, 9),
            (0.5, 4.5),
        ]
    (arm.index / "manifest.json").unlink()
    bare = make(Scripted(rows=[{"id": at} for at in range(1, 6)]))
    with bare.stack.open(bare.index) as searcher:
        found = [hit.score for hit in searcher.search("x", 5).hits]
    assert found == [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]


def test_ids_may_be_the_documents_own(make: Make) -> None:
    arm = make(Scripted(rows=[{"id": "d7"}, {"id": 5}]), ids="verbatim")
    assert arm.ask()[0] == ["d7", "5"]


def _set(**changed: object) -> Change:
    return lambda answer: answer.update(changed)


def _same_cursor(answer: dict[str, Any]) -> None:
    answer["next_cursor"] = "3"


@pytest.mark.parametrize(
    "change",
    [
        _set(result="none"),
        _set(result=[{"id": 0}]),
        _set(result=[{"id": 11}]),
        _set(result=[{"id": "d1"}]),
        _set(result=[], next_cursor="5"),
        _set(result=TEN),
        _same_cursor,
    ],
)
def test_a_malformed_answer_is_a_failed_query(make: Make, change: Change) -> None:
    arm = make()
    arm.to.change = change
    with pytest.raises(Malformed):
        arm.ask()
    with arm.stack.open(arm.index) as searcher:
        row = observe(searcher, Query("q", "plan"), 8, 10**12).row
    assert row.status is Status.FAILED
    assert "Malformed" in row.error


def test_a_failed_tool_and_what_cannot_be_said_are_failed_queries(make: Make) -> None:
    arm = make()
    with pytest.raises(NotExpressible):
        arm.ask(folder="inbox")
    assert arm.to.asked == []

    def fails(_: dict[str, Any]) -> None:
        raise ToolFailed("INVALID_ARGUMENT")

    arm.to.change = fails
    with pytest.raises(ToolFailed):
        arm.ask()


def _second_page_of(engine: str) -> Change:
    def change(answer: dict[str, Any]) -> None:
        if answer["result"] and answer["result"][0]["id"] > 3:
            answer["explain"] = {"engine": engine}

    return change


@pytest.mark.parametrize(
    ("change", "own"),
    [
        (_set(), True),
        (_set(explain={"engine": "tantivy"}), True),
        (_set(explain=None), False),
        (_set(explain={"engine": "fts5"}), False),
        (_set(diagnostics={"degraded": True, "reason": "torn"}), False),
        (_set(served_by={"fingerprint": "v1"}), True),
        (_set(served_by={"fingerprint": "v2"}), False),
        (_second_page_of("fts5"), False),
    ],
)
def test_only_the_arms_engine_is_signed_with_its_fingerprint(
    make: Make, change: Change, *, own: bool
) -> None:
    arm = make()
    arm.to.change = change
    hits, signed = arm.ask()
    assert len(hits) == 8
    assert signed is own


def test_a_server_without_a_name_is_never_signed(make: Make) -> None:
    assert make(Scripted(server="")).ask() == ([f"d{at}" for at in range(8)], False)


def test_a_mode_that_is_sent_must_have_answered(make: Make) -> None:
    arm = make(mode="hybrid")
    assert arm.ask()[1] is False
    arm.to.change = _set(explain={"engine": "tantivy", "actual_mode": "hybrid"})
    assert arm.ask()[1] is True


def test_a_server_of_other_documents_is_refused(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = of_documents(DOCUMENTS)
    for sha, fits in ((ours, True), ("0" * 64, False)):
        says = _set(served_by={"fingerprint": "v1", "documents": 3, "corpus_sha256": sha})
        stack = remote(Scripted(change=says), monkeypatch)
        if fits:
            assert stack.build(DOCUMENTS, index).documents == 10
        else:
            with pytest.raises(IndexNotReady, match="other documents"):
                stack.build(DOCUMENTS, index)


def test_a_server_that_cannot_be_asked_is_refused_when_it_is_indexed(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(IndexNotReady, match="cannot be queried"):
        remote(Scripted(change=_set(result=5)), monkeypatch).build(DOCUMENTS, index)


def test_another_server_than_was_indexed_is_not_opened(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm = make()
    again = remote(Scripted(server="own v2"), monkeypatch)
    with pytest.raises(IndexNotReady, match="own v2"), again.open(arm.index):
        pytest.fail("opened")
    other = remote(Scripted(), monkeypatch, engine="fts5")
    with pytest.raises(IndexNotReady, match="settings"), other.open(arm.index):
        pytest.fail("opened")


def test_an_index_that_is_damaged_is_not_opened(make: Make) -> None:
    arm = make()
    for spoilt in (json.dumps(["d1"]), "{"):
        (arm.index / mcp.IDS).write_text(spoilt)
        with pytest.raises(IndexNotReady), arm.stack.open(arm.index):
            pytest.fail("opened")


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"url": ""}, "http a url"),
        ({"command": ["x"]}, "http a url"),
        ({"transport": "stdio"}, "stdio needs a command"),
        ({"transport": "stdio", "command": ["x"]}, "no url"),
        ({"transport": "carrier pigeon"}, "transport"),
        ({"page_size": 0}, "page_size"),
        ({"timeout_s": 0.0}, "timeout_s"),
    ],
)
def test_settings_that_do_not_fit_are_named(
    tmp_path: Path, changed: dict[str, Any], key: str
) -> None:
    lines = "".join(f"{k} = {json.dumps(v)}\n" for k, v in {**SETTINGS, **changed}.items())
    path = tmp_path / "far.toml"
    path.write_text(f'summary = "far"\nstack = "remote/mcp"\n[settings]\n{lines}')
    with pytest.raises(BadPolicy, match=key):
        arms.load(str(path), tmp_path)
