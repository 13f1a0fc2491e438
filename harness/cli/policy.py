"""``harness policy``: pin a policy to the evidence that it was written for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.imports import Forms
from harness.cli.base.places import Left, left_by_run, one_of
from harness.cli.base.project import Project
from harness.cli.migrate.options import by, now
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.stages.layout import Layout


def register(app: typer.Typer) -> None:
    """Put ``policy`` on the command line."""
    group = typer.Typer(
        no_args_is_help=True, help="A policy, and the queries, judgements and race it is pinned to."
    )
    group.callback()(_group)
    group.command()(pin)
    app.add_typer(group, name="policy")


def _group() -> None:
    """Keep ``pin`` a command of its own, though it is the only one."""


def pin(
    policy: Annotated[Path, typer.Argument(help="The policy's file.")],
    dataset: Annotated[
        str, typer.Option(help="A folder of datasets/, or a folder in BEIR layout.")
    ] = "",
    left: Left = None,
    split: Annotated[str, typer.Option(help="Which judgements of a BEIR folder.")] = "test",
    *,
    forms: Forms = False,
) -> None:
    """Pin queries, judgements and race settings, as they are now, beside a policy.

    Writes POLICY.pins.json: a digest a query, and one for its judgements. From then on a decision
    on other evidence is INCONCLUSIVE and names what was added, removed or changed, until it is
    pinned again. When, by whom and over which changes is kept. Exit codes: 0 pinned, 2 bad input.

    Example: harness policy pin policy/migration.toml --dataset python-docs
    """
    from harness.core.errors import HarnessError
    from harness.policy.load import load_policy
    from harness.policy.pins import path_of
    from harness.stages.custody.pinning import Folder, pin_folder
    from harness.stages.custody.pinning import pin as stage

    one_of(dataset, left)
    if not (dataset or left):
        raise HarnessError("name what is pinned: --dataset, or --out of a harness run")
    load_policy(policy)
    if Path(dataset).is_dir() and not left:
        folder = Folder(Path(dataset), split, forms=forms)
        made = pin_folder(folder, policy, at=now(), by=by())
    else:
        layout: Layout = left_by_run(left) if left else Project.here().layout(dataset)
        made = stage(layout, policy, at=now(), by=by())
    for line in made.made[-1].changes:
        out.print(f"changed: {line}", markup=False)
    of = made.inventory
    raced = (
        f"{many(len(made.race), 'setting')} of the race"
        if made.race
        else "no race, for none was run"
    )
    out.print(
        f"pinned in {path_of(policy)}: {many(len(of.queries), 'query')},"
        f" {many(of.judged, 'judgement')} of"
        f" {many(len(of.judgements), 'query')}, {raced}",
        markup=False,
    )
