"""Data that a command takes by name or as a folder, prepared in a place of its own."""

from __future__ import annotations

from pathlib import Path

from harness.cli.base.app import err
from harness.cli.base.project import Project

NOT_STATED = "not stated"


def prepare(
    project: Project, dataset: str, to: Path, split: str, fields: str, *, forms: bool
) -> tuple[str, str]:
    """Prepare a data set or a BEIR folder in the folder ``to``; give its licence and source.

    Raises:
        DatasetError: options for folders are given for a data set of the project.
        UnknownName, BadName, BadFile: the data set or its split is unknown or malformed.
    """
    from harness.core.errors import DatasetError
    from harness.core.records import FIELDS
    from harness.corpus import beir, card
    from harness.stages.imports.collections import load_folder
    from harness.stages.prepare import prepare as stage

    folder, named = Path(dataset), beir.fields(fields)
    if folder.is_dir():
        import_report = load_folder(folder, split, to, fields=named, forms=forms)
        for line in import_report.warnings:
            err.print(f"note: {line}", markup=False)
        return NOT_STATED, f"the folder {folder.resolve().name}"
    project.layout(dataset)
    if forms or named != FIELDS:
        raise DatasetError(
            f"{dataset}: --fields and --forms are for folders; import the data with them"
            " (harness import beir), and run it by its name"
        )
    root = project.root
    stage(root / "datasets" / dataset, root / "qrels" / dataset, to)
    about = card.read(root / "datasets" / dataset)
    return about.licence, about.source
