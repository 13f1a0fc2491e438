"""The application that commands are registered on, and what they print and log with."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from harness.cli.base.boundary import DEBUG, failed
from harness.cli.base.called import as_called
from harness.core.printable import json_text, one_line, printable

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
    from engines.contract.brought import forbidden

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
