"""One decorator for commands: shared options, the printed result, and the exit code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from rich.console import Console
from typer.core import TyperGroup

from harness.cli.exit_codes import COMMAND, DEBUG, JSON, as_called, aside, failed, told_as_json
from harness.core.errors import DISTRIBUTION, HarnessError
from harness.core.printable import json_text, printable

if TYPE_CHECKING:
    from harness.core.gate import StepDecision
    from harness.report.doc import Block, Section

NO_CODE = "--no-code"
QUIET = ("--quiet", "-q")
PANELS = {
    "Start": {
        "init": "cli.oneshot", "demo": "cli.oneshot", "doctor": "cli.check",
        "compare": "services.commands", "run": "cli.oneshot", "serve": "serve.commands",
    },
    "Data": {"import": "cli.data", "convert": "cli.data", "queries": "logs.commands"},
    "Judge": dict.fromkeys(("pool", "judge", "panel", "labels"), "judge.commands"),
    "Decide": {
        "plan": "cli.decide", "policy": "cli.decide", "gate": "cli.decide",
        "report": "cli.pipeline", "ci": "cli.export", "regress": "cli.decide",
        "tune": "tune.commands", "stage": "cli.pipeline",
    },
    "Inspect": {
        "table": "cli.export", "ask": "cli.inspect", "decompose": "cli.inspect",
        "export": "cli.export", "history": "cli.inspect",
    },
    "Speed": {"race": "cli.pipeline", "load": "load.commands"},
    "Live": {
        "shadow": "shadow.commands", "clicks": "clicks.commands", "migrate": "migrate.commands",
    },
    "Trust": {
        "verify": "cli.check", "reproduce": "trust.commands",
        "selftest": "cli.check", "arm": "cli.check",
    },
    "Search programs": {
        "mail": "cli.mail", "mail-server": "cli.mail",
        **dict.fromkeys(("notes", "code", "docs"), "cli.folders"),
    },
}  # fmt: skip
"""Commands as the help groups and orders them, each with its module."""
CODES = {"pass": 0, "fail": 1, "inconclusive": 3}
"""Exit codes by verdict."""
REFUSED: type[Exception] = next(
    kind
    for kind in reversed(typer.BadParameter.__mro__)
    if issubclass(kind, Exception) and kind is not Exception
)
"""Base of what a wrong command line raises: Typer's own, or Click's in older releases of Typer."""


class CommandGroup(TyperGroup):
    """Commands with exit codes of their own; an ``exit(1)`` of an engine does not count."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Take the options of every command before it or after it."""
        end = args.index("--") if "--" in args else len(args)
        own = [word for word in args[:end] if word in {DEBUG, NO_CODE, *QUIET}]
        rest = [word for word in args[:end] if word not in own]
        return super().parse_args(ctx, [*own, *rest, *args[end:]])

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # noqa: ANN401
        err.quiet = bool(ctx.params.get("quiet"))
        try:
            if not ctx.params.get("no_code"):
                return super().invoke(ctx)
            from harness_engines.contract import forbidden

            with forbidden():
                return super().invoke(ctx)
        except REFUSED as exc:
            told_as_json(exc, str(getattr(exc, "message", exc)))
            raise
        except typer.Exit:
            raise
        except BaseException as exc:  # noqa: BLE001  whatever it is, it is no verdict
            raise typer.Exit(failed(exc, debug=bool(ctx.params.get("debug")))) from None
        finally:
            err.quiet = False


app = typer.Typer(
    name=COMMAND,
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Decide, with statistics a referee would accept, whether a search engine may be replaced."
        "\n\nThe pipeline: [bold]prepare > index > replay > score > compare > race > gate >"
        " report[/bold]. [bold]demo[/bold] runs all of it, [bold]run[/bold] does it in one go for"
        " arms and data of yours."
        "\n\nExit codes: 0 done (gate: promote), 1 hold or roll back, 2 bad input or an arm that"
        " did not run, 3 inconclusive, 130 interrupted."
    ),
)


def group(name: str, about: str) -> typer.Typer:
    """Register a group of commands."""
    made = typer.Typer(no_args_is_help=True, help=about)
    made.callback()(lambda: None)  # without it, a group of one command is that command
    app.add_typer(made, name=name)
    return made


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


def tell(said: str) -> None:
    """Print what goes on while a command runs, beside its result; ``--quiet`` leaves it out."""
    err.print(said, markup=False)


