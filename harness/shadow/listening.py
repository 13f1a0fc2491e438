"""Where a proxy is spoken to: an address of this machine, unless another one is asked for."""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import ip_address

from starlette.types import ASGIApp

from harness.core.errors import HarnessError


def listen(app: ASGIApp, host: str, port: int, ready: Callable[[str], object]) -> None:
    """Serve until interrupted; port 0 takes a free one, ``ready`` is told where.

    An answer has no header that the application did not give it.

    Raises:
        HarnessError: the host is no address in numbers, or the port is taken.
    """
    import uvicorn

    try:
        family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET  # noqa: PLR2004
    except ValueError:
        raise HarnessError(f"{host} is no address in numbers, as 127.0.0.1 or ::1") from None
    with socket.socket(family) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, port))
        except (OSError, OverflowError) as exc:
            raise HarnessError(f"cannot serve on {host} port {port}: {exc}; name another") from exc
        bound.listen()
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="on", server_header=False,
            date_header=False,
        )  # fmt: skip
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{bound.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[bound])
