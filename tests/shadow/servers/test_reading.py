"""Where questions and answers are in a server's JSON: pointer, reading and http_body."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.core.engine import Hit
from harness.core.errors import BadPolicy
from harness.shadow.files import read_reading
from harness.shadow.http_searcher import read_json, unpacked
from harness.shadow.server import Reading, RequestedQuery, Unreadable, UnresolvedPointer, pointed
from tests.make.shadow.servers import READING
from tests.source import ROOT

FOLDER = ROOT / "examples" / "shadow"
MANIFEST = READING.manifest("http", "http://a")
RFC = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "m~n": 8, " ": 7, "~1": 9}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [("", RFC), ("/foo", ["bar", "baz"]), ("/foo/0", "bar"), ("/", 0), ("/a~1b", 1), ("/m~0n", 8),
     ("/ ", 7), ("/~01", 9)],
)  # fmt: skip
def test_pointers_of_rfc_6901(pointer: str, value: object) -> None:
    assert pointed(RFC, pointer) == value


@pytest.mark.parametrize(
    "pointer", ["/x", "/foo/2", "/foo/-1", "/foo/00", "/foo/x", "/a~1b/0", "/foo/²"]
)
def test_a_pointer_to_nothing(pointer: str) -> None:
    with pytest.raises(UnresolvedPointer, match="nothing at"):
        pointed(RFC, pointer)


def changed(**answer: str) -> Reading:
    whole = READING.model_dump()
    return Reading.model_validate({**whole, "answer": {**whole["answer"], **answer}})


def of(*hits: object) -> dict[str, object]:
    return {"hits": {"hits": list(hits)}}


@pytest.mark.parametrize(
    ("query", "asked"),
    [({"q": "x"}, RequestedQuery("x", 10)), ({"q": "x", "size": "3"}, RequestedQuery("x", 3)),
     ({"q": "", "size": 4}, RequestedQuery("", 4))],
)  # fmt: skip
def test_a_question(query: dict[str, object], asked: RequestedQuery) -> None:
    assert READING.asked({"query": query}) == asked


@pytest.mark.parametrize("query", [{}, {"q": 7}, {"q": "x", "size": "0"}, {"q": "x", "size": "-1"},
                                   {"q": "x", "size": True}, {"q": "x", "size": "²"}])  # fmt: skip
def test_what_is_no_question(query: dict[str, object]) -> None:
    with pytest.raises(Unreadable):
        READING.asked({"query": query})


def test_scores_keep_their_order_and_their_ties() -> None:
    raw = [1200.5, 12.0, 12.0, 1.0, 0.5, 0, -3.5, -1200.5]
    answer = of(*({"_id": str(at), "_score": score} for at, score in enumerate(raw)))
    scores = [hit.score for hit in READING.answer_of(answer, MANIFEST, 10).hits]
    assert all(0 <= score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert [a == b for a, b in pairwise(scores)] == [a == b for a, b in pairwise(raw)]


def test_without_scores_the_order_counts() -> None:
    found = changed(score="", id="").answer_of(of("a", 7), MANIFEST, 10)
    assert found.hits == (Hit("a", 1.0, 1.0), Hit("7", 0.5, 0.5))


@pytest.mark.parametrize(
    "answer",
    [None, 7, {}, {"hits": {"hits": {}}}, of({"_score": 1}), of({"_id": None, "_score": 1}),
     of({"_id": "a"}), of({"_id": "a", "_score": "1"}), of({"_id": "a", "_score": True}),
     of({"_id": "a", "_score": 10**400})],
)  # fmt: skip
def test_what_is_no_answer(answer: Any) -> None:  # noqa: ANN401  any JSON
    with pytest.raises(Unreadable):
        READING.answer_of(answer, MANIFEST, 10)


def test_of_more_hits_than_requested_none_is_read() -> None:
    with pytest.raises(Unreadable, match="2 hits were shown, 1 were requested"):
        READING.answer_of(of({}, {}), MANIFEST, 1)


def test_degraded_answers_are_signed_by_another() -> None:
    whole = READING.answer_of(of(), MANIFEST, 10)
    assert READING.answer_of({**of(), "timed_out": False}, MANIFEST, 10) == whole
    assert whole.served_by == MANIFEST.fingerprint
    half = READING.answer_of({**of(), "timed_out": True}, MANIFEST, 10)
    assert half.served_by != whole.served_by
    assert changed(degraded="").answer_of({**of(), "timed_out": True}, MANIFEST, 10) == whole


def test_a_server_read_in_another_way_is_another() -> None:
    assert changed(id="/id").manifest("http", "http://a").fingerprint != MANIFEST.fingerprint
    assert READING.manifest("http", "http://b").fingerprint != MANIFEST.fingerprint


@pytest.mark.parametrize("name", ["gzip", "GZIP ", "deflate", "", "identity"])
def test_bodies_are_unpacked(name: str) -> None:
    text = b'{"a": 1}' * 50
    packed: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}
    pack = packed.get(name.strip().lower(), bytes)
    assert unpacked(pack(text), name, len(text)) == text


@pytest.mark.parametrize(
    ("body", "name", "says"),
    [(b"x" * 11, "", "more than 10"),
     (gzip.compress(b"x" * 10**7, mtime=0), "gzip", "more than 10"),
     (gzip.compress(b"x" * 10, mtime=0)[:-9], "gzip", "without an end"),
     (b"junk", "gzip", "broken gzip"),
     (b"x", "zstd", "encoding zstd")],
)  # fmt: skip
def test_bodies_that_are_not(body: bytes, name: str, says: str) -> None:
    with pytest.raises(Unreadable, match=says):
        unpacked(body, name, 10)


def test_a_small_body_that_would_be_large_is_not_unpacked_whole() -> None:
    bomb = gzip.compress(b"x" * 10**7)
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable, match="more than 1000"):
            unpacked(bomb, "gzip", 1000)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json(text: bytes) -> None:
    with pytest.raises(Unreadable, match="is not JSON"):
        read_json(text)
    assert read_json(json.dumps(RFC).encode()) == RFC


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_the_examples_can_be_read_and_have_no_key_too_many(path: Path, tmp_path: Path) -> None:
    read_reading(path)
    text = path.read_text(encoding="utf-8")
    for line in text.splitlines():
        if "=" in line and not line.startswith("#"):
            (tmp_path / "less.toml").write_text(text.replace(line, ""), encoding="utf-8")
            with pytest.raises(BadPolicy, match="is missing"):
                read_reading(tmp_path / "less.toml")


def test_a_pointer_that_is_none_is_refused(tmp_path: Path) -> None:
    text = (FOLDER / "http.toml").read_text(encoding="utf-8").replace('"/_id"', '"_id"')
    (tmp_path / "bad.toml").write_text(text, encoding="utf-8")
    with pytest.raises(BadPolicy, match="'_id' is not a JSON pointer"):
        read_reading(tmp_path / "bad.toml")