def _version(asked: bool) -> None:  # noqa: FBT001  as Typer calls it
    if asked:
        from importlib.metadata import version

        out.print(f"{COMMAND} {version(DISTRIBUTION)}")
        raise typer.Exit


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
    quiet: Annotated[
        bool, typer.Option(*QUIET, help="Print results and errors alone, and no progress.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_version),
    ] = False,
) -> None:
    """Take the options of every command."""
    del debug, no_code, quiet, version  # ``CommandGroup`` reads them


class Options:
    """Options that several commands share: a frozen dataclass, as one parameter of a command."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a command found, and how it ends."""

    doc: Section
    code: int = 0
    value: object = None
    """What ``--json`` prints in place of the document, where machines have a form of their own."""
    error: HarnessError | None = None
    """Raised once the document is printed."""


def said(*texts: str, title: str = "") -> Result:
    """Make a result of lines of text."""
    from harness.report.doc import Text

    return shown(*(Text(text) for text in texts), title=title)


def shown(*blocks: Block, title: str = "", code: int = 0) -> Result:
    """Make a result of what a document holds."""
    from harness.report.doc import Section

    return Result(Section(title, blocks), code)


def decided(
    found: Mapping[str, Sequence[StepDecision]],
    before: Sequence[Block] = (),
    after: Sequence[str] = (),
    *,
    step: str = "",
    exits: bool = True,
) -> Result:
    """Report decisions by data set, and end by them, or by those of one ``step``."""
    from harness.policy.decision import exit_code, worst
    from harness.report.decision import steps_json
    from harness.report.doc import Section, Text
    from harness.report.printed import section

    sections = (section(name, decisions) for name, decisions in found.items())
    doc = Section("", (*before, *sections, *map(Text, after)))
    codes = (exit_code(one for one in of if step in {"", one.step}) for of in found.values())
    value = {name: steps_json(decisions) for name, decisions in found.items()}
    return Result(doc, worst(codes) if exits and found else 0, value)


Json = Annotated[bool, typer.Option(JSON, help="Print JSON for machines; of an error too.")]


def command(
    to: typer.Typer, name: str | None = None, *, serves: bool = False, talks: bool = False
) -> Callable[[Callable[..., Result | None]], Callable[..., Result | None]]:
    """Register a function as a command, with its shared options, ``--json`` and exit code.

    What an engine prints while it runs goes to the error stream, but of one that ``talks`` with a
    person at the terminal. One that ``serves`` speaks over standard input and output itself, and
    has no result.
    """

    def put(run: Callable[..., Result | None]) -> Callable[..., Result | None]:
        typed, shares = _typed(run, json=not serves)

        @wraps(run)
        def start(**given: Any) -> None:  # noqa: ANN401  of a command line
            as_json = given.pop("as_json", False)
            for one, kind in shares.items():
                given[one] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            with nullcontext() if serves or talks else aside():
                result = run(**given)
            if result is None:
                return
            from harness.report.doc import Printed, to_json

            if not as_json:
                out.print(Printed(result.doc, lambda text: as_called(printable(text))))
            elif result.value is not None:
                out.json(result.value)
            else:
                out.data(to_json(result.doc))
            if result.error:
                setattr(result.error, "is_told", as_json)  # noqa: B010  one JSON value is printed, which has the error
                raise result.error
            if result.code:
                raise typer.Exit(result.code)

        start.__signature__ = inspect.Signature(typed)  # type: ignore[attr-defined]
        start.__annotations__ = {one.name: one.annotation for one in typed}
        del start.__wrapped__
        to.command(name)(start)
        return run

    return put


def _typed(
    run: Callable[..., Any], *, json: bool
) -> tuple[list[inspect.Parameter], dict[str, type[Any]]]:
    """Return the parameters of a command line, and which of ``run`` hold several of them."""
    hints = get_type_hints(run, include_extras=True)
    given: list[tuple[str, object, object]] = []
    shares: dict[str, type[Any]] = {}
    for one in inspect.signature(run).parameters.values():
        kind = hints[one.name]
        if isinstance(kind, type) and issubclass(kind, Options):
            shared: type[Any] = kind
            shares[one.name] = shared
            typed_as = get_type_hints(shared, include_extras=True)
            given += [(of.name, of.default, typed_as[of.name]) for of in fields(shared)]
        else:
            given.append((one.name, one.default, kind))
    if json:
        given.append(("as_json", False, Json))
    how, empty = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    typed = [
        inspect.Parameter(
            name, how, default=empty if default is MISSING else default, annotation=kind
        )
        for name, default, kind in given
    ]
    return typed, shares
