"""The receiver of mirrored requests: what it asks, of whom, what it drops, and how it ends."""

import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any

import httpx
import pytest

from harness.agreement import Class
from harness.core.errors import HarnessError, IndexNotReady
from harness.core.run import Status
from harness.shadow import comparison as live
from harness.shadow import receiver
from harness.shadow.comparison import UNWRITABLE, LiveComparison, ShadowLog
from harness.shadow.http import SENT_BY_US, ArmReading, MirroredRequest, http_searcher, of_arm
from harness.shadow.receiver import (
    FULL,
    LOOPED,
    NOT_COMPARED,
    NOT_SAMPLED,
    TOO_FAST,
    Receiver,
    ReceiverLimits,
    shadow_receive,
)
from harness.shadow.record import ProblemKind
from harness.shadow.settings import (
    MILLION,
    Backend,
    Limits,
    Sampling,
    TrafficReading,
    read_settings,
)
from tests.make.shadow_log import LIMITS, Here, comparison
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


def reading_with(table: str, **values: object) -> TrafficReading:
    whole = READING.model_dump()
    return TrafficReading.model_validate({**whole, table: {**whole[table], **values}})


def fails(how: str) -> Server:
    bomb = Sent(200, [("Content-Encoding", "gzip")], gzip.compress(b" " * 9_000_000))
    return Server(
        {
            "status": lambda sent: Sent(503, [], sent.body),
            "garbage": lambda _: Sent(200, [], b"<html>"),
            "long": lambda sent: Sent(200, [], b" " * 300 + sent.body),
            "bomb": lambda _: bomb,
        }[how]
    )


@contextmanager
def both(
    folder: Path,
    control: Server,
    other: Server,
    *,
    reading: TrafficReading = READING,
    asking: ReceiverLimits = ALL,
    limits: Limits = LIMITS,
) -> Iterator[tuple[LiveComparison, httpx.Client]]:
    """Run a receiver between two servers; yield the comparison, and a client that mirrors."""
    with (
        comparison(folder, candidate(other, reading), limits=limits) as made,
        mirrored(control, made, reading, asking) as client,
    ):
        yield made, client


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
    assert one.candidate.served_by == Backend(READING, "http", OTHER).manifest.fingerprint
    for server in (control, other):
        (sent,) = server.asked
        assert sent.url.raw_path == b"/search?q=apple&size=2"
        assert "authorization" not in sent.headers
        assert sent.headers[SENT_BY_US] == "1"
    assert not found.degradations


def test_a_header_that_the_file_names_reaches_both_servers_and_no_log(tmp_path: Path) -> None:
    reading = reading_with("request", forwarded=["Authorization"])
    control, other = Server(), says(found_of("cheese", 9))
    with both(tmp_path, control, other, reading=reading, asking=ALL._replace(repeat=1)) as (
        made,
        client,
    ):
        client.get("/search?q=apple", headers={"Authorization": "Bearer of-a-user", "Cookie": "c"})
        (one,) = settled(made).divergences
    assert set(one.params) == {"method", "target", "type", "body"}
    assert len(control.asked) == 2
    for sent in (*control.asked, *other.asked):
        assert sent.headers["authorization"] == "Bearer of-a-user"
        assert "cookie" not in sent.headers
    assert not any(b"of-a-user" in file.read_bytes() for file in tmp_path.iterdir())


