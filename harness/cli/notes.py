"""``harness notes``: a folder of notes, kept searchable by snippets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.app import out
from harness.cli.folder import (
    LOCALHOST,
    All,
    AsJson,
    Folder,
    Follow,
    Host,
    Port,
    Token,
    answered,
    asked,
    engine_of,
    indexed,
    indexing,
    nothing_found,
    place_of,
    put_together,
    served,
    typed,
)
from harness.core.printable import counted

if TYPE_CHECKING:
    from engines.kept.index import Live
    from engines.stacks.writing.service import NoteSearch


ARM = "writing-notes"
ArmName = Annotated[str, typer.Option("--arm", help="An arm of the stack writing.")]


def register(app: typer.Typer) -> None:
    """Put the group ``notes`` on the command line."""
    about = "Keep a folder of notes searchable, and show snippets."
    put_together(app, "notes", about, index, ask, serve)


def index(
    folder: Folder, arm: ArmName = ARM, *, everything: All = False, as_json: AsJson = False
) -> None:
    """Index a folder of notes, or bring its index up to date.

    Markdown, text, reStructuredText and Org files are read; one that did not change is not read
    again. The index is kept below the cache of the project.

    Example: harness notes index notes
    """
    indexed(_live(folder, arm), everything=everything, as_json=as_json)


def ask(
    folder: Folder,
    text: Annotated[str, typer.Argument(help="What a writer types.")],
    arm: ArmName = ARM,
    *,
    limit: Annotated[int, typer.Option(min=1, max=50, help="How many snippets.")] = 8,
    budget: Annotated[
        int, typer.Option(min=50, max=8000, help="Tokens that the snippets take together.")
    ] = 2000,
    title: Annotated[str, typer.Option(help="Title of the document that is being written.")] = "",
    selection: Annotated[str, typer.Option(help="What is selected in it.")] = "",
    about: Annotated[str, typer.Option("--project", help="What its project is about.")] = "",
    explain: Annotated[
        bool, typer.Option("--explain", help="Show planned queries and legs of each snippet.")
    ] = False,
    follow: Follow = True,
    as_json: AsJson = False,
) -> None:
    """Ask a folder of notes for snippets, the best first; a note may give several.

    The index is brought up to date first. A text that no query finds is looked for in the notes
    as it is, and the answer says so.

    Example: harness notes ask notes "the retreat from Moscow"
    """
    from engines.stacks.writing.planner import Context

    context = Context(title, selection, about) if title or selection or about else None
    typed(text)
    command = indexing("notes", folder, arm, ARM)
    with asked(_live(folder, arm), command, follow=follow) as (search, done):
        answer = search.retrieve(text, limit=limit, budget=budget, context=context, explain=explain)
        tokens = () if answer["items"] else search.tokens(text, context)
    if as_json:
        answered(answer, done)
    else:
        _show(answer, _nothing(text, tokens, budget))


def serve(
    folder: Folder,
    arm: ArmName = ARM,
    *,
    http: Port = None,
    host: Host = LOCALHOST,
    token: Token = True,
) -> None:
    """Serve rag_retrieve to MCP clients, over a folder as it is at each call.

    Speaks over standard input and output, or over HTTP with --http.

    Example: harness notes serve notes --http 8766
    """
    from engines.stacks.writing.mcp_tools import application

    served(application(_live(folder, arm), folder.resolve().name), http, host, token=token)


def _live(folder: Path, arm: str) -> Live[NoteSearch]:
    from engines.stacks.writing.arm import Writing
    from engines.stacks.writing.service import notes

    return notes(engine_of(arm, Writing, "writing", ARM), folder, place_of("notes", folder))


def _nothing(text: str, tokens: Sequence[int], budget: int) -> str:
    """Say why nothing is shown; ``tokens`` are those of snippets that are found."""
    if tokens:
        found = counted(len(tokens), "snippet is")
        return (
            f"nothing is shown: {found} found, and none fits into {budget} tokens."
            f" The first takes {tokens[0]}: say --budget {tokens[0]}, or more"
        )
    return nothing_found(text, "note", "the text")


def _show(answer: Mapping[str, Any], nothing: str) -> None:
    from harness.core.printable import one_line

    told = answer["diagnostics"]
    if not answer["items"]:
        out.print(nothing, markup=False)
    if told.get("fallback"):
        out.print("no query finds anything; these contain the text as it was typed", markup=False)
    for number, item in enumerate(answer["items"], start=1):
        out.data(f"{number}. {_where(item['sourceRef'])}  score {item['score']:.4f}")
        out.data(f"   {one_line(item['snippet'])}")
        legs = answer.get("explain", {}).get(item["sourceRef"])
        if legs:
            ranks = [f"rank {rank} for {query}" for query, rank in legs["ranks"].items() if rank]
            cosine = "none" if legs["cosine"] is None else f"{legs['cosine']:.4f}"
            said = "; ".join([*ranks, f"BM25 share {legs['bm25']:.4f}", f"cosine {cosine}"])
            out.data(f"   {one_line(said)}")
    reason = told["rerank"].get("reason")
    if reason == "MODEL_NOT_READY":
        out.print(f"ordered by words alone: {reason}", markup=False)


def _where(ref: str) -> str:
    """Read the reference of a chunk: its path below the folder, and its number."""
    from urllib.parse import unquote

    path, _, number = ref.removeprefix("doc:").rpartition("#chunk:")
    return f"{unquote(path)}, chunk {number}"
