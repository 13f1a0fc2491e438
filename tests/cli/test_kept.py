"""Commands of kept folders, and each way to a promise."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server.lowlevel import Server

from harness.core.errors import IndexNotReady
from harness_engines import registry as arms
from harness_engines.kept.kit import CODE, DOCUMENTS, KITS, NOTES
from harness_engines.stacks.code.arm import Code
from harness_engines.stacks.remote import McpConnection, ToolFailed, connected
from harness_engines.stacks.writing.arm import Writing
from tests.cli.conftest import Harness
from tests.docs.contract import TOOL, rows
from tests.engines.test_kept_index import live
from tests.make.code import write_shop
from tests.make.mail_project import BOUNDED_S, listening
from tests.make.toy import Toy
from tests.programs import PYTHON

pytestmark = pytest.mark.slow
ARMS = {"notes": "writing-stems", "code": "code-words", "docs": "documents-bm25"}
TEXT = "# The harbour\n\nBoats wait for the tide.\n"


@pytest.fixture
def root(project: Toy) -> Path:
    made = project.root / "mine"
    made.mkdir()
    (made / "harbour.md").write_text(TEXT)
    (made / "moon.md").write_text("# The moon\n\nIt pulls the sea. Boats know.\n")
    return made


@pytest.mark.parametrize("stack", ARMS)
def test_a_folder_is_indexed_asked_and_followed(harness: Harness, root: Path, stack: str) -> None:
    arm = ("--arm", ARMS[stack])
    said = harness(stack, "index", "mine", *arm)
    assert (said.code, said.out) == (0, "files: 2 read, 0 removed, 0 unchanged\n")
    said = harness(stack, "ask", "mine", "boats -moon", *arm)
    assert "harbour.md" in said.out
    assert "moon.md" not in said.out
    assert said.err == ""
    (root / "net.md").write_text("# Nets\n\nBoats have nets.\n")
    (root / "moon.md").unlink()
    assert "net.md" not in harness(stack, "ask", "mine", "nets", *arm, "--no-update").out
    said = harness(stack, "ask", "mine", "nets", *arm)
    assert said.err.splitlines()[-1] == "files: 1 read, 1 removed, 1 unchanged"
    assert "net.md" in said.out
    assert "contain the text as it was typed" in harness(stack, "ask", "mine", "arbou", *arm).out
    assert "nothing is found" in harness(stack, "ask", "mine", "nowhere", *arm).out


def test_the_defaults_are_the_arms_of_the_pages() -> None:
    assert [one.arm for one in KITS] == ["writing-notes", "code-mixed", "documents-free-words"]


def test_a_default_cuts_notes_and_ranks_all_modes_together(tmp_path: Path) -> None:
    by_notes, by_code = arms.load(NOTES.arm, tmp_path).engine, arms.load(CODE.arm, tmp_path).engine
    assert isinstance(by_notes, Writing)
    assert isinstance(by_code, Code)
    assert by_notes.settings.chunk_characters == 2_000
    assert (by_code.settings.mode, by_code.settings.mixed) == ("mixed", "scores")


CALLS: Mapping[str, tuple[str, Mapping[str, Any], str]] = {
    "notes": ("rag_retrieve", {"queryText": "tide"}, "items"),
    "code": ("search_code", {"query": "tide", "ext": "md", "explain": True}, "hits"),
    "docs": ("search_collection", {"query": "tide", "top_k": 1}, "results"),
}


def command(stack: str, *more: str) -> list[str]:
    return [*PYTHON, stack, "serve", "mine", "--arm", ARMS[stack], *more]


def check(to: McpConnection, stack: str, root: Path) -> None:
    tool, given, key = CALLS[stack]
    assert "harbour.md" in json.dumps(to.call(tool, given)[key])
    with pytest.raises(ToolFailed, match="INVALID_ARGUMENT"):
        to.call(tool, {**given, "unknown": 1})
    (root / "harbour.md").write_text("# The harbour\n\nIt is empty.\n")
    assert not to.call(tool, given)[key]
    shutil.rmtree(root)
    with pytest.raises(ToolFailed, match=r"FAILED: .*is not a folder"):
        to.call(tool, given)


@pytest.mark.parametrize("stack", ["docs", "code"])
def test_over_http_a_client_needs_the_token(root: Path, stack: str) -> None:
    with listening(command(stack, "--http", "0"), root.parent) as (url, _):
        with connected([], url, BOUNDED_S) as to:
            check(to, stack, root)
        bare = url.partition("?")[0]
        with pytest.raises(IndexNotReady, match="no MCP server"), connected([], bare, BOUNDED_S):
            pass


def test_over_stdio_a_client_sees_the_folder_as_it_is(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.parent)
    with connected(command("notes"), "", BOUNDED_S) as to:
        check(to, "notes", root)


WAYS = {way for row in rows() for way in row.reached_by}
COMMANDS = sorted(
    (words[1], words[2], tuple(words[3:]))
    for way in WAYS
    if (words := way.split())[0] == "harness" and words[1] in ARMS
)
ASKED = {"notes": "boats harbour", "docs": "boats harbour", "code": "pay sum"}
VALUES: Mapping[str, str | int] = {
    "arm": "writing-fts", "set": "fields.name=9", "top": 1, "top_k": 1, "limit": 1, "context": 2,
    "title": "salt", "selection": "sells", "project": "tide", "explain": True, "graph": True,
    "document": "moon.md", "document_filter": "moon.md", "related": 3, "max_expansions": 3,
    "mode": "prose", "lang": "markdown", "ext": "md", "file": "harbour", "path": "harbour",
    "type": "function", "signature": "sum", "param": "sum", "uses": "count", "calls": "count",
    "inferred_type": "int", "return_type": "int", "risk": "low", "risk_tag": "code",
    "risk_source": "input", "risk_sink": "eval", "risk_category": "x", "risk_flow": "input->eval",
}  # fmt: skip
"""A value of each option that takes one, and of each argument of a tool."""
WITH: Mapping[str, tuple[str, ...]] = {
    "--graph": ("--explain",),
    "--set": ("--explain",),
    "--related": ("--top", "1"),
}
"""Options whose effect another one shows."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write notes, documents and code that each option tells apart."""
    root = tmp_path_factory.mktemp("reached") / "mine"
    write_shop(root)
    boats = "Boats of the Ocean Tide Trust wait in the harbour. " * 8
    (root / "harbour.md").write_text(f"# The harbour\n\n{boats}\n\n## Salt\n\n{boats}\n")
    (root / "moon.md").write_text("# The moon\n\nIt pulls boats of the Ocean Tide Trust.\n")
    (root / "salt.md").write_text("# Salt\n\nThe Ocean Tide Trust sells salt.\n")
    (root / "pay.py").write_text("def pay(sum: int) -> int:\n    return count(sum)\n")
    (root / "bank.py").write_text(
        "from pay import pay\n\n\ndef main(sum):\n    pay(eval(input()))\n"
    )
    return root


