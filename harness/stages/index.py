"""Stage ``index``: build one arm's index of one data set and hand on its manifest."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from engines import registry as arms
from engines.registry import Arm
from harness.core.digest import of_files
from harness.core.engine import Manifest
from harness.core.errors import IndexNotReady
from harness.core.files import replacing_folder, write_json
from harness.core.reading import text_of
from harness.corpus.prepared import Prepared
from harness.stages.layout import MADE_WITH, Layout


def index(layout: Layout, arm_name: str, cache: Path) -> Manifest:
    """Build the index beside, put it in place, and write its manifest."""
    arm = arms.load(arm_name, cache)
    documents = Prepared.open(layout.data).documents()
    with replacing_folder(layout.index(arm.name)) as folder:
        manifest = arm.build(documents, folder)
        (folder / MADE_WITH).write_text(of_files(sources(arm)), encoding="utf-8")
    write_json(layout.manifest(arm.name), asdict(manifest))
    return manifest


def sources(arm: Arm) -> tuple[Path, ...]:
    """Files that say what the arm is: its TOML, and the Python beside it."""
    return (arm.path, *sorted(arm.path.parent.glob("*.py")))


def check_settings(layout: Layout, arm: Arm) -> None:
    """Hold the arm against the one that its index was built with.

    Raises:
        IndexNotReady: there is no index, or the arm was changed since.
    """
    of_run = layout.root.parent.parent.name == "work"
    index_again = f"Run: harness index --dataset {layout.root.name} --arm {arm.name}"
    cure = "Repeat the harness run that wrote this folder" if of_run else index_again
    noted = layout.index(arm.name) / MADE_WITH
    if not noted.is_file():
        raise IndexNotReady(f"{layout.index(arm.name)}: no index here. {cure}")
    if text_of(noted) != of_files(sources(arm)):
        raise IndexNotReady(f"{arm.path}: was changed since the arm's index was built. {cure}")
