"""One bad mail never ends an import, costs little, and is told; what came before it is there."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.errors import BadFile
from harness.core.markup import MAX_HEADER
from harness.corpus import mbox
from harness.corpus.mbox import Mbox

FIRST = b"From x Mon Jan  6 00:00:00 2025\n"
GOOD = (
    b"From: a@example.org\nMessage-ID: <%d@x>\nDate: Mon, 06 Jan 2025 12:00:00 +0000\n\nwords\n\n"
)
HTML = b"From: a@x\nMessage-ID: <bad@x>\nContent-Type: text/html\n\n"
SECONDS = 5.0
"""Of a processor: far more than any of these takes, and less than the slowest took."""


def among(folder: Path, mail: bytes, *, first: bytes = FIRST) -> Mbox:
    """Read the mail between two good ones."""
    path = folder / "box"
    path.write_bytes(FIRST + GOOD % 1 + first + mail + b"\n\n" + FIRST + GOOD % 2)
    began = time.thread_time()
    found = mbox.read(path)
    assert time.thread_time() - began < SECONDS
    assert [found.documents[at].doc_id for at in (0, -1)] == ["1@x", "2@x"]
    assert len(found.documents) == 3
    return found


def test_a_first_line_that_is_not_ascii(tmp_path: Path) -> None:
    found = among(tmp_path, GOOD % 3, first=b"From J\xf6rg Mon Jan  6 00:00:00 2025\n")
    assert found.documents[1].text == "words"


def test_a_mail_that_has_no_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mbox, "ENDLESS_BYTES", 1 << 20)
    path = tmp_path / "box"
    path.write_bytes(FIRST + GOOD % 1 + b"words\n" * 200_000)
    with pytest.raises(BadFile, match="a mail of it has more than 1048576 bytes"):
        mbox.read(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        b"<p>before <![CDArset x after",
        b"<p>before after<![if" + b"<![" * 20_000,
        b"<p>before after" + b"<" * 300_000,
        b"<p>before after" + b"<!--" * 100_000,
        b"<p>before after" + b"</" * 100_000,
        b"<p>before after" + b"<a b='" * 60_000,
        b"<p>before after &#" + b"9" * 100_000 + b";",
    ],
    ids=lambda page: page[:30].decode(),
)
def test_a_page_that_no_parser_reads(tmp_path: Path, page: bytes) -> None:
    text = among(tmp_path, HTML + page).documents[1].text
    assert text.startswith("before")


@pytest.mark.slow
@pytest.mark.parametrize("header", [b"From", b"To", b"Subject", b"Date", b"References"])
@pytest.mark.parametrize(
    "value", [b"(" * 3_000, b"<" * 100_000, b"=?utf-8?q?" * 50_000, b'"\\' * 9_999]
)
def test_a_header_that_never_ends(tmp_path: Path, header: bytes, value: bytes) -> None:
    mail = b"Message-ID: <bad@x>\n%s: %s\n\nwords\n" % (header, value)
    found = among(tmp_path, mail)
    assert found.documents[1].text == "words"
    cut = f"its {header.decode()} has more than {MAX_HEADER} characters, and was cut"
    assert (cut in {note.problem for note in found.notes}) == (len(value) > MAX_HEADER)


@pytest.mark.parametrize(
    "charset", [b"punycode", b"idna", b"unicode_escape", b"undefined", b"zlib"]
)
def test_a_charset_that_is_none_of_mail(tmp_path: Path, charset: bytes) -> None:
    body = b"words" + b"-" + b"a" * 400_000
    mail = b"Message-ID: <bad@x>\nSubject: =?%s?q?%s?=\n" % (charset, b"a" * 60_000)
    mail += b"Content-Type: text/plain; charset=%s\n\n%s\n" % (charset, body)
    found = among(tmp_path, mail)
    assert found.documents[1].text.startswith("words-aaa")
    assert f"its text is not {charset.decode()}, as it says" in {n.problem for n in found.notes}


@pytest.mark.slow
def test_parts_within_parts(tmp_path: Path) -> None:
    levels = 2_000
    heads = (
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (at, at) for at in range(levels)
    )
    found = among(tmp_path, b"Message-ID: <bad@x>\n" + b"".join(heads) + b"\n\nwords\n")
    assert "words" in found.documents[1].text
    assert any("cannot be read" in note.problem for note in found.notes)


def test_a_mail_longer_than_any_is_cut_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mbox, "MAX_MAIL_BYTES", 2_000)
    found = among(tmp_path, b"Message-ID: <bad@x>\n\n" + b"words\n" * 1_000)
    assert 100 < len(found.documents[1].text) < 2_000
    assert "it has more than 2000 bytes, and its end was left out" in {
        note.problem for note in found.notes
    }


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_a_date_without_a_zone_is_the_same_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        mail = b"Message-ID: <bad@x>\nDate: Mon, 06 Jan 2025 12:00:00 -0000\n\nwords\n"
        found = among(tmp_path, mail).documents[1]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found.metadata["created_ts"] == 1736164800 * 1_000_000


def test_a_pipe_is_no_mail(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "none"):
        with pytest.raises(BadFile):
            mbox.read(path)


WORDS = st.sampled_from(
    "From: |From |To: |Subject: |Date: |Message-ID: |References: |\n|\n\n|Content-Type: |text/html|"
    "text/plain|multipart/mixed; boundary=b|--b|; charset=|utf-8|utf-16|punycode|=?utf-8?b?|=?x?q?|"
    '?=|(|<|>|"|\\|@|,|;|<![|<!--|&#x|-0000|+9999|\xff|\0|\r|Content-Transfer-Encoding: base64|'
    "message/rfc822|a|9".encode("latin-1").split(b"|")
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(WORDS | st.binary(max_size=6), max_size=40).map(b"".join))
def test_whatever_it_is_it_ends_no_import(tmp_path: Path, mail: bytes) -> None:
    path = tmp_path / "box"
    path.write_bytes(FIRST + GOOD % 1 + FIRST + mail + b"\n\n" + FIRST + GOOD % 2)
    found = mbox.read(path)
    assert [found.documents[at].doc_id.partition("#")[0] for at in (0, -1)] == ["1@x", "2@x"]
    for document in found.documents:
        document.text.encode()
        document.title.encode()
