"""Options that the commands of ``harness shadow`` share, and the folder of a mail server's log."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.app import err
from harness.cli.base.places import own
from harness.cli.base.project import Project

if TYPE_CHECKING:
    from engines.registry import Arm
    from engines.stacks.agent_mail.pipeline.plan import KillSwitch
    from harness.shadow.live.settings import ShadowLog
    from harness.stages.layout import Layout

FOLDER = Path("out", "shadow-log")
"""Below the project, with a folder for each arm."""
Folders = Annotated[
    list[Path], typer.Argument(help="Folders of logs; one for each process that wrote.")
]
BoundsFile = Annotated[
    Path | None, typer.Option("--bounds", help="What is watched. [policy/watch.toml]")
]
RegisterFile = Annotated[
    Path | None, typer.Option("--register", help="What is accepted. [policy/accepted.toml]")
]
SettingsFile = Annotated[
    Path | None,
    typer.Option("--shadow-settings", help="What a live comparison may cost. [policy/shadow.toml]"),
]
ReadingFile = Annotated[
    Path, typer.Option(help="Where queries and results are in the servers' JSON.")
]
ShadowFolder = Annotated[
    Path, typer.Option("--out", help="Folder for the log; one that is there grows.")
]
BOUNDS, REGISTER = Path("policy", "watch.toml"), Path("policy", "accepted.toml")
SETTINGS = Path("policy", "shadow.toml")


def own_log(folder: Path, *reads: Path | None) -> None:
    """Make ``folder`` one of a log, which may be there and grow, and refuse any other.

    Raises:
        NotOurs, HarnessError: as ``harness.core.durable.owned.claim``.
    """
    from harness.core.durable.owned import SHADOW_LOG
    from harness.shadow.log.log import is_log

    own(folder, SHADOW_LOG, *reads, known=is_log)


def bounds_file(given: Path | None) -> Path:
    """Find the file of bounds: the one that was named, or the project's."""
    return given or Project.here().root / BOUNDS


def settings_file(given: Path | None) -> Path:
    """Find the file of settings: the one that was named, the project's, or the program's."""
    own = Project.here().root / SETTINGS
    return given or (own if own.is_file() else Project.brought().root / SETTINGS)


def suppressions_file(given: Path | None, *, writes: bool = False) -> Path:
    """Find the suppression list: the one that was named, or the project's.

    Raises:
        HarnessError: it is to be written, and the project is missing.
    """
    return given or (Project.own() if writes else Project.here()).root / REGISTER


def today() -> date:
    """Day in UTC."""
    return datetime.now(UTC).date()


def log_folder(
    project: Project, arm: Arm, given: Path | None, switch: KillSwitch | None, *, may_change: bool
) -> Path | None:
    """Name the folder of the log: ``given``, or that of the arm; None where no shadow can be.

    ``may_change`` says that the switch may turn to ``shadow`` while the server runs.
    """
    from engines.stacks.agent_mail.arm import Mail
    from engines.stacks.agent_mail.pipeline.plan import KillSwitch

    own = arm.engine.settings.search_engine if isinstance(arm.engine, Mail) else ""
    if given is not None or not (may_change or (switch or own) == KillSwitch.SHADOW):
        return given
    return project.place / FOLDER / arm.name


def log_of(folder: Path, settings: Path | None, layout: Layout) -> ShadowLog:
    """Make the folder one of a log, and read what the comparison may cost.

    Raises:
        NotOurs, HarnessError: as ``own_log``.
        BadFile: the settings cannot be read.
    """
    from harness.shadow.live.settings import ShadowLog
    from harness.stages.shadow.files import read_settings

    given = settings_file(settings)
    own_log(folder, layout.root, layout.cache, given)
    err.print(f"what is served under shadow is compared in {folder}", markup=False, soft_wrap=True)
    return ShadowLog(folder, read_settings(given))
