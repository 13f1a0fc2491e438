"""Heads that are odd, read (http_head) and addressed (http_control), or refused (http_own)."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness.shadow.proxy.http_control import Control, Refused, control_at
from harness.shadow.proxy.http_head import Head, begins, end_of, read_head
from tests.make.shadow.servers import settled
from tests.shadow.wire import ANSWER, SEARCH, Wire, exactly, joined, request, said_to, through

OURS = b"127.0.0.1:8080"


def control(url: str = "http://search.test:9200") -> Control:
    return control_at(urlsplit(url), frozenset({OURS}), 1.0)


def head(line: bytes, *more: bytes) -> Head:
    return read_head(b"\r\n".join([line, *(more or (b"Host: " + OURS,)), b"", b""]))


LENIENT = {
    "raw UTF-8": "GET /search?q=café HTTP/1.1\r\nHost: NAME\r\n\r\n".encode(),
    "an empty line first": b"\r\nGET /search?q=b HTTP/1.1\r\nHost: NAME\r\n\r\n",
    "bare line ends": b"GET /search?q=b HTTP/1.1\nHost: NAME\n\n",
    "tabs": b"GET\t/search?q=b\tHTTP/1.1\r\nHost: NAME\r\n\r\n",
    "spaces": b"GET  /search?q=a b  HTTP/1.1 \r\nHost: NAME\r\n\r\n",
    "quotes": b'GET /search?q="<b>" HTTP/1.1\r\nHost: NAME\r\n\r\n',
    "an absolute address": b"GET http://NAME/search?q=b HTTP/1.1\r\nHost: NAME\r\n\r\n",
    "no host": b"GET /search?q=b HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /search?q=b HTTP/1.1\r\nHost: NAME\r\nHOST : NAME\r\n\r\n",
    "a malformed header": b"GET /search?q=b HTTP/1.1\r\nno header\r\nHost: NAME\r\n\r\n",
    "a space in a name": b"GET /search?q=b HTTP/1.1\r\nA b: c\r\nHost: NAME\r\n\r\n",
}


@pytest.mark.parametrize("below", ["", "/below/"])
@pytest.mark.parametrize("form", LENIENT)
def test_a_lenient_head_is_addressed_and_compared(tmp_path: Path, form: str, below: str) -> None:
    """The second request shows that the connection is still read."""
    size = len((LENIENT[form] + SEARCH).replace(b"NAME", b"127.0.0.1:65535"))
    wire = Wire([ANSWER, ANSWER], [size + (12 if below else 0), 0])
    with through(tmp_path, wire, below=below) as (url, made):
        name = url.removeprefix("http://").encode()
        whole = (LENIENT[form] + SEARCH).replace(b"NAME", name)
        assert said_to(url, whole) == ANSWER + ANSWER
        assert settled(made, attempts=2).tally.attempted == 2
    (heard,) = wire.heard
    assert name not in heard
    assert heard.count(b"/below/search?") == (2 if below else 0)
    assert heard.count(b"/search?") == 2


UNSURE = {
    "two lengths": request(
        b"POST /search?q=b HTTP/1.1", b"Content-Length: 1", b"Content-Length: 2"
    ),
    "a length and chunks": request(
        b"POST /search?q=b HTTP/1.1", b"Content-Length: 1", b"Transfer-Encoding: chunked"
    ),
    "a length with a space": request(b"GET /search?q=b HTTP/1.1", b"Content-Length : 1"),
    "a signed length": request(b"GET /search?q=b HTTP/1.1", b"Content-Length: +1"),
    "chunks of the past": b"GET /search?q=b HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "another encoding": request(b"GET /search?q=b HTTP/1.1", b"Transfer-Encoding: xchunked"),
    "a folded line": request(b"GET /search?q=b HTTP/1.1", b"A: b", b" Content-Length: 1"),
    "a bare carriage return": request(b"GET /search?q=b HTTP/1.1", b"A: b\rContent-Length: 1"),
    "a zero": request(b"GET /search?q=b HTTP/1.1", b"A: \0"),
}


@pytest.mark.parametrize("form", UNSURE)
def test_a_request_without_a_sure_end_is_passed_on_and_counted(tmp_path: Path, form: str) -> None:
    whole = UNSURE[form].replace(b"POST", b"GET") + SEARCH
    wire = Wire([ANSWER], [len(whole)])
    with through(tmp_path, wire) as (url, made):
        assert said_to(url, whole) == ANSWER
        found = settled(made, faults=1)
    assert wire.heard == [whole]
    assert found.tally.attempted == 0
    (said,) = found.degradations
    assert said.cause.startswith("EvidenceError: a request cannot be read: ")


NO_HEADS = {"no version": b"GET /a\r\n\r\n", "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}
BODY = request(b"POST /a HTTP/1.1", b"Transfer-Encoding: chunked")
ELSEWHERE = {
    "up": request(b"GET /../a HTTP/1.1"),
    "further up": request(b"GET /a/../../b HTTP/1.1"),
    "up in escapes": request(b"GET /%2e%2E/a HTTP/1.1"),
    "up by other strokes": request(b"GET /a\\..\\..\\b HTTP/1.1"),
    "up with a parameter": request(b"GET /..;x=1/a HTTP/1.1"),
    "up in an escaped path": request(b"GET /a%2f..%2f..%2fb HTTP/1.1"),
    "a server": request(b"CONNECT a:1 HTTP/1.1"),
    "everything": request(b"OPTIONS * HTTP/1.1"),
    "another scheme": request(b"GET ftp://a/b HTTP/1.1"),
    "a zero in the path": request(b"GET /a\0b HTTP/1.1"),
    "a body without an end": BODY + b"x\r\nGET /b HTTP/1.1\r\n\r\n",
    **NO_HEADS,
    **UNSURE,
}


@pytest.mark.parametrize("form", ELSEWHERE)
def test_below_a_path_no_other_path_is_reached(tmp_path: Path, form: str) -> None:
    """What was asked before is answered first."""
    wire = Wire([ANSWER, ANSWER], [len(b"/below" + SEARCH), 10_000])
    with through(tmp_path, wire, below="/below") as (url, _):
        got = said_to(url, SEARCH + ELSEWHERE[form] + SEARCH)
    assert got.startswith(ANSWER + b"HTTP/1.1 400 Bad Request\r\n")
    heard = wire.heard[0].removesuffix(b"<reset>")
    whole = SEARCH.replace(b" /", b" /below/")
    assert heard.removesuffix(BODY.replace(b" /", b" /below/")) == whole


def test_below_a_path_no_other_version_is_offered(tmp_path: Path) -> None:
    """Requests in HTTP/2 would name their own paths."""
    for offer, kept in ((b"h2c", b""), (b"websocket", b"Upgrade: websocket\r\n")):
        sent = request(b"GET /a HTTP/1.1", b"Upgrade: " + offer, b"Connection: Upgrade")
        wire = Wire([ANSWER], [60])
        with through(tmp_path, wire, below="/below") as (url, _), joined(url) as opened:
            opened.sendall(sent)
            assert exactly(opened, len(ANSWER)) == ANSWER
        assert (b"Upgrade: " + offer in wire.heard[0]) == bool(kept)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://[::1]:9200", b"[::1]:9200"),
        ("http://[2001:db8::7]", b"[2001:db8::7]"),
        ("http://search.test", b"search.test"),
        ("https://search.test:443", b"search.test"),
        ("https://search.test:80", b"search.test:80"),
    ],
)
def test_the_control_is_called_what_its_own_clients_call_it(url: str, name: bytes) -> None:
    sent = control(url).addressed(head(b"GET /a HTTP/1.1"))
    assert sent == b"GET /a HTTP/1.1\r\nHost: " + name + b"\r\n\r\n"


def test_no_other_name_and_nothing_that_looks_like_one_is_changed() -> None:
    for line in (b"Host: evil.example", b"X-Host: " + OURS, b"A: b\r\n Host: " + OURS):
        one = head(b"GET /a?Host:" + OURS + b" HTTP/1.1", line)
        assert control().addressed(one) == one.raw


def test_a_path_that_goes_up_and_stays_below_is_passed_on() -> None:
    sent = control("http://a/b/").addressed(head(b"GET /c/../d//./%2e?../.. HTTP/1.1"))
    assert sent.startswith(b"GET /b/c/../d//./%2e?../.. HTTP/1.1\r\n")
    with pytest.raises(Refused, match="leads up"):
        control("http://a/b/").addressed(head(b"GET /c/../.. HTTP/1.1"))


def test_half_a_head_is_waited_for_and_nothing_else() -> None:
    assert all(begins(SEARCH[:size]) for size in range(len(SEARCH)))
    assert not any(map(begins, (b"\x16", b"GET /a\r\n", b"a: b\r\n", b" GET", b"\x81\x05hello")))
    assert [end_of(SEARCH, seen) for seen in (0, 40, len(SEARCH) - 1)] == [len(SEARCH)] * 3
    assert end_of(SEARCH[:-1], 0) == 0
