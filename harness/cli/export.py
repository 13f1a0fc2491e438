"""``harness export``, ``harness ci`` and ``harness measure``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.app import Cluster, Workers, out, shared
from harness.cli.project import Left, OneDataset, Project, Threads, evidence_at


def register_export(app: typer.Typer) -> None:
    """Put ``export`` on the command line."""
    app.command()(export)


def export(
    control: Annotated[str, typer.Option(help="The arm that every other one is compared with.")],
    to: Annotated[Path, typer.Option(help="Folder for the files; an earlier export in it goes.")],
    dataset: OneDataset = "",
    left: Left = None,
    *,
    arms: Annotated[str, typer.Option(help="Only these, with commas between.")] = "",
    measures: Annotated[
        str, typer.Option(help="With commas between; those of params.yaml where none is named.")
    ] = "",
    figures: Annotated[
        str, typer.Option(help="Formats with commas between: png, svg, pdf. None by default.")
    ] = "",
    threads: Threads = 1,
) -> None:
    """Write runs, values by query, tables with marks of significance and figures.

    In TO: runs/ARM.trec and qrels.trec for any other tool, per_query.csv, the table as table.csv
    (unrounded), table.md and table.tex (booktabs), and with --figures a forest plot and the
    differences by query. Marks are of a paired sign-flip test against the control, corrected
    after Holm over the whole table, which says so below. Nothing is queried or decided. An earlier
    export in TO, which export.json tells, is replaced whole; a folder that holds anything else is
    refused.

    Example: harness export --dataset python-docs --control fts5 --to out/paper --figures pdf
    """
    from harness.api.export import ExportRequest
    from harness.api.export import export as write

    layout, project = evidence_at(dataset, left), Project.here()
    params = project.params.score
    wanted = ExportRequest(
        control=control,
        arms=_words(arms),
        measures=_words(measures) or params.measures,
        figures=_words(figures),
    )
    reads = (left or layout.root, *project.sources)
    for file in write(
        layout, wanted, params.inference(threads), to, reads=reads, project=project.root.name
    ):
        out.print(str(file), markup=False)


def _words(given: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in given.split(",") if word.strip())


ON_GITHUB, SUMMARY = "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"


def register_ci(app: typer.Typer) -> None:
    """Put ``ci`` on the command line."""
    app.command()(ci)


def ci(
    left: Annotated[Path, typer.Option("--out", help="What a `harness run` wrote.")],
    queries: Annotated[
        Path | None,
        typer.Option(help="The queries.jsonl in your repository, whose lines are noted."),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="What a `harness run` of the base branch wrote.")
    ] = None,
    *,
    most: Annotated[
        int, typer.Option(min=1, help="How many queries are named of each comparison.")
    ] = 10,
    github: Annotated[
        bool | None,
        typer.Option(
            "--github/--no-github",
            help="Print workflow commands and add to the summary. [default: on GitHub]",
        ),
    ] = None,
) -> None:
    """Write what a build server shows of a run, and exit by its verdict.

    OUT/ci.md is a comment for a pull request: steps, blocking gates, means and queries that
    lost, next to those of the baseline. OUT/gl-code-quality-report.json notes the lines of these
    queries for GitLab; OUT/junit.xml is there from the run. On GitHub they are printed as workflow
    commands, and the comment is added to the summary of the step. Exit codes: 0 promote, 1 hold or
    roll back, 2 bad input, 3 inconclusive.

    Example: harness ci --out out --queries data/queries.jsonl
    """
    from harness.core.errors import BadFile
    from harness.core.folders import RUN, check_apart, check_held
    from harness.core.reading import text_of
    from harness.policy.decision import exit_code
    from harness.report.decision.ci import github as command
    from harness.report.decision.ci import notes
    from harness.stages.report import check, write

    noted = os.environ.get(ON_GITHUB) == "true" if github is None else github
    summary = os.environ.get(SUMMARY) if noted else None
    if summary and Path(summary).exists() and not Path(summary).is_file():
        raise BadFile(Path(summary), "is not a file", f"Name a file in {SUMMARY}, or unset it")
    checked = check(left, baseline, queries)
    check_held(left, RUN)
    check_apart(left, filter(None, [baseline]))
    comment = write(checked, left, most)
    if noted:
        for note in notes(checked, most):
            out.print(command(note), markup=False)
        if summary:
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(text_of(comment))
    out.print(f"The comment: {comment}", markup=False)
    raise typer.Exit(exit_code(checked.decisions))


def register_measure(app: typer.Typer) -> None:
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
    from harness.core.folders import check_new
    from harness.measures.name import parse, span_of
    from harness.measures.quality import summarise
    from harness.stages.score import files_of, write_partitioned
    from harness.stages.score import measure as stage

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
        write_partitioned(to, found)
        out.print(f"wrote {to}", markup=False)
