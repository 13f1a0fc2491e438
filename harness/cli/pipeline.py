"""The stages as commands; ``dvc.yaml`` calls them by these names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import Result, app, command, group, said, tell
from harness.cli.options import ArmName, AskedTwice, Dataset, WorkerOptions
from harness.cli.project import Project, own
from harness.core.errors import HarnessError
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.core.evidence import Race
    from harness.core.run import Run
    from harness.policy.model import Policy

stage = group("stage", "One stage of the pipeline, as dvc.yaml calls it: from data to comparison.")


@command(stage)
def prepare(
    dataset: Dataset = "",
    *,
    update: Annotated[
        bool, typer.Option(help="Rewrite the card (and harvested judgements) from what is found.")
    ] = False,
    similar: Annotated[
        bool, typer.Option(help="Let a model find queries of one need; keep its pairs in the set.")
    ] = False,
) -> Result:
    """Check a data set against its card and write it to build/DATASET/data in one format.

    Counts and digests of documents, queries and judgements must be those of the card.
    """
    from harness.pipeline.prepare import prepare

    project = Project.own()
    names = project.datasets(dataset)
    for name in names:
        read = project.root / "datasets" / name, project.root / "qrels" / name
        prepare(*read, project.layout(name).data, update=update, similar=similar)
    return said(*(f"prepared {project.layout(name).data}" for name in names))


@command(stage)
def index(
    dataset: Dataset = "",
    arm: ArmName = "",
    *,
    shares: WorkerOptions,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="For message search: bring the index that is there up to its messages, again and"
            " again until interrupted. Without an index, build it first.",
        ),
    ] = False,
) -> Result:
    """Build one arm's index of one data set, and its manifest: what the arm proves itself by.

    Without --arm and --dataset, those of params.yaml. The index appears only when it is whole.
    Vectors are kept by content, so building again is quick, and a killed build goes on where it
    was. Vectors of reports/vectors are used if fresh ones of a sample agree with them.
    """
    if follow and not (dataset and arm):
        raise HarnessError("--follow brings one index up to its messages: name --dataset and --arm")
    project = Project.own()
    if follow and followed(project, dataset, arm):
        return said()
    lines: list[str] = []
    for name in project.datasets(dataset):
        for one in project.arms(arm):
            lines += _index(project, name, one, shares)
    if follow:
        followed(project, dataset, arm)
    return said(*lines)


def _index(project: Project, dataset: str, arm: str, shares: WorkerOptions) -> Iterator[str]:
    from harness.pipeline.index import index, take_vectors

    with shares.used():
        agreed = take_vectors(project.root, project.layout(dataset), arm, project.cache)
        made = index(project.layout(dataset), arm, project.cache)
    if agreed:
        used = "used" if agreed.used else "not used"
        yield f"recorded vectors: {used}, in a sample up to {agreed.apart:.1e} from fresh ones"
    yield f"indexed {many(made.documents, 'document')} for {arm}: {made.fingerprint[:12]}"


@command(stage)
def replay(
    dataset: Dataset = "", arm: ArmName = "", aa: AskedTwice = "", *, shares: WorkerOptions
) -> Result:
    """Ask an arm every query, from the text as typed to the ranked documents, twice.

    A query that failed or took too long is counted as such, never as an empty answer. The second
    replay asks in another order; it shows how steady the arm is by itself (A/A). Processes or a
    cluster share the queries in batches of 500, if the arm's stack is one of the program's own and
    no server holds its index. A sample in the second replay (--aa sample) halves its time.
    """
    from harness.pipeline.replay import replay

    project = Project.own()
    asking = project.params.replay.asking_twice(aa)
    lines: list[str] = []
    for name in project.datasets(dataset):
        for one in project.arms(arm):
            with shares.used():
                lines += _replayed(replay(project.layout(name), one, project.cache, asking))
    return said(*lines)


def _replayed(run: Run) -> Iterator[str]:
    from harness.core.run import Status
    from harness.pipeline.replay import remarks

    lost = len(run) - run.count(Status.ANSWERED)
    yield (
        f"asked {run.arm} {many(len(run), 'query')}: {many(len(run.docs), 'hit')}, {lost} without"
        " an answer"
    )
    yield from remarks(run)


@command(stage)
def score(dataset: Dataset = "", *, shares: WorkerOptions) -> Result:
    """Compute every measure of every arm for every query, and means with intervals.

    ir-measures is the definition. Judgements that name unknown documents count; unjudged
    documents are not relevant, and Judged@10 shows how many were judged.
    """
    from harness.pipeline.score import score

    project = Project.own()
    params = project.params
    for name in project.datasets(dataset):
        with shares.used():
            score(project.layout(name), params.arms, params.score)
    return said(f"scored {many(len(params.arms), 'arm')}")


@command(stage)
def compare(dataset: Dataset = "") -> Result:
    """Compare control and candidate of every step of the policy: overlap, order, classes.

    Needs no judgements. Beside each agreement stands that of the control with itself.
    """
    from harness.pipeline.compare import compare
    from harness.pipeline.evidence import pairs_of

    project = Project.own()
    policy, params = project.policy(), project.params.compare
    pairs = list(dict.fromkeys(pairs_of(policy).values()))
    for name in project.datasets(dataset):
        compare(project.layout(name), pairs, params, policy.rules, how=policy.clusters)
    return said(f"compared {many(len(pairs), 'pair')} of arms")


@command(app)
def race(dataset: Dataset = "") -> Result:
    """Time the arms of the policy against each other, interleaved, in several fresh processes.

    First answers are judged: no process has seen the texts before. Every answer is compared with
    the arm's run; times of an arm that answers otherwise do not count. Time that the system took
    from each arm is measured too. Finished processes are kept, so an interrupted race resumes.
    Times are never tracked: what was raced is (build/DATASET/race.json).
    """
    from harness.pipeline.race import race, read_race

    project = Project.own()
    params = project.params
    lines: list[str] = []
    for name in project.datasets(dataset):
        layout = project.layout(name)
        race(layout, project.raced(), project.cache, params.race, params.replay.time_limit_s)
        raced = read_race(layout)
        if raced is not None:
            lines += _raced(raced, project.policy())
    return said(*lines)


def _raced(raced: Race, policy: Policy) -> Iterator[str]:
    """Yield under which conditions a race was run, and whether budgets may be set by it."""
    from harness.gates.latency import TimedSettings
    from harness.report.rounding import milliseconds, percent

    for arm, stolen in raced.stolen.items():
        taken = f"the system took {percent(stolen.share)} ({stolen.by})"
        yield f"raced {arm} in {many(len(raced.elapsed_ns[arm]), 'process')}: {taken}"
    gates = [gate.settings for step in policy.steps for gate in step.gates]
    allowed = [one.max_stolen for one in gates if isinstance(one, TimedSettings)]
    said = "the policy has no gate on a race"
    if allowed and max(stolen.share for stolen in raced.stolen.values()) <= min(allowed):
        said = "the machine was quiet, so this may be the reference_ms of a policy"
    elif allowed:
        said = "the machine was busy, so do not use this as reference_ms of a policy"
    median = sorted(raced.reference_ns.ravel().tolist())[raced.reference_ns.size // 2]
    yield f"the reference work took {milliseconds(median)} ms: {said}"


@command(app)
def report() -> Result:
    """Write reports/index.html and explore.html (no network), report.md, decision.json, junit.xml.

    index.html is the decision, explore.html any two arms, query by query.
    """
    from harness.core.folders import REPORT
    from harness.pipeline.report import report

    project = Project.own()
    own(project.root / "reports", REPORT)
    subjects = {project.layout(name): project.subject(name) for name in project.params.datasets}
    written = report(subjects, project.root / "reports", project.root / "reports" / "receipt.json")
    return said(f"wrote {written.page}")


def followed(project: Project, dataset: str, arm: str) -> bool:
    """Keep the indexes of an arm up to its messages until interrupted; False without an index."""
    from harness.pipeline.mail import follow
    from harness_engines import registry as arms

    layout = project.layout(dataset)
    if not layout.index(arms.load(arm, project.cache).name).exists():
        return False
    follow(layout, arm, project.cache, lambda at: tell(f"{arm} has reached change {at}"))
    return True
