"""``harness decide``: what would another policy have said of the same evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.places import Dataset, Left, left_by_run, one_of
from harness.cli.base.project import Project


def register(app: typer.Typer) -> None:
    """Put ``decide`` on the command line."""
    app.command()(decide)


def decide(
    policy: Annotated[Path, typer.Option(help="The policy to judge by.")],
    dataset: Dataset = "",
    left: Left = None,
    control: Annotated[
        str, typer.Option(help="Judge every other arm against this one; the policy has one step.")
    ] = "",
    step: Annotated[str, typer.Option(help="Only this step decides the exit code.")] = "",
) -> None:
    """Judge evidence that is there by another policy, and exit by it.

    No index is opened, no query is run again and no decision is written: the one of record is still
    that of harness gate. That it was judged is a line of the experiment log. Exit codes: 0 every
    step may be taken, 1 a gate fails, 2 bad input, 3 inconclusive.

    Example: harness decide --policy policy/stricter.toml --dataset python-docs
    """
    from datetime import UTC, datetime

    from harness.cli.base.verdicts import show
    from harness.core.errors import UnknownName
    from harness.policy.decide import exit_code, worst
    from harness.policy.load import load_policy
    from harness.stages.decide import decide as stage

    one_of(dataset, left)
    judged_by = load_policy(policy)
    if left:
        places = [left_by_run(left)]
    else:
        project = Project.here()
        names = project.datasets(dataset)
        places = [project.layout(name) for name in names]
    codes = []
    for layout in places:
        decisions = stage(layout, judged_by, policy, control=control, now=datetime.now(UTC))
        steps = [one.step for one in decisions]
        if step and step not in steps:
            raise UnknownName("step", step, steps)
        show(layout.root.name, decisions)
        codes.append(exit_code(one for one in decisions if step in {"", one.step}))
    raise typer.Exit(worst(codes))
