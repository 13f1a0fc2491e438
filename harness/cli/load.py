"""``harness load``: an open-loop load test of arms at fixed arrival rates."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from harness.cli.base.app import out
from harness.cli.base.boundary import aside
from harness.cli.base.called import called
from harness.cli.base.places import Left, OneDataset, evidence_at
from harness.cli.base.project import Project

if TYPE_CHECKING:
    from harness.report.load.inputs import LoadReport
    from harness.stages.params import LoadParams

CODES = {"pass": 0, "fail": 1, "inconclusive": 3}
NS_PER_MS = 1_000_000


def register(app: typer.Typer) -> None:
    """Put ``load`` on the command line."""
    app.command()(load)


def load(
    arm: Annotated[
        list[str],
        typer.Option(
            help="A file of engines/arms without .toml, or a path to one. May come again: the first"
            " gets an A/A control, the others are compared with it."
        ),
    ],
    dataset: OneDataset = "",
    left: Left = None,
    *,
    rate: Annotated[
        list[float] | None,
        typer.Option(help="Arrivals a second. May come again. [shares of what a closed loop does]"),
    ] = None,
    find: Annotated[
        bool, typer.Option("--find", help="Look for the highest rate that keeps --budget-ms.")
    ] = False,
    budget_ms: Annotated[
        float, typer.Option(help="What 99 of 100 arrivals must be answered within.")
    ] = 0.0,
    mix: Annotated[
        str, typer.Option(help="Query classes by weight, as identifier=3,natural-language=1.")
    ] = "",
    arrivals: Annotated[
        Path | None, typer.Option(help="Recorded arrivals, JSON lines, instead of rates.")
    ] = None,
    processes: Annotated[int, typer.Option(help="Processes that ask. [params.yaml]")] = 0,
    threads: Annotated[int, typer.Option(help="Workers in each. [params.yaml]")] = 0,
    seconds: Annotated[float, typer.Option(help="Length of a trial. [params.yaml]")] = 0.0,
    rounds: Annotated[int, typer.Option(help="Trials of an arm at a rate. [params.yaml]")] = 0,
) -> None:
    """Run an open-loop load test at fixed arrival rates, and measure queueing delay.

    Arrivals are drawn beforehand, so an engine that stops makes later queries wait, as at work.
    A closed loop with as many workers is measured too. Every answer is compared with the arm's
    run. The first arm is its own A/A control; where the two differ, nothing is concluded. An
    interrupted load continues where it was. Example: harness load --dataset python-docs --arm fts5
    --arm tantivy --rate 100 --rate 200. Exit codes: 0 done, 1 no rate keeps the budget, 2 bad
    input, 3 inconclusive: the machine is too noisy.
    """
    from harness.core.errors import HarnessError
    from harness.stages.load.files import page_of
    from harness.stages.load.stage import load as stage
    from harness.stages.load.stage import verdict
    from harness.stages.load.trials import LoadRequest

    project = Project.here()
    if find != (budget_ms > 0):
        raise HarnessError("--find needs --budget-ms above 0, and --budget-ms needs --find")
    if rate and arrivals:
        raise HarnessError("recorded arrivals have their own rate; leave --rate or --arrivals out")
    wanted = LoadRequest(
        arms=tuple(arm),
        rates=tuple(rate or ()),
        budget_ns=int(budget_ms * NS_PER_MS) if find else None,
        mix=_weights(mix),
        arrivals=arrivals,
        command=f"{called()} {shlex.join(sys.argv[1:])}",
    )
    given = {"processes": processes, "threads": threads, "seconds": seconds, "rounds": rounds}
    layout = evidence_at(dataset, left, adds=True)
    limit_s = project.params.replay.time_limit_s
    params = _changed(project.params.load, given)
    with aside():
        report = stage(layout, wanted, project.cache, params, limit_s)
    _show(report)
    out.print(f"wrote {page_of(layout)}")
    raise typer.Exit(CODES[verdict(report).value])


def _changed(params: LoadParams, given: dict[str, float]) -> LoadParams:
    """Put what the command line says in the place of what the file says.

    Raises:
        HarnessError: a value is out of range.
    """
    from pydantic import ValidationError

    from harness.core.errors import HarnessError

    said = {name: value for name, value in given.items() if value}
    try:
        return type(params).model_validate({**params.model_dump(), **said})
    except ValidationError as exc:
        first = exc.errors()[0]
        raise HarnessError(f"--{first['loc'][0]} {first['input']}: {first['msg']}") from exc


def _weights(mix: str) -> dict[str, float]:
    """Read ``NAME=WEIGHT,NAME=WEIGHT``.

    Raises:
        HarnessError: a part has no weight, the weight is no number, or a name comes twice.
    """
    from harness.core.errors import HarnessError

    found: dict[str, float] = {}
    for part in filter(None, mix.split(",")):
        name, _, weight = part.partition("=")
        try:
            value = float(weight)
        except ValueError:
            raise HarnessError(f"--mix {part!r} is not NAME=WEIGHT, as identifier=3") from None
        if name in found:
            raise HarnessError(f"--mix names {name} twice")
        found[name] = value
    return found


def _show(report: LoadReport) -> None:
    from harness.report.load import tables as load_tables

    for table in load_tables.tables(report):
        shown = Table(title=escape(table.caption), title_justify="left")
        for name in table.header:
            shown.add_column(escape(name))
        for row in table.rows:
            shown.add_row(*(escape(f"{cell.text} {cell.note}".strip()) for cell in row))
        out.print(shown)
    for line in load_tables.notes(report):
        out.print(escape(line))
