"""``harness arm``, ``harness doctor`` and ``harness selftest``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from harness.cli.app import out
from harness.cli.exit_codes import aside
from harness.cli.project import Dataset, Left, Project, added_to_run, one_of
from harness.core.files import scratch
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.core.scores import Estimate
    from harness.policy.model import Policy
    from harness.policy.selftest import Tried
    from harness.stages.contract.checks import Checked, Sample
    from harness.stages.contract.subject import Finding
    from harness.stages.layout import Layout


BROKEN = 2
SHOWN = {"holds": "holds", "broken": "[red]BROKEN[/]", "not checked": "[dim]not checked[/]"}


def register_arm(app: typer.Typer) -> None:
    """Put ``arm`` on the command line."""
    group = typer.Typer(no_args_is_help=True, help="An engine, as its TOML file configures it.")
    group.callback()(_group)
    group.command()(check)
    app.add_typer(group, name="arm")


def _group() -> None:
    """Keep ``check`` a command of its own, though it is the only one."""


def check(
    arm: Annotated[str, typer.Argument(help="Path to the engine's TOML file, or an arm's name.")],
    dataset: Annotated[
        str,
        typer.Option(
            help="A data set's name, or a folder in BEIR layout, to index and query instead of"
            " the sample documents. [15 sample documents]"
        ),
    ] = "",
    split: Annotated[str, typer.Option(help="Which judgements of a BEIR folder.")] = "test",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Check that an engine keeps the contract that every engine here keeps.

    Builds an index in a temporary folder and checks order, ties, k, ids, scores, identity,
    fingerprint, repetition, threads, processes, and empty, hostile and long texts. A broken
    promise is printed with the first violations and what to do. Exit codes: 0 every promise
    holds, 2 one is broken, or the file is wrong.

    Example: harness arm check examples/own_engine/own.toml
    """
    from harness.stages.contract.checks import check as stage

    project = Project.here()
    with _sample(project, dataset, split) as sample, aside():
        found = stage(arm, project.cache, sample)
    if as_json:
        out.json(found.told())
    else:
        _show_arm(found)
    raise typer.Exit(0 if found.holds else BROKEN)


@contextmanager
def _sample(project: Project, dataset: str, split: str) -> Iterator[Sample | None]:
    """Prepare the data set in a temporary folder; None where none is named."""
    from harness.stages.contract.checks import Sample
    from harness.stages.imports import load_folder
    from harness.stages.prepare import prepare

    if not dataset:
        yield None
        return
    with scratch() as beside:
        data = beside / "data"
        if Path(dataset).is_dir():
            load_folder(Path(dataset), split, data)
        else:
            project.layout(dataset)
            prepare(project.root / "datasets" / dataset, project.root / "qrels" / dataset, data)
        yield Sample.of(data)


def _show_arm(found: Checked) -> None:
    out.print(escape(_headline(found)))
    for one in found.findings:
        if one.broken:
            out.print(f"\n{one}", markup=False)
    table = Table("check", "outcome", "promise", box=None, padding=(0, 2, 0, 0))
    for one in found.findings:
        table.add_row(escape(one.check.name), SHOWN[one.outcome], escape(_said(one)))
    out.print()
    out.print(table)


def _headline(found: Checked) -> str:
    """Say whether the contract is kept, and by how many of the checks."""
    from harness.stages.contract.subject import Outcome

    outcomes = [one.outcome for one in found.findings]
    verdict = "keeps the contract" if found.holds else "BREAKS THE CONTRACT"
    left = outcomes.count(Outcome.NOT_CHECKED)
    return (
        f"{found.arm}: {verdict}. {outcomes.count(Outcome.HOLDS)} of {len(outcomes)} promises hold,"
        f" {outcomes.count(Outcome.BROKEN)} broken{f', {left} are not checked' if left else ''}"
        f" (documents: {found.manifest.documents:,})"
    )


def _said(found: Finding) -> str:
    return f"{found.check.promise} ({found.reason})" if found.reason else found.check.promise


