"""The receiver of mirrored requests: what it asks, of whom, what it drops, and how it ends."""

import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest
from starlette.testclient import TestClient

from harness.agreement import Class
from harness.core.errors import HarnessError
from harness.core.run import Status
from harness.shadow import receiver, settings
from harness.shadow.comparison import UNWRITABLE, LiveComparison, ShadowLog
from harness.shadow.http import SENT_BY_US, MirroredRequest, http_searcher
from harness.shadow.log import LogContents
from harness.shadow.record import ProblemKind
from harness.shadow.settings import MILLION, NS_PER_S
from tests.make.arms import Hand
from tests.make.shadow_log import comparison
from tests.make.shadow_servers import (
    ALL,
    OTHER,
    READING,
    Sent,
    Server,
    candidate,
    found_of,
    listening,
    mirrored,
    packed,
    says,
    settled,
)
from tests.source import ROOT

pytestmark = pytest.mark.slow


def reading_with(table: str, **values: object) -> settings.TrafficReading:
    whole = READING.model_dump()
    return settings.TrafficReading.model_validate({**whole, table: {**whole[table], **values}})


def fails(how: str) -> Server:
    bomb = Sent(200, [("Content-Encoding", "gzip")], gzip.compress(b" " * 9_000_000))
    ways: dict[str, Callable[[Sent], Sent]] = {
        "status": lambda sent: Sent(503, [], sent.body),
        "garbage": lambda _: Sent(200, [], b"<html>"),
        "long": lambda sent: Sent(200, [], b" " * 300 + sent.body),
        "bomb": lambda _: bomb,
    }
    return Server(ways[how])


@contextmanager
def both(
    folder: Path,
    control: Server,
    other: Server,
    *,
    reading: settings.TrafficReading = READING,
    **asking: Any,  # noqa: ANN401  limits of a receiver
) -> Iterator[tuple[LiveComparison, TestClient]]:
    """Run a receiver between two servers; yield the comparison, and a client that mirrors."""
    with (
        comparison(folder, candidate(other, reading)) as made,
        mirrored(control, made, reading, ALL._replace(**asking)) as client,
    ):
        yield made, client


def compared(
    folder: Path,
    control: Server,
    other: Server,
    *words: str,
    **more: Any,  # noqa: ANN401  as above
) -> LogContents:
    """Mirror a request for each word, and read the log."""
    with both(folder, control, other, **more) as (made, client):
        for word in words:
            client.get(f"/search?q={word}")
        return settled(made, attempts=len(words))


def test_a_query_is_asked_of_both_and_kept_with_all_it_takes(tmp_path: Path) -> None:
    control, other = Server(), says(found_of("cheese", 9))
    with both(tmp_path, control, other) as (made, client):
        got = client.get("/search?q=apple&size=2", headers={"Authorization": "secret"})
        found = settled(made)
    assert (got.status_code, got.content) == (204, b"")
    (one,) = found.divergences
    assert (one.text, one.k, one.outcome) == ("apple", 2, Class.TRUNCATION)
    assert one.params == {
        "method": "GET", "target": "/search?q=apple&size=2", "type": "", "body": "",
    }  # fmt: skip
    assert [hit.doc_id for hit in one.control.hits] == ["ab", "c"]
    assert [hit.raw_score for hit in one.control.hits] == [9.5, 8.5]
    assert (one.control.elapsed_ns or 0) > 0
    assert one.candidate.served_by == settings.Backend(READING, "http", OTHER).manifest.fingerprint
    for server in (control, other):
        (sent,) = server.asked
        assert sent.url.raw_path == b"/search?q=apple&size=2"
        assert "authorization" not in sent.headers
        assert sent.headers[SENT_BY_US] == "1"
    assert not found.degradations


