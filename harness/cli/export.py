"""``harness export`` and ``harness ci``."""

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

    noted = os.environ.get(ON_GITHUB) == "true"
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
