"""Commands for judging: pool, judge, panel, labels and assisted estimates."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.app import out
from harness.cli.project import OneDataset, Project, evidence_at, of_run
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.core.scores import Estimate
    from harness.corpus.judgements import Pool
    from harness.stages.judging.judge import AssistedDifference, Judging
    from harness.stages.judging.panel import Agreement


def register_assisted(app: typer.Typer) -> None:
    """Put ``assisted`` on the command line."""
    app.command()(assisted)


def assisted(
    *,
    dataset: Annotated[
        str, typer.Option(help="A folder of datasets/; of --run, that of the run if not named.")
    ] = "",
    ran: Annotated[
        Path | None, typer.Option("--run", help="Folder that harness run wrote, with --out.")
    ] = None,
    control: Annotated[str, typer.Option(help="The arm that serves today.")],
    candidate: Annotated[str, typer.Option(help="The arm that may replace it.")],
    measure: Annotated[str, typer.Option(help="A precision: P@5, P@10, P(rel=2)@10.")],
    human: Annotated[Path, typer.Option(help="Judgements by people: QUERY 0 DOCUMENT GRADE.")],
    machine: Annotated[Path, typer.Option(help="Judgements by a machine, in the same form.")],
    margin: Annotated[float, typer.Option(min=0, max=1, help="Allowed loss of the measure.")],
) -> None:
    """Judge a difference by few human judgements, and show what many machine ones suggest.

    People judge whole queries that were drawn at random; they alone decide, by a finite-sample
    interval. The machine's judgements, corrected by people's, give an estimate that describes: it
    misses rare losses that the machine does not see. The two files are never mixed. Exit codes: 0
    the loss is below the margin, 1 it is not, 3 inconclusive.

    Example: harness assisted --run out/mine --control fts5 --candidate tantivy --measure P@10
    --human human.qrels --machine machine.qrels --margin 0.02
    """
    from harness.core.gate import Verdict
    from harness.stages.judging.judge import Judging, difference

    layout = of_run(ran, dataset) if ran else evidence_at(dataset, None)
    judging = Judging(control, candidate, measure, human, machine, margin)
    found = difference(layout, judging, Project.here().params.score.inference(1))
    _show_assisted(found, judging)
    codes = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.INCONCLUSIVE: 3}
    raise typer.Exit(codes[found.verdict])


def _show_assisted(found: AssistedDifference, judging: Judging) -> None:
    from harness.gates.base.rules import signed

    alike = found.agreement
    out.print(
        f"kappa of people and machine {alike.value:.2f} [{alike.low:.2f}, {alike.high:.2f}]"
        f" over {many(alike.n, 'document')}",
        markup=False,
    )
    for grade, share in zip(found.grades, found.found.calibration, strict=False):
        name = "no grade" if grade is None else f"grade {grade}"
        said = "none judged by people" if share is None else f"{share:.0%} relevant to people"
        out.print(f"  {name} of the machine: {said}", markup=False)
    measure = judging.measure
    out.print(
        f"{measure}, with the machine: {signed(found.found.assisted)},"
        f" n = {many(found.queries, 'query')}; it describes and decides nothing\n"
        f"{measure}, people alone: {signed(found.found.human)}, n = {many(found.judged, 'query')}\n"
        f"{found.verdict.name}: {signed(found.found.human)}, allowed loss {judging.margin:g}",
        markup=False,
    )


File = Annotated[Path, typer.Argument(help="The pool, as harness pool wrote it.")]


def register_judging(app: typer.Typer) -> None:
    """Put ``pool`` and ``judge`` on the command line."""
    app.command()(pool)
    app.command()(judge)


def pool(
    *,
    dataset: Annotated[
        str, typer.Option(help="A folder of datasets/; of --run, that of the run if not named.")
    ] = "",
    control: Annotated[str, typer.Option(help="The arm that serves today.")],
    candidate: Annotated[str, typer.Option(help="The arm that wants to.")],
    measure: Annotated[str, typer.Option(help="nDCG@k, RR@k, P@k, R@k or AP@k.")],
    size: Annotated[int, typer.Option(min=1, help="At most so many pairs.")],
    to: Annotated[Path, typer.Option("--out", help="File to write; OUT.jsonl comes beside it.")],
    ran: Annotated[
        Path | None, typer.Option("--run", help="Folder that harness run wrote, with --out.")
    ] = None,
    order: Annotated[str, typer.Option(help="bounds or sample.")] = "bounds",
) -> None:
    """Write the pairs of query and document whose judgement would settle a comparison.

    Most decisive first: by how much narrower the bounds of the mean difference get. With --order
    sample, unjudged hits of both arms are drawn, those more often that can move the difference
    more. A gate decides by it once it is judged and taken in by harness labels. Where a drawn hit
    is relevant, the others of its query come after it. The file is in TREC's form with ? for a
    grade; harness judge fills it in, or any editor.

    Example: harness pool --dataset python-docs --control fts5 --candidate tantivy
    --measure nDCG@10 --size 100 --out out/pool.qrels
    """
    from harness.core.errors import HarnessError, UnknownName
    from harness.core.folders import check_new
    from harness.stages.judging.pool import Compared, Order
    from harness.stages.judging.pool import pool as write

    project = Project.own()
    check_new(to, reads=project.sources)
    if ran is None and dataset and Path(dataset).is_dir():
        raise HarnessError(
            f"{dataset} is a folder and no data set of the project; its evidence lies in the --out"
            " of the harness run: name that with --run"
        )
    layout = of_run(ran, dataset) if ran else evidence_at(dataset, None)
    if order not in set(Order):
        raise UnknownName("order of a pool", order, Order)
    seed = Project.here().params.score.inference(1).seed
    found = write(layout, Compared(control, candidate, measure), Order(order), size, to, seed)
    if order == Order.SAMPLE:
        out.print(
            f"{found.pairs} of {many(found.of, 'unjudged hit')} of"
            f" {many(found.queries, 'query')} were drawn.",
            markup=False,
        )
    else:
        out.print(
            f"{measure} of {candidate} - {control} lies within"
            f" [{found.worst:+.4f}, {found.best:+.4f}]"
            f" over {many(found.queries, 'query')}, whatever the missing judgements say.\n"
            f"{many(found.of, 'pair')} would narrow that; wrote the first {found.pairs} to {to}.",
            markup=False,
        )
    out.print(f"Judge them: harness judge {to}", markup=False)


def judge(
    file: File,
    *,
    merge: Annotated[
        str, typer.Option(help="Ask nothing: add what was judged to this data set.")
    ] = "",
    by: Annotated[
        str, typer.Option(help="Your name, for a file of your own; with --merge: who judged.")
    ] = "",
    machine: Annotated[
        Path | None, typer.Option(help="Let the judge of this TOML file judge every pair.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--out", help="With --machine: file of labels to write.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --machine: say the cost, send nothing.")
    ] = False,
) -> None:
    """Judge a pool, one pair at a time: a key gives the grade.

    Every key is written to the file at once; stop when you like, and the same command goes on.
    Keys may also come from a pipe. With --by NAME your grades come into a file of your own beside
    the pool; harness panel compares such files. --merge adds what was judged to a data set.
    --machine leaves the pool as it is and writes labels that say who judged: judge, model and
    instructions. Answers are kept, so none is paid twice.

    Example: harness judge out/pool.qrels --machine examples/judge/overlap.toml --out
    out/machine.jsonl
    """
    from harness.core.errors import HarnessError
    from harness.stages.judging.judge import judge as sit
    from harness.stages.judging.panel import own_file
    from harness.stages.judging.pool import standing

    if machine is None and (to or dry_run):
        raise HarnessError("--out and --dry-run belong to --machine FILE; name the judge's file")
    if machine is not None:
        if merge or by:
            raise HarnessError("--merge and --by are for judgements of people; leave them out")
        _by_machine(file, machine, to, dry_run=dry_run)
        return
    if merge:
        _merge(file, merge, by)
        return
    if by:
        file = own_file(file, by)
    done = sit(file, _keys(), _show_judging)
    where = f" in {file}" if by else ""
    out.print(f"{len(done.judgements)} of {len(done.pairs)} pairs are judged{where}.", markup=False)
    if not done.open and (seen := standing(file)):
        out.print(seen.words, markup=False)


def _by_machine(file: Path, machine: Path, to: Path | None, *, dry_run: bool) -> None:
    from harness.core.errors import HarnessError
    from harness.core.folders import check_apart
    from harness.stages.judging.label import estimate, label, opened

    if to is None and not dry_run:
        raise HarnessError("name the file of labels: --out FILE, or see the cost: --dry-run")
    project = Project.here()
    if to is not None:
        check_apart(to, (*project.sources, machine))
    with opened(machine, project.cache / "judges") as (judge, answers):
        if to is None or dry_run:
            cost = estimate(file, judge, answers)
            out.print(
                f"{many(cost.pairs, 'pair')}, {cost.known} answered before. The others send about"
                f" {cost.tokens:,.0f} tokens and cost about {cost.likely:.4f}, at most"
                f" {cost.most:.4f} without retries. Nothing was sent.",
                markup=False,
            )
            return
        done = label(file, judge, answers, to)
    grades = Counter(one.grade for one in done.labels)
    out.print(
        f"{judge.name}: {many(len(done.labels), 'label')} in {to}, {many(done.sent, 'pair')}"
        f" judged now for {done.cost:.4f} with {done.retries} retries",
        markup=False,
    )
    for grade, count in sorted(grades.items()):
        out.print(f"  grade {grade}: {count}", markup=False)
    for query_id, doc_id, why in done.lacking:
        out.print(f"  no label: {doc_id} for query {query_id}: {why}", markup=False)


def _merge(file: Path, dataset: str, by: str) -> None:
    from harness.core.errors import HarnessError
    from harness.core.names import labelled
    from harness.stages.judging.judge import merge
    from harness.stages.prepare import prepare

    if not by:
        raise HarnessError("say who judged: --by NAME; the card of the data set names them")
    labelled("who judged", by)
    project = Project.own()
    layout = project.layout(dataset)
    data, qrels = project.root / "datasets" / dataset, project.root / "qrels" / dataset
    merged = merge(file, data, qrels, by=by, at=datetime.now(UTC).date().isoformat())
    out.print(
        f"added {many(merged.added, 'judgement')} to {dataset}; {merged.known} were known,"
        f" {merged.open} are open",
        markup=False,
    )
    prepare(data, qrels, layout.data)


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
    out.print(Panel(escape(printable(pair.query)), title="query"), soft_wrap=False)
    shown = f"[bold]{title}[/bold]\n{text}"
    out.print(Panel(shown, title=escape(printable(pair.doc_id))), soft_wrap=False)
    out.print(f"{head}   grade: {keys}   s skip, u undo, q quit   {said}", markup=False)


def register_labels(app: typer.Typer) -> None:
    """Put ``labels`` on the command line."""
    app.command()(labels)


def labels(
    file: Annotated[Path, typer.Argument(help="A sample of harness pool --order sample, judged.")],
    by: Annotated[str, typer.Option(help="Who judged it.")],
    dataset: OneDataset = "",
    left: Annotated[
        Path | None,
        typer.Option("--out", help="What a `harness run` wrote, instead of the project."),
    ] = None,
) -> None:
    """Take in the judged sample of harness pool --order sample, as evidence for gates.

    It is evidence for gates on its measure, and never added to the judgements of the data set. What
    was taken in of the same arms and measure is replaced. Runs no engine.

    Example: harness labels out/sample.qrels --by ada --dataset python-docs
    """
    from harness.core.names import labelled
    from harness.stages.judging.pool import take_sample

    labelled("who judged", by)
    taken = take_sample(evidence_at(dataset, left, adds=True), file, by)
    out.print(
        f"{taken.measure} of {taken.candidate} - {taken.control}: took in"
        f" {many(sum(map(len, taken.grades.values())), 'judgement')} by {by}",
        markup=False,
    )


Files = Annotated[
    list[Path], typer.Argument(help="Files of the people, as harness judge POOL --by NAME makes.")
]
FEW = "too few queries were judged twice to say"


def register_panel(app: typer.Typer) -> None:
    """Put the group ``panel`` on the command line."""
    group = typer.Typer(no_args_is_help=True, help="Compare several people who judged one pool.")
    for command in (report, settle):
        group.command()(command)
    app.add_typer(group, name="panel")


def report(files: Files) -> None:
    """Print how far each person is, and how far they agree, with intervals.

    Krippendorff's alpha for ordered grades, Fleiss' kappa, and the weighted kappa of each two.

    Example: harness panel report out/pool.ada.qrels out/pool.ben.qrels
    """
    from harness.stages.judging.panel import agreement, read

    confidence = Project.here().params.score.inference(1).confidence
    _show_panel(agreement(read(files), confidence))


def _show_panel(found: Agreement) -> None:
    for one in found.assessors:
        out.print(f"{one.name}: {one.judged} of {one.of} judged", markup=False)
    out.print(
        f"{many(found.twice, 'pair was')} judged twice; {found.differ} differ, {found.far} of them"
        " by two grades or more",
        markup=False,
    )
    out.print(f"Krippendorff's alpha, ordinal: {_said(found.alpha)}", markup=False)
    out.print(f"Fleiss' kappa: {_said(found.fleiss)}", markup=False)
    for first, second, kappa in found.cohen:
        out.print(f"weighted kappa of {first} and {second}: {_said(kappa)}", markup=False)


def _said(found: Estimate | None) -> str:
    if found is None:
        return FEW
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}], n = {many(found.n, 'pair')}"


def settle(
    files: Files,
    *,
    to: Annotated[Path, typer.Option("--out", help="Pool to write, with one grade a pair.")],
) -> None:
    """Write one grade a pair: where all who judged it agree theirs, else that of a second look.

    Pairs that were judged differently come into OUT.disagreements.qrels, the farthest apart
    first. Judge them there, then give the same command. Exit codes: 0 written, 3 disagreements
    are open.

    Example: harness panel settle out/pool.ada.qrels out/pool.ben.qrels --out out/settled.qrels
    """
    from harness.core.folders import check_apart
    from harness.stages.judging.panel import read, second_look
    from harness.stages.judging.panel import settle as stage

    check_apart(to, Project.here().sources)
    found = stage(read(files), to, files)
    left = f"; {many(found.unjudged, 'pair')} are not judged" if found.unjudged else ""
    if found.open:
        out.print(
            f"{found.open} disagreements are open{left}. Judge them: harness judge"
            f" {second_look(to)}",
            markup=False,
        )
        raise typer.Exit(3)
    if not found.settled:
        out.print(f"nothing is settled yet{left}", markup=False)
        raise typer.Exit(3)
    out.print(f"{many(found.settled, 'pair is')} settled in {to}{left}", markup=False)
    out.print(f"Add them: harness judge {to} --merge DATASET --by WHO", markup=False)
