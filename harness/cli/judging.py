"""``harness pool`` and ``harness judge``: from what is open to what somebody judged."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.places import evidence_at, of_run
from harness.cli.base.project import Project

if TYPE_CHECKING:
    from harness.corpus.pool import Pool

File = Annotated[Path, typer.Argument(help="The pool, as harness pool wrote it.")]


def register(app: typer.Typer) -> None:
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
) -> None:
    """Write the pairs of query and document whose judgement would settle a comparison.

    Most decisive first: by how much narrower the bounds of the mean difference get. The file is
    in TREC's form with ? for a grade; harness judge fills it in, or any editor.

    Example: harness pool --dataset python-docs --control fts5 --candidate tantivy
    --measure nDCG@10 --size 100 --out out/pool.qrels
    """
    from harness.core.errors import HarnessError
    from harness.core.owned import check_new
    from harness.stages.judging.pool import pool as write

    project = Project.own()
    check_new(to, reads=project.sources)
    if ran is None and dataset and Path(dataset).is_dir():
        raise HarnessError(
            f"{dataset} is a folder and no data set of the project; its evidence lies in the --out"
            " of the harness run: name that with --run"
        )
    layout = of_run(ran, dataset) if ran else evidence_at(dataset, None)
    found = write(layout, control, candidate, measure, size, to)
    out.print(
        f"{measure} of {candidate} - {control} lies within [{found.worst:+.4f}, {found.best:+.4f}]"
        f" over {found.queries} queries, whatever the missing judgements say.\n"
        f"{found.of} pairs would narrow that; wrote the first {found.pairs} to {to}.",
        markup=False,
    )
    out.print(f"Judge them: harness judge {to}", markup=False)


def judge(
    file: File,
    *,
    merge: Annotated[
        str, typer.Option(help="Ask nothing: add what was judged to this data set.")
    ] = "",
    by: Annotated[str, typer.Option(help="With --merge: who judged, for the card.")] = "",
) -> None:
    """Judge a pool, one pair at a time: a key gives the grade.

    Every key is written to the file at once; stop when you like, and the same command goes on.
    Keys may also come from a pipe. Then add what was judged to the data set:

    Example: harness judge out/pool.qrels --merge mine --by "two editors"
    """
    from harness.stages.judging.judge import judge as sit

    if merge:
        _merge(file, merge, by)
        return
    done = sit(file, _keys(), _show)
    out.print(f"{len(done.judgements)} of {len(done.pairs)} pairs are judged.", markup=False)


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
    found = merge(file, data, qrels, by=by, at=datetime.now(UTC).date().isoformat())
    out.print(
        f"added {found.added} judgements to {dataset}; {found.known} were known,"
        f" {found.open} are open",
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


def _show(pool: Pool, at: int, said: str) -> None:
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
