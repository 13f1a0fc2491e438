"""``harness serve``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.app import err
from harness.cli.exit_codes import called
from harness.cli.project import Project

if TYPE_CHECKING:
    pass


USUAL = ("reports", "perf", "out")
"""Folders of a project that are served where none is named."""


def register_serve(app: typer.Typer) -> None:
    """Put ``serve`` on the command line."""
    app.command()(serve)


def serve(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders with pages or pools. [default: reports, perf and out]"),
    ] = None,
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8642,
    host: Annotated[
        str, typer.Option(help="127.0.0.1, ::1 or localhost; no other is served.")
    ] = "127.0.0.1",
    opened: Annotated[
        bool, typer.Option("--open", help="Open the address in a browser too.")
    ] = False,
) -> None:
    """Show reports, watch for new runs, and judge pools in a browser of this machine.

    The address, with its token, is told on the error stream. Files are sent as they lie there; the
    front page looks for newer ones and says so, also in the tabs that were opened from it. Ctrl-C
    ends it.

    Example: harness serve reports perf out/mine --open
    """
    from threading import Thread

    from harness.core.server import bound, server
    from harness.serve.application import application, loopback
    from harness.serve.shelf import folders as served_from

    address = loopback(host)
    served = served_from(folders or _usual())
    with bound(address, port) as (listening, url):
        app = application(served, url, called())
        err.print(f"serving {app.address}", markup=False)
        if opened:
            Thread(target=_open, args=(app.address,), daemon=True).start()
        with suppress(KeyboardInterrupt):
            server(app).run(sockets=[listening])
        err.print("stopped", markup=False)


def _open(address: str) -> None:
    """Open a browser, which may wait for the page: so beside the server and not before it."""
    import webbrowser

    if not webbrowser.open(address):
        err.print("no browser can be opened here; open the address yourself", markup=False)


def _usual() -> list[Path]:
    """Give the folders of the project that hold something to show.

    Raises:
        BadFile: none does.
    """
    from harness.core.errors import BadFile
    from harness.serve.shelf import folders as served_from

    root = Project.here().place
    found = []
    for name in USUAL:
        try:
            served_from([root / name])
        except BadFile:
            continue
        found.append(root / name)
    if not found:
        hint = "Make some (harness demo, or harness run --out out/mine), or name a folder"
        raise BadFile(root, f"no page lies in {', '.join(USUAL)}", hint)
    return found
