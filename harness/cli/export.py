"""``harness export``, ``harness table`` and ``harness ci``."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli import options
from harness.cli.command import CODES, Result, app, command, said, shown
from harness.cli.project import Project, own
from harness.core.errors import HarnessError

WRITTEN = (".md", ".tex", ".csv")
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
    after Holm over the whole table, which says so below. Nothing is queried or decided.

    Example: harness export --dataset python-docs --control fts5 --out out/paper --figures pdf
    """
    from harness.api.export import ExportRequest
    from harness.api.export import export as write
    from harness.core.folders import EXPORT

    layout, project = of.layout(), Project.here()
    params = project.params.score
    wanted = ExportRequest(
        control=control,
        arms=options.listed(arms),
        measures=options.listed(measures) or params.measures,
        figures=options.listed(figures),
    )
    own(to, EXPORT, of.source or layout.root)
    files = write(layout, wanted, params.inference(), to)
    return said(*map(str, files))


@command(app)
def table(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="TREC or Parquet runs. NAME=FILE names one, NAME=FILE,FILE joins seeds or folds."
        ),
    ],
    qrels: Annotated[Path, typer.Option(help="Judgements: TREC, or a .tsv of BEIR.")],
    *,
    measures: Annotated[
        str, typer.Option(help="With commas between, as ir-measures writes them.")
    ] = "nDCG@10,RR@10,R@100",
    baseline: Annotated[
        str, typer.Option(help="System that the others are tested against. [all pairs]")
    ] = "",
    test: Annotated[
        str, typer.Option(help="permutation, bootstrap, t, wilcoxon or tukey.")
    ] = "permutation",
    correction: Annotated[str, typer.Option(help="holm, bh or none.")] = "holm",
    missing: Annotated[
        str, typer.Option(help="Judged queries that a run lacks: `left out` or `empty`.")
    ] = "left out",
    resamples: Annotated[int, typer.Option(min=1, help="Resamples of tests that draw.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of what is drawn.")] = 20_260_101,
    confidence: Annotated[float, typer.Option(help="1 minus the significance level.")] = 0.95,
    to: options.MayWrite = None,
) -> Result:
    """Score runs against judgements, and print the table of a paper with marks.

    No corpus, queries or settings are read. A query that a run lacks is left out and counted below
    the table, or scores as an empty answer with --missing empty. --out writes the table by its
    ending: .tex (booktabs), .md, or .csv with every mean and every test unrounded.

    Example: harness table bm25.trec dense.trec --qrels qrels.trec --baseline bm25 --out table.tex
    """
    from harness.api.paper_table import table as made
    from harness.core.files import write_text
    from harness.core.folders import check_new
    from harness.stats.inference import Inference

    named: dict[str, list[Path]] = {}
    for given in runs:
        name, files = _named(given)
        if name in named:
            raise HarnessError(f"two systems are named {name}. Name them: NAME=FILE")
        named[name] = files
    if to:
        read = [file for files in named.values() for file in files]
        check_new(to, reads=(qrels, *read, *Project.here().sources))
    if to and to.suffix not in WRITTEN:
        raise HarnessError(f"{to}: name a file that ends in {', '.join(WRITTEN)}")
    found = made(
        named,
        qrels,
        _measures(measures),
        baseline=baseline,
        test=test,  # type: ignore[arg-type]  # checked there
        correction=correction,  # type: ignore[arg-type]  # checked there
        missing=missing,
        sure=Inference(confidence=confidence, resamples=resamples, seed=seed),
    )
    if to:
        text = {".md": found.to_markdown, ".tex": found.to_latex, ".csv": found.to_csv}
        write_text(to, text[to.suffix]())
    return shown(*found.blocks())


def _measures(given: str) -> list[str]:
    """Split at commas, but those between the parentheses of one measure."""
    found: list[str] = []
    for part in given.split(","):
        if found and found[-1].count("(") > found[-1].count(")"):
            found[-1] += f",{part}"
        elif part.strip():
            found.append(part.strip())
    return found


def _named(given: str) -> tuple[str, list[Path]]:
    """Read ``NAME=FILE,FILE`` or ``FILE``."""
    name, equals, files = given.partition("=")
    if not equals or Path(given).is_file():
        return Path(given).stem, [Path(given)]
    return name, [Path(file) for file in files.split(",")]


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
    lines of these queries for GitLab. On GitHub notes are printed as workflow commands, and the
    comment is added to the summary of the step. Exit codes: 0 no worse, or nothing to compare with;
    1 worse, or a gate fails; 2 bad input; 3 inconclusive.

    Example: harness ci --from out --queries data/queries.jsonl --baseline before
    """
    from harness.core.errors import BadFile
    from harness.core.folders import RUN, check_apart, check_held
    from harness.core.reading import text_of
    from harness.pipeline.regress import check, write
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
