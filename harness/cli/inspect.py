"""``harness ask``, ``harness decompose`` and ``harness history``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from harness.cli.app import out
from harness.cli.exit_codes import aside
from harness.cli.project import (
    Dataset,
    Left,
    OneDataset,
    Project,
    evidence_at,
    left_by_run,
    one_of,
    own,
)
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.core.records import Query
    from harness.report.explorer_stages import Decomposed
    from harness.stages.ask import ArmAnswer, ShownHit
    from harness.stages.layout import Layout


TITLE = 100
"""Characters of a document that a line shows."""
WHO = {True: " by the arm itself", False: " by [bold]not the arm itself[/bold]", None: ""}
PIPED, NARROWEST = 160, 60
"""Columns of a line without a terminal, and the fewest columns of a document."""


def register_ask(app: typer.Typer) -> None:
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
    from harness.stages.ask import ask as stage

    layout = evidence_at(dataset, left)
    asked = _question(layout, text, query)
    with aside():
        found = stage(layout, tuple(arm), asked, k, Project.here().cache)
    if as_json:
        told = [_told(one) for one in found]
        out.json(told)
    else:
        for one in found:
            _show_ask(one, asked, explain=explain)
    if failed := [f"{one.arm}: {one.side.error}" for one in found if one.side.error]:
        raise InvalidArm("; ".join(failed))


def _question(layout: Layout, text: str, query_id: str) -> Query:
    from harness.core.errors import HarnessError
    from harness.core.records import Query
    from harness.stages.ask import typed

    if bool(text) == bool(query_id):
        raise HarnessError("give a text or --query ID, one of the two")
    return typed(layout, query_id) if query_id else Query("", text)


def _show_ask(asked: ArmAnswer, query: Query, *, explain: bool) -> None:
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


LONGEST = 100
"""Characters of a query that a line shows."""


def register_decompose(app: typer.Typer) -> None:
    """Put ``decompose`` on the command line."""
    app.command()(decompose)


def decompose(
    control: Annotated[
        str, typer.Option(help="The arm that serves today: its name, or its TOML file.")
    ],
    candidate: Annotated[
        str, typer.Option(help="The arm whose stages are compared: its name, or its TOML file.")
    ],
    dataset: OneDataset = "",
    left: Annotated[
        Path | None,
        typer.Option("--out", help="What a `harness run` wrote, instead of the project."),
    ] = None,
    *,
    measure: Annotated[
        str, typer.Option(help="As ir-measures writes it; its cut-off is what is taken apart.")
    ] = "nDCG@10",
    top: Annotated[int, typer.Option(min=0, help="How many of the largest losses are shown.")] = 20,
    to: Annotated[
        Path | None, typer.Option(help="Write every query to this .csv or .json as well.")
    ] = None,
) -> None:
    """Take the difference of two arms apart by the stages of the candidate, query by query.

    Steps lead from the control to the candidate's first stage, and on to what it shows. Each has
    two parts: documents that entered or left, and the order of those that stayed. All parts of
    a query sum to its difference. The candidate's index is opened, and no clock runs. The next
    `harness report` shows the steps of each query in explore.html.

    Example: harness decompose --dataset python-docs --control fts5 --candidate hybrid
    """
    from harness.core.folders import check_new
    from harness.stages.decompose import DecomposeRequest, check_ending, keep, write
    from harness.stages.decompose import decompose as stage

    layout, project = evidence_at(dataset, left, adds=True), Project.here()
    if to:
        check_new(to, reads=(left or layout.root, *project.sources))
        check_ending(to)
    wanted = DecomposeRequest(control, candidate, measure, project.params.replay.k)
    with aside():
        found = stage(layout, wanted, project.policy().rules, project.cache)
    keep(layout, found)
    if to:
        write(found, to)
    _show_decompose(found, top)


def _show_decompose(found: Decomposed, top: int) -> None:
    """Print means by step, slices that moved, and the largest losses."""
    from harness.core.printable import one_line
    from harness.report.explorer_stages import blamed, losers, means
    from harness.report.rounding import p_value, signed

    control, candidate = found.names
    count = len(found.queries)
    out.print(
        f"\n[bold]{escape(found.dataset)}[/bold]: {escape(found.measure)},"
        f" {escape(candidate)} - {escape(control)}, mean of {count} queries"
    )
    table = Table("to the stage", "by what is shown", "by its order", "both", box=None)
    for step in means(found):
        table.add_row(escape(step.name), signed(step.shown), signed(step.order), signed(step.both))
    out.print(table)
    if found.lost:
        why = next(iter(found.lost.values()))
        out.print(f"{many(len(found.lost), 'query is')} not taken apart: {escape(why)}, ...")
    out.print(
        f"\nSlices that moved; at most {found.level:.0%} of those listed for a step are expected to"
        " be chance (Benjamini and Hochberg)"
    )
    table = Table("slice", "to the stage", "mean", "queries", "p, adjusted", box=None)
    listed = [one for one in found.moved if one.p_value <= found.level]
    for one in listed:
        row = (escape(one.slice), escape(one.step), signed(one.mean), str(one.queries))
        table.add_row(*row, p_value(one.p_value))
    out.print(table if listed else "  none")
    worst = losers(found, top)
    if not worst:
        return
    out.print(f"\nThe {len(worst)} largest losses, the part that lost most, and each step")
    for at in worst:
        query, by = found.queries[at], blamed(found, at)
        each = ", ".join(f"{name} {signed(float(p.total[at]))}" for name, p in found.steps.items())
        line = f"{query.query_id}: {by.step}, {by.part} {signed(by.value)} ({each})"
        out.print(f"  {signed(float(found.difference[at])):<8} {escape(line)}")
        out.print(f"           {escape(one_line(query.text, LONGEST))}")


FOLDER = "history"
At = Annotated[
    Path | None, typer.Option("--at", help="Folder of the histories. [default: history]")
]


def register_history(app: typer.Typer) -> None:
    """Put ``history`` on the command line."""
    group = typer.Typer(
        no_args_is_help=True, help="A rolling history of decisions, and a page of its trends."
    )
    group.command()(add)
    group.command()(page)
    app.add_typer(group, name="history")


def add(dataset: Dataset = "", left: Left = None, at: At = None) -> None:
    """Add the decision that is there to the history of its data set, once.

    It is derived again from its raw evidence first (harness verify). Kept are verdicts, means with
    their intervals, ratios of times, the commit, packages, and digests of data, policy and code;
    one line each in history/NAME.jsonl, which belongs into git. Beside it the log of experiments is
    kept, in history/experiments/NAME.jsonl; it must go on from what was kept before. Exit codes: 0
    added or known, 2 not to be believed.

    Example: harness history add --dataset python-docs
    """
    from harness.core.folders import HISTORY, check_free, set_mark
    from harness.stages import report
    from harness.stages.custody.verify import verify_with_files
    from harness.stages.experiments import keep, read

    one_of(dataset, left)
    project = Project.own()
    folder = at or project.root / FOLDER
    names = project.datasets(dataset)
    places = [left_by_run(left)] if left else [project.layout(name) for name in names]

    def held(layout: Layout) -> None:
        read(replace(layout, kept_log=_kept(folder, layout)))
        verify_with_files(layout, left, project.root)

    reads = (*(layout.root for layout in places), *project.sources)
    check_free(folder, HISTORY, reads=reads, known=report.is_history)
    commit = report.commit_of(project.root)
    for layout in places:
        new = report.add(layout, folder, commit=commit, held=partial(held, layout))
        set_mark(folder, HISTORY, project.root.name)
        lines = keep(layout, _kept(folder, layout))
        word = "added" if new else "known already"
        out.print(f"{layout.root.name}: {word}, {lines} experiments", markup=False)


def page(
    at: At = None,
    to: Annotated[
        Path | None, typer.Option(help="File to write. [default: reports/trends.html]")
    ] = None,
) -> None:
    """Write the page of trends: one file that loads nothing.

    Measures with their intervals from decision to decision, what was decided, ratios of times,
    and what changed: commit, packages, policy, data.

    Example: harness history page
    """
    from harness.core.folders import REPORT, check_new
    from harness.report.trends import is_page
    from harness.stages import report

    project = Project.own()
    folder, reports = at or project.root / FOLDER, project.root / "reports"
    if to is None:
        own(reports, REPORT, folder)
    file = to or reports / "trends.html"
    check_new(file, reads=(folder, *project.sources), ours=is_page)
    count = report.page(folder, file)
    out.print(f"{count} decisions: {file}", markup=False)


def _kept(folder: Path, layout: Layout) -> Path:
    """Name the copy of a data set's experiment log that a history keeps."""
    return folder / "experiments" / f"{layout.root.name}.jsonl"
