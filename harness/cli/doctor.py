"""What this machine has, and whether it is fit to measure on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from harness.cli.base.app import out
from harness.cli.base.project import Project
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.policy.model import Policy

ROUNDS = 150
"""Of the A/A check: under half a second."""
GB = 1e9
WITHOUT = {
    "engines": "fts5 and engines of your own run, the other arms do not",
    "documents": "Word files and the paragraphs of a PDF are not read",
    "pipeline": "`harness demo` and dvc.yaml do not run",
    "notebooks": "the notebooks do not open",
    "serve": "`harness serve` and `harness shadow receive` do not run",
    "http": "engines over HTTP, by a TOML file, do not run",
    "mcp": "engines and shadow runs over MCP, and the mail server, do not run",
    "postgres": "the arms over PostgreSQL do not run",
    "lucene": "the arms over Lucene do not run",
    "typesense": "the arms that start Typesense do not run",
    "nearest": "the stack `nearest` does not run; `dense` does",
    "cluster": "`--cluster` does not run; `--workers` does",
    "ir-datasets": "`harness import ir-datasets` does not run",
    "languages": "code search reads Python alone",
    "fast": "measures and message search are slower, with the same values",
}
"""What is so without an extra of pyproject.toml."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def register(app: typer.Typer) -> None:
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

    from harness.replay.fitness import free_bytes, vector_flags
    from harness.replay.machine import machine
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

    from engines.sparse.models import MODELS as SPARSE
    from engines.vector.models import MODELS
    from harness.core.errors import HarnessError
    from harness.core.extras import missing_from

    if missing_from("engines"):
        return
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
    from harness.core.extras import install, missing_from

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
    from harness.gates.base.timing import TimedSettings
    from harness.replay.fitness import load_of_core, noise

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
