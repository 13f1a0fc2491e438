"""Readings of requests and answers, and recordings of traffic."""

import gzip
import json
import pickle
import re
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.agreement import Class
from harness.core.engine import Hit
from harness.core.errors import BadFile, IndexNotReady
from harness.shadow import settings
from harness.shadow.http import BETWEEN, ArmReading, of_arm, recorded, unpacked
from tests.make.shadow_log import comparison
from tests.make.shadow_servers import READING, Sent, Server, candidate, mirrored, moved_to, settled
from tests.source import ROOT

pytestmark = pytest.mark.slow

MANIFEST = settings.Backend(READING, "http", "http://a").manifest
RFC = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "m~n": 8, " ": 7, "~1": 9}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [("", RFC), ("/foo/0", "bar"), ("/", 0), ("/a~1b", 1), ("/m~0n", 8), ("/~01", 9),
     *((to, None) for to in ("/x", "/foo/2", "/foo/-1", "/foo/00", "/a~1b/0"))],
)  # fmt: skip
def test_pointers_of_rfc_6901(pointer: str, value: object) -> None:
    nothing = pytest.raises(settings.UnresolvedPointer, match="nothing at")
    with nullcontext() if value is not None else nothing:
        assert settings.pointed(RFC, pointer) == value


def changed(table: str, **values: object) -> settings.TrafficReading:
    whole = READING.model_dump()
    changes = {table: {**whole[table], **values}}
    return settings.TrafficReading.model_validate({**whole, **changes})


def of(*hits: object) -> dict[str, object]:
    return {"hits": {"hits": list(hits)}}


@pytest.mark.parametrize(
    ("query", "asked"),
    [({"q": "x"}, ("x", 10)), ({"q": "x", "size": "3"}, ("x", 3)),
     ({"q": "", "size": 4}, ("", 4)), ({}, None), ({"q": 7}, None),
     ({"q": "x", "size": "0"}, None), ({"q": "x", "size": "-1"}, None),
     ({"q": "x", "size": True}, None), ({"q": "x", "size": "²"}, None)],
)  # fmt: skip
def test_a_question_and_what_is_none(
    query: dict[str, object], asked: tuple[str, int] | None
) -> None:
    with nullcontext() if asked else pytest.raises(settings.Unreadable):
        assert READING.asked({"query": query}) == asked


def test_scores_keep_their_order_and_their_ties() -> None:
    raw = [1200.5, 12.0, 12.0, 1.0, 0.5, 0, -3.5, -1200.5]
    answer = of(*({"_id": str(at), "_score": score} for at, score in enumerate(raw)))
    scores = [hit.score for hit in READING.answer_of(answer, MANIFEST, 10)[0].hits]
    assert 1 >= scores[0] >= scores[-1] >= 0
    assert scores == sorted(scores, reverse=True)
    assert [a == b for a, b in pairwise(scores)] == [a == b for a, b in pairwise(raw)]


def test_without_scores_the_order_counts() -> None:
    found, _ = changed("answer", score="", id="").answer_of(of("a", 7), MANIFEST, 10)
    assert found.hits == (Hit("a", 1.0, 1.0), Hit("7", 0.5, 0.5))


@pytest.mark.parametrize(
    ("answer", "says"),
    [(7, "there is nothing at /hits/hits"), ({"hits": {"hits": {}}}, "is not a list"),
     (of({"_id": None, "_score": 1}), "the id of hit 1 is a NoneType"),
     (of({"_id": "a", "_score": "1"}), "the score of hit 1 is a str"),
     (of({"_id": "a", "_score": None}, {"_id": "b", "_score": 1}), "score of hit 1 is a NoneType"),
     (of({}, {}, {}), "3 hits were shown, 2 were requested")],
)  # fmt: skip
def test_what_is_no_answer(answer: Any, says: str) -> None:  # noqa: ANN401  any JSON
    with pytest.raises(settings.Unreadable, match=says):
        READING.answer_of(answer, MANIFEST, 2)


@pytest.mark.parametrize("name", ["gzip", "GZIP ", "deflate", "", "identity"])
def test_bodies_are_unpacked(name: str) -> None:
    text = b'{"a": 1}' * 50
    packed: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}
    pack = packed.get(name.strip().lower(), bytes)
    assert unpacked(pack(text), name, len(text)) == text


@pytest.mark.parametrize(
    ("body", "name", "says"),
    [(gzip.compress(b"x" * 10**7, mtime=0), "gzip", "more than 10"),
     (gzip.compress(b"x" * 10, mtime=0)[:-9], "gzip", "without an end"),
     (b"x", "zstd", "encoding zstd")],
)  # fmt: skip
def test_bodies_that_are_not(body: bytes, name: str, says: str) -> None:
    with pytest.raises(settings.Unreadable, match=says):
        unpacked(body, name, 10)


TELLS = changed("answer", generation="/index/generation")


def test_an_index_that_moves_between_two_answers_is_stale_once(tmp_path: Path) -> None:
    left = iter("xxyy")

    def moves(sent: Sent) -> Sent:
        return moved_to(next(left))(sent)

    other, control = Server(moves), Server(moved_to(3))
    start = candidate(other, TELLS)
    with comparison(tmp_path, start) as made, mirrored(control, made, TELLS) as client:
        for attempts in range(1, 5):
            client.get("/search?q=apple")
            found = settled(made, attempts=attempts).observations
    outcomes = [Class.EXACT, Class.EXACT, Class.STALE, Class.EXACT]
    assert [one.outcome for one in found] == outcomes
    assert {one.control.generation[-1] for one in found if one.control} == {"3"}


