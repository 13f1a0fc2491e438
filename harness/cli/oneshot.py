"""``harness run``: arms and data of yours, all stages in one go."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.app import err, out
from harness.cli.base.boundary import aside
from harness.cli.base.called import called
from harness.cli.base.data import prepare
from harness.cli.base.hands import Cluster, Workers, shared
from harness.cli.base.imports import Fields, Forms
from harness.cli.base.places import AskedTwice, Threads, missing_rule, name_of, own
from harness.cli.base.project import Project


def register(app: typer.Typer) -> None:
    """Put ``run`` on the command line."""
    app.command()(run)


def run(
    dataset: Annotated[str, typer.Option(help="A data set's name, or a folder in BEIR layout.")],
    to: Annotated[Path, typer.Option("--out", help="Folder for everything that comes out.")],
    control: Annotated[
        str, typer.Option(help="The arm that serves today; every other one is judged against it.")
    ] = "",
    split: Annotated[str, typer.Option(help="Which judgements of a BEIR folder.")] = "test",
    *,
    arms: Annotated[
        str, typer.Option(help="Names or paths to TOML files, with commas between.")
    ] = "",
    trec_run: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FILE: a TREC run of another engine, as an arm. May come again."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            help="Gates to judge by. Without --control, its steps are judged in their order, and"
            " name the arms; with it, one step for every candidate. [policy/pairwise.toml]"
        ),
    ] = None,
    until: Annotated[str, typer.Option(help="Judge the steps of the policy up to this one.")] = "",
    missing: Annotated[
        str,
        typer.Option(
            help="A query without a line in a TREC run. `lost`: the engine's result is unknown."
            " `empty`: the engine found nothing, and its writer leaves out such queries."
        ),
    ] = "lost",
    aa: AskedTwice = "",
    threads: Threads = 1,
    workers: Workers = 1,
    cluster: Cluster = "",
    fields: Fields = "title,text",
    forms: Forms = False,
    timed: Annotated[
        bool, typer.Option("--race", help="Time the arms against each other.")
    ] = False,
    log: Annotated[
        Path | None,
        typer.Option(help="Folder for the data set's experiment log. [beside the data]"),
    ] = None,
    exit_code: Annotated[
        bool, typer.Option(help="Exit by the verdict, as `harness gate` does.")
    ] = False,
) -> None:
    """Index, replay, score, compare and report in one go, without DVC.

    Writes OUT/scores.json ({arm: {measure: {mean, low, high, queries}}}), OUT/index.html,
    OUT/explore.html (any two arms, query by query) and OUT/report.md. OUT/per_query.parquet has
    every value by query, OUT/runs the runs as Parquet and TREC files. Where a control is named,
    it writes OUT/decision.json and OUT/junit.xml. Each race and decision is a line of the
    experiment log, which lies with the data: DATASET.looks.jsonl beside a folder, or what --log
    names. So attempts are counted, whatever the --out. A killed run goes on where it was; a
    second one in the same folder is refused.
    --workers or --cluster share embedding, replay, scoring, and resampling; no result
    depends on it.

    Example: harness run --dataset python-docs --arms fts5,tantivy --control fts5 --out out

    A migration: harness run --dataset agent-mail --policy policy/mail.toml --out out
    """
    from harness.cli.base.verdicts import leaderboard, show
    from harness.core.durable.locks import held
    from harness.core.durable.owned import EXPERIMENT_LOG, RUN, check_free
    from harness.core.names import checked
    from harness.policy.decide import exit_code as code_of
    from harness.stages.experiments.log import shared as with_log
    from harness.stages.layout import Layout
    from harness.stages.oneshot import RunRequest, oneshot
    from harness.stages.score.means import read_means

    project = Project.here()
    named = tuple(name.strip() for name in arms.split(",") if name.strip())
    runs = _named(trec_run or [])
    files = (Path(name) for name in named if name.endswith(".toml"))
    reads = (*filter(Path.is_dir, [Path(dataset)]), policy, *files, *runs.values())
    if log:
        check_free(log, EXPERIMENT_LOG, reads=(*filter(None, reads), *project.sources))
    own(to, RUN, *reads)
    work = to / "work"
    name = name_of(dataset)
    checked("a split", split)
    kept = None if Path(dataset).is_dir() else project.kept_log(name)
    layout = Layout(work / "build" / name, work / "perf", work / "cache", kept_log=kept)
    with held(work, patience_s=0):
        if log:
            own(log, EXPERIMENT_LOG, *reads)
        layout = with_log(layout, _log_of(project, dataset, name, log))
        licence, source = prepare(project, dataset, layout.data, split, fields, forms=forms)
        wanted = RunRequest(
            arms=named,
            runs=runs,
            control=control,
            policy_file=policy or project.root / "policy" / "pairwise.toml",
            by_steps=policy is not None and not control,
            until=until,
            timed=timed,
            aa=aa,
            threads=threads,
            missing=missing_rule(missing),
            licence=licence,
            source=source,
            command=f"{called()} {shlex.join(sys.argv[1:])}",
        )
        with aside(), shared(workers, cluster, project.cache):
            decisions = oneshot(
                layout,
                wanted,
                project.params,
                out=to,
                cache=project.cache,
                tell=lambda doing: err.print(f"{doing} ...", markup=False),
            )
    leaderboard(read_means(layout.scores), project.params.score.measures)
    if decisions:
        show(Path(dataset).name, decisions)
    out.print(f"\nThe page: {to / 'index.html'}")
    raise typer.Exit(code_of(decisions) if exit_code and decisions else 0)


def _log_of(project: Project, dataset: str, name: str, log: Path | None) -> Path:
    """Say where the experiment log of a data set lies, whatever is made of it."""
    if log:
        return log / f"{name}.jsonl"
    if Path(dataset).is_dir():
        return Path(dataset).resolve().with_name(f"{name}.looks.jsonl")
    return project.layout(dataset).log


def _named(runs: list[str]) -> dict[str, Path]:
    """Take ``NAME=FILE`` apart."""
    from harness.core.errors import HarnessError
    from harness.core.names import check_distinct, checked

    found: dict[str, Path] = {}
    for given in runs:
        name, _, file = given.partition("=")
        check_distinct("an arm", checked("an arm", name), found)
        if not file or name in found:
            raise HarnessError(f"--trec-run {given}: give NAME=FILE, each name once")
        found[name] = Path(file)
    return found
