"""``harness shadow receive``: mirrored requests, sent to a control and a candidate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base.app import err, out
from harness.cli.shadow.options import (
    SettingsFile,
    ShadowFolder,
    own_log,
    settings_file,
)
from harness.core.printable import counted


def add(group: typer.Typer) -> None:
    """Put ``receive`` into the group."""
    group.command("receive")(receive)


def receive(
    *,
    control: Annotated[str, typer.Option(help="Address of the server that serves.")],
    candidate: Annotated[str, typer.Option(help="Address of the server that may replace it.")],
    reading: Annotated[
        Path, typer.Option(help="Where queries and results are: that, or the engine's own file.")
    ],
    to: ShadowFolder,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
    host: Annotated[
        str, typer.Option(help="The load balancer reaches it by another address than this.")
    ] = "127.0.0.1",
    per_second: Annotated[
        float, typer.Option(min=0.001, help="Most requests a second to the control.")
    ] = 50.0,
    workers: Annotated[int, typer.Option(min=1, help="Requests to the control at once.")] = 4,
    repeat: Annotated[
        float, typer.Option(min=0, max=1, help="Share that is sent to the control a second time.")
    ] = 0.1,
    client_header: Annotated[
        str, typer.Option(help="Header that names the client; a salted digest is logged.")
    ] = "x-real-ip",
    shadow_settings: SettingsFile = None,
) -> None:
    """Receive mirrored requests, ask the control and the candidate, and compare their answers.

    Nothing of it stands in the path of users: a load balancer sends copies and ignores the answer,
    which is 204 before any work. Only requests that the reading names are sent. What it
    cannot keep up with is dropped and counted. SIGTERM and SIGINT end it in order.

    Example: harness shadow receive --control http://127.0.0.1:9200 --candidate
    http://127.0.0.1:9201 --reading examples/shadow/http.toml --out out/shadow --port 9400
    """
    from harness.stages.shadow.files import http_reading, read_settings
    from harness.stages.shadow.receive import Receiving, shadow_receive

    how, settings_of = http_reading(reading), settings_file(shadow_settings)
    own_log(to, reading, settings_of)

    def tell(url: str) -> None:
        err.print(f"serving {url}", markup=False)

    received = shadow_receive(
        Receiving(
            control, candidate, how, (host, port), per_second, workers, repeat, client_header
        ),
        to,
        read_settings(settings_of),
        tell,
    )
    lines = [
        f"{counted(received.counts.attempted, 'attempt')}; lost: {received.counts.lost:,}",
        *(f"dropped: {count:,} ({why})" for why, count in sorted(received.dropped.items())),
        f"The log: {to}",
    ]
    out.print("\n".join(lines), markup=False)