def test_a_header_that_the_file_names_reaches_both_servers_and_no_log(tmp_path: Path) -> None:
    reading = reading_with("request", forwarded=["Authorization"])
    control, other = Server(), says(found_of("cheese", 9))
    with both(tmp_path, control, other, reading=reading, repeat=1) as (made, client):
        client.get("/search?q=apple", headers={"Authorization": "Bearer of-a-user", "Cookie": "c"})
        (one,) = settled(made).divergences
    assert set(one.params) == {"method", "target", "type", "body"}
    assert len(control.asked) == 2
    for sent in (*control.asked, *other.asked):
        assert sent.headers["authorization"] == "Bearer of-a-user"
        assert "cookie" not in sent.headers
    assert not any(b"of-a-user" in file.read_bytes() for file in tmp_path.iterdir())


POSTED = '{"query": {"words": "über"}, "n": 3}'.encode()
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
WORDS = {"text": "/body/query/words", "k": "/body/n"}


@pytest.mark.parametrize(
    ("places", "sent", "body", "kind"),
    [
        (WORDS, {"content": POSTED, "headers": {"Content-Type": JSON}}, POSTED, JSON),
        (WORDS,
         {"content": gzip.compress(POSTED),
          "headers": {"Content-Type": JSON, "Content-Encoding": "gzip"}}, POSTED, JSON),
        ({"text": "/body/q", "k": "/body/rows"}, {"data": {"q": "apple pie", "rows": "3"}},
         b"q=apple+pie&rows=3", FORM),
    ],
    ids=["JSON", "packed", "form"],
)  # fmt: skip
def test_a_query_in_a_body_is_sent_unpacked(
    tmp_path: Path, places: dict[str, str], sent: dict[str, Any], body: bytes, kind: str
) -> None:
    reading = reading_with("request", compared=["POST /search"], **places)
    control, other = Server(), Server()
    with both(tmp_path, control, other, reading=reading) as (made, client):
        client.post("/search", **sent)
        found = settled(made)
    assert (found.tally.compared, found.observations[0].k) == (1, 3)
    for (asked,) in (control.asked, other.asked):
        assert (asked.content, asked.headers["content-type"]) == (body, kind)


def test_a_request_that_is_not_named_is_asked_of_no_one(tmp_path: Path) -> None:
    control, other = Server(), Server()
    with both(tmp_path, control, other) as (made, client):
        client.get("/search/")
        client.get("/other?q=apple")
        client.delete("/search?q=apple")
        client.post("/_bulk", content=b"{}")
        client.get("/search?q=bread")
        found = settled(made)
    assert [sent.url.raw_path for sent in control.asked] == [b"/search?q=bread"]
    assert [str(sent.url) for sent in other.asked] == [f"{OTHER}/search?q=bread"]
    assert (found.tally.attempted, made.counts.faults) == (1, 0)


def by_price(sent: Sent) -> Sent:
    """Sort, as Elasticsearch does: no hit has a score."""
    hits = json.loads(sent.body)["hits"]["hits"]
    rows = [{"_id": one["_id"], "_score": None, "sort": [at]} for at, one in enumerate(hits)]
    return sent._replace(body=json.dumps({"hits": {"hits": rows}}).encode())


@pytest.mark.parametrize("answers", [packed, by_price])
def test_packed_answers_are_read_and_null_scores_leave_the_order(
    tmp_path: Path, answers: Callable[[Sent], Sent]
) -> None:
    (one,) = compared(tmp_path, Server(answers), Server(answers), "apple").observations
    assert (one.outcome, one.control and one.control.hits) == (Class.EXACT, 2)


@pytest.mark.parametrize("side", ["control", "candidate"])
@pytest.mark.parametrize("how", ["status", "garbage", "long", "bomb"])
def test_a_server_that_fails_is_a_failure_of_its_side(tmp_path: Path, how: str, side: str) -> None:
    small = reading_with("bounds", answer_bytes=300)
    servers = {"control": Server(), "candidate": Server(), side: fails(how)}
    control, other = servers["control"], servers["candidate"]
    found = compared(tmp_path, control, other, "apple", reading=small)
    (one,) = found.divergences
    sides = {"control": one.control, "candidate": one.candidate}
    failed = sides.pop(side)
    assert one.outcome is Class.ERROR
    assert (failed.status, bool(failed.error)) == (Status.FAILED, True)
    assert [good.status for good in sides.values()] == [Status.ANSWERED]