POSTED = '{"query": {"words": "über"}, "n": 3}'.encode()
JSON: dict[str, str] = {"Content-Type": "application/json"}
FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("text", "k", "sent", "body"),
    [
        pytest.param(
            "/body/query/words", "/body/n", {"content": POSTED, "headers": JSON}, POSTED, id="JSON"
        ),
        pytest.param(
            "/body/query/words", "/body/n",
            {"content": gzip.compress(POSTED), "headers": JSON | {"Content-Encoding": "gzip"}},
            POSTED, id="packed",
        ),
        pytest.param(
            "/body/q", "/body/rows", {"data": {"q": "apple pie", "rows": "3"}},
            b"q=apple+pie&rows=3", id="form",
        ),
    ],
)  # fmt: skip
def test_a_query_in_a_body_is_sent_unpacked(
    tmp_path: Path, text: str, k: str, sent: dict[str, Any], body: bytes
) -> None:
    reading = reading_with("request", compared=["POST /search"], text=text, k=k)
    control, other = Server(), Server()
    with both(tmp_path, control, other, reading=reading) as (made, client):
        client.post("/search", **sent)
        found = settled(made)
    assert (found.tally.compared, found.observations[0].k) == (1, 3)
    for server in (control, other):
        assert server.asked[0].content == body
        assert server.asked[0].headers["content-type"] in {JSON["Content-Type"], FORM}


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
    with both(tmp_path, Server(answers), Server(answers)) as (made, client):
        client.get("/search?q=apple")
        (one,) = settled(made).observations
    assert (one.outcome, one.control and one.control.hits) == (Class.EXACT, 2)


@pytest.mark.parametrize("how", ["status", "garbage", "long", "bomb"])
def test_a_server_that_fails_is_a_failure_of_its_side(tmp_path: Path, how: str) -> None:
    small, good = reading_with("bounds", answer_bytes=300), Server()
    for side, control, other in (("candidate", good, fails(how)), ("control", fails(how), good)):
        with both(tmp_path / side, control, other, reading=small) as (made, client):
            client.get("/search?q=apple")
            (one,) = settled(made).divergences
        sides = {"control": one.control, "candidate": one.candidate}
        assert one.outcome is Class.ERROR
        assert (sides[side].status, bool(sides[side].error)) == (Status.FAILED, True)
        assert sides[{"control": "candidate"}.get(side, "control")].status is Status.ANSWERED


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
    with both(tmp_path, Server(), half) as (made, client):
        client.get("/search?q=apple")
        (one,) = settled(made).degradations
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
    assert "there is nothing at /query/q" in causes
    assert "more than 10 bytes" in causes
    assert "gzip" in causes


def test_the_control_asked_twice_shows_its_own_noise(tmp_path: Path) -> None:
    turns = iter(range(99))

    def flips(sent: Sent) -> Sent:
        hits = json.loads(sent.body)
        if next(turns) % 2:
            hits["hits"]["hits"].reverse()
        return sent._replace(body=json.dumps(hits).encode())

    twice = ALL._replace(repeat=1)
    other = says(found_of("cheese", 9))
    with both(tmp_path, Server(flips), other, asking=twice) as (made, client):
        client.get("/search?q=apple")
        client.get("/search?q=cheese")
        found = settled(made, attempts=2)
    assert [one.again for one in found.observations] == [Class.REORDER, Class.EXACT]
    assert [one.outcome for one in found.observations] == [Class.TRUNCATION, Class.EXACT]


