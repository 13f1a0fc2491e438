"""Where the server may be spoken to: the pipes of the program that started it, or loopback."""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

from mcp.server import MCPServer

from harness.core.errors import HarnessError

PATH = "/mcp"
LOCALHOST = "127.0.0.1"


def serve_stdio(app: MCPServer[Any]) -> None:
    """Speak over standard input and output until the input ends; nothing else may write there."""
    app.run("stdio")


def serve_http(app: MCPServer[Any], host: str, port: int, ready: Callable[[str], object]) -> None:
    """Speak streamable HTTP until interrupted; port 0 takes a free one, ``ready`` is told the URL.

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
        asgi = app.streamable_http_app(
            streamable_http_path=PATH, json_response=True, stateless_http=True, host=host
        )
        config = uvicorn.Config(asgi, log_config=None, access_log=False, lifespan="on")
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{bound.getsockname()[1]}{PATH}")
        uvicorn.Server(config).run(sockets=[bound])


def check_loopback(host: str) -> None:
    """Refuse an address that other machines could reach; there is no authentication here.

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
