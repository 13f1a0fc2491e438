"""Recorded traffic as queries: an access log, a HAR file, or a recording of GoReplay."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from harness.core.errors import BadFile
from harness.core.formats import json_of
from harness.core.printable import many
from harness.core.reading import MAX_FILE_BYTES, Malformed, naming, opened, raw_lines, whole
from harness.core.records import Query
from harness.shadow.http_searcher import request_parts, unpacked
from harness.shadow.server import Reading, Unreadable

LOGGED = re.compile(rb'"([A-Z]{1,16}) ([!-!#-~]{1,16384}) HTTP/[0-9.]{1,3}"')
"""The request in a line of an access log, as nginx and Apache write it by default."""
BETWEEN = "\n🐵🙈🙉\n".encode()
"""What stands behind each message of a recording of GoReplay."""
REQUEST = b"1 "
"""Begins the first line of a message of GoReplay that is a request."""


class Recorded(NamedTuple):
    """A request of a recording."""

    method: str
    target: str
    media_type: str = ""
    body: bytes = b""
    encoding: str = ""


def recorded(path: Path, reading: Reading) -> Iterator[Query]:
    """Yield the queries of a recording, in its order; other requests are passed over."""
    requests = compared = 0
    with naming(path):
        for one in _requests(path):
            requests += 1
            name = f"{one.method} {urlsplit(one.target).path}"
            if name not in reading.request.compared:
                continue
            compared += 1
            try:
                body = unpacked(one.body, one.encoding, reading.bounds.request_bytes)
                asked = reading.asked(request_parts(one.target, one.media_type, body))
            except Unreadable as exc:
                problem = f"request {requests} is not as the file of the reading says: {exc}"
                raise BadFile(path, problem, "Correct request.text or request.k there") from exc
            yield Query(str(requests), asked.text)
    if not compared:
        asked_of = ", ".join(reading.request.compared)
        problem = f"none of its {many(requests, 'request')} is one of {asked_of}"
        hint = "Name them in request.compared, or give an access log, a HAR file, or a .gor file"
        raise BadFile(path, problem, hint)


def _requests(path: Path) -> Iterator[Recorded]:
    with opened(path) as file:
        start = file.read(64).lstrip()
    if start.startswith(b"{"):
        yield from _of_har(path)
    elif start.startswith((b"1 ", b"2 ", b"3 ")) and BETWEEN in whole(path):
        yield from _of_goreplay(whole(path))
    else:
        for _, line in raw_lines(path):
            if found := LOGGED.search(line):
                method, target = (part.decode("ascii") for part in found.groups())
                yield Recorded(method, target)


def _of_har(path: Path) -> Iterator[Recorded]:
    try:
        for entry in json_of(whole(path, most=MAX_FILE_BYTES).decode())["log"]["entries"]:
            request = entry["request"]
            url, sent = urlsplit(request["url"]), request.get("postData", {})
            target = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
            body = str(sent.get("text", "")).encode()
            yield Recorded(str(request["method"]), target, str(sent.get("mimeType", "")), body)
    except (ValueError, KeyError, TypeError, AttributeError, Malformed) as exc:
        raise BadFile(path, f"is not a HAR file ({exc!r})", "Record it anew") from exc


def _of_goreplay(raw: bytes) -> Iterator[Recorded]:
    for message in raw.split(BETWEEN):
        if not message.startswith(REQUEST):
            continue
        head, _, body = message.partition(b"\n")[2].partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        kind, encoding = headers.get("content-type", ""), headers.get("content-encoding", "")
        yield Recorded(method, rest.rpartition(" ")[0], kind, body, encoding)
