"""Headers and text of one mail: what is odd is said, and something is given all the same."""

from __future__ import annotations

from email import message_from_bytes

import pytest

from harness.core import markup


def header(line: bytes) -> tuple[str, list[str]]:
    problems: list[str] = []
    mail = message_from_bytes(line + b"\n\nwords\n")
    return markup.header(mail, "Subject", problems), problems


def test_headers_of_one_name_are_joined_and_decoded() -> None:
    assert header(b"Subject: =?utf-8?q?caf=C3=A9?= au\nSubject: lait") == ("café au lait", [])
    assert header(b"To: a@x") == ("", [])


@pytest.mark.parametrize(
    ("line", "given", "says"),
    [
        (b"Subject: =?punycode?q?a-b?=", "=?punycode?q?a-b?=", "punycode is not a charset"),
        (b"Subject: =?no-such?q?a?=", "=?no-such?q?a?=", "no-such is not a charset"),
        (b"Subject: caf\xe9", "café", "bytes of no charset"),
        (b"Subject: " + b"a" * 70_000, "a" * markup.MAX_HEADER, "was cut"),
    ],
)
def test_what_is_odd_about_a_header_is_said(line: bytes, given: str, says: str) -> None:
    found, problems = header(line)
    assert found == given
    assert [problem for problem in problems if says in problem]


def test_a_date_without_a_zone_is_in_utc() -> None:
    problems: list[str] = []
    day = "Mon, 06 Jan 2025 12:00:00"
    assert markup.moment(f"{day} -0000", problems) == 1_736_164_800_000_000
    assert markup.moment(f"{day} +0100", problems) == 1_736_161_200_000_000
    assert problems == []
    assert markup.moment("", problems) is None
    assert markup.moment("noon", problems) is None
    assert problems == ["it has no date", "its date 'noon' cannot be read"]


def test_addresses_too_deep_to_tell_apart_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later versions of Python read 3,000 parentheses; earlier ones went too deep."""

    def too_deep(_: object) -> None:
        raise RecursionError

    problems: list[str] = []
    assert markup.addresses(["a <a@x>, b@x"], problems) == ["a@x", "b@x"]
    assert problems == []
    monkeypatch.setattr(markup, "getaddresses", too_deep)
    assert markup.addresses(["("], problems) == []
    assert problems == ["its addresses are nested too deeply"]


def test_plain_text_comes_before_the_words_of_a_page() -> None:
    page = b"Content-Type: text/html\n\n<p>of a <b>page"
    problems: list[str] = []
    assert markup.texts(message_from_bytes(page), problems) == ["of a page"]
    assert "text/html were taken" in problems[0]
    both = (
        b"Content-Type: multipart/alternative; boundary=b\n\n--b\n\nplain\n--b\n"
        + page
        + b"\n--b--"
    )
    problems.clear()
    assert markup.texts(message_from_bytes(both), problems) == ["plain"]
    assert problems == []


def test_line_ends_are_written_one_way() -> None:
    assert markup.clean("a\r\nb\rc\ud800") == "a\nb\nc?"
