"""What this machine has, and whether it is fit to measure on."""

from __future__ import annotations

import typer
from rich.markup import escape

from harness.cli.app import out


def register(app: typer.Typer) -> None:
    """Put ``doctor`` on the command line."""
    app.command()(doctor)


def doctor() -> None:
    """Check the environment: versions, models, arms, data sets, and the clock.

    Exit codes: 0 all is well, 2 something is missing; each line says what and the cure.
    """
    import sqlite3
    from importlib.metadata import version
    from time import get_clock_info

    from engines.contract import arms
    from engines.vector.models import MODELS
    from harness.cli.project import Project
    from harness.core.errors import HarnessError
    from harness.replay.machine import machine
    from harness.stages.provenance import PACKAGES

    project = Project.here()
    problems: list[str] = []
    out.print(f"machine   {machine()}")
    out.print(f"clock     {get_clock_info('perf_counter').resolution * 1e9:.0f} ns resolution")
    out.print(f"packages  {', '.join(f'{name} {version(name)}' for name in PACKAGES)}")
    out.print(f"sqlite    {sqlite3.sqlite_version}")
    for model in MODELS:
        for file in (model.weights, model.tokenizer):
            try:
                out.print(f"model     {model.name}: {file.path().name} is the pinned one")
            except HarnessError as exc:
                problems.append(str(exc))
    for name in arms.names():
        try:
            out.print(f"arm       {name}: {arms.load(name, project.cache).summary}")
        except HarnessError as exc:
            problems.append(str(exc))
    try:
        out.print(f"policy    {project.policy_file.name}: {len(project.policy().steps)} steps")
        for name in project.params.datasets:
            project.layout(name)
            out.print(f"dataset   {name}")
    except HarnessError as exc:
        problems.append(str(exc))
    for problem in problems:
        out.print(f"[red]problem[/]   {escape(problem)}")
    raise typer.Exit(2 if problems else 0)
