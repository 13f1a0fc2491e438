"""Options that the imports share, and what they say at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.project import Project
from harness.core.printable import many

if TYPE_CHECKING:
    from harness.stages.imports.collections import Target
    from harness.stages.imports.report import ImportReport

Name = Annotated[str, typer.Option(help="What the data set is to be called.")]
Split = Annotated[str, typer.Option(help="Which judgements.")]
Fields = Annotated[
    str, typer.Option(help="What is searched of a document: title,text or one of them.")
]
Forms = Annotated[
    bool, typer.Option("--forms", help="Slice queries by form: identifier, keyword, language.")
]
Title = Annotated[str, typer.Option(help="One line for the card.")]
Source = Annotated[str, typer.Option(help="Where it is from; for the card.")]
Licence = Annotated[str, typer.Option(help="Its terms; for the card.")]
Dangling = Annotated[
    bool, typer.Option(help="Keep judgements of documents or queries that do not exist.")
]
Force = Annotated[bool, typer.Option(help="Replace a data set of this name.")]
NOT_STATED = "not stated"


def target(
    name: str, split: str, title: str, source: str, licence: str, *, dangling: bool, force: bool
) -> Target:
    """Say where in the reader's own project a data set goes, and what its card says."""
    from harness.stages.imports.collections import Target
    from harness.stages.imports.report import About

    root, about = Project.own().root, About(title, source, licence)
    return Target(name, root / "datasets", root / "qrels", split, about, dangling, force)


def shown(report: ImportReport) -> None:
    """Say what was imported, and what is odd about it."""
    out.print(
        f"imported {report.name} ({report.split}): {many(report.documents, 'document')},"
        f" {many(report.queries, 'query')}, {many(report.judgements, 'judgement')}"
    )
    for line in report.warnings:
        out.print(f"  note: {line}", markup=False)
    out.print(
        f"Add {report.name} to datasets in params.yaml, or: harness run --dataset {report.name}"
    )
