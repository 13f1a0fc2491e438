"""Reading beside a connection loses nothing, however the bytes are cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.shadow.proxy.http_exchange import Exchange
from harness.shadow.proxy.http_head import Head
from harness.shadow.proxy.http_tap import CUT, Answers, Piece, Requests

GET = b"GET /a?q=1 HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
PARTS = (
    b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;e\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\n"
)
SENT = {b"/a?q=1": (GET, b""), b"/b": (POST, b"hello"), b"/c": (PARTS, b"abcde")}
FOUND = {
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello": b"hello",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n": b"",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n": b"abc",
}

BROKEN = (b"0x5\r\nhello", b"5\nhello\n0\n\n", b"5\r\nhelloX\r\n0\r\n\r\n", b"-1\r\n\r\n")
"""Chunks that a strict reader refuses."""


def cut(whole: bytes, at: list[int]) -> list[bytes]:
    ends = sorted({place % (len(whole) + 1) for place in at} | {0, len(whole)})
    return [whole[low:high] for low, high in pairwise(ends)]


def raw(piece: Piece) -> bytes:
    return piece if isinstance(piece, bytes) else piece.raw


@given(st.lists(st.sampled_from(sorted(SENT)), max_size=5), st.lists(st.integers(0, 500)))
def test_requests_come_back_whole_and_in_order(targets: list[bytes], at: list[int]) -> None:
    whole = b"".join(SENT[target][0] for target in targets)
    read, relayed, found = Requests(100), b"", list[Exchange]()
    for data in cut(whole, at):
        for piece in read.feed(data):
            relayed += raw(piece)
            found += [piece.exchange] if isinstance(piece, Head) else []
    assert relayed == whole
    assert [one.target for one in found] == targets
    assert [bytes(one.body) for one in found] == [SENT[target][1] for target in targets]
    read.passed(7)
    assert all(one.passed_ns == 7 for one in found)
    assert not read.begun


@given(st.binary(max_size=200), st.lists(st.integers(0, 300)))
def test_any_bytes_are_relayed(noise: bytes, at: list[int]) -> None:
    whole = GET + noise + b"\r\n\r\n" + POST
    read = Requests(100)
    relayed = b"".join(raw(piece) for data in cut(whole, at) for piece in read.feed(data))
    assert whole.startswith(relayed)
    assert relayed == whole or read.begun


@given(st.sampled_from(BROKEN) | st.binary(max_size=40), st.lists(st.integers(0, 300)))
def test_a_body_that_cannot_be_read_is_relayed_once(body: bytes, at: list[int]) -> None:
    head = b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    whole = head + body + b"\r\n\r\n" + POST
    read = Requests(100)
    relayed = b"".join(raw(piece) for data in cut(whole, at) for piece in read.feed(data))
    assert whole.startswith(relayed)
    assert relayed == whole or read.begun


@given(st.lists(st.sampled_from(sorted(FOUND)), max_size=5), st.lists(st.integers(0, 500)))
def test_answers_end_with_their_last_byte(said: list[bytes], at: list[int]) -> None:
    read = Answers(100)
    asked = [Exchange("GET", b"/", ()) for _ in said]
    read.waiting.extend(asked)
    ended: list[Exchange] = []
    for data in cut(b"".join(said), at):
        ended += read.feed(data, 1)
    assert ended == asked
    assert [bytes(one.answer) for one in ended] == [FOUND[words] for words in said]
    assert all(one.whole and not one.error for one in ended)


def test_what_is_kept_of_a_body_is_bounded() -> None:
    read = Requests(1000)
    body = b"x" * 100_000
    head = b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    pieces = [piece for at in range(0, len(body), 100) for piece in read.feed(
        (head if at == 0 else b"") + body[at : at + 100]
    )]  # fmt: skip
    (exchange,) = (piece.exchange for piece in pieces if isinstance(piece, Head))
    assert 1000 < len(exchange.body) <= 1200


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    read, asked = Answers(100), Exchange("GET", b"/", ())
    read.waiting.append(asked)
    assert read.feed(b"HTTP/1.1 200 OK\r\n\r\nall of it", 1) == []
    assert read.end() == [asked]
    assert (asked.whole, asked.error, bytes(asked.answer)) == (True, "", b"all of it")


def test_an_answer_that_is_cut_is_not_whole() -> None:
    read, asked = Answers(100), Exchange("GET", b"/", ())
    read.waiting.append(asked)
    read.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal", 1)
    assert read.end() == [asked]
    assert (asked.whole, asked.error) == (False, CUT)


def test_an_answer_that_nobody_asked_for_ends_the_reading() -> None:
    read = Answers(100)
    assert read.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1) == []
    assert read.blind
