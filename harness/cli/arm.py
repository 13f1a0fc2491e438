"""``harness arm``: check an engine of your own before you measure it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from harness.cli.base.app import out
from harness.cli.base.boundary import aside
from harness.cli.base.project import Project
from harness.core.durable.scratch import scratch

if TYPE_CHECKING:
    from harness.stages.contract.check import Finding
    from harness.stages.contract.stage import Checked, Sample

BROKEN = 2
SHOWN = {"holds": "holds", "broken": "[red]BROKEN[/]", "not checked": "[dim]not checked[/]"}


def register(app: typer.Typer) -> None:
    """Put ``arm`` on the command line."""
    group = typer.Typer(no_args_is_help=True, help="An engine, as its TOML file configures it.")
    group.callback()(_group)
    group.command()(check)
    app.add_typer(group, name="arm")


def _group() -> None:
    """Keep ``check`` a command of its own, though it is the only one."""


def check(
    arm: Annotated[str, typer.Argument(help="Path to the engine's TOML file, or an arm's name.")],
    dataset: Annotated[
        str,
        typer.Option(
            help="A data set's name, or a folder in BEIR layout, to index and query instead of"
            " the sample documents. [15 sample documents]"
        ),
    ] = "",
    split: Annotated[str, typer.Option(help="Which judgements of a BEIR folder.")] = "test",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Check that an engine keeps the contract that every engine here keeps.

    Builds an index in a temporary folder and checks order, ties, k, ids, scores, identity,
    fingerprint, repetition, threads, processes, and empty, hostile and long texts. A broken
    promise is printed with the first violations and what to do. Exit codes: 0 every promise
    holds, 2 one is broken, or the file is wrong.

    Example: harness arm check examples/own_engine/own.toml
    """
    from harness.stages.contract.stage import check as stage

    project = Project.here()
    with _sample(project, dataset, split) as sample, aside():
        found = stage(arm, project.cache, sample)
    if as_json:
        out.json(found.told())
    else:
        _show(found)
    raise typer.Exit(0 if found.holds else BROKEN)


@contextmanager
def _sample(project: Project, dataset: str, split: str) -> Iterator[Sample | None]:
    """Prepare the data set in a temporary folder; None where none is named."""
    from harness.stages.contract.stage import Sample
    from harness.stages.imports.collections import load_folder
    from harness.stages.prepare import prepare

    if not dataset:
        yield None
        return
    with scratch() as beside:
        data = beside / "data"
        if Path(dataset).is_dir():
            load_folder(Path(dataset), split, data)
        else:
            project.layout(dataset)
            prepare(project.root / "datasets" / dataset, project.root / "qrels" / dataset, data)
        yield Sample.of(data)


def _show(found: Checked) -> None:
    out.print(escape(_headline(found)))
    for one in found.findings:
        if one.broken:
            out.print(f"\n{one}", markup=False)
    table = Table("check", "outcome", "promise", box=None, padding=(0, 2, 0, 0))
    for one in found.findings:
        table.add_row(escape(one.check.name), SHOWN[one.outcome], escape(_said(one)))
    out.print()
    out.print(table)


def _headline(found: Checked) -> str:
    """Say whether the contract is kept, and by how many of the checks."""
    from harness.stages.contract.check import Outcome

    outcomes = [one.outcome for one in found.findings]
    verdict = "keeps the contract" if found.holds else "BREAKS THE CONTRACT"
    left = outcomes.count(Outcome.NOT_CHECKED)
    return (
        f"{found.arm}: {verdict}. {outcomes.count(Outcome.HOLDS)} of {len(outcomes)} promises hold,"
        f" {outcomes.count(Outcome.BROKEN)} broken{f', {left} are not checked' if left else ''}"
        f" (documents: {found.manifest.documents:,})"
    )


def _said(found: Finding) -> str:
    return f"{found.check.promise} ({found.reason})" if found.reason else found.check.promise
