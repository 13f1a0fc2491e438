"""A person goes each way of docs/contract.md that leads through notes, documents or code.

Each option of a command changes what it prints, and each argument of a tool what it answers. So an
option that is read and lost fails here, whatever its own test says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server.lowlevel import Server

from harness_engines.kept.kit import CODE, DOCUMENTS, NOTES
from tests.cli.conftest import Harness
from tests.docs.contract import rows
from tests.docs.reached import TOOL
from tests.engines.kept.test_index import live
from tests.make.code import write_shop
from tests.make.toy import Toy

pytestmark = pytest.mark.slow
WAYS = {way for row in rows() for way in row.reached_by}
GROUPS = {"notes": "writing-stems", "docs": "documents-bm25", "code": "code-words"}
COMMANDS = sorted(
    (words[1], words[2], tuple(words[3:]))
    for way in WAYS
    if (words := way.split())[0] == "harness" and words[1] in GROUPS
)
ASKED = {"notes": "boats harbour", "docs": "boats harbour", "code": "pay sum"}
SAID: Mapping[str, str] = {
    "--arm": "writing-fts",
    "--budget": "50",
    "--title": "salt",
    "--selection": "sells",
    "--project": "tide",
    "--top": "1",
    "--document": "moon.md",
    "--related": "3",
    "--lang": "markdown",
    "--path": "harbour",
    "--type": "function",
    "--signature": "sum",
    "--risk": "low",
    "--risk-tag": "code",
    "--inferred-type": "int",
    "--return-type": "int",
    "--mode": "prose",
    "--context": "2",
    "--set": "fields.name=9",
}
"""A value of each option that takes one."""
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
        arm = () if "--arm" in more else ("--arm", GROUPS[group])
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
        given = [option, SAID[option]] if option in SAID else [option]
        assert not option or prints(*given, *shown) != plain, option


@dataclass(frozen=True)
class Offered:
    """A tool, what it cannot do without, and a value of each other argument."""

    app: Server[Any]
    needed: Mapping[str, Any]
    said: Mapping[str, Any]


@pytest.fixture(scope="module")
def offered(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Offered]]:
    kept = tmp_path_factory.mktemp("kept")
    followed = {group: live(group, folder, kept / group) for group in GROUPS}
    notes, docs, code = followed["notes"], followed["docs"], followed["code"]
    yield {
        "rag_retrieve": Offered(
            NOTES.application(notes, "n"),
            {"queryText": ASKED["notes"]},
            {
                "limit": 1, "budget": 50, "title": "salt", "selection": "moon",
                "project": "tide", "explain": True,
            },
        ),
        "search_collection": Offered(
            DOCUMENTS.application(docs, "d"),
            {"query": ASKED["docs"]},
            {"top_k": 1, "document_filter": "moon.md", "max_expansions": 3, "explain": True},
        ),
        "search_code": Offered(
            CODE.application(code, "c"),
            {"query": ASKED["code"]},
            {
                "top": 1, "mode": "prose", "context": 2, "graph": True, "explain": True,
                "lang": "markdown", "ext": "md", "file": "harbour", "path": "harbour",
                "type": "function", "signature": "sum: int", "risk": "low", "risk_tag": "code",
                "risk_source": "input", "risk_sink": "eval", "risk_category": "x",
                "risk_flow": "input->eval", "inferred_type": "int", "return_type": "int",
                "param": "sum", "uses": "count", "calls": "count",
            },
        ),
    }  # fmt: skip
    for one in followed.values():
        one.close()


@pytest.mark.parametrize("tool", ["rag_retrieve", "search_collection", "search_code"])
def test_each_argument_of_a_tool_changes_what_a_client_gets(
    offered: dict[str, Offered], tool: str
) -> None:
    one = offered[tool]
    named = {
        argument
        for way in WAYS
        if (found := TOOL.fullmatch(way)) and found[1] == tool
        for argument in found[2].split(", ")
    }
    assert named
    assert named <= {*one.needed, *one.said}

    async def answers() -> dict[str, Any]:
        async with Client(one.app) as client:
            (listed,) = (await client.session.list_tools()).tools
            assert {*one.needed, *one.said} == listed.input_schema["properties"].keys()
            found = {"": await client.session.call_tool(tool, dict(one.needed))}
            for name, value in one.said.items():
                base = {"explain": True} if name == "graph" else {}
                found[name] = await client.session.call_tool(
                    tool, {**one.needed, **base, name: value}
                )
        return {name: (one.is_error, one.structured_content) for name, one in found.items()}

    got = anyio.run(answers)
    failed, plain = got.pop("")
    assert not failed
    lost = [name for name, (wrong, answer) in got.items() if wrong or answer == plain]
    if "graph" in got:
        lost += ["graph"] if got["graph"] == got["explain"] else []
    assert lost == []
