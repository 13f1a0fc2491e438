"""``surface.serving``: this machine alone may speak to the server."""

from __future__ import annotations

import socket
from ipaddress import ip_address

import pytest

from engines.mcp_server import check_loopback, serve_http
from harness.core.errors import HarnessError
from tests.engines.agent_mail.mcp_tools.conftest import Tools


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1"])
def test_loopback_is_served(host: str) -> None:
    check_loopback(host)


EVERYBODY = str(ip_address(0))


@pytest.mark.parametrize(
    "host", [EVERYBODY, "::", "192.168.0.1", "10.0.0.1", "localhost", "example.org", "", "::2"]
)
def test_no_other_address_is(tools: Tools, host: str) -> None:
    with pytest.raises(HarnessError, match="loopback"):
        check_loopback(host)
    with pytest.raises(HarnessError, match="loopback"):
        serve_http(tools.app, host, 0, lambda _: pytest.fail("served"), None)


def test_a_port_that_is_taken_is_named(tools: Tools) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(HarnessError, match=str(port)):
            serve_http(tools.app, "127.0.0.1", port, lambda _: pytest.fail("served"), None)
