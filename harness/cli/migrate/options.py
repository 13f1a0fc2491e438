"""What every command of ``harness migrate`` needs: folder, policy, evidence and hour."""

from __future__ import annotations

import getpass
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.base.places import evidence_at
from harness.cli.base.project import Project

if TYPE_CHECKING:
    from harness.policy.migration.status import CurrentDecision
    from harness.policy.model import Policy

FOLDER = "migration"


def now() -> datetime:
    """Give the hour, to the second, in UTC."""
    return datetime.now(UTC).replace(microsecond=0)


def by() -> str:
    """Who types, as the system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"user {os.getuid()}"


def folder_of(at: Path | None) -> Path:
    """Folder of ledger and switch."""
    return at or Project.own().root / FOLDER


def policy_of(policy: Path | None) -> tuple[Policy, Path]:
    """Read the policy named, or that of the project; with its file."""
    from harness.policy.load import load_policy

    file = policy or Project.here().policy_file
    return load_policy(file), file


def evidence_of(file: Path, dataset: str, left: Path | None) -> CurrentDecision:
    """Read the decision, and count every digest below it again."""
    from harness.stages.custody.verify import verify_with_files
    from harness.stages.migrate.evidence import evidence

    layout = evidence_at(dataset, left)
    root = Project.here().root
    return evidence(layout, file, lambda: verify_with_files(layout, left, root))