def test_the_second_answer_of_the_control_counts_in_its_rate(tmp_path: Path) -> None:
    control, asking = Server(), ALL._replace(repeat=1, per_second=0.01)
    with both(tmp_path, control, Server(), asking=asking) as (made, client):
        client.get("/search?q=apple")
        settled(made)
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
    asking = ALL._replace(per_second=2, sampling=Sampling(rate=MILLION // 2, seed=1))
    with http_searcher("http://127.0.0.1:9", READING) as control:
        receiver = Receiver(READING, control, made, asking)
        for _ in range(40):
            receiver.take(SEARCH)
            receiver.take(SEARCH._replace(method="DELETE"))
            receiver.take(SEARCH._replace(headers={SENT_BY_US: "1"}))
        receiver.close()
        found = settled(made, attempts=2)
    dropped = receiver.dropped
    assert (dropped[NOT_COMPARED], dropped[LOOPED], dropped[NOT_SAMPLED]) == (40, 40, 20)
    assert found.tally.attempted + dropped[TOO_FAST] == 20
    assert sum(one.times for one in found.degradations
               if one.kind is ProblemKind.NOT_TAKEN) == dropped[TOO_FAST]  # fmt: skip


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
        receives = Receiver(READING, control, made, ALL)
        receives.take(SEARCH)
        assert asked.wait(30)
        for _ in range(5):
            receives.take(SEARCH)
        go_on.set()
        receives.close()
        assert settled(made, attempts=4).tally.attempted == 4
    assert receives.dropped == {FULL: 2}


def test_while_the_log_cannot_be_written_no_server_is_asked(
    made: LiveComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Server()
    with listening(control) as url, http_searcher(url, READING) as searcher:
        receives = Receiver(READING, searcher, made, ALL)
        monkeypatch.setattr(LiveComparison, "stuck", "the disk is full")
        for _ in range(3):
            receives.take(SEARCH)
        receives.close()
    assert (receives.dropped, control.asked) == ({UNWRITABLE: 3}, [])


SETTINGS = read_settings(ROOT / "policy" / "shadow.toml")


def test_a_pace_keeps_its_rate() -> None:
    pace = receiver.BurstPace(20)
    start, taken = monotonic(), 0
    while monotonic() - start < 0.5:
        taken += pace.takes()
        sleep(0.001)
    assert 20 <= taken <= 20 + 20 * (monotonic() - start) + 1


def received_two(
    monkeypatch: pytest.MonkeyPatch,
    urls: tuple[str, str],
    log: Path,
    translated: ArmReading | None = None,
    ready: Callable[[str], object] = str,
) -> None:
    """Run the command's function for two requests, of which one is named."""

    class Stopped:
        def __init__(self, receiver: Receiver, _: int) -> None:
            self.receiver = receiver

        def run(self, sockets: object) -> None:
            del sockets
            for method in ("GET", "DELETE"):
                self.receiver.take(SEARCH._replace(method=method))

    monkeypatch.setattr(receiver, "server", Stopped)
    shadow_receive(
        *urls,
        reading=READING,
        translated=translated,
        address=("127.0.0.1", 0),
        asking=ALL,
        log=ShadowLog(log, SETTINGS),
        ready=ready,
    )


def test_a_log_that_vanishes_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "log"
    with (
        listening(Server()) as ours,
        listening(Server()) as theirs,
        pytest.raises(HarnessError, match=r"1 attempt lost \(FileNotFoundError.*was deleted"),
    ):
        received_two(monkeypatch, (ours, theirs), folder, ready=lambda _: shutil.rmtree(folder))


ENGINE = """
summary = "The candidate"
stack = "http"
[settings]
url = "http://127.0.0.1:9200/search"
method = "GET"
headers = { Authorization = "Bearer ${CANDIDATE_TOKEN}" }
query = { q = "${text}", size = "${k}" }
hits = "hits.hits"
id = "_id"
score = "_score"
timeout_s = 5.0
[[settings.probe]]
url = "http://127.0.0.1:9200/search"
version = "timed_out"
"""


def test_headers_of_the_candidate_s_file_reach_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "ProcessWorker", lambda opens, _: Here(opens))
    path, log = tmp_path / "candidate.toml", tmp_path / "log"
    path.write_text(ENGINE)
    with pytest.raises(IndexNotReady, match="CANDIDATE_TOKEN"):
        of_arm(path)
    monkeypatch.setenv("CANDIDATE_TOKEN", "of-the-candidate")
    control, other = Server(), Server()
    with listening(control) as ours, listening(other) as theirs:
        received_two(monkeypatch, (ours, theirs), log, of_arm(path))
    sent = [one.headers.get("authorization") for one in (*control.asked, *other.asked)]
    assert sent == [None, "Bearer of-the-candidate"]
    assert not any(b"of-the-candidate" in file.read_bytes() for file in log.iterdir())
