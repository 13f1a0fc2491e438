"""``harness ask``, ``harness decompose`` and ``harness history``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.command import Result, app, command, group, said, shown
from harness.cli.project import Project, own
from harness.core.errors import HarnessError, InvalidArm
from harness.core.printable import json_text, many, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.core.records import Query
    from harness.pipeline.decompose import ArmAnswer, ShownHit
    from harness.pipeline.layout import Layout
    from harness.report.doc import Block, Section
    from harness.report.explorer_stages import Decomposed


LONGEST = 100
"""Characters of a document, and of a query, that a line shows."""
WHO = {True: " by the arm itself", False: " by not the arm itself", None: ""}
FOLDER = "history"


@command(app)
def ask(
    arm: options.SomeArms,
    of: options.EvidencePlace,
    text: Annotated[str, typer.Argument(help="What a person types.")] = "",
    *,
    query: Annotated[
        str, typer.Option(help="Ask this query of the data set, by its id, with its params.")
    ] = "",
    k: Annotated[int, typer.Option(min=1, help="How many hits.")] = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show all that the stack says of its answer.")
    ] = False,
) -> Result:
    """Run one query, and see which arms answer, with what, and why.

    Each hit has its rank in every stage that the arm's stack reports, and its grade where --query
    names a judged one. The time shown is of a single cold query; `harness race` measures.
    Exit codes: 0 every arm answered, 2 bad input, or an arm failed.

    Example: harness ask "moving average" --arm tantivy --arm hybrid --dataset python-docs
    """
    from harness.core.records import Query
    from harness.pipeline.decompose import ask as stage
    from harness.pipeline.decompose import typed

    layout = of.layout()
    if bool(text) == bool(query):
        raise HarnessError("give a text or --query ID, one of the two")
    asked = typed(layout, query) if query else Query("", text)
    found = stage(layout, tuple(arm), asked, k, Project.here().cache)
    failed = [f"{one.arm}: {one.row.error}" for one in found if one.row.error]
    return Result(
        shown(*(_asked(one, asked, explain=explain) for one in found)).doc,
        value=[_told(one) for one in found],
        error=InvalidArm("; ".join(failed)) if failed else None,
    )


def _asked(asked: ArmAnswer, query: Query, *, explain: bool) -> Section:
    from harness.report.doc import Section, Text, table
    from harness.report.rounding import milliseconds

    judged, more = bool(query.query_id), asked.row.error or asked.note
    about = f"{_status(asked)} in {milliseconds(asked.elapsed_ns)} ms{WHO[asked.by_itself]}"
    blocks: list[Block] = [Text(about + (f"; {one_line(more)}" if more else ""))]
    if asked.hits:
        head = ("", "score", *(["grade"] if judged else []), *asked.hits[0].ranks, "document")
        rows = []
        for at, shown in enumerate(asked.hits, start=1):
            grade = "not judged" if shown.grade is None else str(shown.grade)
            ranks = ("-" if rank is None else str(rank) for rank in shown.ranks.values())
            first = str(at), f"{shown.hit.score:.4f}", *([grade] if judged else [])
            rows.append((*first, *ranks, _document(shown)))
        blocks.append(table("", head, rows))
    else:
        blocks.append(Text("  nothing is shown"))
    if explain:
        told = asked.explained
        none = "  this engine offers no explanation"
        blocks.append(Text(none if told is None else json_text(told._asdict())))
    return Section(f"{asked.arm}: {one_line(query.text, LONGEST)}", tuple(blocks))


def _status(asked: ArmAnswer) -> str:
    return asked.row.status.name.lower().replace("_", " ")


def _document(hit: ShownHit) -> str:
    doc_id, text = hit.hit.doc_id, "(not in the corpus)"
    if found := hit.document:
        text = found.text if found.title in {"", doc_id} else found.title
    return one_line(f"{doc_id}: {text}", LONGEST)


def _told(asked: ArmAnswer) -> dict[str, object]:
    hits = [
        {
            **{name: getattr(shown.hit, name) for name in ("doc_id", "score", "raw_score")},
            "grade": shown.grade, "ranks": dict(shown.ranks), "why": shown.why,
        }
        for shown in asked.hits
    ]  # fmt: skip
    return {
        "arm": asked.arm, "status": _status(asked), "error": asked.row.error, "note": asked.note,
        "served_by": asked.row.served_by, "by_itself": asked.by_itself,
        "elapsed_ns": asked.elapsed_ns, "hits": hits,
        "answer": asked.explained.answer if asked.explained else None,
    }  # fmt: skip


@command(app)
def decompose(
    control: options.Control,
    candidate: options.Candidate,
    of: options.EvidencePlace,
    *,
    measure: options.Measure = "nDCG@10",
    top: options.Top = 20,
) -> Result:
    """Take the difference of two arms apart by the stages of the candidate, query by query.

    Steps lead from the control to the candidate's first stage, and on to what it shows. Each has
    two parts: documents that entered or left, and the order of those that stayed. All parts of
    a query sum to its difference. The candidate's index is opened, and no clock runs. Every query
    is kept in perf/DATASET/apart/CONTROL~CANDIDATE.json, and the next `harness report` shows its
    steps in explore.html.

    Example: harness decompose --dataset python-docs --control fts5 --candidate hybrid
    """
    from harness.pipeline.decompose import DecomposeRequest, keep
    from harness.pipeline.decompose import decompose as stage

    layout, project = of.layout(adds=True), Project.here()
    wanted = DecomposeRequest(control, candidate, measure, project.params.replay.k)
    found = stage(layout, wanted, project.policy().rules, project.cache)
    keep(layout, found)
    return shown(*_decomposed(found, top))


def _decomposed(found: Decomposed, top: int) -> Iterator[Block]:
    """Yield means by step, slices that moved, and the largest losses."""
    from harness.report.doc import Num, Text, table
    from harness.report.explorer_stages import blamed, losers, means
    from harness.report.rounding import signed

    control, candidate = found.names
    count = len(found.queries)
    yield Text(
        f"{found.dataset}: {found.measure}, {candidate} - {control}, mean of {count} queries",
        "headline",
    )
    head = ("to the stage", "documents", "order", "both")
    yield table(
        "",
        head,
        [
            (step.name, *(Num(one, signed=True) for one in (step.shown, step.order, step.both)))
            for step in means(found)
        ],
    )
    if found.lost:
        why = next(iter(found.lost.values()))
        yield Text(f"{many(len(found.lost), 'query is')} not taken apart: {why}, ...")
    yield table(
        f"\nSlices that moved; at most {found.level:.0%} of those listed for a step are expected to"
        " be chance (Benjamini and Hochberg)",
        ("slice", "to the stage", "mean", "queries", "p, adjusted"),
        [
            (one.slice, one.step, Num(one.mean, signed=True), one.queries, Num(one.p_value, "p"))
            for one in found.moved
            if one.p_value <= found.level
        ],
    )
    if worst := losers(found, top):
        yield Text(f"\nThe {len(worst)} largest losses, the part that lost most, and each step")
    for at in worst:
        query, by = found.queries[at], blamed(found, at)
        each = ", ".join(f"{name} {signed(float(p.total[at]))}" for name, p in found.steps.items())
        line = f"{query.query_id}: {by.step}, {by.part} {signed(by.value)} ({each})"
        yield Text(f"  {signed(float(found.difference[at])):<8} {line}")
        yield Text(f"           {one_line(query.text, LONGEST)}")


history = group("history", "A rolling history of decisions, and a page of its trends.")


@command(history)
def add(of: options.EvidencePlace, at: options.At = None) -> Result:
    """Add the present decision to the history of its data set, once.

    It is derived again from its raw evidence first (harness verify). Kept are verdicts, means with
    their intervals, ratios of times, the commit, packages, and digests of data, policy and code;
    one line each in history/NAME.jsonl, which belongs into git. Beside it the log of experiments is
    kept, in history/experiments/NAME.jsonl; it must go on from what was kept before. Exit codes: 0
    added or known, 2 not verified.

    Example: harness history add --dataset python-docs
    """
    from harness.core.folders import HISTORY, check_free, set_mark
    from harness.pipeline import report
    from harness.pipeline.experiments import keep, read
    from harness.pipeline.verify import verify_with_files

    project = Project.own()
    folder = at or project.root / FOLDER
    places, lines = of.layouts(), []

    def held(layout: Layout) -> None:
        read(replace(layout, kept_log=_kept(folder, layout)))
        verify_with_files(layout, of.source, project.root)

    reads = (*(layout.root for layout in places), *project.sources)
    check_free(folder, HISTORY, reads=reads, known=report.is_history)
    commit = report.commit_of(project.root)
    for layout in places:
        new = report.add(layout, folder, commit=commit, held=partial(held, layout))
        set_mark(folder, HISTORY, project.root.name)
        count = keep(layout, _kept(folder, layout))
        word = "added" if new else "known already"
        lines.append(f"{layout.root.name}: {word}, {count} experiments")
    return said(*lines)


@command(history)
def page(at: options.At = None, to: options.MayWrite = None) -> Result:
    """Write the page of trends, reports/trends.html without --out: one file that loads nothing.

    Measures with their intervals from decision to decision, what was decided, with ratios of
    times, and what changed: commit, packages, policy, data.

    Example: harness history page
    """
    from harness.core.folders import REPORT, check_new
    from harness.pipeline import report

    project = Project.own()
    folder, reports = at or project.root / FOLDER, project.root / "reports"
    file = to or reports / "trends.html"
    if to is None:
        own(reports, REPORT, folder)
    else:
        check_new(file, reads=(folder, *project.sources))
    count = report.page(folder, file)
    return said(f"{count} decisions: {file}")


def _kept(folder: Path, layout: Layout) -> Path:
    """Name the copy of a data set's experiment log that a history keeps."""
    return folder / "experiments" / f"{layout.root.name}.jsonl"
