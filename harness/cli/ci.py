"""``harness ci``: what a build server shows of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.app import out

ON_GITHUB, SUMMARY = "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"


def register(app: typer.Typer) -> None:
    """Put ``ci`` on the command line."""
    app.command()(ci)


def ci(
    left: Annotated[Path, typer.Option("--out", help="What a `harness run` wrote.")],
    queries: Annotated[
        Path | None,
        typer.Option(help="The queries.jsonl in your repository, whose lines are noted."),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="What a `harness run` of the base branch wrote.")
    ] = None,
    *,
    most: Annotated[
        int, typer.Option(min=1, help="How many queries are named of each comparison.")
    ] = 10,
    github: Annotated[
        bool | None,
        typer.Option(
            "--github/--no-github",
            help="Print workflow commands and add to the summary. [default: on GitHub]",
        ),
    ] = None,
) -> None:
    """Write what a build server shows of a run, and exit by its verdict.

    OUT/ci.md is a comment for a pull request: steps, blocking gates, means and queries that
    lost, next to those of the baseline. OUT/gl-code-quality-report.json notes the lines of these
    queries for GitLab; OUT/junit.xml is there from the run. On GitHub they are printed as workflow
    commands, and the comment is added to the summary of the step. Exit codes: 0 promote, 1 hold or
    roll back, 2 bad input, 3 inconclusive.

    Example: harness ci --out out --queries data/queries.jsonl
    """
    from harness.core.durable.owned import RUN, check_apart, check_held
    from harness.core.errors import BadFile
    from harness.core.reading import text_of
    from harness.policy.decide import exit_code
    from harness.report.decision.annotations import github as command
    from harness.report.decision.ci import notes
    from harness.stages.report.ci import check, write

    noted = os.environ.get(ON_GITHUB) == "true" if github is None else github
    summary = os.environ.get(SUMMARY) if noted else None
    if summary and Path(summary).exists() and not Path(summary).is_file():
        raise BadFile(Path(summary), "is not a file", f"Name a file in {SUMMARY}, or unset it")
    checked = check(left, baseline, queries)
    check_held(left, RUN)
    check_apart(left, filter(None, [baseline]))
    comment = write(checked, left, most)
    if noted:
        for note in notes(checked, most):
            out.print(command(note), markup=False)
        if summary:
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(text_of(comment))
    out.print(f"The comment: {comment}", markup=False)
    raise typer.Exit(exit_code(checked.decisions))
