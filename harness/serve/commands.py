"""``harness serve``."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.command import app, command, tell
from harness.cli.options import LOCALHOST, Host, Port
from harness.cli.project import Project

USUAL = ("reports", "perf", "out")
"""Folders of a project that are served where none is named."""


@command(app, serves=True)
def serve(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders with pages or pools. [default: reports, perf and out]"),
    ] = None,
    *,
    port: Port = 8642,
    host: Host = LOCALHOST,
) -> None:
    """Show reports, watch for new runs, and judge pools in a browser of this machine.

    The address, with its token, is printed on the error stream. Files are sent as they are; the
    front page looks for newer ones and says so. Ctrl-C ends it.

    Example: harness serve reports perf out/mine
    """
    from harness.core.server import bound, server
    from harness.serve.application import application, loopback
    from harness.serve.shelf import folders as served_from

    address = loopback(host)
    served = served_from(folders or _usual())
    with bound(address, port) as (listening, url):
        app = application(served, url)
        tell(f"serving {app.address}")
        with suppress(KeyboardInterrupt):
            server(app).run(sockets=[listening])
        tell("stopped")


def _usual() -> list[Path]:
    """Return the folders of the project that hold something to show."""
    from harness.core.errors import BadFile
    from harness.serve.shelf import folders as served_from

    root = Project.here().place
    found: list[Path] = []
    for name in USUAL:
        with suppress(BadFile):
            found += served_from([root / name]).values()
    if not found:
        hint = "Make some (harness demo, or harness run --out out/mine), or name a folder"
        raise BadFile(root, f"no page lies in {', '.join(USUAL)}", hint)
    return found
