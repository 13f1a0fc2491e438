"""The stages as commands; ``dvc.yaml`` calls them by these names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.app import Cluster, Workers, out, shared
from harness.cli.exit_codes import aside
from harness.cli.project import AskedTwice, Dataset, Project, Threads, own
from harness.core.errors import HarnessError
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.core.evidence import Race
    from harness.core.run import Run
    from harness.policy.model import Policy

Arm = Annotated[
    str,
    typer.Option(
        help="A file of engines/arms without .toml, or a path to one; all of params.yaml where none"
        " is named."
    ),
]


def register(app: typer.Typer) -> None:
    """Put the stages on the command line."""
    for stage in (prepare, index, replay, score, compare, race, gate, report):
        app.command()(stage)


def prepare(
    dataset: Dataset = "",
    *,
    update: Annotated[
        bool, typer.Option(help="Rewrite the card (and harvested judgements) from what is found.")
    ] = False,
    similar: Annotated[
        bool, typer.Option(help="Let a model find queries of one need; keep its pairs in the set.")
    ] = False,
) -> None:
    """Check a data set against its card and write it to build/DATASET/data in one format.

    Counts and digests of documents, queries and judgements must be those of the card.
    """
    from harness.stages.prepare import prepare as stage

    project = Project.own()
    root = project.root
    for name in project.datasets(dataset):
        layout = project.layout(name)
        stage(
            root / "datasets" / name,
            root / "qrels" / name,
            layout.data,
            update=update,
            similar=similar,
        )
        out.print(f"prepared {layout.data}")


def index(
    dataset: Dataset = "",
    arm: Arm = "",
    workers: Workers = 1,
    cluster: Cluster = "",
    *,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="For message search: bring the index that is there up to its messages, again and"
            " again until interrupted. Without an index, build it first.",
        ),
    ] = False,
) -> None:
    """Build one arm's index of one data set, and its manifest: what the arm proves itself by.

    The index appears only when it is whole. Vectors are kept by content, so building again is
    quick, and a killed build goes on where it was. Vectors of reports/vectors are used if fresh
    ones of a sample agree with them.
    """
    if follow and not (dataset and arm):
        raise HarnessError("--follow brings one index up to its messages: name --dataset and --arm")
    project = Project.own()
    if follow and followed(project, dataset, arm):
        return
    for name in project.datasets(dataset):
        for one in project.arms(arm):
            _index(project, name, one, workers, cluster)
    if follow:
        followed(project, dataset, arm)


def _index(project: Project, dataset: str, arm: str, workers: int, cluster: str) -> None:
    from harness.stages.custody.reproduce import take_vectors
    from harness.stages.index import index as stage

    with aside(), shared(workers, cluster, project.cache):
        agreed = take_vectors(project.root, project.layout(dataset), arm, project.cache)
        made = stage(project.layout(dataset), arm, project.cache)
    if agreed is not None:
        used = "used" if agreed.used else "not used"
        out.print(f"recorded vectors: {used}, in a sample up to {agreed.apart:.1e} from fresh ones")
    out.print(f"indexed {many(made.documents, 'document')} for {arm}: {made.fingerprint[:12]}")


def replay(
    dataset: Dataset = "",
    arm: Arm = "",
    aa: AskedTwice = "",
    workers: Workers = 1,
    cluster: Cluster = "",
) -> None:
    """Ask an arm every query, from the text as typed to the ranked documents, twice.

    A query that failed or took too long is counted as such, never as an empty answer. The second
    replay asks in another order; it shows how steady the arm is by itself (A/A). Processes or a
    cluster share the queries in batches of 500, if the arm's stack is one of the program's own and
    no server holds its index. A sample in the second replay (--aa sample) halves its time.
    """
    from harness.stages.replay import replay as stage

    project = Project.own()
    asking = project.params.replay.asking_twice(aa)
    for name in project.datasets(dataset):
        for one in project.arms(arm):
            with aside(), shared(workers, cluster, project.cache):
                run = stage(project.layout(name), one, project.cache, asking)
            _tell_replayed(run)


def _tell_replayed(run: Run) -> None:
    from harness.core.run import Status
    from harness.stages.replay import remarks

    lost = len(run) - run.count(Status.ANSWERED)
    out.print(
        f"asked {run.arm} {many(len(run), 'query')}: {many(len(run.docs), 'hit')}, {lost} without"
        " an answer"
    )
    for said in remarks(run):
        out.print(said, markup=False)


def score(
    dataset: Dataset = "", threads: Threads = 1, workers: Workers = 1, cluster: Cluster = ""
) -> None:
    """Compute every measure of every arm for every query, and means with intervals.

    ir-measures is the definition. Judgements that name unknown documents count; unjudged
    documents are not relevant, and Judged@10 shows how many were judged.
    """
    from harness.stages.score import score as stage

    project = Project.own()
    params = project.params
    for name in project.datasets(dataset):
        with shared(workers, cluster, project.cache):
            stage(project.layout(name), params.arms, params.score, threads=threads)
        out.print(f"scored {many(len(params.arms), 'arm')}")


def compare(dataset: Dataset = "", threads: Threads = 1) -> None:
    """Compare control and candidate of every step of the policy: overlap, order, classes.

    Needs no judgements. Beside each agreement stands that of the control with itself.
    """
    from harness.stages.compare import compare as stage
    from harness.stages.evidence import pairs_of

    project = Project.own()
    policy = project.policy().on(threads)
    pairs = list(dict.fromkeys(pairs_of(policy).values()))
    for name in project.datasets(dataset):
        stage(
            project.layout(name), pairs, project.params.compare, policy.rules, how=policy.clusters
        )
        out.print(f"compared {many(len(pairs), 'pair')} of arms")


def race(dataset: Dataset = "") -> None:
    """Time the arms of the policy against each other, interleaved, in several fresh processes.

    What is judged are first answers: no process has seen the texts before. Every answer is
    compared with the arm's run; times of an arm that answers otherwise do not count. What the
    system took from each arm is measured beside. A process that is done is kept, so an interrupted
    race goes on. Times are never tracked: what was raced is (build/DATASET/race.json).
    """
    from harness.stages.race import race as stage
    from harness.stages.race import read_race

    project = Project.own()
    params = project.params
    for name in project.datasets(dataset):
        layout = project.layout(name)
        with aside():
            stage(layout, project.raced(), project.cache, params.race, params.replay.time_limit_s)
        raced = read_race(layout)
        if raced is not None:
            _tell(raced, project.policy())


def _tell(raced: Race, policy: Policy) -> None:
    """Say under which conditions a race was run, and whether budgets may be set by it."""
    from harness.report.rounding import milliseconds, percent

    for arm, stolen in raced.stolen.items():
        taken = f"the system took {percent(stolen.share)} ({stolen.by})"
        out.print(
            f"raced {arm} in {many(len(raced.elapsed_ns[arm]), 'process')}: {taken}", markup=False
        )
    median = sorted(raced.reference_ns.ravel().tolist())[raced.reference_ns.size // 2]
    out.print(f"the reference work took {milliseconds(median)} ms: {_quiet(raced, policy)}")


def _quiet(raced: Race, policy: Policy) -> str:
    """Say whether the machine was as quiet as every gate on a race wants it."""
    from harness.gates.base.times import TimedSettings

    gates = [gate.settings for step in policy.steps for gate in step.gates]
    allowed = [one.max_stolen for one in gates if isinstance(one, TimedSettings)]
    if not allowed:
        return "the policy has no gate on a race"
    if max(stolen.share for stolen in raced.stolen.values()) <= min(allowed):
        return "the machine was quiet, so this may be the reference_ms of a policy"
    return "the machine was busy, so do not use this as reference_ms of a policy"


def gate(
    dataset: Dataset = "",
    step: Annotated[str, typer.Option(help="Only this step decides the exit code.")] = "",
    threads: Threads = 1,
    *,
    exit_zero: Annotated[
        bool, typer.Option(help="Exit 0 whatever the verdict, so that a pipeline goes on.")
    ] = False,
) -> None:
    """Judge every step of the policy, write the decision, and exit by it.

    Exit codes: 0 every step may be taken, 1 a gate failed (hold, or roll back), 2 bad input or
    an arm that did not run, 3 inconclusive. The page says what would settle it.
    """
    from datetime import UTC, datetime

    from harness.cli.verdicts import show
    from harness.core.errors import UnknownName
    from harness.policy.decision import exit_code, worst
    from harness.stages.gate import gate as stage

    project = Project.own()
    names = [found.name for found in project.policy().steps]
    if step and step not in names:
        raise UnknownName("step", step, names)
    codes, now = [], datetime.now(UTC)
    for name in project.datasets(dataset):
        decisions = stage(project.layout(name), project.subject(name, threads), now=now).decisions
        show(name, decisions)
        codes.append(exit_code(one for one in decisions if step in {"", one.step}))
    raise typer.Exit(0 if exit_zero else worst(codes))


def report() -> None:
    """Write reports/index.html and explore.html (no network), report.md, decision.json, junit.xml.

    index.html is the decision, explore.html any two arms, query by query.
    """
    from harness.core.folders import REPORT
    from harness.stages.report import report as stage

    project = Project.own()
    own(project.root / "reports", REPORT)
    subjects = {project.layout(name): project.subject(name) for name in project.params.datasets}
    written = stage(subjects, project.root / "reports", project.root / "reports" / "receipt.json")
    out.print(f"wrote {written.page}")


def followed(project: Project, dataset: str, arm: str) -> bool:
    """Keep the indexes of an arm up to its messages until interrupted; False without an index."""
    from engines import registry as arms
    from harness.stages.mail import follow

    layout = project.layout(dataset)
    if not layout.index(arms.load(arm, project.cache).name).exists():
        return False
    follow(layout, arm, project.cache, lambda at: out.print(f"{arm} has reached change {at}"))
    return True
