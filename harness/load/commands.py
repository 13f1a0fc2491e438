"""``harness load``."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import CODES, Result, app, command, shown
from harness.cli.exit_codes import called
from harness.cli.options import EvidencePlace, SomeArms
from harness.cli.project import Project
from harness.core.errors import HarnessError

if TYPE_CHECKING:
    from harness.pipeline.params import LoadParams

NS_PER_MS = 1_000_000


@command(app)
def load(
    of: EvidencePlace,
    arm: SomeArms,
    *,
    rate: Annotated[
        list[float] | None,
        typer.Option(help="Arrivals a second. May be repeated. [shares of a closed loop's]"),
    ] = None,
    find: Annotated[
        bool, typer.Option("--find", help="Look for the highest rate that keeps --budget-ms.")
    ] = False,
    budget_ms: Annotated[
        float, typer.Option(help="Time within which 99 of 100 arrivals need answers.")
    ] = 0.0,
    processes: Annotated[int, typer.Option(help="Processes that ask. [params.yaml]")] = 0,
    threads: Annotated[int, typer.Option(help="Workers in each process. [params.yaml]")] = 0,
    seconds: Annotated[float, typer.Option(help="Length of a trial. [params.yaml]")] = 0.0,
    rounds: Annotated[int, typer.Option(help="Trials of an arm at a rate. [params.yaml]")] = 0,
) -> Result:
    """Run an open-loop load test at fixed arrival rates, and measure queueing delay.

    Arrivals are drawn beforehand, so an engine that stops makes later queries wait, as in use.
    A closed loop with as many workers is measured too. Every answer is compared with the arm's
    run. The first arm is its own A/A control; where the two differ, nothing is concluded. An
    interrupted load continues where it was. Example: harness load --dataset python-docs --arm fts5
    --arm tantivy --rate 100 --rate 200. Exit codes: 0 done, 1 no rate keeps the budget, 2 bad
    input, 3 inconclusive: the machine is too noisy.
    """
    from harness.load import page as tables
    from harness.load import page_of
    from harness.load.stage import LoadRequest, verdict
    from harness.load.stage import load as stage
    from harness.report.doc import Text

    project = Project.here()
    if find != (budget_ms > 0):
        raise HarnessError("--find needs --budget-ms above 0, and --budget-ms needs --find")
    wanted = LoadRequest(
        arms=tuple(arm),
        rates=tuple(rate or ()),
        budget_ns=int(budget_ms * NS_PER_MS) if find else None,
        command=f"{called()} {shlex.join(sys.argv[1:])}",
    )
    given = {"processes": processes, "threads": threads, "seconds": seconds, "rounds": rounds}
    layout = of.layout(adds=True)
    limit_s = project.params.replay.time_limit_s
    params = _changed(project.params.load, given)
    report = stage(layout, wanted, project.cache, params, limit_s)
    last = (*map(Text, tables.notes(report)), Text(f"wrote {page_of(layout)}"))
    return shown(*tables.tables(report), *last, code=CODES[verdict(report).value])


def _changed(params: LoadParams, given: dict[str, float]) -> LoadParams:
    """Replace what the file says by what the command line says."""
    from pydantic import ValidationError

    said = {name: value for name, value in given.items() if value}
    try:
        return type(params).model_validate({**params.model_dump(), **said})
    except ValidationError as exc:
        first = exc.errors()[0]
        raise HarnessError(f"--{first['loc'][0]} {first['input']}: {first['msg']}") from exc
