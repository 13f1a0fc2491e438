"""Where a server listens: an address of this machine, unless another one is requested."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from harness.core.errors import HarnessError

if TYPE_CHECKING:
    import uvicorn

CONNECTIONS = 1024
"""Open at once, of a server that a load balancer or programs use."""
BACKLOG = 4096
"""Connections that the system queues before they are accepted, as far as it allows."""


@contextmanager
def bound(host: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    """Take a port, and say how it is reached.

    Raises:
        HarnessError: the host is not an address in numbers, or the port is taken.
    """
    try:
        family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET  # noqa: PLR2004
    except ValueError:
        raise HarnessError(f"{host} is not an address in numbers, as 127.0.0.1 or ::1") from None
    with socket.socket(family) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((host, port))
        except (OSError, OverflowError) as exc:
            raise HarnessError(f"cannot serve on {host} port {port}: {exc}; name another") from exc
        opened.listen(BACKLOG)
        shown = f"[{host}]" if ":" in host else host
        yield opened, f"http://{shown}:{opened.getsockname()[1]}"


def server(app: ASGIApp, connections: int | None = None) -> uvicorn.Server:
    """Make a server of an application; an answer has no header that this one did not give it.

    Where clients hold more than so many connections, those without a whole request are closed.
    """
    import uvicorn

    from harness.core.serving.connections import BoundedProtocol, bounded

    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        http=bounded(connections) if connections else BoundedProtocol,
        server_header=False,
        date_header=False,
    )
    return uvicorn.Server(config)
