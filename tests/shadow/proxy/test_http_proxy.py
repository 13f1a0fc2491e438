"""The proxy over HTTP: bytes go to the client, and the query (http_offer) to the candidate."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from time import sleep

import httpx
import pytest

from harness.agreement.classes import Class
from harness.core.errors import HarnessError
from harness.core.run import Status
from harness.shadow.log.record import Kind
from harness.shadow.proxy.http_candidate import http_candidate
from harness.shadow.proxy.http_control import checked
from harness.shadow.proxy.reading import Reading
from tests.make.shadow.comparisons import HASTY, LIMITS, comparison
from tests.make.shadow.servers import (
    OTHER,
    READING,
    Sent,
    Server,
    candidate,
    found_of,
    listening,
    packed,
    passing,
    proxied,
    says,
    settled,
)

pytestmark = pytest.mark.slow


def changed(table: str, **values: object) -> Reading:
    whole = READING.model_dump()
    return Reading.model_validate({**whole, table: {**whole[table], **values}})


def fails(how: str) -> Server:
    def act(sent: Sent) -> Sent:
        match how:
            case "refuses":
                raise httpx.ConnectError("nobody there")
            case "status":
                return Sent(503, [], sent.body)
            case "garbage":
                return Sent(200, [], b"<html>")
            case "shape":
                return Sent(200, [], b'{"hits": {"hits": 7}}')
            case "long":
                return Sent(200, [], b" " * 300 + sent.body)
            case _:
                return Sent(200, [("Content-Encoding", "br")], b"\x01")

    return Server(act)


HOWS = ["status", "garbage", "shape", "long", "encoded"]


def test_a_question_is_compared_with_all_that_it_takes_to_ask_again(tmp_path: Path) -> None:
    other = says(found_of("cheese", 9))
    with (
        comparison(tmp_path, candidate(other)) as made,
        listening(Server()) as control,
        passing(control, made) as url,
        httpx.Client(base_url=url, trust_env=False) as client,
    ):
        got = client.get("/search?q=apple&size=2", headers={"Authorization": "secret"})
        found = settled(made)
    assert got.json() == found_of("apple", 2)
    (one,) = found.divergences
    assert (one.text, one.k, one.outcome) == ("apple", 2, Class.TRUNCATION)
    assert one.params == {
        "method": "GET", "target": "/search?q=apple&size=2", "type": "", "body": "",
    }  # fmt: skip
    assert [hit.doc_id for hit in one.control.hits] == ["ab", "c"]
    assert [hit.raw_score for hit in one.control.hits] == [9.5, 8.5]
    assert (one.control.elapsed_ns or 0) > 0
    assert one.control.served_by == READING.manifest("http", control).fingerprint
    assert one.candidate.served_by == READING.manifest("http", OTHER).fingerprint
    (sent,) = other.asked
    assert str(sent.url) == f"{OTHER}/search?q=apple&size=2"
    assert "authorization" not in sent.headers
    assert not found.degradations


def test_a_question_in_a_body_is_sent_as_it_came(tmp_path: Path) -> None:
    how = changed("request", compared=["POST /search"], text="/body/query/words", k="/body/n")
    control, other = Server(), Server()
    body = b'{"query": {"words": "\xc3\xbcber"}, "n": 3}'
    with comparison(tmp_path, candidate(other, how)) as made, proxied(control, made, how) as client:
        client.post("/search", content=body, headers={"Content-Type": "application/json"})
        found = settled(made)
    assert found.tally.compared == 1
    assert other.asked[0].content == control.asked[0].content == body
    assert other.asked[0].headers["content-type"] == "application/json"
    assert found.observations[0].k == 3


@pytest.mark.parametrize("path", ["/search/", "/other?q=apple", "/"])
def test_what_is_no_question_is_not_sent_to_the_candidate(tmp_path: Path, path: str) -> None:
    other = Server()
    with comparison(tmp_path, candidate(other)) as made, proxied(Server(), made) as client:
        client.get(path)
        client.delete("/search?q=apple")
        client.get("/search?q=bread")
        found = settled(made)
    assert [str(sent.url) for sent in other.asked] == [f"{OTHER}/search?q=bread"]
    assert (found.tally.attempted, made.counts.faults) == (1, 0)


def test_a_packed_answer_is_passed_on_packed_and_read(tmp_path: Path) -> None:
    with comparison(tmp_path, candidate(Server())) as made, proxied(Server(packed), made) as client:
        with client.stream("GET", "/search?q=apple") as got:
            raw = b"".join(got.iter_raw())
        found = settled(made)
    assert json.loads(gzip.decompress(raw)) == found_of("apple", 10)
    assert found.observations[0].outcome is Class.EXACT


@pytest.mark.parametrize("how", ["refuses", *HOWS])
def test_a_candidate_that_fails_changes_no_byte(tmp_path: Path, how: str) -> None:
    small = changed("bounds", answer_bytes=300)
    with (
        comparison(tmp_path, candidate(fails(how), small)) as made,
        proxied(Server(), made, small) as client,
    ):
        got = client.get("/search?q=apple")
        found = settled(made)
    assert (got.status_code, got.json()) == (200, found_of("apple", 10))
    assert found.observations[0].outcome is Class.ERROR
    assert found.observations[0].candidate is not None
    assert found.observations[0].candidate.status is Status.FAILED


@pytest.mark.parametrize("how", HOWS)
def test_a_control_that_fails_is_seen_as_it_is_and_written_as_a_failure(
    tmp_path: Path, how: str
) -> None:
    small = changed("bounds", answer_bytes=300)
    with (
        comparison(tmp_path, candidate(Server(), small)) as made,
        proxied(fails(how), made, small) as client,
    ):
        with client.stream("GET", "/search?q=apple") as got:
            raw = b"".join(got.iter_raw())
        found = settled(made)
    assert got.status_code == {"status": 503}.get(how, 200)
    assert raw.startswith(
        {"long": b" " * 300, "garbage": b"<html>", "encoded": b"\x01"}.get(how, b"")
    )
    one = found.divergences[0]
    assert one.outcome is Class.ERROR
    assert one.control.status is Status.FAILED
    assert one.control.error
    assert one.candidate.status is Status.ANSWERED


def test_a_hanging_candidate_keeps_nobody_waiting(tmp_path: Path) -> None:
    def hang(sent: Sent) -> Sent:
        sleep(0.6)
        return sent

    start = candidate(Server(hang))
    with comparison(tmp_path, start, limits=HASTY) as made, proxied(Server(), made) as client:
        assert client.get("/search?q=apple").json() == found_of("apple", 10)
        assert settled(made).observations[0].outcome is Class.TIMEOUT


def test_an_answer_that_says_that_it_is_degraded_is_one(tmp_path: Path) -> None:
    half = says({**found_of("apple", 10), "timed_out": True})
    with comparison(tmp_path, candidate(half)) as made, proxied(Server(), made) as client:
        client.get("/search?q=apple")
        found = settled(made)
    (one,) = found.degradations
    assert (one.arm, one.kind) == ("candidate", Kind.FALLBACK)


def test_a_request_that_cannot_be_read_is_served_and_is_a_fault(tmp_path: Path) -> None:
    with comparison(tmp_path, candidate(Server())) as made, proxied(Server(), made) as client:
        assert client.get("/search?size=3").status_code == 200
        assert client.get("/search?q=apple&size=0").status_code == 200
        found = settled(made, faults=2)
    assert found.tally.attempted == 0
    assert {one.kind for one in found.degradations} == {Kind.NOT_TAKEN}
    assert "there is nothing at /query/q" in found.degradations[0].cause


def test_a_request_beyond_the_bound_is_served_and_is_a_fault(tmp_path: Path) -> None:
    control, how = Server(), changed("request", compared=["POST /search"])
    small = changed("bounds", request_bytes=10).model_copy(update={"request": how.request})
    with comparison(tmp_path, candidate(Server())) as made, proxied(control, made, small) as client:
        assert client.post("/search?q=apple", content=b"x" * 11).status_code == 200
        found = settled(made, faults=1)
    assert len(control.asked) == 1
    assert "more than 10 bytes" in found.degradations[0].cause


def test_shed_questions_are_served(tmp_path: Path) -> None:
    narrow = replace(LIMITS, budget_ns=1)
    start = candidate(Server())
    with comparison(tmp_path, start, limits=narrow) as made, proxied(Server(), made) as client:
        client.get("/search?q=apple")
        settled(made)
        assert client.get("/search?q=bread").json() == found_of("bread", 10)
        assert settled(made, attempts=2).tally.shed == 1


@pytest.mark.parametrize(
    "server", ["localhost:9200", "ftp://a", "http://", "http://a?b", "http://u:p@a"]
)
def test_what_is_no_server_is_refused(server: str) -> None:
    with pytest.raises(HarnessError, match="as http://127"):
        checked(server)


def test_a_candidate_that_is_not_there_opens_all_the_same() -> None:
    with http_candidate("http://127.0.0.1:1", READING) as searcher:
        assert searcher.manifest == READING.manifest("http", "http://127.0.0.1:1")
