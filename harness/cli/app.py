"""The application that commands are registered on, its shared options and its output."""

from __future__ import annotations

import inspect
import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from rich.console import Console
from typer.core import TyperGroup

from harness.cli.exit_codes import DEBUG, as_called, failed
from harness.cli.project import Project
from harness.core.printable import json_text, many, one_line, printable

if TYPE_CHECKING:
    from harness.stages.imports import ImportReport, Target


NO_CODE = "--no-code"
TYPED = frozenset({"text", "query"})
"""Arguments that hold what a person types."""
REFUSED: type[Exception] = next(
    kind
    for kind in reversed(typer.BadParameter.__mro__)
    if issubclass(kind, Exception) and kind is not Exception
)
"""Base of what a wrong command line raises: Typer's own, or Click's in older releases of Typer."""


class Bounded(TyperGroup):
    """Commands with exit codes of their own; an ``exit(1)`` of an engine does not count."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Take the options of every command before it or after it."""
        end = args.index("--") if "--" in args else len(args)
        own = [word for word in args[:end] if word in {DEBUG, NO_CODE}]
        rest = [word for word in args[:end] if word not in own]
        return super().parse_args(ctx, [*own, *rest, *args[end:]])

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # noqa: ANN401
        try:
            with _without_code() if ctx.params.get("no_code") else nullcontext():
                return super().invoke(ctx)
        except REFUSED as exc:
            _hinted(exc)
            raise
        except typer.Exit:
            raise
        except BaseException as exc:  # noqa: BLE001  whatever it is, it is no verdict
            raise typer.Exit(failed(exc, debug=bool(ctx.params.get("debug")))) from None


def _hinted(exc: Exception) -> None:
    """Say where a text with a hyphen stands, where one was taken for options."""
    named = str(getattr(exc, "option_name", "--"))
    command = getattr(getattr(exc, "ctx", None), "command", None)
    takes = {one.name for one in getattr(command, "params", ())}
    if takes & TYPED and not named.startswith("--"):
        said = f"{getattr(exc, 'message', exc)}. A text that begins with a hyphen stands after --"
        exc.message = said  # type: ignore[attr-defined]  # of what Click raises


def _without_code() -> AbstractContextManager[None]:
    from engines.contract import forbidden

    return forbidden()


app = typer.Typer(
    name="harness",
    cls=Bounded,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help=(
        "Decide, with statistics a referee would accept, whether a search engine may be replaced."
        "\n\nThe pipeline, one command a stage:"
        " [bold]prepare > index > replay > score > compare > race > gate > report[/bold]."
        " [bold]demo[/bold] runs all of it, [bold]run[/bold] does it in one go for arms and data"
        " of yours."
        "\n\nExit codes: 0 done (gate: promote), 1 hold or roll back, 2 bad input or an arm that"
        " did not run, 3 inconclusive, 130 interrupted."
    ),
)


class Plain(Console):
    """A console on which no text that is printed can command the terminal: it shows as a picture.

    Ids, names and texts of strangers are in what commands print, and may hold escape codes.
    """

    def print(self, *objects: Any, **how: Any) -> None:  # noqa: ANN401  as rich has it
        said = (as_called(printable(o)) if isinstance(o, str) else o for o in objects)
        super().print(*said, **how)

    def data(self, text: str) -> None:
        """Print what is not ours, such as lines of files: no command in it is rewritten."""
        super().print(printable(text), markup=False)

    def json(self, value: object) -> None:
        """Print JSON for another program, which reads back the very value.

        What no terminal shows is escaped, and no command in it is rewritten.
        """
        super().print(json_text(value), markup=False)


out = Plain(highlight=False, soft_wrap=True, emoji=False)
err = Plain(stderr=True, highlight=False, soft_wrap=True, emoji=False)


class Lines(logging.Formatter):
    """Writes what a server logs as one line a record: for people, or a JSON object each."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Write time, level, event and values; of a record without an event its message."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told = getattr(record, "told", None) or {"message": record.getMessage()}
        if record.exc_info and record.exc_info[0] is not None:
            told = {**told, "error": record.exc_info[0].__name__}
        if self._as_json:
            about = {"time": at, "level": record.levelname, "logger": record.name}
            return json.dumps({**about, **told})
        said = [told.get("event", told.get("message", ""))]
        said += [f"{key}={value}" for key, value in told.items() if key not in {"event", "message"}]
        return one_line(" ".join([at, record.levelname, *map(str, said)]))


@contextmanager
def logged(name: str, *, as_json: bool) -> Iterator[None]:
    """Write what the logger ``name`` and those below it are told, from INFO up, while this runs."""
    log, handler = logging.getLogger(name), logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines(as_json=as_json))
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]


@app.callback()
def options(
    *,
    debug: Annotated[
        bool, typer.Option(DEBUG, help="Show the traceback of what goes wrong.")
    ] = False,
    no_code: Annotated[
        bool,
        typer.Option(NO_CODE, help="Refuse arms that bring code: a Python file, or a program."),
    ] = False,
) -> None:
    """Take the options of every command."""
    del debug, no_code  # ``Bounded.invoke`` reads them


Workers = Annotated[
    int,
    typer.Option(
        min=1, max=256, help="Processes that share the work. No result depends on their number."
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        help="Address of a Dask scheduler whose workers share the work, such as"
        " tcp://HOST:8786. They need the same program and the same folders."
    ),
]


@contextmanager
def shared(workers: int, cluster: str, cache: Path) -> Iterator[None]:
    """Let processes or a cluster do the batches of the block.

    Raises:
        HarnessError: both are named, or the cluster cannot be reached.
    """
    from harness.core.batches import using
    from harness.core.errors import HarnessError

    if cluster and workers > 1:
        raise HarnessError("--workers and --cluster are two ways; give one of them")
    folder = cache.absolute() / "batches"
    with ExitStack() as until_done:
        if cluster:
            from harness.core.batches import cluster as joined

            found = until_done.enter_context(joined(cluster, folder, _tell))
            until_done.enter_context(using(found))
        elif workers > 1:
            from harness.core.batches import processes

            pool = until_done.enter_context(processes(workers, folder, _tell))
            until_done.enter_context(using(pool))
        yield


def _tell(said: str) -> None:
    err.print(f"note: {said}", markup=False)


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
    from harness.stages.imports import About, Target

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
    from harness.stages.imports import load_folder
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
