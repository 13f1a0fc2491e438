"""``harness notes``, ``code`` and ``docs``: their help, and how they show an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import typer

from engines.kept import kit
from harness.cli.command import err, out
from harness.cli.folder import Group, around, nothing_found, put
from harness.core.printable import counted, one_line

if TYPE_CHECKING:
    from engines.stacks.writing.service import NoteSearch

SHOWN_OF_UNIT, SHOWN_OF_CHUNK = 120, 300
"""Characters of a unit of code that a line shows, and of a chunk of a document."""


def _nothing(text: str, tokens: Sequence[int], budget: int) -> str:
    """Describe why nothing is shown; ``tokens`` are those of snippets that are found."""
    if tokens:
        found = counted(len(tokens), "snippet is")
        return (
            f"nothing is shown: {found} found, and none fits into {budget} tokens."
            f" The first takes {tokens[0]}: say --budget {tokens[0]}, or more"
        )
    return nothing_found(text, "note", "the text")


def _show_notes(answer: Mapping[str, Any], given: Mapping[str, Any], search: NoteSearch) -> None:
    told = answer["diagnostics"]
    if not answer["items"]:
        from engines.stacks.writing.service import context_of

        text = given["queryText"]
        tokens = search.tokens(text, context_of(given))
        out.print(_nothing(text, tokens, given["budget"]), markup=False)
    if told.get("fallback"):
        out.print("no query finds anything; these contain the text as it was typed", markup=False)
    for number, item in enumerate(answer["items"], start=1):
        out.data(f"{number}. {_noted(item['sourceRef'])}  score {item['score']:.4f}")
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


def _noted(ref: str) -> str:
    """Read the reference of a chunk: its path below the folder, and its number."""
    path, _, number = ref.removeprefix("doc:").rpartition("#chunk:")
    return f"{unquote(path)}, chunk {number}"


def _show_code(answer: Mapping[str, Any], *_: object) -> None:
    if answer.get("missing"):
        err.print(f"by words alone: {answer['missing']}", markup=False)
    if not answer["hits"]:
        out.print("nothing is found", markup=False)
    if answer.get("fallback"):
        out.print("no index answers; these contain the text as it was typed", markup=False)
    elif any(hit["type"] == "line" for hit in answer["hits"]):
        out.print("a line in no unit contains the text as it was typed", markup=False)
    if answer.get("nearest"):
        out.print(answer["nearest"], markup=False)
    for number, hit in enumerate(answer["hits"], start=1):
        out.data(f"{number}. {_where(hit)}  score {hit['score']:.4f}")
        out.data(f"   {one_line(_first(hit), SHOWN_OF_UNIT)}")
        if "scoreBreakdown" in hit:
            out.data(f"   {json.dumps(hit['scoreBreakdown'], ensure_ascii=False)}")
    for hit in answer["context"]:
        said = f"context: {_where(hit)}  {hit['reason'].replace('_', ' ')} of {hit['of']}"
        out.data(said)


def _where(hit: Mapping[str, Any]) -> str:
    lines = f":{hit['lines']}" if hit["lines"] else ""
    return f"{hit['path']}{lines}  {hit['type']} {hit['name']}"


def _first(hit: Mapping[str, Any]) -> str:
    """Return the signature of what a unit defines, or its first line; of prose, how it begins.

    The first line of a section is its heading, which its name says already.
    """
    lines = [line.strip() for line in str(hit["prefix"]).splitlines() if line.strip()]
    begin = " ".join(lines) if hit["mode"] == "prose" else "".join(lines[:1])
    return str(hit["signature"] or begin)


def _show_documents(answer: Mapping[str, Any], given: Mapping[str, Any], _: object) -> None:
    for missing in answer.get("missing", []):
        err.print(f"{missing['part']}: {missing['reason']}: {missing['why']}", markup=False)
    if not answer["results"]:
        said = nothing_found(answer["query"], "document", "the query")
        document = given["document_filter"]
        out.print(f"in {document}, {said}" if document else said, markup=False)
    if answer.get("fallback"):
        out.print("no index answers; these contain the text as it was typed", markup=False)
    if answer.get("nearest"):
        out.print(answer["nearest"], markup=False)
    for number, found in enumerate(answer["results"], start=1):
        cited = _cited(found["citation"], found["source"]["document_id"])
        out.data(f"{number}. {cited}  score {found['score']:.4f}")
        out.data(f"   {around(one_line(found['text']), answer['query'], SHOWN_OF_CHUNK)}")
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


GROUPS = (
    Group(
        kit.NOTES,
        "Keep a folder of notes searchable, and show snippets.",
        """Index a folder of notes, or bring its index up to date.

    Markdown, text, reStructuredText and Org files are read; one that did not change is not read
    again. The index is kept below the cache of the project.

    Example: harness notes index notes
    """,
        """Ask a folder of notes for snippets, the best first; a note may give several.

    The index is brought up to date first. A text that no query finds is looked for in the notes
    as it is, and the answer says so.

    Example: harness notes ask notes "the retreat from Moscow"
    """,
        _show_notes,
    ),
    Group(
        kit.CODE,
        "Keep a folder of code searchable, and say why a hit is one.",
        """Index a folder of code, or bring its index up to date.

    Python, Markdown, reStructuredText, text, TOML, JSON and CSV files are read; nothing is
    imported or run. With the extra "languages" JavaScript, TypeScript, Go, Rust and Java are read
    too. A file that did not change is not read again. Vectors take most of the time: --arm
    code-words does without.

    Example: harness code index src
    """,
        """Ask a folder of code; each hit has its file, its lines and its first line.

    Filters are ANDed, and hold before anything is ranked. The index is brought up to date first.

    Example: harness code ask src "read a table" --type function --calls open
    """,
        _show_code,
    ),
    Group(
        kit.DOCUMENTS,
        "Keep a folder of documents searchable, and cite what is found.",
        """Index a folder of documents, or bring its index up to date.

    Text, Markdown, HTML, PDF, Word and e-mail files are read.

    A file that did not change is not read again. One that cannot be read is named with the remedy,
    and the others are indexed. The index is kept below the cache of the project.

    Example: harness docs index papers
    """,
        """Ask a folder of documents; each chunk that is shown has its citation.

    The index is brought up to date first. A query that no index answers is looked for in the
    texts as it is, and the answer says so.

    Example: harness docs ask papers "customer retention"
    """,
        _show_documents,
    ),
)


def register(app: typer.Typer) -> None:
    """Register the three groups."""
    for group in GROUPS:
        put(app, group)