@pytest.mark.parametrize("status", [301, 304])
def test_a_redirect_is_nothing_to_compare(tmp_path: Path, status: int) -> None:
    control = Server(lambda _: Sent(status, [("Location", "/elsewhere")], b""))
    with both(tmp_path, control, Server()) as (made, client):
        client.get("/search?q=apple")
        found = settled(made, faults=1)
    assert found.tally.attempted == 0
    assert f"HTTP {status}" in found.degradations[0].cause


def test_a_slow_control_keeps_no_mirror_waiting(tmp_path: Path) -> None:
    go = Event()

    def wait(sent: Sent) -> Sent:
        assert go.wait(60)
        return sent

    with both(tmp_path, Server(wait), Server()) as (made, client):
        codes = [client.get("/search?q=apple").status_code for _ in range(3)]
        go.set()
        assert settled(made, attempts=3).tally.compared == 3
    assert codes == [204] * 3


def test_a_degraded_answer_is_a_fallback(tmp_path: Path) -> None:
    half = says({**found_of("apple", 10), "timed_out": True})
    (one,) = compared(tmp_path, Server(), half, "apple").degradations
    assert (one.arm, one.kind) == ("candidate", ProblemKind.FALLBACK)


def test_requests_that_cannot_be_read_are_counted_with_their_cause(tmp_path: Path) -> None:
    reading = reading_with("request", compared=["GET /search", "POST /search"])
    small = reading.model_copy(update={"bounds": reading_with("bounds", request_bytes=10).bounds})
    control = Server()
    with both(tmp_path, control, Server(), reading=small) as (made, sent):
        sent.get("/search?size=3")
        sent.post("/search?q=apple", content=b"x" * 11)
        sent.post("/search?q=apple", content=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
        found = settled(made, faults=3)
    assert (found.tally.attempted, control.asked) == (0, [])
    assert {one.kind for one in found.degradations} == {ProblemKind.NOT_TAKEN}
    causes = " ".join(one.cause for one in found.degradations)
    for cause in ("there is nothing at /query/q", "more than 10 bytes", "gzip"):
        assert cause in causes


def test_the_control_asked_twice_shows_its_own_noise(tmp_path: Path) -> None:
    turns = iter(range(99))

    def flips(sent: Sent) -> Sent:
        hits = json.loads(sent.body)
        if next(turns) % 2:
            hits["hits"]["hits"].reverse()
        return sent._replace(body=json.dumps(hits).encode())

    servers = Server(flips), says(found_of("cheese", 9))
    found = compared(tmp_path, *servers, "apple", "cheese", repeat=1)
    assert [one.again for one in found.observations] == [Class.REORDER, Class.EXACT]
    assert [one.outcome for one in found.observations] == [Class.TRUNCATION, Class.EXACT]


def test_the_second_answer_of_the_control_counts_in_its_rate(tmp_path: Path) -> None:
    control = Server()
    compared(tmp_path, control, Server(), "apple", repeat=1, per_second=0.01)
    assert len(control.asked) == 1


def test_clients_are_logged_as_a_digest_alone(tmp_path: Path) -> None:
    with both(tmp_path, Server(), Server()) as (made, client):
        client.get("/search?q=apple", headers={"X-Real-IP": "192.0.2.7"})
        client.get("/search?q=bread", headers={"X-Real-IP": "192.0.2.7, 10.0.0.1"})
        found = settled(made, attempts=2)
    assert len({one.client for one in found.observations}) == 1
    assert all("192.0.2.7" not in file.read_text() for file in tmp_path.glob("*.jsonl*"))


@pytest.fixture
def made(tmp_path: Path) -> Iterator[LiveComparison]:
    with comparison(tmp_path, candidate(Server())) as found:
        yield found


SEARCH = MirroredRequest("GET", "/search?q=apple", {}, b"")


def test_what_is_dropped_is_counted_exactly(made: LiveComparison) -> None:
    sampling = settings.Sampling(rate=MILLION // 2, seed=1)
    asking = ALL._replace(per_second=2, sampling=sampling)
    with http_searcher("http://127.0.0.1:9", READING) as control:
        receives = receiver.Receiver(READING, control, made, asking)
        for _ in range(40):
            receives.take(SEARCH)
            receives.take(SEARCH._replace(method="DELETE"))
            receives.take(SEARCH._replace(headers={SENT_BY_US: "1"}))
        receives.close()
        found = settled(made, attempts=2)
    dropped = receives.dropped
    too_fast = dropped.pop(receiver.TOO_FAST)
    wanted = {receiver.NOT_COMPARED: 40, receiver.LOOPED: 40, receiver.NOT_SAMPLED: 20}
    assert (dropped, found.tally.attempted + too_fast) == (wanted, 20)
    counted = [one.times for one in found.degradations if one.kind is ProblemKind.NOT_TAKEN]
    assert sum(counted) == too_fast


def test_more_than_may_wait_is_dropped_and_what_waits_is_asked(
    made: LiveComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver, "MOST_WAITING", 3)
    asked, go_on = Event(), Event()

    def waits(sent: Sent) -> Sent:
        asked.set()
        go_on.wait(30)
        return sent

    with listening(Server(waits)) as url, http_searcher(url, READING) as control:
        receives = receiver.Receiver(READING, control, made, ALL)
        receives.take(SEARCH)
        assert asked.wait(30)
        for _ in range(5):
            receives.take(SEARCH)
        go_on.set()
        receives.close()
        assert settled(made, attempts=4).tally.attempted == 4
    assert receives.dropped == {receiver.FULL: 2}


def test_while_the_log_cannot_be_written_no_server_is_asked(
    made: LiveComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LiveComparison, "stuck", "the disk is full")
    control = Server()
    with listening(control) as url, http_searcher(url, READING) as searcher:
        receives = receiver.Receiver(READING, searcher, made, ALL)
        for _ in range(3):
            receives.take(SEARCH)
        receives.close()
    assert (receives.dropped, control.asked) == ({UNWRITABLE: 3}, [])


def test_a_log_that_vanishes_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's function receives one request, and ends."""

    def once(receives: receiver.Receiver, _: int) -> Mock:
        return Mock(run=lambda **_: receives.take(SEARCH))

    monkeypatch.setattr(receiver, "server", once)
    shipped = settings.read_settings(ROOT / "policy" / "shadow.toml")
    log = ShadowLog(tmp_path / "log", shipped)
    with listening(Server()) as ours, listening(Server()) as theirs:
        receives = partial(receiver.shadow_receive, ours, theirs, reading=READING, asking=ALL)
        with pytest.raises(HarnessError, match=r"1 attempt lost \(FileNotFoundError.*was deleted"):
            receives(
                translated=None, address=("127.0.0.1", 0), log=log,
                ready=lambda _: shutil.rmtree(log.folder),
            )  # fmt: skip


def test_a_pace_keeps_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, each = Hand(), NS_PER_S // 64
    monkeypatch.setattr(receiver, "monotonic", lambda: clock.at_ns / NS_PER_S)
    pace, taken = receiver.BurstPace(20), 0
    for clock.at_ns in range(0, 33 * each, each):
        taken += pace.takes()
    assert taken == 20 + 20 * 32 / 64
    clock.at_ns += 100 * NS_PER_S
    assert sum(pace.takes() for _ in range(50)) == 20
