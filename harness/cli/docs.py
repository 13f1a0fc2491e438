"""``harness docs``: a folder of documents, kept searchable, with citations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.app import err, out
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

if TYPE_CHECKING:
    from engines.kept.index import Live
    from engines.stacks.documents.service import FolderSearch


ARM = "documents-free-words"
SHOWN = 300
"""Characters of a chunk that are shown."""
ArmName = Annotated[str, typer.Option("--arm", help="An arm of the stack documents, tier free.")]


def register(app: typer.Typer) -> None:
    """Put the group ``docs`` on the command line."""
    about = "Keep a folder of documents searchable, and cite what is found."
    put_together(app, "docs", about, index, ask, serve)


def index(
    folder: Folder, arm: ArmName = ARM, *, everything: All = False, as_json: AsJson = False
) -> None:
    """Index a folder of documents, or bring its index up to date.

    Text, Markdown, HTML, PDF, Word and e-mail files are read.

    A file that did not change is not read again. One that cannot be read is named with the remedy,
    and the others are indexed. The index is kept below the cache of the project.

    Example: harness docs index papers
    """
    indexed(_live(folder, arm), everything=everything, as_json=as_json)


def ask(
    folder: Folder,
    query: Annotated[str, typer.Argument(help="What a person types.")],
    arm: ArmName = ARM,
    *,
    top: Annotated[int, typer.Option(min=1, max=100, help="How many chunks.")] = 3,
    document: Annotated[str, typer.Option(help="Search this document alone, by its path.")] = "",
    related: Annotated[
        int, typer.Option(min=0, max=100, help="Chunks related to the answer, and not in it.")
    ] = 0,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what every leg says of each chunk.")
    ] = False,
    follow: Follow = True,
    as_json: AsJson = False,
) -> None:
    """Ask a folder of documents; each chunk that is shown has its citation.

    The index is brought up to date first. A query that no index answers is looked for in the
    texts as it is, and the answer says so.

    Example: harness docs ask papers "customer retention"
    """
    from engines.stacks.documents.service import Wish

    typed(query)
    command = indexing("docs", folder, arm, ARM)
    with asked(_live(folder, arm), command, follow=follow) as (search, done):
        answer = search.search(query, Wish(top, document, related, explain))
    if as_json:
        answered(answer, done)
    else:
        _show(answer, document)


def serve(
    folder: Folder,
    arm: ArmName = ARM,
    *,
    http: Port = None,
    host: Host = LOCALHOST,
    token: Token = True,
) -> None:
    """Serve search_collection to MCP clients, over a folder as it is at each call.

    Speaks over standard input and output, or over HTTP with --http.

    Example: harness docs serve papers --http 8766
    """
    from engines.stacks.documents.mcp_tools import application

    served(application(_live(folder, arm), folder.resolve().name), http, host, token=token)


def _live(folder: Path, arm: str) -> Live[FolderSearch]:
    from engines.stacks.documents.arm import Documents
    from engines.stacks.documents.service import documents

    return documents(engine_of(arm, Documents, "documents", ARM), folder, place_of("docs", folder))


def _show(answer: Mapping[str, Any], document: str) -> None:
    from harness.cli.folder import around
    from harness.core.printable import one_line

    for missing in answer.get("missing", []):
        err.print(f"{missing['part']}: {missing['reason']}: {missing['why']}", markup=False)
    if not answer["results"]:
        said = nothing_found(answer["query"], "document", "the query")
        out.print(f"in {document}, {said}" if document else said, markup=False)
    if answer.get("fallback"):
        out.print("no index answers; these contain the text as it was typed", markup=False)
    if answer.get("nearest"):
        out.print(answer["nearest"], markup=False)
    for number, found in enumerate(answer["results"], start=1):
        cited = _cited(found["citation"], found["source"]["document_id"])
        out.data(f"{number}. {cited}  score {found['score']:.4f}")
        out.data(f"   {around(one_line(found['text']), answer['query'], SHOWN)}")
        legs = answer.get("explain", {}).get(found["source"]["chunk_id"])
        if legs:
            said = ", ".join(f"{name} {value}" for name, value in legs.items())
            out.data(f"   {said}")
    for one in answer.get("related", []):
        shared = f": {', '.join(one['shared'])}" if one["shared"] else ""
        cited = _cited(one["citation"], one["document_id"])
        out.data(f"related: {cited}  weight {one['edge_weight']:.4f}{shared}")


def _cited(citation: str, path: str) -> str:
    """Write the path below the folder for the file's name, with which a citation begins."""
    return f"{path}{citation.removeprefix(PurePosixPath(path).name)}"
