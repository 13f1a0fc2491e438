"""``harness shadow http``: a proxy before a search server, with another server in its shadow."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.app import err
from harness.cli.shadow_places import ReadingFile, SettingsFile, ShadowFolder, settings_file


def add(group: typer.Typer) -> None:
    """Put ``http`` into the group."""
    group.command("http")(http)


def http(
    *,
    control: Annotated[str, typer.Option(help="Address of the server that serves.")],
    candidate: Annotated[str, typer.Option(help="Address of the server in its shadow.")],
    reading: ReadingFile,
    to: ShadowFolder,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
    host: Annotated[
        str, typer.Option(help="Other machines reach the proxy only by another address than this.")
    ] = "127.0.0.1",
    shadow_settings: SettingsFile = None,
) -> None:
    """Pass requests on to a server, its answers back, and compare them with another server's.

    Clients get the server's own bytes. When they have them, a request that the reading names is
    sent to the candidate too; nobody sees what it answers. The address is told on the error stream.

    Example: harness shadow http --control http://127.0.0.1:9200 --candidate http://127.0.0.1:9201
    --reading examples/shadow/http.toml --out out/shadow --port 8080
    """
    from functools import partial

    from harness.shadow.http_candidate import http_candidate
    from harness.shadow.http_proxy import application, checked, connections
    from harness.shadow.listening import listen
    from harness.shadow.settings import ShadowLog
    from harness.stages.shadow_files import read_reading, read_settings

    for server in (control, candidate):
        checked(server)
    how = read_reading(reading)
    log = ShadowLog(to, read_settings(settings_file(shadow_settings)))
    with log.compared(partial(http_candidate, candidate, how), process=True) as comparison:
        app = application(control, how, comparison, connections(how))
        listen(app, host, port, lambda url: err.print(f"serving {url}", markup=False))
