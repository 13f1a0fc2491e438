"""``harness verify``, ``harness sign`` and ``harness reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from harness.cli.app import out
from harness.cli.exit_codes import aside
from harness.cli.project import Dataset, Left, Project, Threads, added_to_run, left_by_run, one_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.stages.custody.reproduce import Reproduced
    from harness.stages.custody.verify import Verified
    from harness.stages.layout import Layout


Record = Annotated[
    bool,
    typer.Option("--record", help="Write the record anew from what is here, for a commit."),
]


def register_reproduce(app: typer.Typer) -> None:
    """Put ``reproduce`` on the command line."""
    app.command()(reproduce)


def reproduce(dataset: Dataset = "", *, record: Record = False) -> None:
    """Compare what the pipeline made here with the record in the repository.

    For each data set, it says that every output is byte-identical, or which stages differ. For
    those it counts queries with other first ten hits, and gives the largest difference of each
    measure. It says whether a verdict moved, and how this machine differs from the recorded one.
    Reads files only.
    Exit codes: 0 identical, or the same verdicts; 2 a verdict moved, or a file is missing.
    """
    from harness.stages.custody.reproduce import record as write
    from harness.stages.custody.reproduce import reproduce as compare

    project = Project.here()
    moved = False
    for name in project.datasets(dataset):
        if record:
            folder = write(project.root, project.layout(name), tuple(project.params.arms))
            out.print(f"recorded {folder}; commit it with dvc.lock", markup=False)
            continue
        found = compare(project.root, project.layout(name))
        show(found)
        moved = moved or bool(found.decisions)
    if moved:
        raise typer.Exit(2)


def show(found: Reproduced) -> None:
    """Print the comparison of one data set, the answer first."""
    name = escape(found.dataset)
    if found.exact:
        out.print(f"{name}: all {found.compared} recorded outputs are byte-identical")
        return
    verdicts = "a verdict moved" if found.decisions else "every verdict is the same"
    out.print(
        f"{name}: {len(found.differ)} of {found.compared} recorded outputs differ; {verdicts}"
    )
    for line in found.decisions:
        out.print(f"  moved     {line}", markup=False)
    for line in found.differ:
        out.print(f"  differs   {line}", markup=False)
    for arm, (changed, of) in found.first_hits.items():
        if changed:
            text = f"  first ten {arm}: {changed} of {of} queries show other hits"
            out.print(text, markup=False)
    for one in found.moved:
        text = (
            f"  {one.measure:<9} moved most in {one.arm}, query {one.query_id}:"
            f" {one.recorded:.4f} recorded, {one.found:.4f} here ({one.difference:+.4f})"
        )
        out.print(text, markup=False)
    for line in found.environment:
        out.print(f"  machine   {line}", markup=False)
    if not found.environment:
        out.print("  machine   no feature, package or SQLite differs: the cause is elsewhere")


def register_sign(app: typer.Typer) -> None:
    """Put ``sign`` on the command line."""
    app.command()(sign)


def sign(
    key: Annotated[Path, typer.Option(help="A private key of OpenSSH, kept elsewhere.")],
    dataset: Dataset = "",
    left: Left = None,
) -> None:
    """Verify a decision, and sign its receipt, which names the decision and its evidence by digest.

    ssh-keygen makes the signature; it lies beside the receipt and is gone with the next decision.
    harness verify --signed-by says who signed. Exit codes: 0 signed, 2 what is there does not
    follow from its evidence, or the key cannot be used.

    Example: harness sign --key signing_key --dataset python-docs
    """
    from harness.stages.custody.pins import sign as stage
    from harness.stages.custody.verify import verify_with_files

    one_of(dataset, left)
    project = Project.here()
    names = project.datasets(dataset)
    for layout in [added_to_run(left)] if left else [project.layout(name) for name in names]:
        verify_with_files(layout, left, project.root)
        out.print(f"signed: {stage(layout, key)}", markup=False)


SEED_BITS = 32


def register_verify(app: typer.Typer) -> None:
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
    deep: Annotated[
        bool, typer.Option("--deep/--no-deep", help="Compute every measure by ir-measures too.")
    ] = True,
    threads: Threads = 1,
) -> None:
    """Derive a decision again from its raw evidence, recompute every digest below it, and compare.

    Digests of judgements, queries, documents, manifests, runs, scores, comparisons, race times,
    policy, receipts, card and dvc.lock. Then every measure, agreement, interval and verdict once
    more from runs, judgements, raw times and policy; and all measures by ir-measures. Pages and
    files for other tools are rebuilt and compared; others are named. Nothing is written. No index
    is opened but for --requery, which compares a sample of each run with what its engine shows now.
    Exit codes: 0 all is as it was decided, 2 a file is gone or was changed, or a value does not
    follow from the evidence. The first one is named, as stored and as derived.

    Example: harness verify --dataset python-docs --requery 20
    """
    from harness.stages.custody.verify import verify_with_files

    one_of(dataset, left)
    project = Project.here()
    names = project.datasets(dataset)
    for layout in [left_by_run(left)] if left else [project.layout(name) for name in names]:
        found = [*verify_with_files(layout, left, project.root, threads=threads, deep=deep)]
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
    from harness.stages.custody.pins import signed_by
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
