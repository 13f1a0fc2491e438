"""The embedded data as a project of its own, for who has the package and no clone.

``dvc.yaml`` of a clone names the source of the harness among what each stage depends on. Here the
source is installed elsewhere, so one file stands for it: ``installed.json``, with the digest of the
code and the versions of the packages that move a number.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterable
from pathlib import Path

import yaml

from harness.core.batches.source import code_sha256
from harness.core.files import replacing_folder, write_json, write_text
from harness.core.formats import yaml_file
from harness.corpus import card
from harness.stages.custody.provenance import versions

INSTALLED, PIPELINE = "installed.json", "dvc.yaml"
CODE = ("engines", "harness", "requirements.lock")
"""What a stage in a clone depends on and what is not in such a project."""
CONFIG = "[core]\n    analytics = false\n    check_update = false\n    no_scm = true\n"


def begin(packaged: Path, folder: Path) -> None:
    """Make ``folder`` a project with the data sets and policies that the package brings.

    A folder that is one already keeps its files; only what follows from the installed code is
    written anew.

    Raises:
        OSError: it cannot be written to.
    """
    if not (folder / "params.yaml").is_file():
        with replacing_folder(folder) as beside:
            shutil.copytree(packaged, beside, dirs_exist_ok=True)
            write_text(beside / ".dvc" / "config", CONFIG)
    about = {"code": code_sha256(), "packages": versions(), "python": platform.python_version()}
    write_json(folder / INSTALLED, about)
    pipeline = yaml_file(packaged / PIPELINE)
    for stage in pipeline["stages"].values():
        stage["deps"] = _installed(stage["deps"])
    write_text(folder / PIPELINE, yaml.safe_dump(pipeline, sort_keys=False))


def other_versions(root: Path, datasets: Iterable[str]) -> tuple[str, ...]:
    """Name the installed packages that are not of the version that a data set is read from."""
    others: dict[str, str] = {}
    for folder in (root / "datasets" / name for name in datasets):
        wanted = card.read(folder).packages if (folder / card.FILE).is_file() else {}
        here = card.installed(wanted)
        others |= {
            package: f"{package} {here.get(package, 'none')} (not {version})"
            for package, version in wanted.items()
            if here.get(package) != version
        }
    return tuple(others[package] for package in sorted(others))


def _installed(deps: Iterable[str]) -> list[str]:
    """Name ``installed.json`` once instead of all code."""
    kept = [dep for dep in deps if dep.partition("/")[0] not in CODE]
    return [*kept, INSTALLED]
