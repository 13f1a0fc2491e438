"""The command line: thin, one command a stage; heavy modules are imported inside commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from harness.cli.base.boundary import ended
from harness.cli.base.called import as_called, called, introduce
from harness.report import fonts

if TYPE_CHECKING:
    import typer


@cache
def application() -> typer.Typer:
    """Put every command on the command line, once."""
    from harness.cli import (
        arm,
        ask,
        ci,
        clicks,
        decide,
        decompose,
        demo,
        doctor,
        export,
        history,
        init,
        load,
        mail_server,
        measure,
        oneshot,
        pipeline,
        plan,
        policy,
        regress,
        selftest,
        serve,
        traffic,
        tune,
    )
    from harness.cli.assessors import assisted, judging, labels, panel
    from harness.cli.base.app import app
    from harness.cli.custody import reproduce, sign, verify
    from harness.cli.data import exchange, importing, queries
    from harness.cli.kept import code, docs, notes
    from harness.cli.migrate import group as migrate
    from harness.cli.shadow import group as shadow

    for register in (
        demo.register,
        pipeline.register,
        importing.register,
        exchange.register,
        oneshot.register,
        tune.register,
        queries.register,
        clicks.register,
        measure.register,
        judging.register,
        panel.register,
        labels.register,
        assisted.register,
        plan.register,
        policy.register,
        serve.register,
        decide.register,
        ask.register,
        decompose.register,
        verify.register,
        sign.register,
        reproduce.register,
        selftest.register,
        export.register,
        load.register,
        traffic.register,
        mail_server.register,
        notes.register,
        code.register,
        docs.register,
        migrate.register,
        regress.register,
        history.register,
        shadow.register,
        init.register,
        ci.register,
        arm.register,
        doctor.register,
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
