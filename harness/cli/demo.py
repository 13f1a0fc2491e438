"""The main job, end to end: the DVC pipeline on the embedded data."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.app import err, out
from harness.cli.base.project import Project

PAGE = "reports/index.html"
FOLDER = "search-demo"
"""Project of the demo outside of a clone, below the current folder."""
NEEDS = ("engines", "pipeline")
"""Extras of the arms and of DVC."""
NOTHING_DONE = "Data and pipelines are up to date."
Record = Annotated[
    bool,
    typer.Option("--record", help="Record what comes out: dvc.lock and reports/record, to commit."),
]


def register(app: typer.Typer) -> None:
    """Put ``demo`` on the command line."""
    app.command()(demo)


def demo(*, record: Record = False) -> None:
    """Run the whole pipeline on the embedded data and print the decision.

    Harvests documents, queries and judgements from the documentation of installed packages,
    indexes them with every arm, replays, scores, compares, races, judges, and writes
    reports/index.html. What is up to date is skipped. The tracked record (dvc.lock and
    reports/record) stays as it is; the last lines compare with it.

    Outside of a project, the project is the folder search-demo, which is made.
    """
    project = _with_all_that_is_needed(Project.here())
    _without_git(project.root)
    from harness.stages.custody.dvc_lock import local_lock

    with nullcontext() if record else local_lock(project.root):
        idle = _run(project)
    from harness.cli.base.verdicts import show
    from harness.stages.gate import read_decision

    for name in project.params.datasets:
        show(name, read_decision(project.layout(name))[0])
    if idle:
        out.print("\nNothing to do: everything is up to date.")
    out.print(f"\nThe page: {project.root / PAGE}\n")
    _compare(project, record=record)


def _with_all_that_is_needed(found: Project) -> Project:
    """Check the extras before anything is run, and make a project where there is none.

    Raises:
        HarnessError: an extra is not installed, or the embedded data are of other versions, or the
            folder cannot be made.
    """
    from harness.core.errors import HarnessError
    from harness.core.extras import DEMO, install, missing_from
    from harness.stages.packaged import begin, other_versions

    if missing := [module for extra in NEEDS for module in missing_from(extra)]:
        raise HarnessError(
            f"the demo needs packages that are not installed: {', '.join(missing)}."
            f" Run: {install(DEMO)}"
        )
    if other := other_versions(found.root, found.params.datasets):
        raise HarnessError(
            "the embedded data are the documentation of exact versions;"
            f" installed: {', '.join(other)}. Run: {install(DEMO)}"
        )
    if not found.packaged:
        return found
    folder = Path.cwd() / FOLDER
    try:
        begin(found.root, folder)
    except OSError as exc:
        problem = f"{folder}: cannot be made ({exc.strerror})"
        raise HarnessError(f"{problem}. Change to a folder where you may write") from exc
    err.print(f"the project of the demo is {folder}", markup=False)
    return Project(folder)


def _run(project: Project) -> bool:
    """Bring the pipeline up to date, and tell whether there was nothing to do."""
    idle = NOTHING_DONE in _dvc(project.root, "repro", "--no-run-cache")
    if idle and not all(_replayed(project)):
        _dvc(project.root, "repro", "--no-run-cache", "--force", "--downstream", "replay")
        return False
    if idle and not all(_side_files(project)):
        _dvc(project.root, "repro", "--no-run-cache", "--force", "--downstream", "race")
        return False
    return idle


def _compare(project: Project, *, record: bool) -> None:
    """Record what came out, or say how it compares with what was recorded."""
    from harness.cli.custody.reproduce import show
    from harness.stages.custody.reproduce import RECORD, reproduce
    from harness.stages.custody.reproduce import record as write
    from harness.stages.custody.vectors import keep_vectors

    for name in project.params.datasets:
        if record:
            keep_vectors(project.root, project.layout(name), project.params.arms, project.cache)
            write(project.root, project.layout(name), tuple(project.params.arms))
        elif (project.root / RECORD / name).is_dir():
            show(reproduce(project.root, project.layout(name)))


def _without_git(root: Path) -> None:
    """Tell DVC that there is no git, where the code came as a tarball."""
    if not (root / ".git").exists():
        _dvc(root, "config", "--local", "core.no_scm", "true")


def _replayed(project: Project) -> list[bool]:
    """Tell of each arm whether it is known when it was replayed, and not too long ago."""
    from datetime import UTC, datetime

    from harness.core.errors import HarnessError
    from harness.stages.custody.freshness import check_replayed

    days, now = project.policy().evidence_days, datetime.now(UTC)
    said = []
    for name in project.params.datasets:
        for arm in project.params.arms:
            try:
                check_replayed(project.layout(name), [arm], now=now, evidence_days=days)
                said.append(True)
            except HarnessError:
                said.append(False)
    return said


def _side_files(project: Project) -> list[bool]:
    """Files beside the tracked receipts, which differ from day to day."""
    layouts = [project.layout(name) for name in project.params.datasets]
    paths = [
        path
        for layout in layouts
        for path in (layout.times, layout.decision, layout.decision_receipt)
    ]
    return [path.is_file() for path in [*paths, project.root / PAGE]]


def _dvc(root: Path, *args: str) -> str:
    """Run DVC, show what it says, and give it back."""
    command = [sys.executable, "-m", "dvc", *args]
    beside = Path(sys.executable).parent  # the stages are started as ``harness``
    env = {**os.environ, "PATH": os.pathsep.join([str(beside), os.environ.get("PATH", "")])}
    said: list[str] = []
    with subprocess.Popen(  # noqa: S603  our own command
        command, cwd=root, env=env, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as running:
        for line in running.stdout or ():
            said.append(line)
            if line.strip() and NOTHING_DONE not in line:
                err.print(line.rstrip(), markup=False)
    if running.returncode:
        raise typer.Exit(2)
    return "".join(said)
