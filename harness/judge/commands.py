"""Commands for judging: pool, judge, panel and labels."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import CODES, Result, app, command, err, group, said
from harness.cli.options import By, Candidate, Control, EvidencePlace, MayWrite, Measure, ToFile
from harness.cli.project import Project
from harness.core.errors import HarnessError, UnknownName
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.core.scores import Estimate
    from harness.corpus.judgements import Pool
    from harness.judge.judge import RaterAgreement


@command(app)
def pool(
    of: EvidencePlace,
    *,
    control: Control,
    candidate: Candidate,
    measure: Measure,
    size: Annotated[int, typer.Option(min=1, help="At most so many pairs.")],
    to: ToFile,
    order: Annotated[str, typer.Option(help="bounds or sample.")] = "bounds",
) -> Result:
    """Write the pairs of query and document whose judgement would settle a comparison.

    Most decisive first: by how much narrower the bounds of the mean difference get. With --order
    sample, unjudged hits of both arms are drawn, more often those that can move the difference
    more. A gate uses the sample once it is judged and added by harness labels. Where a drawn hit
    is relevant, the others of its query come after it. The file is in TREC's form with ? for a
    grade, OUT.jsonl has the texts; harness judge fills it in, or any editor.

    Example: harness pool --dataset python-docs --control fts5 --candidate tantivy
    --measure nDCG@10 --size 100 --out out/pool.qrels
    """
    from harness.core.folders import check_new
    from harness.judge.pool import Compared, Order
    from harness.judge.pool import pool as write

    project = Project.own()
    check_new(to, reads=project.sources)
    layout = of.layout()
    if order not in set(Order):
        raise UnknownName("order of a pool", order, Order)
    seed = Project.here().params.score.inference().seed
    found = write(layout, Compared(control, candidate, measure), Order(order), size, to, seed)
    queries = many(found.queries, "query")
    if order == Order.SAMPLE:
        lines = [f"{found.pairs} of {many(found.of, 'unjudged hit')} of {queries} were drawn."]
    else:
        ends = f"[{found.worst:+.4f}, {found.best:+.4f}]"
        within = f"{measure} of {candidate} - {control} lies within {ends} over {queries}"
        lines = [
            f"{within}, whatever the missing judgements say.",
            f"{many(found.of, 'pair')} would narrow that; wrote the first {found.pairs} to {to}.",
        ]
    return said(*lines, f"Judge them: harness judge {to}")


@command(app)
def judge(
    file: Annotated[Path, typer.Argument(help="The pool, as harness pool wrote it.")],
    *,
    merge: Annotated[
        str, typer.Option(help="Judge nothing: add the grades to this data set.")
    ] = "",
    by: By = "",
    machine: Annotated[
        Path | None, typer.Option(help="Let the judge of this TOML file judge every pair.")
    ] = None,
    to: MayWrite = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --machine: say the cost, send nothing.")
    ] = False,
) -> Result:
    """Judge a pool, one pair at a time: a key gives the grade.

    Every key is written to the file at once; stop when you like, and the same command goes on.
    Keys may also come from a pipe. With --by NAME your grades come into a file of your own beside
    the pool; harness panel compares such files. --merge adds what was judged to a data set.
    --machine leaves the pool as it is and writes labels to --out that say who judged: judge, model
    and instructions. Answers are kept, so none is paid twice.

    Example: harness judge out/pool.qrels --machine examples/judge/endpoint.toml --out
    out/machine.jsonl
    """
    from harness.judge.judge import judge as sit
    from harness.judge.judge import own_file
    from harness.judge.pool import standing

    if machine is None and (to or dry_run):
        raise HarnessError("--out and --dry-run belong to --machine FILE; name the judge's file")
    if machine is not None:
        if merge or by:
            raise HarnessError("--merge and --by are for judgements of people; leave them out")
        return said(*_by_machine(file, machine, to, dry_run=dry_run))
    if merge:
        return _merge(file, merge, by)
    if by:
        file = own_file(file, by)
    done = sit(file, _keys(), _show_judging)
    where = f" in {file}" if by else ""
    lines = [f"{len(done.judgements)} of {len(done.pairs)} pairs are judged{where}."]
    if not done.open and (seen := standing(file)):
        lines.append(seen.words)
    return said(*lines)


def _by_machine(file: Path, machine: Path, to: Path | None, *, dry_run: bool) -> Iterator[str]:
    from harness.core.folders import check_apart
    from harness.judge.endpoint import opened
    from harness.judge.machine import estimate, label

    if to is None and not dry_run:
        raise HarnessError("name the file of labels: --out FILE, or see the cost: --dry-run")
    project = Project.here()
    if to is not None:
        check_apart(to, (*project.sources, machine))
    with opened(machine, project.cache / "judges") as answers:
        if to is None or dry_run:
            cost = estimate(file, answers)
            yield (
                f"{many(cost.pairs, 'pair')}, {cost.known} answered before. The others send about"
                f" {cost.tokens:,.0f} tokens and cost about {cost.likely:.4f}, at most"
                f" {cost.most:.4f} without retries. Nothing was sent."
            )
            return
        done = label(file, answers, to)
    grades = Counter(one.grade for one in done.labels)
    yield (
        f"{answers.judge.name}: {many(len(done.labels), 'label')} in {to},"
        f" {many(done.sent, 'pair')} judged now for {done.cost:.4f} with {done.retries} retries"
    )
    for grade, count in sorted(grades.items()):
        yield f"  grade {grade}: {count}"
    for query_id, doc_id, why in done.lacking:
        yield f"  no label: {doc_id} for query {query_id}: {why}"


def _merge(file: Path, dataset: str, by: str) -> Result:
    from harness.core.names import labelled
    from harness.judge.judge import merge
    from harness.pipeline.prepare import prepare

    if not by:
        raise HarnessError("say who judged: --by NAME; the card of the data set names them")
    labelled("who judged", by)
    project = Project.own()
    layout = project.layout(dataset)
    data, qrels = project.root / "datasets" / dataset, project.root / "qrels" / dataset
    merged = merge(file, data, qrels, by=by, at=datetime.now(UTC).date().isoformat())
    prepare(data, qrels, layout.data)
    return said(
        f"added {many(merged.added, 'judgement')} to {dataset}; {merged.known} were known,"
        f" {merged.open} are open"
    )


def _keys() -> Iterator[str]:
    """Read single keys of a terminal, or else what is piped in, white space aside."""
    if sys.stdin.isatty():
        while True:
            yield typer.getchar()
    for line in sys.stdin:
        yield from "".join(line.split())


def _show_judging(pool: Pool, at: int, said: str) -> None:
    from rich.markup import escape
    from rich.panel import Panel

    from harness.core.printable import printable

    pair = pool.pairs[at]
    keys = " ".join(map(str, pair.scale))
    title, text = escape(printable(pair.title)), escape(printable(pair.snippet))
    head = f"{at + 1} of {len(pool.pairs)}, {len(pool.open)} open"
    err.print(Panel(escape(printable(pair.query)), title="query"), soft_wrap=False)
    shown = f"[bold]{title}[/bold]\n{text}"
    err.print(Panel(shown, title=escape(printable(pair.doc_id))), soft_wrap=False)
    err.print(f"{head}   grade: {keys}   s skip, u undo, q quit   {said}", markup=False)


@command(app)
def labels(
    file: Annotated[Path, typer.Argument(help="A pool of --order sample that is judged.")],
    of: EvidencePlace,
    *,
    by: Annotated[str, typer.Option(help="Who judged, or machine:NAME; the name is kept.")],
) -> Result:
    """Take in a judged sample as evidence for the gates on its measure.

    It is never added to the judgements of the data set. An earlier sample of the same arms and
    measure is replaced. Runs no engine. --by machine:NAME says that a machine judged: no step
    passes by it.

    Example: harness labels out/sample.qrels --by ada --dataset python-docs
    """
    from harness.core.names import labelled
    from harness.judge.pool import take_sample

    labelled("who judged", by)
    taken = take_sample(of.layout(adds=True), file, by)
    return said(
        f"{taken.measure} of {taken.candidate} - {taken.control}: took in"
        f" {many(sum(map(len, taken.grades.values())), 'judgement')} by {by}"
    )


Files = Annotated[
    list[Path], typer.Argument(help="Files of the people, as harness judge POOL --by NAME makes.")
]
FEW = "too few queries were judged twice to say"
panel = group("panel", "Compare several people, or a machine, who judged one pool.")


@command(panel)
def report(files: Files) -> Result:
    """Print how much each judged and how well they agree, with intervals.

    Krippendorff's alpha for ordered grades, and the weighted kappa of each two. A file of labels
    is that of a machine: how far it agrees with people.

    Example: harness panel report out/pool.ada.qrels out/pool.ben.qrels
    """
    from harness.judge.judge import agreement, read_panel

    confidence = Project.here().params.score.inference().confidence
    return said(*_agreed(agreement(read_panel(files, machines=True), confidence)))


def _agreed(found: RaterAgreement) -> Iterator[str]:
    for name, judged, of in found.assessors:
        yield f"{name}: {judged} of {of} judged"
    yield (
        f"{many(found.twice, 'pair was')} judged twice; {found.differ} differ, {found.far} of them"
        " by two grades or more"
    )
    yield f"Krippendorff's alpha, ordinal: {_estimate(found.alpha)}"
    for first, second, kappa in found.cohen:
        yield f"weighted kappa of {first} and {second}: {_estimate(kappa)}"


def _estimate(found: Estimate | None) -> str:
    if found is None:
        return FEW
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}], n = {many(found.n, 'pair')}"


@command(panel)
def settle(files: Files, to: ToFile) -> Result:
    """Write one grade a pair: what all its judges agree on, else that of a second look.

    Pairs that were judged differently come into OUT.disagreements.qrels, the farthest apart
    first. Judge them there, then give the same command. Exit codes: 0 written, 3 disagreements
    are open.

    Example: harness panel settle out/pool.ada.qrels out/pool.ben.qrels --out out/settled.qrels
    """
    from harness.core.folders import check_apart
    from harness.judge.judge import read_panel, second_look
    from harness.judge.judge import settle as stage

    check_apart(to, Project.here().sources)
    found = stage(read_panel(files, machines=False), to, files)
    left = f"; {many(found.unjudged, 'pair')} are not judged" if found.unjudged else ""
    if found.open:
        lines = (
            f"{found.open} disagreements are open{left}.",
            f"Judge them: harness judge {second_look(to)}",
        )
        return Result(said(*lines).doc, CODES["inconclusive"])
    if not found.settled:
        return Result(said(f"nothing is settled yet{left}").doc, CODES["inconclusive"])
    return said(
        f"{many(found.settled, 'pair is')} settled in {to}{left}",
        f"Add them: harness judge {to} --merge DATASET --by WHO",
    )