@pytest.fixture(scope="module")
def printed() -> dict[tuple[str, ...], str]:
    """Remember what commands printed, for options that share one."""
    return {}


@pytest.mark.parametrize("way", COMMANDS, ids=lambda way: " ".join((*way[:2], *way[2])))
def test_each_option_of_a_way_changes_what_a_command_prints(
    project: Toy,
    harness: Harness,
    folder: Path,
    printed: dict[tuple[str, ...], str],
    way: tuple[str, str, tuple[str, ...]],
) -> None:
    group, verb, options = way

    def prints(*more: str) -> str:
        text = (ASKED[group],) if verb == "ask" else ()
        arm = () if "--arm" in more else ("--arm", ARMS[group])
        words = (group, verb, str(folder), *text, *arm, *more)
        if words not in printed:
            said = harness(*words)
            assert said.code == 0, said
            printed[words] = said.out
        return printed[words]

    assert project.root.is_dir()
    for option in options or ("",):
        shown = WITH.get(option, ())
        plain = prints(*shown)
        assert plain
        value = VALUES.get(option.strip("-").replace("-", "_"), True)
        given = [option] if value is True else [option, str(value)]
        assert not option or prints(*given, *shown) != plain, option


Tool = tuple[Server[Any], dict[str, str]]
"""A server, and what its tool cannot do without."""


@pytest.fixture(scope="module")
def offered(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Tool]]:
    kept = tmp_path_factory.mktemp("kept")
    followed = {group: live(group, folder, kept / group) for group in ARMS}
    yield {
        "rag_retrieve": (NOTES.application(followed["notes"], "n"), {"queryText": ASKED["notes"]}),
        "search_collection": (
            DOCUMENTS.application(followed["docs"], "d"), {"query": ASKED["docs"]},
        ),
        "search_code": (CODE.application(followed["code"], "c"), {"query": ASKED["code"]}),
    }  # fmt: skip
    for one in followed.values():
        one.close()


@pytest.mark.parametrize("tool", ["rag_retrieve", "search_collection", "search_code"])
def test_each_argument_of_a_tool_changes_what_a_client_gets(
    offered: dict[str, Tool], tool: str
) -> None:
    app, needed = offered[tool]
    named = {
        argument
        for way in WAYS
        if (found := TOOL.fullmatch(way)) and found[1] == tool
        for argument in found[2].split(", ")
    }
    assert named

    async def answers() -> dict[str, Any]:
        async with Client(app) as client:
            (listed,) = (await client.session.list_tools()).tools
            known = listed.input_schema["properties"].keys()
            assert {*needed, *named} <= known
            found = {"": await client.session.call_tool(tool, dict(needed))}
            for name in known - needed.keys():
                base = {"explain": True} if name == "graph" else {}
                found[name] = await client.session.call_tool(
                    tool, {**needed, **base, name: VALUES[name]}
                )
        return {name: (one.is_error, one.structured_content) for name, one in found.items()}

    got = anyio.run(answers)
    failed, plain = got.pop("")
    assert not failed
    lost = [name for name, (wrong, answer) in got.items() if wrong or answer == plain]
    if "graph" in got:
        lost += ["graph"] if got["graph"] == got["explain"] else []
    assert lost == []


@pytest.mark.parametrize("tool", ["rag_retrieve", "search_collection", "search_code"])
def test_an_empty_query_of_a_tool_is_answered(offered: dict[str, Tool], tool: str) -> None:
    app, needed = offered[tool]
    filters = {"type": "function"} if tool == "search_code" else {}

    async def asked() -> Any:  # noqa: ANN401  JSON
        async with Client(app) as client:
            given = {**dict.fromkeys(needed, ""), **filters}
            return await client.session.call_tool(tool, given)

    got = anyio.run(asked)
    assert not got.is_error
    assert bool(filters) == bool(got.structured_content.get("hits"))
