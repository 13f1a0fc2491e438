"""Counts are the same in memory and on disk."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from harness.core.errors import BadFile, HarnessError, UnknownName
from harness.logs.querylog import (
    Cleaner,
    Counted,
    Entry,
    Fields,
    Left,
    Tally,
    format_of,
    lines,
    masked,
    plain,
)

# Counts are the same in memory and on disk


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_counts_do_not_depend_on_what_is_held_in_memory(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.logs.querylog.AT_ONCE", at_once)
    with Tally.open() as tally:
        for key, results in (("b", 0), ("a", None), ("b", 3), ("c", 0), ("b", 0)):
            tally.add(key, key.upper(), masked=key == "c", results=results)
        assert [*tally.by_frequency()] == [
            Counted("b", "B", masked=False, requests=3, known=3, empty=2),
            Counted("a", "A", masked=False, requests=1, known=0, empty=0),
            Counted("c", "C", masked=True, requests=1, known=1, empty=1),
        ]
        assert [one.finds_nothing for one in tally.by_frequency()] == [True, False, True]
        assert (tally.count_of("b"), tally.count_of("x")) == (3, 0)


# Personal data are found by their form or check digit; what looks like them is left alone


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("mail of jane.doe+x@mail.example.org please", "mail of <email> please"),
        ("call +49 30 123456-78 now", "call <phone> now"),
        ("call 030 1234567", "call <phone>"),
        ("555-123-4567", "<phone>"),
        ("pay 4111 1111 1111 1111", "pay <card>"),
        ("to DE89 3704 0044 0532 0130 00", "to <account>"),
        ("ping 192.168.0.12", "ping <address>"),
        ("ping 2001:db8:0:0:0:ff00:42:8329", "ping <address>"),
        ("api_key=abc123 in vim", "<secret> in vim"),
        ("password: hunter2", "<secret>"),
        ("Bearer eyJhbGciOi.abc", "<secret>"),
        ("https://me:pw@host/a?access_token=1&b=2", "https://<secret>@host/a?<secret>&b=2"),
        ("AKIAIOSFODNN7EXAMPLE", "<secret>"),
        ("error 9f86d081884c7d659a2feaa0c55ad015", "error <token>"),
    ],
)
def test_it_is_masked_by_kind(text: str, becomes: str) -> None:
    assert masked(text)[0] == becomes
    assert masked(text)[1]


@pytest.mark.parametrize(
    "text",
    [
        "read_csv memory_map", "python 3.11.4", "1.2.3", "999.1.1.1", "iso 8601 2024-01-31",
        "4111 1111 1111 1112", "GB82 WEST 1234 5698 7654 33", "internationalization_of_numbers",
        "how do i reset my password", "token bucket", "a+b@", "12:30:45", "0000 0000 0000 0000",
        "numpy.linalg.lstsq", "RFC 7231", "std::vector::push_back",
    ],
)  # fmt: skip
def test_what_looks_like_it_is_left_alone(text: str) -> None:
    assert masked(text) == (text, ())


def test_kinds_are_told_once_each() -> None:
    assert masked("a@b.org, c@d.org, 10.0.0.1")[1] == ("email", "address")


# Each format, whole and damaged: a bad line costs itself alone

AGENT = "Mozilla/5.0 (X11)"
REQUEST = '10.1.1.1 - bob [24/Nov/2026:08:00:00 +0000] "GET {} HTTP/1.1" {} 512'


def read(path: Path, raw: str | bytes, kind: str, **fields: str) -> list[Entry | str | None]:
    """Give the entry of each line, or that it is broken."""
    path.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    return ["broken" if line.broken else line.entry for line in lines(path, kind, Fields(**fields))]


def test_csv_by_its_usual_names_or_by_those_given(tmp_path: Path) -> None:
    table = 'when,q,hits,session\n1,"a, b",0,s1\n2,c,7,\n3,"half\n4,x\n5,,1,s\n'
    assert read(tmp_path / "a.csv", table, "csv") == [
        Entry("a, b", 0, "s1"), Entry("c", 7), "broken", "broken", None,
    ]  # fmt: skip
    other = "words;found\nalpha beta;3\n"
    fields = {"text": "words", "results": "found"}
    assert read(tmp_path / "a.log", other, "csv", **fields) == [Entry("alpha beta", 3)]
    assert read(tmp_path / "a.tsv", "q\tx\na,b\t1\n", "csv") == [Entry("a,b")]


def test_a_column_that_is_missing_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"a\.csv:1: no column words \(columns: q, n\)\. .*--text"):
        read(tmp_path / "a.csv", "q,n\n1,2\n", "csv", text="words")


def test_a_head_that_is_cut_off_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"a\.csv:1: its head is not CSV"):
        read(tmp_path / "a.csv", 'q,"n\n1,2\n', "csv")


@pytest.mark.parametrize(
    ("content", "kind", "said"),
    [
        ("q,n\na,1\n".encode("utf-16"), "csv", "it is UTF-16, and not UTF-8"),
        ("q,n\na,1\n".encode("utf-16-le"), "csv", "it holds a NUL byte"),
        ('{"q": "a"}\n'.encode("utf-32"), "jsonl", "it is UTF-32, and not UTF-8"),
        (gzip.compress(b"q,n\na,1\n"), "csv", "it is packed by gzip"),
        (b"q,n\ra,1\r", "csv", "its lines end by a carriage return alone"),
        (b"q,q\na,b\n", "csv", "the column q is there twice"),
        (b"q,user,user\na,b,c\n", "csv", "the column user is there twice"),
    ],
    ids=["UTF-16", "UTF-16 without a mark", "UTF-32", "gzip", "old lines", "twice", "twice, also"],
)
def test_a_log_that_is_not_what_its_name_says_is_named(
    tmp_path: Path, content: bytes, kind: str, said: str
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(content)
    with pytest.raises(BadFile, match=rf"a\.log:1: {said}"):
        list(lines(path, kind, Fields()))


def test_other_columns_may_be_there_twice(tmp_path: Path) -> None:
    assert read(tmp_path / "a.csv", "q,x,x,,\na,b,c,d,e\n", "csv") == [Entry("a")]


def test_json_lines_at_any_depth(tmp_path: Path) -> None:
    rows = [
        '{"query": "a", "results": 0, "user": 7}', '{"q": "b", "hits": [1, 2]}', '{"other": 1}',
        '{"query": "cut o', '{"query": 5}', "[1]", '{"request": {"text": "deep"}}',
    ]  # fmt: skip
    raw = "\n".join(rows)
    assert read(tmp_path / "a.jsonl", raw, "jsonl") == [
        Entry("a", 0, "7"), Entry("b", 2), None, "broken", "broken", "broken", None,
    ]  # fmt: skip
    assert read(tmp_path / "a.jsonl", rows[-1], "jsonl", text="request.text") == [Entry("deep")]


def test_calls_of_mcp_and_no_other_message(tmp_path: Path) -> None:
    call = {"method": "tools/call", "params": {"name": "search", "arguments": {"query": "a b"}}}
    rows = [{"jsonrpc": "2.0", **call}, {"method": "initialize"}, {"result": {"query": "no"}}]
    raw = "\n".join(map(json.dumps, rows))
    assert read(tmp_path / "m", raw, "mcp") == [Entry("a b"), None, None]


def test_access_logs_by_the_name_of_their_pattern(tmp_path: Path) -> None:
    found = REQUEST.format("/search?q=caf%C3%A9+au+lait&token=SECRET", 200)
    raw = f'{found}\n{found} "-" "{AGENT}"\n{REQUEST.format("/style.css", 200)}\n{found[:40]}'
    common = [Entry("café au lait", None, "10.1.1.1 ")] * 2
    assert read(tmp_path / "l", raw, "common") == [*common, None, "broken"]
    entry = Entry("café au lait", None, f"10.1.1.1 {AGENT}", 200, AGENT)
    assert read(tmp_path / "l", raw.splitlines()[1], "combined") == [entry]
    assert read(tmp_path / "l", f"www.a.org {raw.splitlines()[1]}", "vhost") == [entry]


def test_mixed_encodings_of_lines_and_of_parameters(tmp_path: Path) -> None:
    raw = b'{"q": "na\xefve"}\n{"q": "na\xc3\xafve"}\n{"q": "a\0b"}\n'
    assert read(tmp_path / "e", raw, "jsonl") == [Entry("naïve"), Entry("naïve"), "broken"]
    both = [line.foreign for line in lines(tmp_path / "e", "jsonl", Fields())]
    assert both == [True, False, False]
    old = REQUEST.format("/?q=na%EFve", 200)
    assert read(tmp_path / "e", old, "common") == [Entry("naïve", None, "10.1.1.1 ")]
    odd = REQUEST.format("/?q=日本", 200)
    assert read(tmp_path / "e", odd, "common") == [Entry("日本", None, "10.1.1.1 ")]


def test_packed_logs_are_unpacked_on_the_way(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    assert read(path, gzip.compress(b'{"q": "a"}\n'), format_of(path, "")) == [Entry("a")]


def test_a_format_that_cannot_be_told(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"access\.log: its name .* add --format"):
        format_of(tmp_path / "access.log", "")
    with pytest.raises(UnknownName, match="no format of a log named 'nginx'"):
        format_of(tmp_path / "a.csv", "nginx")


def test_each_rule_of_cleaning_has_its_reason() -> None:
    rules = Cleaner()
    kept = Entry("two words", session="a")
    assert [
        rules.left(entry)
        for entry in (
            Entry(""), Entry("x", status=404), Entry("x", agent="Googlebot/2.1"), Entry("x" * 513),
            Entry("?!"), kept, kept, Entry("two words", session="b"), Entry("more", session="a"),
            kept, Entry("two words"), Entry("two words"),
        )
    ] == [
        Left.NO_QUERY, Left.ERROR, Left.ROBOT, Left.LONG, Left.WORDLESS, None, Left.REPEATED, None,
        None, None, None, None,
    ]  # fmt: skip
    assert rules.sessions == 2
    assert plain(" e\u0301a\x1b[31m\t b\n") == "éa [31m b"


def test_sessions_are_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.logs.querylog.SESSIONS", 2)
    rules = Cleaner()
    for who in "abc":
        assert rules.left(Entry("x", session=who)) is None
    assert rules.left(Entry("x", session="c")) is Left.REPEATED
    assert rules.left(Entry("x", session="a")) is None
