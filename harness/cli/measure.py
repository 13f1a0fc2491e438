"""``harness measure``: the files of one run, scored in bounded memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.hands import Cluster, Workers, shared
from harness.cli.base.places import Threads
from harness.cli.base.project import Project


def register(app: typer.Typer) -> None:
    """Put ``measure`` on the command line."""
    app.command()(measure)


def measure(
    run: Annotated[
        list[Path],
        typer.Argument(help="Parquet files of one run, or folders of them; a query in one file."),
    ],
    qrels: Annotated[Path, typer.Option(help="TREC judgements.")],
    *,
    measures: Annotated[
        str, typer.Option(help="As ir-measures writes them, with commas between.")
    ] = "nDCG@10,RR@10",
    to: Annotated[
        Path | None, typer.Option(help="Write every value to this .parquet as well.")
    ] = None,
    threads: Threads = 1,
    workers: Workers = 1,
    cluster: Cluster = "",
) -> None:
    """Score a run that does not fit in memory, file by file.

    Memory holds the judgements, the values by query and 10,000 queries of a run at a time. Values
    are those of `harness score`. Each query counts alone in the intervals, since no texts are read
    that would show near-duplicates. A killed command goes on with the files that are left.

    Example: harness measure out/runs/fts5.parquet --qrels qrels.trec --measures nDCG@10,RR@10
    """
    from harness.core.digest import of_json
    from harness.core.durable.owned import check_new
    from harness.measures.name import parse
    from harness.measures.spans import span_of
    from harness.measures.summary import summarise
    from harness.stages.score.partitioned import files_of, write
    from harness.stages.score.partitioned import measure as stage

    project = Project.here()
    names = tuple(dict.fromkeys(name.strip() for name in measures.split(",") if name.strip()))
    for name in names:
        parse(name)
    if to:
        check_new(to, reads=(*run, qrels, *project.sources))
    files = files_of(run)
    given = of_json([str(file.absolute()) for file in files])[:32]
    with shared(workers, cluster, project.cache):
        found = stage(files, qrels, names, project.cache.absolute() / "measured" / given)
        inference = project.params.score.inference(threads)
        for name, scores in found.items():
            lost = ", ".join(f"{len(ids)} {why}" for why, ids in scores.undefined.items())
            rest = f"; without a value: {lost}" if lost else ""
            if len(scores.values) > 1:
                mean = summarise(scores, span=span_of(name), inference=inference, clusters={})
                value = f"{mean.value:.4f} [{mean.low:.4f}, {mean.high:.4f}]"
            else:
                one = "no value" if scores.mean is None else f"{scores.mean:.4f}"
                value = f"{one} (no interval from fewer than two queries)"
            out.print(f"{name}: {value}, n = {len(scores.values):,}{rest}", markup=False)
    if to:
        write(to, found)
        out.print(f"wrote {to}", markup=False)
