"""Recordings of other programs as queries."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from time import monotonic

import pytest

from harness.core.errors import BadFile
from harness.shadow.recording import BETWEEN, recorded
from harness.shadow.server import Reading
from tests.make.shadow.servers import READING

POSTED = Reading.model_validate({
    **READING.model_dump(),
    "request": {
        "compared": ["POST /search"], "text": "/body/query/words", "k": "/body/n", "k_absent": 10,
    },
})  # fmt: skip
LOG = """\
203.0.113.9 - - [27/Nov/2026:17:01:48 +0000] "GET /search?q=red+kettle&size=5 HTTP/1.1" 200 222 "-" "curl/8"
203.0.113.9 - bea [27/Nov/2026:17:01:49 +0000] "DELETE /search?q=no HTTP/1.1" 200 2 "-" "curl/8"
\u00ff no request at all
203.0.113.9 - - [27/Nov/2026:17:01:50 +0000] "GET /search?q=%C3%BCber HTTP/2.0" 304 0 "-" "curl/8"
"""  # noqa: E501  lines of an access log
BODY = json.dumps({"query": {"words": "\u00fcber"}, "n": 3}).encode()
HAR = {
    "log": {
        "entries": [
            {"request": {"method": "GET", "url": "https://a.test/search?q=red+kettle"}},
            {"request": {"method": "GET", "url": "https://a.test"}},
            {"request": {"method": "GET", "url": "https://a.test/search?q=%C3%BCber"}},
        ]
    }
}
GOR = b"".join([
    b"1 a1 1700000000\nGET /search?q=red+kettle HTTP/1.1\r\nHost: a.test\r\n\r\n", BETWEEN,
    b"2 a1 1700000001\nHTTP/1.1 200 OK\r\n\r\n{}", BETWEEN,
    b"1 a2 1700000002\nGET /search?q=%C3%BCber HTTP/1.1\r\nHost: a.test\r\n\r\n", BETWEEN,
])  # fmt: skip
POST = b"".join([
    b"1 a1 1700000000\nPOST /search HTTP/1.1\r\nContent-Type: application/json\r\n",
    b"Content-Encoding: gzip\r\n\r\n", gzip.compress(BODY, mtime=0), BETWEEN,
])  # fmt: skip
HAR_POST = {
    "log": {
        "entries": [
            {"request": {"method": "POST", "url": "/search", "postData": {"text": BODY.decode()}}}
        ]
    }
}


@pytest.mark.parametrize(
    ("content", "reading", "texts"),
    [
        pytest.param(LOG.encode("latin-1"), READING, ["red kettle", "\u00fcber"], id="log"),
        pytest.param(json.dumps(HAR).encode(), READING, ["red kettle", "\u00fcber"], id="har"),
        pytest.param(GOR, READING, ["red kettle", "\u00fcber"], id="gor"),
        pytest.param(POST, POSTED, ["\u00fcber"], id="posted"),
        pytest.param(json.dumps(HAR_POST).encode(), POSTED, ["\u00fcber"], id="har posted"),
    ],
)
def test_the_requests_that_are_named_are_queries(
    tmp_path: Path, content: bytes, reading: Reading, texts: list[str]
) -> None:
    path = tmp_path / "recording"
    path.write_bytes(content)
    found = list(recorded(path, reading))
    assert [one.text for one in found] == texts
    assert len({one.query_id for one in found}) == len(texts)


def test_a_packed_access_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "access.log.gz"
    path.write_bytes(gzip.compress(LOG.encode("latin-1")))
    assert len(list(recorded(path, READING))) == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "none of its 0 requests is one of GET /search"),
        (b"GET /search?q=a", "none of its 0 requests"),
        (LOG.replace("GET", "PUT").encode(), "none of its 3 requests"),
        (LOG.replace("?q=", "?p=").encode(), "request 1 is not as the file of the reading says"),
        (b'{"log": 7}', "is not a HAR file"),
        (b'{"_id": "q", "text": "red"}', "is not a HAR file"),
    ],
)
def test_what_is_no_recording_is_named(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "recording"
    path.write_bytes(content)
    with pytest.raises(BadFile, match=says):
        list(recorded(path, READING))


def test_a_hostile_line_costs_its_length(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b'"GET ' * 200_000 + b"\n" + b'"A ' + b"x" * 2_000_000 + b"\n" + LOG.encode())
    began = monotonic()
    assert len(list(recorded(path, READING))) == 2
    assert monotonic() - began < 20
