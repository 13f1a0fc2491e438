"""``harness verify``: check everything that a decision rests on, and derive the decision again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from harness.cli.base.app import out
from harness.cli.base.boundary import aside
from harness.cli.base.places import Dataset, Left, Threads, left_by_run, one_of
from harness.cli.base.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.stages.custody.verify import Verified
    from harness.stages.layout import Layout

SEED_BITS = 32


def register(app: typer.Typer) -> None:
    """Put ``verify`` on the command line."""
    app.command()(verify)


def verify(
    dataset: Dataset = "",
    left: Left = None,
    *,
    requery: Annotated[
        int, typer.Option(min=0, help="Run so many queries of each arm again; opens the indexes.")
    ] = 0,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Which queries --requery draws. [drawn anew each time, and told]"),
    ] = None,
    arm: Annotated[
        list[Path] | None,
        typer.Option(help="File of an arm that engines/arms does not have. May come again."),
    ] = None,
    signed_by: Annotated[
        Path | None,
        typer.Option(help="Who may have signed: a name and a public key a line, as ssh has it."),
    ] = None,
    threads: Threads = 1,
) -> None:
    """Derive a decision again from its raw evidence, recompute every digest below it, and compare.

    Digests of judgements, queries, documents, manifests, runs, scores, comparisons, race times,
    policy, receipts, card and dvc.lock. Then every measure, agreement, interval and verdict once
    more from runs, judgements, raw times and policy; and all measures by ir-measures, overlaps by
    sets. Pages and files for other tools are rebuilt and compared; others are named. Nothing is
    written. No index is opened but for --requery, which compares a sample of each run with what its
    engine shows now. Exit codes: 0 all is as it was decided, 2 a file is gone or was changed, or a
    value does not follow from the evidence. The first one is named, as stored and as derived.

    Example: harness verify --dataset python-docs --requery 20
    """
    from harness.stages.custody.verify import verify_with_files

    one_of(dataset, left)
    project = Project.here()
    names = project.datasets(dataset)
    for layout in [left_by_run(left)] if left else [project.layout(name) for name in names]:
        found = [*verify_with_files(layout, left, project.root, threads=threads)]
        if requery:
            with aside():
                found += _requeried(layout, requery, seed, arm or [], project.cache)
        _show(layout.root.name, (*found, _signature(layout, signed_by)))


def _requeried(
    layout: Layout, count: int, seed: int | None, files: list[Path], cache: Path
) -> Iterator[Verified]:
    """Run a sample of queries again, and say which and of whom."""
    from secrets import randbits

    from engines import registry
    from harness.stages.custody.requery import Sample, requery
    from harness.stages.custody.verify import Verified, judged_arms

    sample = Sample(count, randbits(SEED_BITS) if seed is None else seed)
    given = {registry.load(str(file), cache).name: str(file) for file in files}
    arms = {name: given.get(name, name) for name in judged_arms(layout)}
    for one in requery(layout, arms, cache, sample):
        said = f"{one.same} of {count}, seed {sample.seed}: the same hits"
        if one.unanswered:
            said += f"; {one.unanswered} have no answer in the run"
        if one.imported:
            said = "no: its run came as a file, and no engine is here that could be queried"
        yield Verified(f"queried {one.arm}", said)


def _signature(layout: Layout, allowed: Path | None) -> Verified:
    from harness.stages.custody.signature import signed_by
    from harness.stages.custody.verify import Verified

    if allowed:
        return Verified("signature", f"by {signed_by(layout, allowed)}, of {layout.signature}")
    if layout.signature.is_file():
        return Verified("signature", f"{layout.signature}, not checked: name --signed-by")
    return Verified("signature", "unsigned")


def _show(dataset: str, found: Iterable[Verified]) -> None:
    out.print(f"\n[bold]{escape(dataset)}[/bold] is as it was decided")
    for one in found:
        out.print(f"  {escape(one.what):<20} {escape(one.said)}")
