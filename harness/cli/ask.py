"""``harness ask``: run one query on one arm or several, and show hits and reasons."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from harness.cli.base.app import out
from harness.cli.base.boundary import aside
from harness.cli.base.places import OneDataset, evidence_at
from harness.cli.base.project import Project

if TYPE_CHECKING:
    from harness.core.records import Query
    from harness.stages.asking import ArmAnswer, ShownHit
    from harness.stages.layout import Layout

TITLE = 100
"""Characters of a document that a line shows."""
WHO = {True: " by the arm itself", False: " by [bold]not the arm itself[/bold]", None: ""}
PIPED, NARROWEST = 160, 60
"""Columns of a line without a terminal, and the fewest columns of a document."""


def register(app: typer.Typer) -> None:
    """Put ``ask`` on the command line."""
    app.command()(ask)


def ask(
    arm: Annotated[list[str], typer.Option(help="An arm that was indexed; may be repeated.")],
    text: Annotated[str, typer.Argument(help="What a person types.")] = "",
    dataset: OneDataset = "",
    left: Annotated[
        Path | None,
        typer.Option("--out", help="What a `harness run` wrote, instead of the project."),
    ] = None,
    *,
    query: Annotated[
        str, typer.Option(help="Ask this query of the data set, by its id, with its params.")
    ] = "",
    k: Annotated[int, typer.Option(min=1, help="How many hits.")] = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show all that the stack says of its answer.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Run one query, and see which arms answer, with what, and why.

    Each hit has its rank in every stage that the arm's stack tells of, and its grade where --query
    names a judged one. The time shown is of a single cold query; `harness race` measures.
    Exit codes: 0 every arm answered, 2 bad input, or an arm failed.

    Example: harness ask "moving average" --arm tantivy --arm hybrid --dataset python-docs
    """
    from harness.core.errors import InvalidArm
    from harness.stages.asking import ask as stage

    layout = evidence_at(dataset, left)
    asked = _question(layout, text, query)
    with aside():
        found = stage(layout, tuple(arm), asked, k, Project.here().cache)
    if as_json:
        told = [_told(one) for one in found]
        out.json(told)
    else:
        for one in found:
            _show(one, asked, explain=explain)
    if failed := [f"{one.arm}: {one.side.error}" for one in found if one.side.error]:
        raise InvalidArm("; ".join(failed))


def _question(layout: Layout, text: str, query_id: str) -> Query:
    from harness.core.errors import HarnessError
    from harness.core.records import Query
    from harness.stages.asking import typed

    if bool(text) == bool(query_id):
        raise HarnessError("give a text or --query ID, one of the two")
    return typed(layout, query_id) if query_id else Query("", text)


def _show(asked: ArmAnswer, query: Query, *, explain: bool) -> None:
    from harness.core.printable import one_line
    from harness.report.rounding import milliseconds

    side = asked.side
    out.print(f"\n[bold]{escape(asked.arm)}[/bold]: {escape(one_line(query.text, TITLE))}")
    said = side.error or side.note
    about = f"{_status(asked)} in {milliseconds(side.elapsed_ns)} ms{WHO[asked.by_itself]}"
    out.print(about + (f"; {escape(one_line(said))}" if said else ""))
    for line in _lines(asked, judged=bool(query.query_id)):
        out.print(line, markup=False)
    if explain:
        _explain(asked)


def _lines(asked: ArmAnswer, *, judged: bool) -> list[str]:
    """Give a line a hit; documents are cut where a terminal ends, and other columns never."""
    if not asked.hits:
        return ["  nothing is shown"]
    rows = [["", "score", *(["grade"] if judged else []), *asked.hits[0].ranks]]
    for at, shown in enumerate(asked.hits, start=1):
        grade = "not judged" if shown.grade is None else str(shown.grade)
        ranks = ["-" if rank is None else str(rank) for rank in shown.ranks.values()]
        rows.append([str(at), f"{shown.hit.score:.4f}", *([grade] if judged else []), *ranks])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = max(NARROWEST, (out.width if out.is_terminal else PIPED) - sum(widths) - 2 * len(widths))
    documents = ["document", *(_document(shown, room) for shown in asked.hits)]
    return [
        "  ".join((*(cell.ljust(width) for cell, width in zip(row, widths, strict=True)), document))
        for row, document in zip(rows, documents, strict=True)
    ]


def _status(asked: ArmAnswer) -> str:
    return asked.side.status.name.lower().replace("_", " ")


def _document(shown: ShownHit, room: int) -> str:
    from harness.core.printable import one_line

    doc_id, found = shown.hit.doc_id, shown.document
    if found is None:
        said = "(not in the corpus)"
    else:
        said = found.text if found.title in {"", doc_id} else found.title
    return one_line(f"{doc_id}: {said}", room)


def _explain(asked: ArmAnswer) -> None:
    if asked.explained is None:
        out.print("  this engine offers no explanation")
        return
    out.json(asked.explained._asdict())


def _told(asked: ArmAnswer) -> dict[str, object]:
    side = asked.side
    return {
        "arm": asked.arm,
        "status": _status(asked),
        "error": side.error,
        "note": side.note,
        "served_by": side.served_by,
        "by_itself": asked.by_itself,
        "elapsed_ns": side.elapsed_ns,
        "hits": [
            {
                "doc_id": shown.hit.doc_id,
                "score": shown.hit.score,
                "raw_score": shown.hit.raw_score,
                "grade": shown.grade,
                "ranks": dict(shown.ranks),
                "why": shown.why,
            }
            for shown in asked.hits
        ],
        "answer": asked.explained.answer if asked.explained else None,
    }
