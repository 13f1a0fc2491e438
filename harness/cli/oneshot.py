"""``harness run``, ``harness demo`` and ``harness init``."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli import options
from harness.cli.command import Result, app, command, decided, said, tell
from harness.cli.exit_codes import COMMAND, called, called_from_anywhere
from harness.cli.project import Project, name_of, now, own
from harness.core.errors import HarnessError, UnknownName
from harness.core.parts import has, part


@command(app)
def run(
    dataset: options.SetOrFolder,
    to: options.ToFolder,
    control: options.Control = "",
    split: options.Split = "test",
    *,
    arms: options.Arms = "",
    engine: options.Engine = "",
    trec_run: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FILE: a TREC run of another engine, as an arm. May be repeated."),
    ] = None,
    policy: options.PolicyFile = None,
    until: Annotated[str, typer.Option(help="Judge the steps of the policy up to this one.")] = "",
    missing: Annotated[
        Literal["lost", "empty"],
        typer.Option(
            help="A query without a line in a TREC run. `lost`: the engine's result is unknown."
            " `empty`: the engine found nothing, and its writer leaves out such queries."
        ),
    ] = "lost",
    aa: options.AskedTwice = "",
    shares: options.WorkerOptions,
    fields: options.Fields = "title,text",
    forms: options.Forms = False,
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
) -> Result:
    """Index, replay, score, compare and report in one go, without DVC.

    Writes OUT/scores.json ({arm: {measure: {mean, low, high, queries}}}), OUT/index.html,
    OUT/explore.html (any two arms, query by query) and OUT/report.md. OUT/per_query.parquet has
    every value by query, OUT/runs the runs as Parquet and TREC files. Where a control is named,
    it writes OUT/decision.json and OUT/junit.xml: every other arm is judged against it, by one
    step of --policy, or policy/pairwise.toml. With --policy alone, its steps are judged in their
    order, and name the arms. Each race and decision is a line of the experiment log, which lies
    with the data: DATASET.looks.jsonl beside a folder, or what --log names. So attempts are
    counted, whatever the --out. A killed run resumes; a second one in the same folder
    is refused. --workers or --cluster share embedding, replay, scoring, and resampling; no result
    depends on it.

    Example: harness run --dataset python-docs --arms fts5,tantivy --control fts5 --out out

    A function: harness run --dataset data --engine shop.search:search --out out

    A migration: harness run --dataset agent-mail --policy policy/mail.toml --out out
    """
    from harness.core.files import held
    from harness.core.folders import EXPERIMENT_LOG, RUN, check_free
    from harness.core.names import checked
    from harness.corpus.trec import MissingQuery
    from harness.pipeline.experiments import shared as with_log
    from harness.pipeline.layout import Layout
    from harness.pipeline.oneshot import RunRequest, oneshot
    from harness.report.printed import leaderboard, located

    project = Project.here()
    runs = _named(trec_run or [])
    files = (Path(name) for name in options.listed(arms) if name.endswith(".toml"))
    reads = (*filter(Path.is_dir, [Path(dataset)]), policy, *files, *runs.values())
    if log:
        check_free(log, EXPERIMENT_LOG, reads=(*filter(None, reads), *project.sources))
    own(to, RUN, *reads)
    work = to / "work"
    name = name_of(dataset)
    checked("a split", split)
    kept = None if Path(dataset).is_dir() else project.kept_log(name)
    layout = Layout(work / "build" / name, work / "perf", work / "cache", kept_log=kept)
    pairwise = project.root / "policy" / "pairwise.toml"
    with held(work, patience_s=0):
        if log:
            own(log, EXPERIMENT_LOG, *reads)
        layout = with_log(layout, _log_of(project, dataset, name, log))
        licence, source = options.prepare(project, dataset, layout.data, split, fields, forms=forms)
        wanted = RunRequest(
            arms=(*options.listed(arms), *options.function_of(engine)),
            runs=runs,
            control=control,
            policy_file=policy or (pairwise if pairwise.is_file() else project.policy_file),
            by_steps=policy is not None and not control,
            until=until,
            timed=timed,
            aa=aa,
            missing=MissingQuery(missing),
            licence=licence,
            source=source,
            command=f"{called()} {shlex.join(sys.argv[1:])}",
        )
        with shares.used():
            decisions, scored = oneshot(
                layout, wanted, project.params, out=to, cache=project.cache,
                tell=lambda doing: tell(f"{doing} ..."),
            )  # fmt: skip
    means = leaderboard(scored, project.params.score.measures)
    name, place = Path(dataset).name, shlex.join(["--from", str(to)])
    found = {name: located(decisions, name, place)} if decisions else {}
    return decided(found, [means], [f"\nThe page: {to / 'index.html'}"], exits=exit_code)


def _log_of(project: Project, dataset: str, name: str, log: Path | None) -> Path:
    """Return where the experiment log of a data set lies, whatever is made of it."""
    if log:
        return log / f"{name}.jsonl"
    if Path(dataset).is_dir():
        return Path(dataset).resolve().with_name(f"{name}.looks.jsonl")
    return project.layout(dataset).log


def _named(runs: list[str]) -> dict[str, Path]:
    """Take ``NAME=FILE`` apart."""
    from harness.core.names import check_distinct, checked

    found: dict[str, Path] = {}
    for given in runs:
        name, _, file = given.partition("=")
        check_distinct("an arm", checked("an arm", name), found)
        if not file or name in found:
            raise HarnessError(f"--trec-run {given}: give NAME=FILE, each name once")
        found[name] = Path(file)
    return found


PAGE = "reports/index.html"
FOLDER = "search-demo"
"""Project of the demo outside of a clone, below the current folder."""
NEEDS = ("engines", "pipeline")
"""Extras of the arms and of DVC."""
NOTHING_DONE = "Data and pipelines are up to date."
HINTS = re.compile(rf"^(?:{re.escape(NOTHING_DONE)}|To (?:track|enable) |Use `dvc|\s+(?:git|dvc) )")
"""Lines of DVC on what to do with its files: the record is ours to keep."""


@command(app)
def demo(*, record: options.Record = False) -> Result:
    """Run the whole pipeline on the embedded data and print the decision.

    Harvests documents, queries and judgements from the documentation of installed packages,
    indexes them with every arm, replays, scores, compares, races, judges, and writes
    reports/index.html. What is up to date is skipped. The tracked record (dvc.lock and
    reports/record) stays as it is; the verdict comes last, after a comparison with it.

    Outside of a project, the project is the folder search-demo, which is made.
    """
    from harness.pipeline.gate import read_decision
    from harness.pipeline.receipts import local_lock
    from harness.report.doc import Text

    project = _with_all_that_is_needed(Project.here())
    if not (project.root / ".git").exists():  # the code came as a tarball
        _dvc(project.root, "config", "--local", "core.no_scm", "true")
    with nullcontext() if record else local_lock(project.root):
        idle = _run(project)
    before = [*_compared(project, record=record), f"The page: {project.root / PAGE}"]
    if idle:
        before.insert(0, "Nothing to do: everything is up to date.")
    names = project.params.datasets
    found = {name: read_decision(project.layout(name))[0] for name in names}
    return decided(found, [*map(Text, before)], exits=False)


def _with_all_that_is_needed(found: Project) -> Project:
    """Check the extras before anything is run, and make a project where there is none."""
    from harness.core.errors import DEMO, install, missing_from
    from harness.pipeline.init import begin_packaged

    if missing := [module for extra in NEEDS for module in missing_from(extra)]:
        raise HarnessError(
            f"the demo needs packages that are not installed: {', '.join(missing)}."
            f" Run: {install(DEMO)}"
        )
    if not found.packaged:
        return found
    folder = Path.cwd() / FOLDER
    try:
        begin_packaged(found.root, folder)
    except OSError as exc:
        problem = f"{folder}: cannot be made ({exc.strerror})"
        raise HarnessError(f"{problem}. Change to a folder where you may write") from exc
    tell(f"the project of the demo is {folder}")
    return Project(folder)


def _run(project: Project) -> bool:
    """Bring the pipeline up to date, and tell whether there was nothing to do."""
    idle = NOTHING_DONE in _dvc(project.root, "repro", "--no-run-cache")
    if stale := _stale(project) if idle else "":
        _dvc(project.root, "repro", "--no-run-cache", "--force", "--downstream", stale)
    return idle and not stale


def _compared(project: Project, *, record: bool) -> Iterator[str]:
    """Record what came out, or yield how it compares with what was recorded."""
    from harness.pipeline.index import keep_vectors
    from harness.pipeline.receipts import RECORD

    for name in project.params.datasets:
        layout, arms = project.layout(name), project.params.arms
        if record:
            keep_vectors(project.root, layout, arms, project.cache)
            part("trust", "reproduce").record(project.root, layout)
        elif has("trust") and (project.root / RECORD / name).is_dir():
            found = part("trust", "reproduce").reproduce(project.root, layout)
            yield from part("trust", "commands").reproduced(found)


def _stale(project: Project) -> str:
    """Return the stage to repeat: a replay without a date or too old, or a file that is gone."""
    from harness.pipeline.receipts import replayed

    days, at = project.policy().evidence_days, now()
    try:
        for name, arm in product(project.params.datasets, project.params.arms):
            replayed(project.layout(name), arm).check(at, days)
    except HarnessError:
        return "replay"
    paths = [project.root / PAGE]
    for layout in map(project.layout, project.params.datasets):
        paths += [layout.times, layout.decision, layout.decision_receipt]
    return "" if all(path.is_file() for path in paths) else "race"


def _dvc(root: Path, *args: str) -> str:
    """Run DVC, show what it says beside its hints, and return it."""
    command = [sys.executable, "-m", "dvc", *args]
    beside = Path(sys.executable).parent  # the stages are started as ``harness``
    env = {**os.environ, "PATH": os.pathsep.join([str(beside), os.environ.get("PATH", "")])}
    output: list[str] = []
    with subprocess.Popen(  # noqa: S603  our own command
        command, cwd=root, env=env, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as running:
        for line in running.stdout or ():
            output.append(line)
            if line.strip() and not HINTS.search(line):
                tell(line.rstrip())
    if running.returncode:
        raise typer.Exit(2)
    return "".join(output)


PROJECT = Path("search-eval")


@command(app)
def init(
    folder: Annotated[
        Path, typer.Argument(help="The folder to make; . for the current one.")
    ] = PROJECT,
    control: options.Control = "",
    *,
    engine: options.Engine = "",
    dataset: Annotated[
        Path | None, typer.Option(help="A folder of yours in BEIR layout. [a sample is written]")
    ] = None,
    github: Annotated[
        str, typer.Option(help="OWNER/REPO@REF of the harness, for a workflow there.")
    ] = "",
    gitlab: Annotated[
        str, typer.Option(help="GROUP/PROJECT@REF of the harness, for a pipeline there.")
    ] = "",
    dvc: Annotated[
        bool, typer.Option("--dvc", help="Write a dvc.yaml that runs the script.")
    ] = False,
) -> Result:
    """Begin a project that checks whether a change makes search worse than on the main branch.

    Writes data, judgements, an engine, a policy and ci.sh, which a build server runs on every
    change. With --control each change is compared with that arm too. Nothing is overwritten. In a
    git repository the folder may hold files, and workflow files go to the root of the repository.

    Example: harness init --engine shop.search:search --github acme/search-harness@v1
    """
    from harness.pipeline.init import NewProject, begin_project
    from harness_engines import registry as arms

    if control and control not in arms.names():
        raise UnknownName("arm", control, arms.names())
    made = begin_project(NewProject(folder, control, engine, dataset, github, gitlab, dvc))
    by = called_from_anywhere()
    with_harness = "" if by == COMMAND else f"HARNESS={shlex.quote(by)} "
    go = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    return said(*(f"  {file}" for file in made), f"\nNext: {go}{with_harness}./ci.sh")
