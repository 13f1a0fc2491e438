"""``harness init``: a new evaluation project."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.called import COMMAND, called_from_anywhere

CONTROL = "fts5"


def register(app: typer.Typer) -> None:
    """Put ``init`` on the command line."""
    app.command()(init)


def init(
    folder: Annotated[Path, typer.Argument(help="The folder to make; . for the current one.")],
    control: Annotated[
        str | None, typer.Option(help="The arm that serves today. [default: fts5]")
    ] = None,
    github: Annotated[
        str | None,
        typer.Option(help="OWNER/REPO@REF of the harness, for a workflow on GitHub."),
    ] = None,
    gitlab: Annotated[
        str | None,
        typer.Option(help="GROUP/PROJECT@REF of the harness, for a pipeline on GitLab."),
    ] = None,
) -> None:
    """Begin an evaluation project: data, judgements, an engine, a policy and ci.sh, which passes.

    A missing option is prompted for, on a terminal only. Nothing is overwritten. In a git
    repository the folder may hold files, and workflow files go to the root of the repository.

    Example: harness init my-search --control fts5 --github acme/search-harness@v1
    """
    from engines import registry as arms
    from harness.core.errors import UnknownName
    from harness.stages.init import Begun, begin

    if on_terminal():
        control = control or _asked("The arm that serves today", CONTROL)
        github = (
            _asked("The harness on GitHub, OWNER/REPO@REF (empty for none)", "")
            if github is None
            else github
        )
        gitlab = (
            _asked("The harness on GitLab, GROUP/PROJECT@REF (empty for none)", "")
            if gitlab is None
            else gitlab
        )
    name = control or CONTROL
    if name not in arms.names():
        raise UnknownName("arm", name, arms.names())
    made = begin(Begun(folder, name, github or "", gitlab or ""))
    for file in made:
        out.print(f"  {file}", markup=False)
    by = called_from_anywhere()
    with_harness = "" if by == COMMAND else f"HARNESS={shlex.quote(by)} "
    go = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    out.print(f"\nNext: {go}{with_harness}./ci.sh", markup=False)


def on_terminal() -> bool:
    """Tell whether somebody is there to answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _asked(what: str, default: str) -> str:
    given: str = typer.prompt(what, default=default, show_default=bool(default))
    return given.strip()
