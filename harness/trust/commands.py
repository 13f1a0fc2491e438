"""``harness verify``, ``harness sign`` and ``harness reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import Result, app, command, said, shown
from harness.cli.options import AnyArms, Dataset, Evidence, Record, Seed, Threads
from harness.cli.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.pipeline.layout import Layout
    from harness.pipeline.verify import Verified
    from harness.trust.reproduce import Reproduced

SEED_BITS = 32


@command(app)
def reproduce(dataset: Dataset = "", *, record: Record = False) -> Result:
    """Compare what the pipeline made here with the record in the repository.

    For each data set: whether every output is byte-identical, or which stages differ. For those,
    queries with other first ten hits, and the largest difference of each measure; whether a
    verdict moved, and how this machine differs from the recorded one. Reads files only.
    Exit codes: 0 identical, or the same verdicts; 2 a verdict moved, or a file is missing.
    """
    from harness.trust.reproduce import record as write
    from harness.trust.reproduce import reproduce

    project, lines, moved = Project.here(), [], False
    for name in project.datasets(dataset):
        if record:
            folder = write(project.root, project.layout(name), tuple(project.params.arms))
            lines.append(f"recorded {folder}; commit it with dvc.lock")
            continue
        found = reproduce(project.root, project.layout(name))
        lines += reproduced(found)
        moved = moved or bool(found.decisions)
    return Result(said(*lines).doc, 2 if moved else 0)


def reproduced(found: Reproduced) -> Iterator[str]:
    """Yield the comparison of one data set, the answer first."""
    if found.exact:
        yield f"{found.dataset}: all {found.compared} recorded outputs are byte-identical"
        return
    verdicts = "a verdict moved" if found.decisions else "every verdict is the same"
    differ = len(found.differ)
    yield f"{found.dataset}: {differ} of {found.compared} recorded outputs differ; {verdicts}"
    yield from (f"  moved     {line}" for line in found.decisions)
    yield from (f"  differs   {line}" for line in found.differ)
    for arm, (changed, of) in found.first_hits.items():
        if changed:
            yield f"  first ten {arm}: {changed} of {of} queries show other hits"
    for one in found.moved:
        yield (
            f"  {one.measure:<9} moved most in {one.arm}, query {one.query_id}:"
            f" {one.recorded:.4f} recorded, {one.found:.4f} here ({one.difference:+.4f})"
        )
    yield from (f"  machine   {line}" for line in found.environment)
    if not found.environment:
        yield "  machine   no feature, package or SQLite differs: the cause is elsewhere"


@command(app)
def sign(
    key: Annotated[Path, typer.Option(help="A private key of OpenSSH, kept elsewhere.")],
    of: Evidence,
) -> Result:
    """Verify a decision, and sign its receipt, which names the decision and its evidence by digest.

    ssh-keygen makes the signature; it lies beside the receipt and is gone with the next decision.
    harness verify --signed-by says who signed. Exit codes: 0 signed, 2 what is there does not
    follow from its evidence, or the key cannot be used.

    Example: harness sign --key signing_key --dataset python-docs
    """
    from harness.pipeline.pins import sign
    from harness.pipeline.verify import verify_with_files

    project, lines = Project.here(), []
    for layout in of.layouts(adds=True):
        verify_with_files(layout, of.source, project.root)
        lines.append(f"signed: {sign(layout, key)}")
    return said(*lines)


@command(app)
def verify(
    of: Evidence,
    *,
    requery: Annotated[
        int, typer.Option(min=0, help="Run so many queries of each arm again; opens the indexes.")
    ] = 0,
    seed: Seed = None,
    arm: AnyArms = None,
    signed_by: Annotated[
        Path | None,
        typer.Option(help="Who may have signed: a name and a public key a line, as ssh has it."),
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep/--no-deep", help="Compute every measure by ir-measures too.")
    ] = True,
    threads: Threads = 1,
) -> Result:
    """Derive a decision again from its raw evidence, recompute every digest below it, and compare.

    Digests of judgements, queries, documents, manifests, runs, scores, comparisons, race times,
    policy, receipts, card and dvc.lock. Then every measure, agreement, interval and verdict once
    more from runs, judgements, raw times and policy; and all measures by ir-measures. Pages and
    files for other tools are rebuilt and compared; others are named. Nothing is written. No index
    is opened but for --requery, which compares a sample of each run with what its engine shows now.
    The sample is drawn anew without --seed; --arm names an arm that engines/arms does not have.
    Exit codes: 0 all is as it was decided, 2 a file is gone or was changed, or a value does not
    follow from the evidence. The first one is named, as stored and as derived.

    Example: harness verify --dataset python-docs --requery 20
    """
    from harness.pipeline.verify import verify_with_files
    from harness.report.doc import Section, Text

    project, sections = Project.here(), []
    for layout in of.layouts():
        found = [*verify_with_files(layout, of.source, project.root, threads=threads, deep=deep)]
        if requery:
            found += _requeried(layout, requery, seed, arm or (), project.cache)
        found.append(_signature(layout, signed_by))
        lines = tuple(Text(f"  {one.what:<20} {one.said}") for one in found)
        sections.append(Section(f"{layout.root.name} is as it was decided", lines))
    return shown(*sections)


def _requeried(
    layout: Layout, count: int, seed: int | None, files: Sequence[str], cache: Path
) -> Iterator[Verified]:
    """Run a sample of queries again, and yield which and of whom."""
    from secrets import randbits

    from engines import registry
    from harness.pipeline.verify import Verified, judged_arms
    from harness.trust.requery import Sample, requery

    sample = Sample(count, randbits(SEED_BITS) if seed is None else seed)
    given = {registry.load(file, cache).name: file for file in files}
    arms = {name: given.get(name, name) for name in judged_arms(layout)}
    for one in requery(layout, arms, cache, sample):
        said = f"{one.same} of {count}, seed {sample.seed}: the same hits"
        if one.unanswered:
            said += f"; {one.unanswered} have no answer in the run"
        if one.imported:
            said = "no: its run came as a file, and no engine is here that could be queried"
        yield Verified(f"queried {one.arm}", said)


def _signature(layout: Layout, allowed: Path | None) -> Verified:
    from harness.pipeline.pins import signed_by
    from harness.pipeline.verify import Verified

    if allowed:
        return Verified("signature", f"by {signed_by(layout, allowed)}, of {layout.signature}")
    if layout.signature.is_file():
        return Verified("signature", f"{layout.signature}, not checked: name --signed-by")
    return Verified("signature", "unsigned")
