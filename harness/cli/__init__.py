"""The command line: thin, one command a stage; heavy modules are imported inside commands."""

from __future__ import annotations

import sys

from harness.cli.app import app
from harness.core.errors import HarnessError

BAD_INPUT = 2
INTERRUPTED = 130


def main() -> None:
    """Run the command line; an error that a person can fix is one line and exit code 2."""
    from harness.cli import demo, doctor, importing, oneshot, pipeline

    for commands in (demo, pipeline, importing, oneshot, doctor):
        commands.register(app)
    try:
        app()
    except HarnessError as exc:
        print(f"error: {exc}", file=sys.stderr)  # noqa: T201  the one place that talks plainly
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)  # noqa: T201
        sys.exit(INTERRUPTED)
