"""``harness shadow``: watch, replay, report and take in a live comparison."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from datetime import datetime
from time import sleep
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import CODES, Result, command, out, said, shown
from harness.cli.exit_codes import called
from harness.cli.options import By, Candidate, Control, Evidence, Reason, ToFolder, Top
from harness.cli.project import Project, own
from harness.core.errors import UnknownName
from harness.core.printable import counted, one_line
from harness.core.printable import many as count_of
from harness.shadow.receiving import (
    BoundsFile,
    Folders,
    RegisterFile,
    bounds_file,
    live,
    suppressions_file,
    today,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.report.doc import Block, Section, Table
    from harness.shadow.stage import Replayed
    from harness.shadow.words import Shadowed

HOLD = 1
REPLAY_QUERY, WATCH_QUERY = 60, 50
"""Characters of a query that are shown."""


@command(live)
def accept(
    *,
    reason: Reason,
    by: By,
    until: Annotated[
        datetime, typer.Option(formats=["%Y-%m-%d"], help="The last day, UTC, on which it counts.")
    ],
    kind: Annotated[str, typer.Option("--class", help="A diverging class, as tie_order.")] = "",
    in_slice: Annotated[
        str, typer.Option("--slice", help="Only in this slice; with --class or --query.")
    ] = "",
    query: Annotated[str, typer.Option(help="Only this query: its key, as watch shows it.")] = "",
    suppressions: RegisterFile = None,
) -> Result:
    """Accept a class of divergences, or one query, with a reason and until a day.

    What is accepted is still counted and shown, and blocks nothing until the day has passed. The
    entry is added at the end of the suppression list.

    Example: harness shadow accept --class tie_order --reason "ties are broken by id" --by Ada
    --until 2027-03-31
    """
    from harness.agreement import Class
    from harness.core.names import labelled
    from harness.shadow.divergences import ACCEPTABLE, Accepted
    from harness.shadow.files import accept as write

    if kind and kind not in ACCEPTABLE:
        raise UnknownName("class that can be accepted", kind, sorted(ACCEPTABLE))
    entry = Accepted(
        reason=labelled("a reason", reason),
        by=labelled("who accepts", by),
        until=until.date(),
        kind=Class(kind) if kind else None,
        slice=in_slice,
        query=query,
    )
    path = suppressions_file(suppressions, writes=True)
    write(path, entry, today=today())
    return said(f"{path}: {entry.about} is accepted until {entry.until}")


@command(live)
def replay(
    folders: Folders,
    of: Evidence,
    *,
    control: Control,
    candidate: Candidate,
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most so many queries, the most frequent first.")
    ] = None,
    top: Top = 20,
    suppressions: RegisterFile = None,
) -> Result:
    """Run diverging queries again on both arms: still diverges, fixed, or changed.

    The arms are those of engines/arms as they are now, over the data set's indexes. Exit code 1
    where something still diverges, in the same class or in another, and is not accepted.

    Example: harness shadow replay out/shadow --dataset python-docs --control fts5 --candidate tantivy
    """  # noqa: E501  the example on one line can be copied
    from harness.shadow.files import read_suppressions
    from harness.shadow.stage import shadow_replay

    project = Project.here()
    replayed = shadow_replay(
        folders,
        of.layout(),
        control,
        candidate,
        project.cache,
        suppressions=read_suppressions(suppressions_file(suppressions)),
        today=today(),
        time_limit_s=project.params.replay.time_limit_s,
        limit=limit,
    )
    return shown(*_replayed(replayed, top), code=HOLD if replayed.blocking else 0)


def _replayed(replayed: Replayed, top: int) -> Iterator[Block]:
    from harness.report.doc import Text, table
    from harness.shadow import divergences
    from harness.shadow.divergences import Now

    counts = divergences.counted(one for one, _ in replayed.found)
    of = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    yield Text(f"{counted(len(replayed.found), 'query')} diverged: {of}.")
    moved = sum(one.control_moved for one, _ in replayed.found)
    if moved:
        yield Text(
            f"On {moved:,} of them the control itself shows something else than it did: its index"
            " or its settings are not those of the live comparison."
        )
    rest = [(one, standing) for one, standing in replayed.found if one.now is not Now.FIXED]
    rest.sort(key=lambda pair: pair[0] not in replayed.blocking)
    rows = []
    for one, standing in rest[:top]:
        latest = one.question.latest
        query = one_line(latest.text, REPLAY_QUERY)
        rows.append((
            query,
            one.question.times,
            str(latest.outcome),
            str(one.outcome),
            standing or "",
        ))
    if rows:
        yield table("", ("query", "times", "was", "is", "register"), rows)
    yield Text(f"{len(replayed.blocking):,} block the next step.")


@command(live)
def report(
    folders: Folders,
    *,
    to: ToFolder,
    top: Top = 20,
    bounds: BoundsFile = None,
    suppressions: RegisterFile = None,
) -> Result:
    """Write what a live comparison says so far: a page that loads nothing, and shadow.json.

    Example: harness shadow report out/shadow --out out/shadow-report
    """
    from harness.core.folders import SHADOW_REPORT
    from harness.shadow.stage import shadow_report
    from harness.shadow.words import headline

    watched, accepted = bounds_file(bounds), suppressions_file(suppressions)
    own(to, SHADOW_REPORT, *folders, watched, accepted)
    written = shadow_report(
        folders,
        to,
        bounds=watched,
        suppressions=accepted,
        today=today(),
        top=top,
        commands=(f"{called()} {shlex.join(sys.argv[1:])}",),
    )
    return said(headline(written.found), f"The page: {written.page}")


@command(live, talks=True)
def watch(
    folders: Folders,
    *,
    once: Annotated[bool, typer.Option("--once", help="Print it once, and stop.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 2.0,
    top: Top = 10,
    bounds: BoundsFile = None,
    suppressions: RegisterFile = None,
    exit_code: Annotated[
        bool,
        typer.Option(help="With --once: exit 1 by an alarm or what is not accepted, 3 if early."),
    ] = False,
) -> Result:
    """Show what a live comparison says so far: estimates, alarms, and the queries that diverge.

    It may be looked at as often as one likes: every interval is a confidence sequence. Where the
    output is not a terminal, it is printed once. Only what is new in the log is read at each look.

    Example: harness shadow watch out/shadow --once
    """
    from rich.live import Live

    from harness.report.doc import render_terminal
    from harness.shadow.stage import Look

    look = Look(folders, bounds_file(bounds), suppressions_file(suppressions))
    if once or not out.is_terminal:
        found = look.now(today())
        return Result(screen(found, top=top), code(found) if exit_code else 0)
    try:
        with Live(console=out, auto_refresh=False, vertical_overflow="crop") as shows:
            while True:
                shows.update(render_terminal(screen(look.now(today()), top=top)), refresh=True)
                sleep(every)
    except KeyboardInterrupt:
        return said()


def code(shadowed: Shadowed) -> int:
    """Return the code by which a look ends."""
    if shadowed.raised or shadowed.judged.blocking:
        return HOLD
    return CODES["inconclusive"] if shadowed.early else 0


def screen(shadowed: Shadowed, *, top: int) -> Section:
    """Show how things stand; ``top`` is the number of diverging queries shown."""
    from harness.report.doc import Section, Text
    from harness.shadow import words as shadow_words

    summary = shadowed.summary
    bad = "bad" if shadowed.raised else "open" if shadowed.judged.blocking else "good"
    tables = [
        shadow_words.tally(summary),
        shadow_words.estimates(summary),
        _without_notes(shadow_words.alarms(shadowed)),
        shadow_words.classes(summary, by_slice=False),
        shadow_words.divergences(shadowed, top, text=WATCH_QUERY),
        *(wrong for wrong in (shadow_words.troubles(summary),) if wrong.rows),
    ]
    first = Text(shadow_words.headline(shadowed), bad)
    return Section("", (first, Text(shadow_words.span(summary), "about"), *tables))


def _without_notes(found: Table) -> Table:
    """Leave out what stands beside the names of rows, so that a narrow terminal has room."""
    from harness.report.doc import Cell

    rows = tuple((Cell(row[0].text), *row[1:]) for row in found.rows)
    return replace(found, rows=rows)


@command(live)
def traffic(
    logs: Folders,
    of: Evidence,
    *,
    control: Control,
    candidate: Candidate,
) -> Result:
    """Take what live traffic said of two arms in, for the gates of the policy that ask for it.

    Logs of several processes are put together. An attempt counts where the control answered by the
    index that lies here; gates named anytime_... judge what was counted, and may do so again
    after every further query. Writes perf/DATASET/traffic/, and asks no engine.

    Example: harness shadow traffic logs/today --dataset python-docs --control fts5 --candidate tantivy
    """  # noqa: E501  the example on one line can be copied
    from harness.shadow.traffic import traffic

    found = traffic(of.layout(adds=True), control, candidate, logs)
    return said(
        f"{count_of(found.attempted, 'attempt')} from {found.since} to {found.until}:"
        f" {len(found.failed)} count, {int(found.failed.sum())} of them unanswered",
        f"  {counted(len(found.asked), 'different query')}",
        *(f"  {count} {why}" for why, count in found.passed_over.items()),
    )
