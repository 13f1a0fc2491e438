"""``harness export``, ``harness ci`` and ``harness measure``."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli import options
from harness.cli.command import CODES, Result, app, command, said, shown
from harness.cli.project import Project

ON_GITHUB, SUMMARY = "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"


@command(app)
def export(
    control: options.Control,
    to: options.ToFolder,
    of: options.EvidencePlace,
    *,
    arms: options.Arms = "",
    measures: options.Measures = "",
    figures: Annotated[
        str, typer.Option(help="Formats with commas between: png, svg, pdf. None by default.")
    ] = "",
) -> Result:
    """Write runs, values by query, tables with marks of significance and figures.

    In OUT: runs/ARM.trec and qrels.trec for any other tool, per_query.csv, the table as table.csv
    (unrounded), table.md and table.tex (booktabs), and with --figures a forest plot and the
    differences by query. Marks are of a paired sign-flip test against the control, corrected
    after Holm over the whole table, which says so below. Nothing is queried or decided. An earlier
    export in OUT, which export.json tells, is replaced whole; a folder that holds anything else is
    refused.

    Example: harness export --dataset python-docs --control fts5 --out out/paper --figures pdf
    """
    from harness.api.export import ExportRequest
    from harness.api.export import export as write

    layout, project = of.layout(), Project.here()
    params = project.params.score
    wanted = ExportRequest(
        control=control,
        arms=options.listed(arms),
        measures=options.listed(measures) or params.measures,
        figures=options.listed(figures),
    )
    reads = (of.source or layout.root, *project.sources)
    how = params.inference()
    files = write(layout, wanted, how, to, reads=reads, project=project.root.name)
    return said(*map(str, files))


@command(app)
def ci(
    left: options.Ran,
    queries: Annotated[
        Path | None,
        typer.Option(help="The queries.jsonl in your repository, whose lines are noted."),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="What a `harness run` of the base branch wrote.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="Judges each arm against the baseline. [policy/regress.toml]"),
    ] = None,
    *,
    inconclusive: Annotated[
        Literal["warn", "fail"],
        typer.Option(help="`fail` exits with 3 where the evidence is too weak, `warn` with 0."),
    ] = "fail",
    report: Annotated[
        str, typer.Option(help="Address of the report. [on GitHub and GitLab: of the artifact]")
    ] = "",
    top: options.Top = 5,
    github: Annotated[
        bool | None,
        typer.Option(
            "--github/--no-github",
            help="Print workflow commands and add to the summary. [default: on GitHub]",
        ),
    ] = None,
) -> Result:
    """Check whether a change is worse than the baseline, and exit by it.

    Each arm is judged against itself in the baseline, as `harness regress` does. Where the run has
    a control, its gates count too, and neither keeps the other from being judged. FROM/ci.md is a
    comment for a pull request: the verdict, means, the queries that lost most and all that lost
    more than half, what changed, a link to the report. FROM/gl-code-quality-report.json notes the
    lines of these queries for GitLab. FROM/inputs.json records what the answers rest on, for the
    next comparison. On GitHub notes are printed as workflow commands, and the comment is added to
    the summary of the step. Exit codes: 0 no worse, or nothing to compare with; 1 worse, or a gate
    fails; 2 bad input; 3 inconclusive.

    Example: harness ci --from out --queries data/queries.jsonl --baseline before
    """
    from harness.core.errors import BadFile
    from harness.core.folders import RUN, check_apart, check_held
    from harness.core.reading import text_of
    from harness.pipeline.ci import check, write
    from harness.report.ci import document, notes
    from harness.report.ci import github as annotation
    from harness.report.doc import Text

    noted = os.environ.get(ON_GITHUB) == "true" if github is None else github
    summary = os.environ.get(SUMMARY) if noted else None
    if summary and Path(summary).exists() and not Path(summary).is_file():
        raise BadFile(Path(summary), "is not a file", f"Name a file in {SUMMARY}, or unset it")
    project = Project.here()
    judged_by, _ = options.policy_of(policy or project.root / "policy" / "regress.toml")
    of = os.environ.get
    if run := of("GITHUB_RUN_ID"):
        place = f"{of('GITHUB_SERVER_URL')}/{of('GITHUB_REPOSITORY')}/actions/runs/{run}#artifacts"
    else:
        place = f"{job}/artifacts/browse" if (job := of("CI_JOB_URL")) else ""
    params, address = project.params.compare, report or place
    checked = check(left, baseline, queries, policy=judged_by, params=params, report=address)
    check_held(left, RUN)
    check_apart(left, filter(None, [baseline]))
    comment = write(checked, left, top)
    lines = [annotation(note) for note in notes(checked, top)] if noted else []
    if summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text_of(comment))
    code = 0 if checked.verdict is None else CODES[checked.verdict.value]
    warned = code == CODES["inconclusive"] and inconclusive == "warn"
    blocks = (*said(*lines).doc.blocks, document(checked, top), Text(f"The comment: {comment}"))
    return shown(*blocks, code=0 if warned else code)


@command(app)
def measure(
    run: Annotated[
        list[Path],
        typer.Argument(help="Parquet files of one run, or folders of them; a query in one file."),
    ],
    qrels: Annotated[Path, typer.Option(help="TREC judgements.")],
    *,
    measures: options.Measures = "nDCG@10,RR@10",
    to: options.MayWrite = None,
    shares: options.WorkerOptions,
) -> Result:
    """Score a run that does not fit in memory, file by file.

    Memory holds the judgements, the values by query and 10,000 queries of a run at a time. Values
    are those of `harness stage score`. Each query counts alone in the intervals, since no texts are
    read that would show near-duplicates. --out, a .parquet, takes every value. A killed command
    goes on with the files that are left.

    Example: harness measure out/runs/fts5.parquet --qrels qrels.trec --measures nDCG@10,RR@10
    """
    from harness.core.digest import of_json
    from harness.core.folders import check_new
    from harness.measures.name import parse, span_of
    from harness.measures.quality import summarise
    from harness.pipeline.score import files_of, write_partitioned
    from harness.pipeline.score import measure as stage

    project = Project.here()
    names = tuple(dict.fromkeys(options.listed(measures)))
    for name in names:
        parse(name)
    if to:
        check_new(to, reads=(*run, qrels, *project.sources))
    files = files_of(run)
    given = of_json([str(file.absolute()) for file in files])[:32]
    lines = []
    with shares.used(project.cache):
        found = stage(files, qrels, names, project.cache.absolute() / "measured" / given)
        inference = project.params.score.inference()
        for name, scores in found.items():
            lost = ", ".join(f"{len(ids)} {why}" for why, ids in scores.undefined.items())
            rest = f"; without a value: {lost}" if lost else ""
            if len(scores.values) > 1:
                mean = summarise(scores, span=span_of(name), inference=inference, clusters={})
                value = f"{mean.value:.4f} [{mean.low:.4f}, {mean.high:.4f}]"
            else:
                one = "no value" if scores.mean is None else f"{scores.mean:.4f}"
                value = f"{one} (no interval from fewer than two queries)"
            lines.append(f"{name}: {value}, n = {len(scores.values):,}{rest}")
    if to:
        write_partitioned(to, found)
        lines.append(f"wrote {to}")
    return said(*lines)
