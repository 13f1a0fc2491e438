"""The command line: thin, one command a stage; heavy modules are imported inside commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from harness.cli.exit_codes import as_called, called, ended, introduce
from harness.report import fonts

if TYPE_CHECKING:
    import typer


@cache
def application() -> typer.Typer:
    """Put every command on the command line, once."""
    from harness.cli import (
        check,
        custody,
        data,
        evidence,
        export,
        folders,
        inspect,
        judgement,
        mail,
        oneshot,
        pipeline,
        policy,
        server,
        shadow,
        tune,
    )
    from harness.cli import migration as migrate
    from harness.cli.app import app

    for register in (
        oneshot.register_demo,
        pipeline.register,
        data.register_importing,
        data.register_exchange,
        oneshot.register_run,
        tune.register_tune,
        data.register_queries,
        evidence.register_clicks,
        export.register_measure,
        judgement.register_judging,
        judgement.register_panel,
        judgement.register_labels,
        judgement.register_assisted,
        policy.register_plan,
        policy.register_policy,
        server.register_serve,
        policy.register_decide,
        inspect.register_ask,
        inspect.register_decompose,
        custody.register_verify,
        custody.register_sign,
        custody.register_reproduce,
        check.register_selftest,
        export.register_export,
        evidence.register_load,
        evidence.register_traffic,
        mail.register,
        folders.register,
        migrate.register,
        tune.register_regress,
        inspect.register_history,
        shadow.register,
        oneshot.register_init,
        export.register_ci,
        check.register_arm,
        check.register_doctor,
    ):
        register(app)
    introduce(_names(app))
    return app


@cache
def command() -> Any:  # noqa: ANN401  Click's command, which Typer brings along
    """Build the command line from what is on it, once: that takes as long as a small command."""
    from typer.main import get_command

    made = get_command(application())
    _as_called(made)
    return made


def main() -> None:
    """Run the command line, and leave by its exit code."""
    sys.exit(ended(_typed))


def _typed() -> None:
    fonts.settle()
    command()(prog_name=called())


def _names(app: typer.Typer) -> Iterator[str]:
    """Yield what can be typed behind the program's name: commands and groups."""
    for one in app.registered_commands:
        yield one.name or str(getattr(one.callback, "__name__", "")).replace("_", "-")
    yield from (group.name or "" for group in app.registered_groups)


def _as_called(one: Any) -> None:  # noqa: ANN401  Click's command or option
    """Name commands in help texts, from here down, as they can be typed."""
    if getattr(one, "help", None):
        one.help = as_called(one.help)
    below = (*getattr(one, "params", ()), *getattr(one, "commands", {}).values())
    for part in below:
        _as_called(part)
