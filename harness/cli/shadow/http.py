"""``harness shadow http``: a proxy that mirrors requests of a search server to another one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.app import err
from harness.cli.shadow.options import (
    SettingsFile,
    ShadowFolder,
    own_log,
    settings_file,
)


def add(group: typer.Typer) -> None:
    """Put ``http`` into the group."""
    group.command("http")(http)


def http(
    *,
    control: Annotated[str, typer.Option(help="Address of the server that serves.")],
    candidate: Annotated[str, typer.Option(help="Address of the server for mirrored requests.")],
    reading: Annotated[
        Path, typer.Option(help="Where queries and results are: that, or the engine's own file.")
    ],
    to: ShadowFolder,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
    host: Annotated[
        str, typer.Option(help="Other machines reach the proxy only by another address than this.")
    ] = "127.0.0.1",
    connections: Annotated[
        int,
        typer.Option(min=0, help="Clients at once; 0 takes as many as open files allow."),
    ] = 0,
    head_s: Annotated[
        float, typer.Option("--head-seconds", min=0.1, help="For the head of a request to come.")
    ] = 20.0,
    shadow_settings: SettingsFile = None,
) -> None:
    """Proxy a search server, mirror its requests to a candidate server, and compare the answers.

    Clients get the server's own bytes, over a connection of their own. When they have them, a
    request that the reading names is sent to the candidate too; its answer is shown to no one. The
    address is told on the error stream. SIGTERM and SIGINT end it in order: what is on its way
    arrives, and every observation is written.

    Example: harness shadow http --control http://127.0.0.1:9200 --candidate http://127.0.0.1:9201
    --reading examples/shadow/http.toml --out out/shadow --port 8080
    """
    from functools import partial

    from harness.shadow.live.settings import ShadowLog
    from harness.shadow.log.between import Between
    from harness.shadow.proxy.http_apart import Apart
    from harness.shadow.proxy.http_candidate import http_candidate
    from harness.shadow.proxy.http_control import checked
    from harness.shadow.proxy.http_proxy import Room, Running, all_room, serve
    from harness.stages.shadow.files import http_reading, read_settings

    for server in (control, candidate):
        checked(server)
    how, settings_of = http_reading(reading), settings_file(shadow_settings)
    own_log(to, reading, settings_of)
    log = ShadowLog(to, read_settings(settings_of))

    def say(running: Running) -> None:
        tell(f"serving {running.url}")

    def tell(line: str) -> None:
        err.print(line, markup=False)

    most = all_room()
    room = Room(min(connections, most.connections) if connections else most.connections, head_s)
    opens = partial(http_candidate, candidate, how)
    compares = partial(log.compared, opens, between=Between(control, candidate), process=True)
    offers = Apart(compares, control, how, tell)
    serve(control, how, offers, (host, port), say, room=room, tell=tell)
