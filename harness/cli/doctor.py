"""What this machine has, and whether it is fit to measure on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from harness.cli.base.app import out
from harness.cli.base.project import Project

if TYPE_CHECKING:
    from harness.policy.model import Policy

ROUNDS = 150
"""Of the A/A check: under half a second."""
GB = 1e9
EXTRAS = {
    "fast": ("numba", "measures of large runs stay in numpy, with the same values"),
    "apsw": ("apsw", "message search reads its store by Python's own SQLite"),
    "notebooks": ("jupyter", "notebooks are run by the tests, and opened by nothing here"),
}
"""By the name in pyproject.toml: the package, and what is so without it."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def register(app: typer.Typer) -> None:
    """Put ``doctor`` on the command line."""
    app.command()(doctor)


def doctor() -> None:
    """Check the environment: versions, models, arms, data sets, room, the clock and its noise.

    The noise is the same work timed as two arms; where it is more than the policy's gates on time
    allow, a line says so, and that a race here may end INCONCLUSIVE. Optional packages and a
    browser are told, and missing none of them is a problem. Exit codes: 0 all is well, 2 something
    is missing; each line says what and the cure.
    """
    project = Project.here()
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
    from importlib.metadata import version
    from time import get_clock_info

    import psutil

    from harness.replay.fitness import free_bytes, vector_flags
    from harness.replay.machine import machine
    from harness.stages.custody.provenance import PACKAGES

    out.print(f"machine   {machine()}")
    out.print(f"system    {platform.platform()}", markup=False)
    out.print(f"vectors   {', '.join(vector_flags()) or 'not told by this system'}")
    out.print(f"room      {free_bytes(project.cache) / GB:.1f} GB free for {project.cache.name}")
    out.print(f"memory    {psutil.virtual_memory().available / GB:.1f} GB free")
    out.print(f"clock     {get_clock_info('perf_counter').resolution * 1e9:.0f} ns resolution")
    out.print(f"packages  {', '.join(f'{name} {version(name)}' for name in PACKAGES)}")
    out.print(f"sqlite    {sqlite3.sqlite_version}")
    for line in (*_extras(), _browser()):
        out.print(line, markup=False)


def _models() -> Iterator[str]:
    """Look for every model, and yield what is wrong."""
    from engines.sparse.models import MODELS as SPARSE
    from engines.vector.models import MODELS
    from harness.core.errors import HarnessError

    for model in (*MODELS, *SPARSE):
        for file in (model.weights, model.tokenizer):
            try:
                out.print(f"model     {model.name}: {file.path().name} is the pinned one")
            except HarnessError as exc:
                yield str(exc)


def _arms(project: Project) -> Iterator[str]:
    """Load every arm, and yield what is wrong."""
    from engines import registry as arms
    from harness.core.errors import HarnessError

    for name in arms.names():
        try:
            out.print(f"arm       {name}: {arms.load(name, project.cache).summary}", markup=False)
        except HarnessError as exc:
            yield str(exc)


def _plans(project: Project) -> Iterator[str]:
    """Read the policy and the data sets, and yield what is wrong."""
    from harness.core.errors import HarnessError

    try:
        policy = project.policy()
        _steady(policy)
        out.print(f"policy    {project.policy_file.name}: {len(policy.steps)} steps")
        for name in project.params.datasets:
            out.print(f"dataset   {_dataset(project, name)}", markup=False)
    except HarnessError as exc:
        yield str(exc)


def _extras() -> Iterator[str]:
    from importlib.metadata import PackageNotFoundError, version

    for name, (package, without) in EXTRAS.items():
        try:
            yield f"extra     {name}: {package} {version(package)}"
        except PackageNotFoundError:
            yield f"extra     {name}: {package} is not there, so {without}"


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
