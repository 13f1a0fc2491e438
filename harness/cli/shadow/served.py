"""Where a mail server writes what it compares under SEARCH_ENGINE=shadow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.base.app import err
from harness.cli.base.project import Project
from harness.cli.shadow.options import own_log, settings_file

if TYPE_CHECKING:
    from engines.registry import Arm
    from engines.stacks.agent_mail.pipeline.plan import KillSwitch
    from harness.shadow.live.settings import ShadowLog
    from harness.stages.layout import Layout

FOLDER = Path("out", "shadow-log")
"""Below the project, with a folder for each arm."""


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
