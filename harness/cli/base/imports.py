"""Options that the imports share, and what they say at the end."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

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


def _shared(
    *,
    name: Name,
    split: Split = "test",
    title: Title = NOT_STATED,
    source: Source = NOT_STATED,
    licence: Licence = NOT_STATED,
    allow_dangling: Dangling = False,
    force: Force = False,
) -> Target:
    """Return where in the reader's own project a data set goes, and what its card says."""
    from harness.stages.imports.collections import Target
    from harness.stages.imports.report import About

    root, about = Project.own().root, About(title, source, licence)
    return Target(name, root / "datasets", root / "qrels", split, about, allow_dangling, force)


def importing(run: Callable[..., None]) -> Callable[..., None]:
    """Add the options that all imports share to a command, in place of its argument ``to``."""
    own, shared = inspect.signature(run).parameters, inspect.signature(_shared).parameters
    hints = get_type_hints(run, localns={"Target": object}, include_extras=True)
    hints |= get_type_hints(_shared, localns={"Target": object}, include_extras=True)
    given = [one for name, one in own.items() if name != "to"]
    first = [one for one in given if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    rest = [one for one in given if one.kind is inspect.Parameter.KEYWORD_ONLY]
    every = [*first, shared["name"], *rest, *(one for one in shared.values() if one.name != "name")]

    @wraps(run)
    def command(**options: Any) -> None:  # noqa: ANN401  of a command line
        to = _shared(**{name: options.pop(name) for name in shared})
        run(**options, to=to)

    typed = [one.replace(annotation=hints[one.name]) for one in every]
    command.__signature__ = inspect.Signature(typed)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in typed}
    del command.__wrapped__
    return command


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
