"""The command line: thin, one command a stage; heavy modules are imported inside commands."""

from __future__ import annotations

import sys
from functools import cache

import typer

from harness.cli.app import app
from harness.core.errors import HarnessError

BAD_INPUT = 2


@cache
def application() -> typer.Typer:
    """Put every command on the command line, once."""
    from harness.cli import (
        ask,
        ci,
        decide,
        decompose,
        demo,
        doctor,
        export,
        history,
        importing,
        init,
        judging,
        load,
        mail_server,
        migrate,
        oneshot,
        pipeline,
        regress,
        selftest,
        serve,
        shadow,
        traffic,
        verify,
    )

    for commands in (
        demo,
        pipeline,
        importing,
        oneshot,
        judging,
        serve,
        decide,
        ask,
        decompose,
        verify,
        selftest,
        export,
        load,
        traffic,
        mail_server,
        migrate,
        regress,
        history,
        shadow,
        init,
        ci,
        doctor,
    ):
        commands.register(app)
    return app


def main() -> None:
    """Run the command line; an error that a person can fix is one line and exit code 2."""
    try:
        application()()
    except HarnessError as exc:
        print(f"error: {exc}", file=sys.stderr)  # noqa: T201  the one place that talks plainly
        sys.exit(BAD_INPUT)
