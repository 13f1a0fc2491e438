"""Why a request has no answer, in words that say what to do."""

from __future__ import annotations

import ssl
from http import HTTPStatus

import httpx

from harness.core.printable import one_line

QUOTED = 200
"""Characters of a server's own words that a message repeats."""


class NoAnswer(Exception):
    """The server did not answer as a search does; the query has failed."""


class Malformed(NoAnswer):
    """What came is not an answer as the arm's file describes it."""


def of_status(status: int, url: str, location: str, said: str) -> str:
    """Say what a status other than 2xx means."""
    name = f"HTTP {status} from {url}"
    quoted = f": {one_line(said, QUOTED)}" if said.strip() else ""
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return f"{name}: it redirects to {one_line(location, QUOTED)}. Write that address as url"
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return f"{name}{quoted}. The server refuses the credentials: check headers"
    if status == HTTPStatus.NOT_FOUND:
        return f"{name}{quoted}. No such path or index: check url"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return f"{name}{quoted}. The server sheds load: set rate_per_s, or run fewer at once"
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return f"{name}{quoted}. The server does not take the request: check query and body"
    return f"{name}{quoted}. See the server's log"


def of_transport(exc: Exception, url: str) -> str:
    """Name the outcome of a request that has no status."""
    if is_tls(exc):
        return (
            f"{url}: the certificate is not trusted ({one_line(str(exc), QUOTED)})."
            " Name the authority's PEM file as ca_file"
        )
    if isinstance(exc, httpx.ConnectError):
        return f"{url}: cannot connect ({one_line(str(exc), QUOTED)}). Start it, or correct url"
    said = one_line(str(exc), QUOTED) or type(exc).__name__
    return f"{url}: the connection ended before the answer did ({said})"


def is_tls(exc: BaseException | None) -> bool:
    """Tell whether TLS is what failed."""
    while exc is not None:
        if isinstance(exc, ssl.SSLError) or "certificate verify failed" in str(exc).lower():
            return True
        exc = exc.__cause__ or exc.__context__
    return False