ROUNDS = 150
"""Of the A/A check: under half a second."""
GB = 1e9
WITHOUT = {
    "engines": "fts5 and engines of your own run, the other arms do not",
    "documents": "Word files and the paragraphs of a PDF are not read",
    "pipeline": "`harness demo` and dvc.yaml do not run",
    "notebooks": "the notebooks do not open",
    "serve": "`harness serve` and `harness shadow receive` do not run",
    "http": "engines over HTTP and Typesense do not run",
    "mcp": "engines and shadow runs over MCP, and the mail server, do not run",
    "postgres": "the arms over PostgreSQL do not run",
    "lucene": "the arms over Lucene do not run",
    "nearest": "the stack `nearest` does not run; `dense` does",
    "cluster": "`--cluster` does not run; `--workers` does",
    "ir-datasets": "`harness import ir-datasets` does not run",
    "languages": "code search reads Python alone",
    "fast": "measures and message search are slower, with the same values",
}
"""What is so without an extra of pyproject.toml."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def register_doctor(app: typer.Typer) -> None:
    """Put ``doctor`` on the command line."""
    app.command()(doctor)


def doctor() -> None:
    """Check the environment: versions, models, arms, data sets, room, the clock and its noise.

    The noise is the same work timed as two arms. Where it is more than the policy's gates on time
    allow, a line says that a race here may end INCONCLUSIVE. Optional packages and a browser are
    listed, and may be missing. Exit codes: 0 all is well, 2 something is missing; each line says
    what, and how to fix it.
    """
    project = Project.here()
    if project.packaged:
        out.print("project   none here; the packaged settings are read (harness init makes one)")
    _machine(project)
    problems = [*_models(), *_arms(project), *_plans(project)]
    for problem in problems:
        out.print(f"[red]problem[/]   {escape(problem)}")
    if problems:
        raise typer.Exit(2)
    out.print("well      nothing that is needed is missing")


def _machine(project: Project) -> None:
    import platform
    import sqlite3
    from time import get_clock_info

    import psutil

    from harness.replay.machine import free_bytes, machine, vector_flags
    from harness.stages.custody.provenance import versions

    out.print(f"machine   {machine()}")
    out.print(f"system    {platform.platform()}", markup=False)
    out.print(f"vectors   {', '.join(vector_flags()) or 'not told by this system'}")
    out.print(f"room      {free_bytes(project.cache) / GB:.1f} GB free for {project.cache.name}")
    out.print(f"memory    {psutil.virtual_memory().available / GB:.1f} GB free")
    out.print(f"clock     {get_clock_info('perf_counter').resolution * 1e9:.0f} ns resolution")
    out.print(f"packages  {', '.join(' '.join(one) for one in versions().items())}")
    out.print(f"sqlite    {sqlite3.sqlite_version}")
    for line in (*_extras(), _browser()):
        out.print(line, markup=False)


def _models() -> Iterator[str]:
    """Look for every model whose package can be had here, and yield what is wrong."""
    from importlib.util import find_spec

    from harness.core.errors import HarnessError, missing_from

    if missing_from("engines"):
        return
    from engines.sparse import MODELS as SPARSE
    from engines.vector.embedder import MODELS

    for model in (*MODELS, *SPARSE):
        if model in SPARSE and find_spec(model.weights.package) is None:
            out.print(f"model     {model.name}: not installed; only arms that name it need it")
            continue
        for file in (model.weights, model.tokenizer):
            try:
                out.print(f"model     {model.name}: {file.path().name} is the pinned one")
            except HarnessError as exc:
                yield str(exc)


def _arms(project: Project) -> Iterator[str]:
    """Load every arm, and yield what is wrong with those that can be had, or that are wanted."""
    from engines import registry as arms
    from harness.core.errors import HarnessError, NotInstalled

    wanted = () if project.packaged else project.params.arms
    without = []
    for name in arms.names():
        try:
            out.print(f"arm       {name}: {arms.load(name, project.cache).summary}", markup=False)
        except NotInstalled as exc:
            if name in wanted:
                yield str(exc)
            else:
                without.append(name)
        except HarnessError as exc:
            yield str(exc)
    if without:
        out.print(f"arms      {len(without)} need an extra: {', '.join(without)}")


def _plans(project: Project) -> Iterator[str]:
    """Read the policy and the data sets, and yield what is wrong."""
    from harness.core.errors import HarnessError

    try:
        policy = project.policy()
        _steady(policy)
        out.print(f"policy    {project.policy_file.name}: {many(len(policy.steps), 'step')}")
        for name in project.params.datasets:
            out.print(f"dataset   {_dataset(project, name)}", markup=False)
    except HarnessError as exc:
        yield str(exc)


def _extras() -> Iterator[str]:
    from harness.core.errors import install, missing_from

    for name, without in WITHOUT.items():
        if missing := missing_from(name):
            packages = f"{', '.join(missing)} not installed"
            yield f"extra     {name}: {packages}, so {without}. To add: {install(name)}"
        else:
            yield f"extra     {name}: installed"


def _browser() -> str:
    from shutil import which

    found = next((path for name in BROWSERS if (path := which(name))), None)
    return f"browser   {found or 'none on the path, so the tests of the pages are skipped'}"


def _dataset(project: Project, name: str) -> str:
    """Find a data set by its card, or as a folder in BEIR layout, as ``harness init`` makes it."""
    if (project.root / name / "corpus.jsonl").is_file():
        return f"{name}: a folder, for harness run --dataset {name}"
    project.layout(name)
    return name


def _steady(policy: Policy) -> None:
    """Time the same work as two arms, and hold that to what the gates on time allow."""
    from harness.gates.base.times import TimedSettings
    from harness.replay.machine import load_of_core, noise

    load, found = load_of_core(), noise(ROUNDS)
    if load is not None:
        out.print(f"load      {load:.2f} of each core in the last minute")
    out.print(
        f"noise     the same work against itself: p50 {found.p50:.2f}, p95 {found.p95:.2f} times;"
        f" the slowest {found.slowest:.1f} times the median"
    )
    gates = [gate.settings for step in policy.steps for gate in step.gates]
    allowed = [one.max_noise for one in gates if isinstance(one, TimedSettings)]
    if allowed and max(found.p50, found.p95) > min(allowed):
        out.print(
            f"[yellow]noisy[/]     the policy's gates on time allow {min(allowed):g}: a race now"
            " may end INCONCLUSIVE; wait, or find a quieter machine"
        )


def register_selftest(app: typer.Typer) -> None:
    """Put ``selftest`` on the command line."""
    app.command()(selftest)


def selftest(
    dataset: Dataset = "",
    left: Left = None,
    policy: Annotated[
        Path | None, typer.Option(help="Gates to try. [the policy of params.yaml]")
    ] = None,
    control: Annotated[
        str,
        typer.Option(
            help="Only steps with this control; or, where the policy has one step,"
            " that step for every other arm."
        ),
    ] = "",
    trials: Annotated[int, typer.Option(min=1, help="How often each truth is tried.")] = 400,
) -> None:
    """Measure how often the gates on means would pass wrongly, and rightly, on runs that are there.

    Labels of control and candidate are swapped at random, so that nothing differs, and losses of
    exactly a gate's bound are planted in several patterns. The first line names the worst rate of
    all, with the assumption that its pattern breaks, if it breaks one. The last counts the values
    that other code, such as ir-measures, computed too. Asks no engine, and writes nothing.

    Example: harness selftest --dataset python-docs
    """
    from harness.policy.load import load_policy
    from harness.stages.custody.requery import check_values
    from harness.stages.gate import try_gates

    one_of(dataset, left)
    project = Project.here()
    judged_by = load_policy(policy or project.policy_file)
    places = [added_to_run(left)] if left else map(project.layout, project.datasets(dataset))
    for layout in places:
        chosen = _steps(layout, judged_by, control)
        tried = try_gates(layout, chosen, trials=trials)
        _show_selftest(layout.root.name, tried, judged_by.rules.level / 2, trials)
        values = check_values(layout)
        out.print(f"  Computed twice: {many(values, 'value')}, the second time by ir-measures.")


def _steps(layout: Layout, policy: Policy, control: str) -> Policy:
    """Give the policy of what stands against ``control``; the whole one where none is named."""
    from dataclasses import replace

    from harness.core.errors import UnknownName
    from harness.policy.load import for_candidates
    from harness.stages.compare import read_agreement

    if not control:
        return policy
    pairs = [pair for pair in read_agreement(layout) if pair[0] != pair[1]]
    against = [candidate for one, candidate in pairs if one == control]
    if not against:
        raise UnknownName("control of a comparison", control, dict.fromkeys(c for c, _ in pairs))
    if len(policy.steps) == 1:
        return for_candidates(policy, control, against)
    steps = tuple(step for step in policy.steps if step.control == control)
    if not steps:
        known = dict.fromkeys(step.control for step in policy.steps)
        raise UnknownName("control of a step", control, known)
    return replace(policy, steps=steps)


def _show_selftest(dataset: str, tried: Sequence[Tried], level: float, trials: int) -> None:
    out.print(f"\n[bold]{escape(dataset)}[/bold], {many(trials, 'trial')} a rate")
    named = [(one, planted) for one in tried for planted in one.planted]
    if not named:
        out.print("  No gate on means has enough queries to be tried, with losses it could have.")
        return
    one, worst = max(named, key=lambda pair: pair[1].passed.value)
    out.print(
        f"  Worst false promotion: {_rate(worst.passed)} of the trials, {level:.2%} allowed"
        f" ({escape(f'{one.step}: {one.gate}; {worst.pattern}')})"
    )
    table = Table(box=None, padding=(0, 2))
    for head in ("gate", "measure", "truth", "passes"):
        table.add_column(head)
    for one in tried:
        fine = "no difference" if one.limit < 0 else f"a gain of {2 * one.limit:g}"
        rows = [(f"{one.limit:+g}: {it.pattern}", it.passed) for it in one.planted]
        for truth, rate in [*rows, (fine, one.fine)]:
            table.add_row(
                escape(f"{one.step}: {one.gate}"),
                escape(f"{one.what}, {many(one.queries, 'query')}"),
                truth,
                _rate(rate),
            )
    out.print(table)


def _rate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "too large to be planted"
    return f"{estimate.value:.1%} \\[{estimate.low:.1%}, {estimate.high:.1%}]"
