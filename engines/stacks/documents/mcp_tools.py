"""``search_collection`` as an MCP tool (specification 004, section 7)."""

from __future__ import annotations

from typing import Any

from mcp.server.lowlevel import Server
from pydantic import BaseModel, ConfigDict, Field

from engines.kept import server
from engines.kept.index import Live
from engines.stacks.documents.service import TOP, FolderSearch, Wish


class Arguments(BaseModel):
    """What the tool takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str = Field(description="What to search for. +word, -word and phrases hold strictly.")
    top_k: int = Field(TOP, ge=1, le=100, description="Chunks to show.")
    document_filter: str = Field("", description="document_id of the only document to search.")
    max_expansions: int = Field(0, ge=0, le=100, description="Related chunks to add.")
    explain: bool = Field(default=False, description="Say what every leg says of each chunk.")


def application(live: Live[FolderSearch], title: str) -> Server[Any]:
    """Serve a folder of documents."""
    about = "Search the documents of a folder; each result cites its place."
    return server.application(
        live, server.Tool("search_collection", about, Arguments, _answer), title
    )


def _answer(search: FolderSearch, given: Arguments) -> server.Answer:
    wish = Wish(given.top_k, given.document_filter, given.max_expansions, given.explain)
    return search.search(given.query, wish)
