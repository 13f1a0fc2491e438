"""Where the server may be spoken to: the pipes of the program that started it, or loopback."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any

from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

from engines.stacks.agent_mail.mcp_tools.guard import MAX_BODY_BYTES, Guard
from engines.stacks.agent_mail.mcp_tools.metrics import Metrics
from engines.stacks.agent_mail.mcp_tools.metrics_page import MetricsPage
from engines.stacks.agent_mail.pipeline.scope import Scope
from harness.core.errors import HarnessError

PATH = "/mcp"
MAX_CONNECTIONS = 128
"""Open at once, idle ones among them."""
KEEP_ALIVE_S = 30
BY_THE_GUARD = TransportSecuritySettings(enable_dns_rebinding_protection=False)
"""The SDK checks names of the host for three addresses alone; ``guard`` does so for all."""
LOCALHOST = "127.0.0.1"


def serve_stdio(app: MCPServer[Any]) -> None:
    """Speak over standard input and output until the input ends; nothing else may write there."""
    app.run("stdio")


def serve_http(
    app: MCPServer[Any],
    host: str,
    port: int,
    ready: Callable[[str], object],
    tokens: Mapping[str, Scope | None] | None,
    *,
    metrics: Metrics | None = None,
) -> None:
    """Speak streamable HTTP until interrupted; port 0 takes a free one, ``ready`` is told the URL.

    ``tokens`` are those of ``guard.Guard``: None answers every program of this machine. ``metrics``
    are shown on a page of their own.

    Raises:
        HarnessError: the address is not of this machine alone, or the port is taken.
    """
    import uvicorn

    check_loopback(host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, port))
        except (OSError, OverflowError) as exc:
            raise HarnessError(f"cannot serve on {host} port {port}: {exc}; name another") from exc
        bound.listen()
        asgi: ASGIApp = app.streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            stateless_http=True,
            host=host,
            max_request_body_size=MAX_BODY_BYTES,
            transport_security=BY_THE_GUARD,
        )
        if metrics is not None:
            asgi = MetricsPage(asgi, metrics.text)
        taken = int(bound.getsockname()[1])
        config = uvicorn.Config(
            Guard(asgi, host, taken, tokens),
            log_config=None,
            access_log=False,
            lifespan="on",
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{taken}{PATH}")
        uvicorn.Server(config).run(sockets=[bound])


def check_loopback(host: str) -> None:
    """Refuse an address that other machines could reach: tokens are sent as they are.

    Raises:
        HarnessError: ``host`` is not a loopback address in numbers.
    """
    try:
        local = ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise HarnessError(
            f"{host} is not a loopback address in numbers; message search is served to this"
            f" machine alone: {LOCALHOST} or ::1"
        )