FILE = """
summary = "A server"
stack = "http"
[settings]
url = "http://127.0.0.1:9200/articles/_search?pretty=false"
body = '{"query": {"match": {"a/b": "${text}"}}, "size": "${k}"}'
headers = { Authorization = "Bearer ${CANDIDATE_TOKEN}" }
hits = "hits.hits"
id = "_id"
score = "_score"
incomplete = "timed_out || _shards.failed > `0`"
generation = "state"
timeout_s = 3.0
[[settings.probe]]
url = "http://127.0.0.1:9200/articles"
generation = "state"
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArmReading:
    path = tmp_path / "engine.toml"
    path.write_text(FILE, "utf-8")
    with pytest.raises(IndexNotReady, match="CANDIDATE_TOKEN"):
        of_arm(path)
    monkeypatch.setenv("CANDIDATE_TOKEN", "of-the-candidate")
    return of_arm(path)


def test_a_request_is_written_as_the_template_says(engine: ArmReading) -> None:
    reading = pickle.loads(pickle.dumps(engine))  # noqa: S301  it goes to a process
    found = reading.translated("red cone", 7)
    assert json.loads(found["body"]) == {"query": {"match": {"a/b": "red cone"}}, "size": 7}
    assert (found["method"], found["target"]) == ("POST", "/articles/_search?pretty=false")
    assert reading.headers() == {"Authorization": "Bearer of-the-candidate"}
    assert reading.bounds.timeout_s == 3.0


def test_an_answer_is_read_as_the_arm_reads_it(engine: ArmReading) -> None:
    hits = of({"_id": "a", "_score": 3.0}, {"_id": 7, "_score": -1.0})
    whole = {"state": 4, "timed_out": False, "_shards": {"failed": 0}, **hits}
    found, generation = engine.answer_of(whole, MANIFEST, 10)
    assert [*found.hits] == [Hit("a", 0.875, 3.0), Hit("7", 0.25, -1.0)]
    assert generation == 4
    with pytest.raises(settings.Unreadable, match="partial answer"):
        engine.answer_of({**whole, "_shards": {"failed": 1}}, MANIFEST, 10)


IN_BODY = changed(
    "request", compared=["POST /search"], text="/body/query/words", k="/body/n", k_absent=10
)


LOG = """\
203.0.113.9 - - [27/Nov/2026:17:01:48 +0000] "GET /search?q=red+kettle&size=5 HTTP/1.1" 200 222 "-" "curl/8"
203.0.113.9 - bea [27/Nov/2026:17:01:49 +0000] "DELETE /search?q=no HTTP/1.1" 200 2 "-" "curl/8"
\u00ff no request at all
203.0.113.9 - - [27/Nov/2026:17:01:50 +0000] "GET /search?q=%C3%BCber HTTP/2.0" 304 0 "-" "curl/8"
"""  # noqa: E501  lines of an access log


BODY = json.dumps({"query": {"words": "über"}, "n": 3})
BEFORE = b"1 a1 1700000000\n"
"""What GoReplay writes before a request."""


def har(*requests: dict[str, object]) -> bytes:
    return json.dumps({"log": {"entries": [{"request": one} for one in requests]}}).encode()


def got(url: str) -> dict[str, object]:
    return {"method": "GET", "url": f"https://a.test{url}"}


GETS, POSTS = (READING, ["red kettle", "über"]), (IN_BODY, ["über"])
RECORDINGS = {
    "log": (LOG.encode("latin-1"), GETS),
    "log.gz": (gzip.compress(LOG.encode()), GETS),
    "log of a proxy": (LOG.replace(" /", " http://here:80/").encode(), GETS),
    "har": (har(got("/search?q=red+kettle"), got(""), got("/search?q=%C3%BCber")), GETS),
    "gor": (
        BEFORE + b"GET /search?q=red+kettle HTTP/1.1\r\nHost: a.test\r\n\r\n" + BETWEEN
        + b"2 a1 1700000001\nHTTP/1.1 200 OK\r\n\r\n{}" + BETWEEN
        + BEFORE + b"GET /search?q=%C3%BCber HTTP/1.1\r\nHost: a.test\r\n\r\n" + BETWEEN,
        GETS,
    ),
    "posted": (
        BEFORE + b"POST /search HTTP/1.1\r\nContent-Type: application/json\r\n"
        b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(BODY.encode(), mtime=0) + BETWEEN,
        POSTS,
    ),
    "har posted": (har({"method": "POST", "url": "/search", "postData": {"text": BODY}}), POSTS),
}  # fmt: skip


@pytest.mark.parametrize("kind", RECORDINGS)
def test_the_requests_that_are_named_are_queries(tmp_path: Path, kind: str) -> None:
    content, (reading, texts) = RECORDINGS[kind]
    path = tmp_path / ("recording.gz" if content[:2] == b"\x1f\x8b" else "recording")
    path.write_bytes(content)
    found = list(recorded(path, reading))
    assert [one.text for one in found] == texts
    assert len({one.query_id for one in found}) == len(texts)


@pytest.mark.parametrize(
    ("content", "says"),
    [(LOG.replace("GET", "PUT"), "none of its 3 requests"),
     (LOG.replace("?q=", "?p="), "request 1 is not as the file of the reading says"),
     ('{"log": 7}', "is not a HAR file")],
)  # fmt: skip
def test_what_is_no_recording_is_named(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "recording").write_text(content)
    with pytest.raises(BadFile, match=says):
        list(recorded(tmp_path / "recording", READING))


def test_every_file_that_a_page_gives_as_a_reading_is_one() -> None:
    pages = [path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md")]
    named = {file for page in pages for file in re.findall(r"--reading (\S+\.toml)", page)}
    assert len(named) > 2
    for file in named:
        settings.read_reading(ROOT / file)
