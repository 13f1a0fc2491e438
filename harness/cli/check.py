"""``harness arm``, ``harness doctor``, ``harness selftest`` and ``harness verify``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.command import Result, app, command, group, said, shown
from harness.cli.project import Project
from harness.core.files import scratch
from harness.core.parts import part
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.check.checks import CheckResult
    from harness.check.subject import CheckSample
    from harness.pipeline.layout import Layout
    from harness.pipeline.verify import Verified
    from harness.policy.selftest import Tried
    from harness.report.doc import Block, Value


BROKEN = 2
TONES = {"holds": "", "broken": "bad", "not checked": "quiet"}
arms = group("arm", "An engine, as its TOML file configures it.")


@command(arms)
def check(
    arm: Annotated[
        str,
        typer.Argument(help="An arm's name, its TOML file, or a function as MODULE:FUNCTION."),
    ] = "",
    dataset: options.SetOrFolder = "",
    split: options.Split = "test",
    engine: options.Engine = "",
) -> Result:
    """Check an engine against the contract that all engines here keep.

    Builds an index of 15 sample documents, or of --dataset, in a temporary folder. Checks order,
    ties, k, ids, scores, identity, fingerprint, repetition, threads, processes, and empty, hostile
    and long texts. A broken promise is printed with the first violations and what to do. Exit
    codes: 0 every promise holds, 2 one is broken, or the file is wrong.

    Example: harness arm check examples/own_engine/own.toml

    A function: harness arm check --engine shop.search:search --dataset data
    """
    from harness.check.checks import check
    from harness.core.errors import HarnessError

    if bool(arm) == bool(engine):
        raise HarnessError("give one engine: an arm, or a function with --engine")
    if engine and not dataset:
        raise HarnessError("a function answers about its own documents. Name them with --dataset")

    project = Project.here()
    with _sample(project, dataset, split) as sample:
        found = check(arm or options.function_of(engine)[0], project.cache, sample)
    return Result(shown(*_checked(found)).doc, 0 if found.holds else BROKEN, found.told())


@contextmanager
def _sample(project: Project, dataset: str, split: str) -> Iterator[CheckSample | None]:
    """Prepare the data set in a temporary folder; None where none is named."""
    from harness.check.subject import CheckSample
    from harness.core.records import FIELDS

    if not dataset:
        yield None
        return
    with scratch() as beside:
        options.prepare(project, dataset, beside / "data", split, ",".join(FIELDS), forms=False)
        yield CheckSample.of(beside / "data")


def _checked(found: CheckResult) -> Iterator[Block]:
    from harness.report.doc import Cell, Text, table

    outcomes = Counter(str(one.outcome) for one in found.findings)
    verdict = "keeps the contract" if found.holds else "BREAKS THE CONTRACT"
    left = outcomes["not checked"]
    yield Text(
        f"{found.arm}: {verdict}. {outcomes['holds']} of {outcomes.total()} promises hold,"
        f" {outcomes['broken']} broken{f', {left} are not checked' if left else ''}"
        f" (documents: {found.manifest.documents:,})"
    )
    yield from (Text(f"\n{one}") for one in found.findings if one.broken)
    rows = []
    for one in found.findings:
        word = Cell(one.outcome.upper() if one.broken else one.outcome, tone=TONES[one.outcome])
        why = f" ({one.reason})" if one.reason else ""
        rows.append((one.check.name, word, f"{one.check.promise}{why}"))
    yield table("", ("check", "outcome", "promise"), rows)


GB = 1e9


@command(app)
def doctor() -> Result:
    """Check the environment: versions, models, arms, data sets, room and the clock.

    Optional packages are listed, and may be missing. Exit codes: 0 all is well, 2 something is
    missing; each line says what, and how to fix it.
    """
    project, problems = Project.here(), list[str]()
    lines = [*_machine(project), *_models(problems), *_arms(project, problems)]
    lines += [*_plans(project, problems), *(f"problem   {problem}" for problem in problems)]
    if project.packaged:
        none = "project   none here; the packaged settings are read (harness init makes one)"
        lines.insert(0, none)
    if not problems:
        lines.append("well      nothing that is needed is missing")
    return Result(said(*lines).doc, BROKEN if problems else 0)


def _machine(project: Project) -> Iterator[str]:
    import platform
    import sqlite3
    from time import get_clock_info

    import psutil

    from harness.core.errors import EXTRAS, install, missing_from
    from harness.pipeline.receipts import versions
    from harness.replay.machine import free_bytes, machine, vector_flags

    yield f"machine   {machine()}"
    yield f"system    {platform.platform()}"
    yield f"vectors   {', '.join(vector_flags()) or 'not told by this system'}"
    yield f"room      {free_bytes(project.cache) / GB:.1f} GB free for {project.cache.name}"
    yield f"memory    {psutil.virtual_memory().available / GB:.1f} GB free"
    yield f"clock     {get_clock_info('perf_counter').resolution * 1e9:.0f} ns resolution"
    yield f"packages  {', '.join(' '.join(one) for one in versions().items())}"
    yield f"sqlite    {sqlite3.sqlite_version}"
    for name in EXTRAS:
        if missing := missing_from(name):
            yield f"extra     {name}: {', '.join(missing)} not installed. To add: {install(name)}"
        else:
            yield f"extra     {name}: installed"


def _models(problems: list[str]) -> Iterator[str]:
    """Look for every model whose package can be had here; what is wrong goes to ``problems``."""
    from importlib.util import find_spec

    from harness.core.errors import HarnessError, missing_from

    if missing_from("engines"):
        return
    from harness_engines.sparse import MODELS as SPARSE
    from harness_engines.vector.embedder import MODELS

    for model in (*MODELS, *SPARSE):
        if model in SPARSE and find_spec(model.weights.package) is None:
            yield f"model     {model.name}: not installed; only arms that name it need it"
            continue
        for file in (model.weights, model.tokenizer):
            try:
                yield f"model     {model.name}: {file.path().name} is the pinned one"
            except HarnessError as exc:
                problems.append(str(exc))


def _arms(project: Project, problems: list[str]) -> Iterator[str]:
    """Load every arm; what is wrong with those that can be had, or are wanted, is a problem."""
    from harness.core.errors import HarnessError, NotInstalled
    from harness_engines import registry as arms

    wanted = () if project.packaged else project.params.arms
    without = []
    for name in arms.names():
        try:
            yield f"arm       {name}: {arms.load(name, project.cache).summary}"
        except NotInstalled as exc:
            if name in wanted:
                problems.append(str(exc))
            else:
                without.append(name)
        except HarnessError as exc:
            problems.append(str(exc))
    if without:
        yield f"arms      {len(without)} need an extra: {', '.join(without)}"


def _plans(project: Project, problems: list[str]) -> Iterator[str]:
    """Read the policy and the data sets; what is wrong is a problem."""
    from harness.core.errors import HarnessError

    try:
        policy = project.policy()
        yield f"policy    {project.policy_file.name}: {many(len(policy.steps), 'step')}"
        for name in project.params.datasets:
            if (project.root / name / "corpus.jsonl").is_file():  # as ``harness init`` makes it
                run = f"harness run --dataset {name} --out out/{name}"
                yield f"dataset   {name}: a folder, for {run}"
            else:
                project.layout(name)
                yield f"dataset   {name}"
    except HarnessError as exc:
        problems.append(str(exc))


@command(app)
def selftest(
    of: options.EvidencePlace,
    policy: options.PolicyFile = None,
    control: options.Control = "",
    trials: Annotated[int, typer.Option(min=1, help="How often each truth is tried.")] = 400,
) -> Result:
    """Measure how often the gates on means would pass wrongly, and rightly, on existing runs.

    Labels of control and candidate are swapped at random, so that nothing differs, and losses of
    exactly a gate's bound are planted in several patterns. The first line names the worst rate of
    all, with the assumption that its pattern breaks, if it breaks one. The last counts the values
    that other code, such as ir-measures, computed too. With --control, a policy of one step is
    tried for every other arm. Queries no engine, and writes nothing.

    Example: harness selftest --dataset python-docs
    """
    from harness.pipeline.evidence import for_control
    from harness.pipeline.verify import check_values, try_gates
    from harness.report.doc import Section, Text

    judged_by, _ = options.policy_of(policy)
    sections = []
    for layout in of.layouts(adds=True):
        chosen = for_control(layout, judged_by, control) if control else judged_by
        tried = try_gates(layout, chosen, trials=trials)
        blocks = _tried(tried, judged_by.rules.level / 2)
        values = many(check_values(layout), "value")
        twice = Text(f"  Computed twice: {values}, the second time by ir-measures.")
        title = f"{layout.root.name}, {many(trials, 'trial')} a rate"
        sections.append(Section(title, (*blocks, twice)))
    return shown(*sections)


def _tried(tried: Sequence[Tried], level: float) -> Iterator[Block]:
    from harness.report.doc import Text, measured, table
    from harness.report.rounding import interval

    named = [(one, planted) for one in tried for planted in one.planted]
    if not named:
        yield Text("  No gate on means has enough queries to be tried, with losses it could have.")
        return
    one, worst = max(named, key=lambda pair: pair[1].passed.value)
    rate = f"{worst.passed.value:.1%} {interval(worst.passed, 'share')}"
    yield Text(
        f"  Worst false promotion: {rate} of the trials, {level:.2%} allowed"
        f" ({one.step}: {one.gate}; {worst.pattern})"
    )
    rows: list[tuple[Value | str, ...]] = []
    for one in tried:
        fine = "no difference" if one.limit < 0 else f"a gain of {2 * one.limit:g}"
        truths = [(f"{one.limit:+g}: {it.pattern}", it.passed) for it in one.planted]
        for truth, passed in [*truths, (fine, one.fine)]:
            about = f"{one.what}, {many(one.queries, 'query')}"
            rate_of = measured(passed, "share", instead="too large to be planted")
            rows.append((f"{one.step}: {one.gate}", about, truth, rate_of))
    yield table("", ("gate", "measure", "truth", "passes"), rows)


@command(app)
def verify(
    of: options.EvidencePlace,
    *,
    requery: Annotated[
        int, typer.Option(min=0, help="Run so many queries of each arm again; opens the indexes.")
    ] = 0,
    seed: options.Seed = None,
    arm: options.AnyArms = None,
    deep: Annotated[
        bool, typer.Option("--deep/--no-deep", help="Compute every measure by ir-measures too.")
    ] = True,
) -> Result:
    """Derive a decision again from its raw evidence, recompute every digest below it, and compare.

    Digests of judgements, queries, documents, manifests, runs, scores, comparisons, race times,
    policy, receipts, card and dvc.lock. Then every measure, agreement, interval and verdict once
    more from runs, judgements, raw times and policy; and all measures by ir-measures. Pages and
    files for other tools are rebuilt and compared; others are named. Nothing is written. No index
    is opened but for --requery, which compares a sample of each run with what its engine shows now.
    The sample is drawn anew without --seed; --arm names the file of an arm of your own.
    Exit codes: 0 all is as it was decided, 2 a file is gone or was changed, or a value does not
    follow from the evidence. The first one is named, as stored and as derived.

    Example: harness verify --dataset python-docs --requery 20
    """
    from harness.pipeline.verify import verify_with_files
    from harness.report.doc import Section, Text

    project, sections = Project.here(), []
    for layout in of.layouts():
        found = [*verify_with_files(layout, of.source, project.root, deep=deep)]
        if requery:
            found += _requeried(layout, requery, seed, arm or (), project.cache)
        lines = tuple(Text(f"  {one.what:<20} {one.said}") for one in found)
        sections.append(Section(f"{layout.root.name} is as it was decided", lines))
    return shown(*sections)


def _requeried(
    layout: Layout, count: int, seed: int | None, files: Sequence[str], cache: Path
) -> Iterator[Verified]:
    """Run a sample of queries again, and yield which and of whom."""
    from secrets import randbits

    from harness.pipeline.verify import Verified, judged_arms
    from harness_engines import registry

    seed = randbits(32) if seed is None else seed
    given = {registry.load(file, cache).name: file for file in files}
    arms = {name: given.get(name, name) for name in judged_arms(layout)}
    requery = part("trust", "reproduce").requery
    for one in requery(layout, arms, cache, count=count, seed=seed):
        said = f"{one.same} of {count}, seed {seed}: the same hits"
        if one.unanswered:
            said += f"; {one.unanswered} have no answer in the run"
        if one.imported:
            said = "no: its run came as a file, and no engine is here that could be queried"
        yield Verified(f"queried {one.arm}", said)
