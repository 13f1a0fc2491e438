"""A new evaluation project: sample data, an engine, a policy and a script for a build server."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from string import Template

from harness.core.errors import HarnessError
from harness.core.files import replacing_folder, write_text
from harness.stages import sample

TEMPLATE = Path(__file__).parent / "template"
DATA, SCRIPT = "data", "ci.sh"
ALWAYS = {
    "README.md": "README.md",
    "params.yaml": "params.yaml",
    "policy/pairwise.toml": "policy/pairwise.toml",
    "policy/regress.toml": "policy/regress.toml",
    "engine/own.py": "engine/own.py",
    "engine/own.toml": "engine/own.toml",
    SCRIPT: SCRIPT,
    "gitignore": ".gitignore",
}
"""Where each file of the template goes."""
FILLED = {"README.md", "params.yaml", SCRIPT, "github.yml", "gitlab.yml"}
ACTION = "ci/github"
SOURCE = re.compile(r"([\w.-]+(?:/[\w.-]+)+)@([\w./-]+)")
RUNNABLE = 0o755


@dataclass(frozen=True, slots=True)
class Begun:
    """What a new project is to be."""

    folder: Path
    control: str
    """The arm that serves today."""
    github: str = ""
    """``OWNER/REPO@REF`` of the harness on GitHub; empty for no workflow."""
    gitlab: str = ""
    """``GROUP/PROJECT@REF`` of the harness on the same GitLab; empty for no pipeline."""


def begin(wanted: Begun) -> tuple[str, ...]:
    """Write the project, and name its files. The folder appears whole or not at all.

    Raises:
        HarnessError: the folder is there or cannot be made, or a place of the harness is not
            written as ``OWNER/REPO@REF``.
    """
    try:
        return _written(wanted)
    except OSError as exc:
        problem = f"{wanted.folder}: cannot be made ({exc.strerror})"
        raise HarnessError(f"{problem}. Name one where you may write") from exc


def _written(wanted: Begun) -> tuple[str, ...]:
    folder = wanted.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise HarnessError(f"{folder}: is there already. Name a new or empty folder")
    github, gitlab = _source(wanted.github), _source(wanted.gitlab)
    files = dict(ALWAYS)
    words = {"name": folder.resolve().name, "control": wanted.control}
    with replacing_folder(folder) as beside:
        words["documents"] = str(sample.write(beside / DATA).documents)
        if github:
            files["github.yml"] = ".github/workflows/search.yml"
            words["action"] = f"{github[0]}/{ACTION}@{github[1]}"
        if gitlab:
            files["gitlab.yml"] = ".gitlab-ci.yml"
            words |= {"project": gitlab[0], "ref": gitlab[1]}
        for name, to in files.items():
            text = (TEMPLATE / name).read_text(encoding="utf-8")
            write_text(beside / to, Template(text).substitute(words) if name in FILLED else text)
        (beside / SCRIPT).chmod(RUNNABLE)
        return tuple(
            sorted(p.relative_to(beside).as_posix() for p in beside.rglob("*") if p.is_file())
        )


def _source(given: str) -> tuple[str, str] | None:
    if not given:
        return None
    found = SOURCE.fullmatch(given)
    if not found:
        raise HarnessError(f"{given!r} invalid repository reference: give OWNER/REPO@REF")
    return found[1], found[2]
