"""``rag:retrieve`` as an MCP tool (specification 001); the name of a tool has no colon."""

from __future__ import annotations

from typing import Any

from mcp.server.lowlevel import Server
from pydantic import BaseModel, ConfigDict, Field

from engines.kept import server
from engines.kept.index import Live
from engines.stacks.writing.planner import Context
from engines.stacks.writing.retrieval import BUDGETS, LIMITS
from engines.stacks.writing.service import BUDGET, LIMIT, NoteSearch


class Arguments(BaseModel):
    """What the tool takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    queryText: str = Field(description="What a writer types.")  # noqa: N815  the contract's name
    limit: int = Field(LIMIT, ge=LIMITS[0], le=LIMITS[-1], description="Snippets to show.")
    budget: int = Field(
        BUDGET, ge=BUDGETS[0], le=BUDGETS[-1], description="Tokens of all snippets together."
    )
    title: str = Field("", description="Title of the document that is being written.")
    selection: str = Field("", description="What is selected in it.")
    project: str = Field("", description="What its project is about.")
    explain: bool = Field(default=False, description="Say what every leg says of each snippet.")


def application(live: Live[NoteSearch], title: str) -> Server[Any]:
    """Serve a folder of notes."""
    about = "Retrieve snippets of notes for a writer, with diagnostics."
    return server.application(live, server.Tool("rag_retrieve", about, Arguments, _answer), title)


def _answer(search: NoteSearch, given: Arguments) -> server.Answer:
    said = (given.title, given.selection, given.project)
    return search.retrieve(
        given.queryText,
        limit=given.limit,
        budget=given.budget,
        context=Context(*said) if any(said) else None,
        explain=given.explain,
    )
