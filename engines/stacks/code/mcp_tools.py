"""``search_code`` as an MCP tool: the filters, modes and explanations of specification 003."""

from __future__ import annotations

from typing import Any, Literal

from mcp.server.lowlevel import Server
from pydantic import BaseModel, ConfigDict, Field, create_model

from engines.kept import server
from engines.kept.index import Live
from engines.stacks.code.service import TOP, FolderSearch, Wish
from engines.stacks.code.units import NAMES, Mode, parse


class Arguments(BaseModel):
    """What the tool takes beside the filters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str = Field(description="What to search for; empty lists what passes the filters.")
    top: int = Field(TOP, ge=1, le=1000, description="Units to show.")
    mode: Literal["", "code", "prose", "records", "mixed"] = Field(
        "", description="Kind of units; the server's own if absent."
    )
    context: int = Field(0, ge=0, le=50, description="Units beside each hit.")
    graph: bool = Field(default=False, description="Reorder the hits by who calls whom.")
    explain: bool = Field(default=False, description="Give scoreBreakdown of each hit.")


FILTERS: dict[str, Any] = {
    name: (str, Field("", description=f"Filter: {name.replace('_', ' ')}.")) for name in NAMES
}
WithFilters = create_model("WithFilters", __base__=Arguments, **FILTERS)


def application(live: Live[FolderSearch], title: str) -> Server[Any]:
    """Serve a folder of code."""
    about = "Search code, prose and records of a folder; filters hold before ranking."
    return server.application(live, server.Tool("search_code", about, WithFilters, _answer), title)


def _answer(search: FolderSearch, given: Arguments) -> server.Answer:
    said = {name: value for name in NAMES if (value := getattr(given, name))}
    wish = Wish(
        given.top,
        parse(said),
        Mode(given.mode) if given.mode else None,
        given.context,
        given.graph,
        given.explain,
    )
    return search.search(given.query, wish)
