"""``harness shadow mcp``: a proxy before an MCP server, with mirrored requests to another one."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.base.app import err
from harness.cli.shadow.options import (
    ReadingFile,
    SettingsFile,
    ShadowFolder,
    own_log,
    settings_file,
)


def add(group: typer.Typer) -> None:
    """Put ``mcp`` into the group."""
    group.command("mcp")(mcp)


def mcp(
    *,
    control: Annotated[str, typer.Option(help="Address of the server, or a command that is it.")],
    candidate: Annotated[str, typer.Option(help="The same of the server for mirrored calls.")],
    reading: ReadingFile,
    to: ShadowFolder,
    http: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Speak HTTP on this port, 0 for a free one."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Other machines reach the proxy only by another address than this.")
    ] = "127.0.0.1",
    shadow_settings: SettingsFile = None,
) -> None:
    """Proxy an MCP server, mirror its calls to a candidate server, and compare the answers.

    Speaks over standard input and output, or over HTTP with --http. A call of a tool that the
    reading names is made of the candidate too, when the client is answered; its
    answer is shown to no one.

    Example: harness shadow mcp --control http://127.0.0.1:8765/mcp --candidate
    http://127.0.0.1:8766/mcp --reading examples/shadow/mcp.toml --out out/shadow --http 8080
    """
    from harness.shadow.live.settings import ShadowLog
    from harness.stages.shadow.files import read_reading, read_settings
    from harness.stages.shadow.mcp import McpServer, shadow_mcp

    settings_of = settings_file(shadow_settings)
    own_log(to, reading, settings_of)
    how, log = read_reading(reading), ShadowLog(to, read_settings(settings_of))
    servers = McpServer.of(control), McpServer.of(candidate)

    def tell(line: str) -> None:
        err.print(line, markup=False)

    at = None if http is None else (host, http)
    shadow_mcp(*servers, how, log, at, ready=lambda url: tell(f"serving {url}"))
