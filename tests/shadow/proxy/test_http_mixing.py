"""Lists of two servers as one (http_mixing, http_mixed_tunnel): on the wire, whatever both send."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from threading import Event, Timer
from time import monotonic

import httpx
import pytest

from harness.core.run import Status
from harness.shadow.clicks.log import ClickLog
from harness.shadow.clicks.team_draft import team_draft
from harness.shadow.clicks.users import preferences
from harness.shadow.proxy.http_mixing import LIST
from tests.make.shadow.servers import settled
from tests.shadow.proxy.mixed import HOW, PATIENT, mixing
from tests.shadow.wire import (
    SEARCH,
    WAIT_S,
    Speaks,
    Wire,
    exactly,
    joined,
    resets,
    rest_of,
    said_to,
)

CONTROL, CANDIDATE = ("a", "b", "c"), ("c", "d", "a", "e")
CLICK = b"POST /click HTTP/1.1\r\nHost: p\r\nContent-Length: %d\r\n\r\n%s"


def found(ids: tuple[str, ...], **more: object) -> bytes:
    hits = [{"_id": one, "_score": 9.5 - at, "of": ids[0]} for at, one in enumerate(ids)]
    return json.dumps({
        "took": 3,
        "hits": {"total": 77, "hits": hits},
        "timed_out": False,
        **more,
    }).encode()


def answer(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    length = b"Content-Length: %d" % len(body)
    return b"\r\n".join([b"HTTP/1.1 " + status, *headers, length, b"", b""]) + body


def again(says: bytes) -> Callable[[socket.socket], None]:
    """Give a server that says the same to every request without a body, on any connection."""

    def serve(opened: socket.socket) -> None:
        with opened, suppress(OSError):
            held = b""
            while part := opened.recv(65536):
                held += part
                while b"\r\n\r\n" in held:
                    _, _, held = held.partition(b"\r\n\r\n")
                    opened.sendall(says)

    return serve


def hangs(opened: socket.socket) -> None:
    with opened, suppress(OSError):
        while opened.recv(65536):
            pass


OURS, THEIRS = answer(found(CONTROL), b"X-Own: 1", b'ETag: "1"'), answer(found(CANDIDATE))


def asked(url: str, **headers: str) -> httpx.Response:
    with httpx.Client(trust_env=False) as client:
        return client.get(f"{url}/search?q=apple", headers=headers)


def ids(got: httpx.Response) -> list[str]:
    return [hit["_id"] for hit in got.json()["hits"]["hits"]]


def test_a_list_is_mixed_in_the_shape_of_the_controls_answer(tmp_path: Path) -> None:
    with mixing(tmp_path, again(OURS), again(THEIRS)) as proxy:
        got = asked(proxy.url, **{"X-User": "secret"})
        (shown,) = proxy.clicks.shown
    assert (shown.query, shown.arms, shown.failed) == ("apple", HOW.arms, "")
    assert team_draft([CONTROL, CANDIDATE], 10, Random(f"1 {shown.id}")) == shown.mixed
    assert ids(got) == [*shown.documents]
    assert set(shown.documents) == {*"abcde"}
    rest = got.json()
    assert (rest["took"], rest["hits"]["total"], rest["timed_out"]) == (3, 77, False)
    by_id = {hit["_id"]: hit for hit in rest["hits"]["hits"]}
    assert by_id["c"] == {"_id": "c", "_score": 7.5, "of": "a"}
    assert by_id["e"] == {"_id": "e", "_score": 6.5, "of": "c"}
    assert got.headers[LIST] == shown.id
    assert got.headers["x-own"] == "1"
    assert got.headers["cache-control"] == "no-store"
    assert "etag" not in got.headers
    assert "secret" not in (tmp_path / "clicks" / "clicks.jsonl").read_text()
    assert shown.user


def test_the_candidate_gets_no_header_but_what_it_needs(tmp_path: Path) -> None:
    body = b'{"from": 0}'
    sent = (
        b"GET /search?q=apple%20pie HTTP/1.1\r\nHost: p\r\nCookie: a=b\r\nAuthorization: x\r\n"
        b"Content-Type: application/json\r\nContent-Length: 11\r\n\r\n" + body
    )
    theirs = Wire([THEIRS], [1])
    with (
        mixing(tmp_path, Wire([OURS], [len(sent)]), theirs) as proxy,
        joined(proxy.url) as client,
    ):
        client.sendall(sent[:-5])
        client.sendall(sent[-5:])
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(65536)
    assert LIST.encode() in head
    lines = theirs.heard[0].split(b"\r\n")
    assert lines[0] == b"GET /search?q=apple%20pie HTTP/1.1"
    assert {line.partition(b":")[0] for line in lines[1:-2]} == {
        b"Host", b"Accept", b"Accept-Encoding", b"Content-Type", b"Content-Length",
    }  # fmt: skip
    assert lines[-1] == body


def test_while_it_is_off_every_byte_passes_and_is_compared(tmp_path: Path) -> None:
    theirs = Wire([], [])
    with mixing(tmp_path, Wire([OURS], [len(SEARCH)]), theirs, on=False) as proxy:
        assert said_to(proxy.url, SEARCH) == OURS
        assert settled(proxy.comparison).tally.attempted == 1
        assert proxy.clicks.shown == ()
    assert theirs.heard == []


FAILS: dict[str, Speaks | str] = {
    "an error": again(answer(b"{}", status=b"500 Oops")),
    "prose": again(answer(b"I am sorry")),
    "nothing": Wire([], []),
    "half an answer": Wire([THEIRS[:-9]], [1]),
    "too many hits": again(answer(found(tuple(map(str, range(11)))))),
    "a document twice": again(answer(found(("d", "d")))),
    "a partial answer": again(answer(found(CANDIDATE, timed_out=True))),
    "another list": again(answer(b'{"hits": []}')),
    "too long": again(answer(b" " * 5_000_000 + found(CANDIDATE))),
    "no HTTP": again(b"\0" * 100),
    "silence": hangs,
    "refused": "http://127.0.0.1:9",
}


@pytest.mark.parametrize("how", FAILS)
def test_a_candidate_that_fails_costs_no_byte_and_counts_for_no_one(
    tmp_path: Path, how: str
) -> None:
    waits = HOW if how == "silence" else PATIENT
    with mixing(tmp_path, Wire([OURS], [len(SEARCH)]), FAILS[how], how=waits) as proxy:
        start = monotonic()
        assert said_to(proxy.url, SEARCH) == OURS
        assert monotonic() - start < PATIENT.wait_ms / 1_000
        (shown,) = proxy.clicks.shown
    assert shown.failed.startswith("tantivy: ")
    assert ("no answer within 200 ms" in shown.failed) == (how == "silence")
    assert (shown.documents, set(shown.teams)) == (CONTROL, {0})


REFUSED = {
    "an error": answer(b"{}", status=b"500 Oops"),
    "prose": answer(b"I am sorry"),
    "not modified": b"HTTP/1.1 304 Not Modified\r\n\r\n",
    "a partial answer": answer(found(CONTROL, timed_out=True)),
    "a document twice": answer(found(("a", "a"))),
    "more than one answer": OURS + OURS,
}


@pytest.mark.parametrize("how", REFUSED)
def test_a_control_whose_answer_is_no_list_is_passed_on_and_compared(
    tmp_path: Path, how: str
) -> None:
    across = len(OURS) - 1  # what ends an answer and begins another comes at once
    control = Wire([REFUSED[how]], [len(SEARCH)], part=across)
    with mixing(tmp_path, control, again(THEIRS)) as proxy:
        assert said_to(proxy.url, SEARCH) == REFUSED[how]
        assert settled(proxy.comparison).tally.attempted == 1
        assert proxy.clicks.shown == ()


def test_an_answer_that_is_cut_off_is_cut_off_and_a_failure_of_the_control(tmp_path: Path) -> None:
    with mixing(tmp_path, Wire([OURS[:-9]], [len(SEARCH)]), again(THEIRS)) as proxy:
        assert said_to(proxy.url, SEARCH) == OURS[:-9]
        log = settled(proxy.comparison)
        control = log.observations[0].control
        assert control is not None
        assert control.status is Status.FAILED
        assert proxy.clicks.shown == ()


FRAMED = {
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n"
    b"%x\r\n%s\r\n0\r\nX-T: 1\r\n\r\n" % (len(found(CONTROL)), found(CONTROL)),
    "until the end": b"HTTP/1.0 200 OK\r\n\r\n" + found(CONTROL),
    "gzip": answer(gzip.compress(found(CONTROL)), b"Content-Encoding: gzip"),
    "interim": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OURS,
}


@pytest.mark.parametrize("how", FRAMED)
def test_an_answer_is_mixed_however_it_is_framed(tmp_path: Path, how: str) -> None:
    with mixing(tmp_path, Wire([FRAMED[how]], [len(SEARCH)]), again(THEIRS)) as proxy:
        head, _, body = said_to(proxy.url, SEARCH).partition(b"\r\n\r\n")
        (shown,) = proxy.clicks.shown
    assert head.count(b"HTTP/1.") == 1
    assert b"Content-Length: %d" % len(body) in head
    assert not any(word in head for word in (b"chunked", b"gzip", b"Trailer"))
    assert [hit["_id"] for hit in json.loads(body)["hits"]["hits"]] == [*shown.documents]
    assert not shown.failed


def test_only_a_first_page_is_mixed(tmp_path: Path) -> None:
    with mixing(tmp_path, again(OURS), again(THEIRS)) as proxy, httpx.Client() as client:
        for page, is_mixed in (("0", True), ("10", False), ("", False)):
            got = client.get(f"{proxy.url}/search?q=apple&from={page}")
            assert (LIST in got.headers) == is_mixed
        assert LIST not in client.get(f"{proxy.url}/other?q=apple").headers
        assert settled(proxy.comparison, 2).tally.attempted == 2
        assert len(proxy.clicks.shown) == 1


def test_requests_in_a_row_are_served_in_order_and_not_mixed(tmp_path: Path) -> None:
    with mixing(tmp_path, again(OURS), again(THEIRS)) as proxy, joined(proxy.url) as client:
        client.settimeout(WAIT_S)
        client.sendall(SEARCH * 3)
        assert exactly(client, 3 * len(OURS)) == 3 * OURS
        client.sendall(SEARCH)
        assert b"200 OK" in client.recv(65536)
        assert settled(proxy.comparison, 3).tally.attempted == 3
        assert len(proxy.clicks.shown) == 1


def test_what_comes_while_a_list_is_mixed_waits_for_it(tmp_path: Path) -> None:
    heard = Event()

    def hears(opened: socket.socket) -> None:
        opened.recv(1, socket.MSG_PEEK)
        heard.set()
        hangs(opened)

    with mixing(tmp_path, again(OURS), hears, how=HOW) as proxy, joined(proxy.url) as client:
        client.settimeout(WAIT_S)
        client.sendall(SEARCH)
        assert heard.wait(WAIT_S)
        client.sendall(SEARCH)
        assert exactly(client, 2 * len(OURS)) == 2 * OURS
        assert len(proxy.clicks.shown) == 2


def test_clicks_are_credited_and_reported(tmp_path: Path) -> None:
    with mixing(tmp_path, again(OURS), again(THEIRS)) as proxy, httpx.Client() as client:
        for at in range(30):
            got = client.get(f"{proxy.url}/search?q=apple", headers={"X-User": str(at // 2)})
            click = {"list": got.headers[LIST], "document": "d"}
            assert client.post(f"{proxy.url}/click", json=click).status_code == 204
        client.post(f"{proxy.url}/click", json={"list": "unknown", "document": "d"})
        result = preferences(proxy.clicks, confidence=0.95)
    one = result.candidates["tantivy"]
    assert (result.users, result.lists, result.clicks, result.strays) == (15, 30, 30, 1)
    assert (one.wins, one.losses, one.ties) == (15, 0, 0)
    assert one.estimate.low > 0


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{}", b"/body/list"),
        (b'{"list": "x"}', b"/body/document"),
        (b'{"list": "x", "document": {}}', b"is not an id"),
        (b"prose", b"not JSON"),
    ],
)
def test_a_click_that_cannot_be_read_is_refused(tmp_path: Path, body: bytes, says: bytes) -> None:
    control = Wire([], [])
    with mixing(tmp_path, control, again(THEIRS)) as proxy:
        got = said_to(proxy.url, CLICK % (len(body), body))
        assert got.startswith(b"HTTP/1.1 400 ")
        assert says in got
        cut = said_to_half(proxy.url, CLICK % (99, body))
        assert b"did not come to its end" in cut
    assert control.heard == []
    assert proxy.clicks.clicked == {}


def said_to_half(url: str, sent: bytes) -> bytes:
    with joined(url) as client:
        client.settimeout(WAIT_S)
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        return rest_of(client)


def test_a_click_waits_for_the_answers_before_it(tmp_path: Path) -> None:
    click = b'{"list": "x", "document": "d"}'
    with mixing(tmp_path, again(OURS), again(THEIRS)) as proxy, joined(proxy.url) as client:
        client.settimeout(WAIT_S)
        client.sendall(SEARCH + CLICK % (len(click), click))
        assert rest_of(client).startswith(OURS + b"HTTP/1.1 204 ")
        assert proxy.clicks.strays == 1


def test_a_log_that_cannot_be_written_mixes_nothing_and_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    with mixing(tmp_path, again(OURS), again(THEIRS)) as proxy, httpx.Client() as client:
        monkeypatch.setattr(ClickLog, "add", full)
        for _ in range(2):
            got = client.get(f"{proxy.url}/search?q=apple")
            assert got.content == found(CONTROL)
            assert LIST not in got.headers
        click = {"list": "x", "document": "d"}
        assert client.post(f"{proxy.url}/click", json=click).status_code == 503
        assert settled(proxy.comparison, 2).tally.attempted == 2
    assert proxy.told == ["lists are not mixed, because they cannot be written down: no space left"]


def test_a_client_that_leaves_takes_its_candidate_with_it(tmp_path: Path) -> None:
    heard, left = Event(), Event()

    def waits(opened: socket.socket) -> None:
        opened.recv(1, socket.MSG_PEEK)
        heard.set()
        hangs(opened)
        left.set()

    with mixing(tmp_path, hangs, waits) as proxy:
        with joined(proxy.url) as client:
            client.sendall(SEARCH)
            assert heard.wait(WAIT_S)
            resets(client)
        assert left.wait(WAIT_S)
        assert proxy.clicks.shown == ()


def test_a_stop_delivers_the_list_that_is_being_mixed(tmp_path: Path) -> None:
    heard, may = Event(), Event()

    def slow(opened: socket.socket) -> None:
        with opened:
            opened.recv(65536)
            heard.set()
            may.wait(WAIT_S)
            opened.sendall(THEIRS)

    with ExitStack() as open_:
        with mixing(tmp_path, again(OURS), slow) as proxy:
            client = open_.enter_context(joined(proxy.url))
            client.settimeout(WAIT_S)
            client.sendall(SEARCH)
            assert heard.wait(WAIT_S)
            Timer(0.2, may.set).start()
        assert LIST.encode() in rest_of(client)
        assert [one.failed for one in proxy.clicks.shown] == [""]
