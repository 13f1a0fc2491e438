"""``harness code``: a folder of code, prose and records, kept searchable with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
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
    place_of,
    put_together,
    served,
    typed,
)

if TYPE_CHECKING:
    from engines.kept.index import Live
    from engines.stacks.code.service import FolderSearch


ARM = "code-mixed"
SHOWN = 120
"""Characters of a unit that a line shows."""
ArmName = Annotated[str, typer.Option("--arm", help="An arm of the stack code.")]
Value = str | None


def register(app: typer.Typer) -> None:
    """Put the group ``code`` on the command line."""
    about = "Keep a folder of code searchable, and say why a hit is one."
    put_together(app, "code", about, index, ask, serve)


def index(
    folder: Folder, arm: ArmName = ARM, *, everything: All = False, as_json: AsJson = False
) -> None:
    """Index a folder of code, or bring its index up to date.

    Python, Markdown, reStructuredText, text, TOML, JSON and CSV files are read; nothing is
    imported or run. With the extra "languages" JavaScript, TypeScript, Go, Rust and Java are read
    too. A file that did not change is not read again. Vectors take most of the time: --arm
    code-words does without.

    Example: harness code index src
    """
    indexed(_live(folder, arm), everything=everything, as_json=as_json)


def ask(
    folder: Folder,
    text: Annotated[str, typer.Argument(help="What a person types; may be empty with a filter.")],
    arm: ArmName = ARM,
    *,
    top: Annotated[int, typer.Option(min=1, max=1000, help="How many units.")] = 10,
    mode: Annotated[
        str, typer.Option(help="code, prose, records or mixed. [default: the arm's]")
    ] = "",
    context: Annotated[
        int, typer.Option(min=0, max=50, help="Units beside each hit: calls, uses, imports.")
    ] = 0,
    graph: Annotated[
        bool, typer.Option("--graph", help="Reorder the hits by who calls and uses whom.")
    ] = False,
    lang: Annotated[Value, typer.Option(help="Language, such as python.")] = None,
    ext: Annotated[Value, typer.Option(help="Ending of the file, such as py.")] = None,
    file: Annotated[Value, typer.Option(help="Part of a file's name, or /regex/.")] = None,
    path: Annotated[Value, typer.Option(help="Part of a path, or /regex/.")] = None,
    kind: Annotated[
        Value,
        typer.Option(
            "--type", help="function, method, class, constant, module, section, record or text."
        ),
    ] = None,
    signature: Annotated[Value, typer.Option(help="Part of a signature, or /regex/.")] = None,
    risk: Annotated[Value, typer.Option(help="low, medium or high: at least so severe.")] = None,
    risk_tag: Annotated[Value, typer.Option(help="Tag of a risk, such as sql.")] = None,
    risk_source: Annotated[Value, typer.Option(help="Where a risk's data come from.")] = None,
    risk_sink: Annotated[Value, typer.Option(help="Where a risk's data go to.")] = None,
    risk_category: Annotated[Value, typer.Option(help="Category of a risk.")] = None,
    risk_flow: Annotated[Value, typer.Option(help="source->sink of a risk.")] = None,
    inferred_type: Annotated[Value, typer.Option(help="A type that is used.")] = None,
    return_type: Annotated[Value, typer.Option(help="The type that is returned.")] = None,
    param: Annotated[Value, typer.Option(help="Name of a parameter.")] = None,
    uses: Annotated[Value, typer.Option(help="A name that is used.")] = None,
    calls: Annotated[Value, typer.Option(help="A name that is called.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show scoreBreakdown of each hit.")
    ] = False,
    follow: Follow = True,
    as_json: AsJson = False,
) -> None:
    """Ask a folder of code; each hit has its file, its lines and its first line.

    Filters are ANDed, and hold before anything is ranked. The index is brought up to date first.

    Example: harness code ask src "read a table" --type function --calls open
    """
    from engines.stacks.code import units
    from engines.stacks.code.service import Wish
    from engines.stacks.code.units import InvalidFilter, parse
    from harness.core.errors import HarnessError, UnknownName

    if mode not in {"", *units.Mode}:
        raise UnknownName("mode", mode, list(units.Mode))
    given = {
        "lang": lang, "ext": ext, "file": file, "path": path, "type": kind,
        "signature": signature, "risk": risk, "risk_tag": risk_tag, "risk_source": risk_source,
        "risk_sink": risk_sink, "risk_category": risk_category, "risk_flow": risk_flow,
        "inferred_type": inferred_type, "return_type": return_type, "param": param,
        "uses": uses, "calls": calls,
    }  # fmt: skip
    try:
        filters = parse({name: value for name, value in given.items() if value is not None})
        if not filters.given():
            typed(text, "Name words to look for, or a filter such as --type function")
        wish = Wish(top, filters, units.Mode(mode) if mode else None, context, graph, explain)
        command = indexing("code", folder, arm, ARM)
        with asked(_live(folder, arm), command, follow=follow) as (search, done):
            answer = search.search(text, wish)
    except InvalidFilter as exc:
        raise HarnessError(f"--{exc}") from exc
    if as_json:
        answered(answer, done)
    else:
        _show(answer)


def serve(
    folder: Folder,
    arm: ArmName = ARM,
    *,
    http: Port = None,
    host: Host = LOCALHOST,
    token: Token = True,
) -> None:
    """Serve search_code to MCP clients, over a folder as it is at each call.

    Speaks over standard input and output, or over HTTP with --http.

    Example: harness code serve src --http 8766
    """
    from engines.stacks.code.mcp_tools import application

    served(application(_live(folder, arm), folder.resolve().name), http, host, token=token)


def _live(folder: Path, arm: str) -> Live[FolderSearch]:
    from engines.stacks.code.arm import Code
    from engines.stacks.code.service import code

    return code(engine_of(arm, Code, "code", ARM), folder, place_of("code", folder))


def _show(answer: Mapping[str, Any]) -> None:
    import json

    from harness.core.printable import one_line

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
        out.data(f"   {one_line(_first(hit), SHOWN)}")
        if "scoreBreakdown" in hit:
            out.data(f"   {json.dumps(hit['scoreBreakdown'], ensure_ascii=False)}")
    for hit in answer["context"]:
        said = f"context: {_where(hit)}  {hit['reason'].replace('_', ' ')} of {hit['of']}"
        out.data(said)


def _where(hit: Mapping[str, Any]) -> str:
    lines = f":{hit['lines']}" if hit["lines"] else ""
    return f"{hit['path']}{lines}  {hit['type']} {hit['name']}"


def _first(hit: Mapping[str, Any]) -> str:
    """Give the signature of what a unit defines, or its first line; of prose, how it begins.

    The first line of a section is its heading, which its name says already.
    """
    lines = [line.strip() for line in str(hit["prefix"]).splitlines() if line.strip()]
    begin = " ".join(lines) if hit["mode"] == "prose" else "".join(lines[:1])
    return str(hit["signature"] or begin)
