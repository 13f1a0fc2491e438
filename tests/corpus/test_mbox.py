"""Mail in mbox files, whole and broken."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from textwrap import dedent

import pytest

from harness.core.errors import BadFile
from harness.core.records import Document
from harness.corpus import mbox
from harness.corpus.mbox import Mbox, Note


def read(folder: Path, *mails: str | bytes) -> Mbox:
    path = folder / "box"
    raw = (mail if isinstance(mail, bytes) else dedent(mail).encode() for mail in mails)
    path.write_bytes(b"".join(b"From x Mon Jan  6 00:00:00 2025\n" + one + b"\n\n" for one in raw))
    return mbox.read(path)


def one(folder: Path, mail: str | bytes) -> Document:
    (document,) = read(folder, mail).documents
    return document


def problems(found: Mbox) -> list[str]:
    return [note.problem for note in found.notes]


WHOLE = """\
    From: Ann <ann@example.org>
    To: Bob <bob@example.org>, cy@example.org
    Cc: "Doe, D." <dd@example.org>, bob@example.org
    Subject: Lease ran
      out
    Date: Mon, 06 Jan 2025 12:00:00 +0100
    Message-ID: <one@example.org>

    See br-2tnl.

    >From here on all is well.
    """


def test_a_mail_becomes_a_document(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    assert found.notes == ()
    assert found.documents == (
        Document(
            "one@example.org",
            "Lease ran out",
            "See br-2tnl.\n\n>From here on all is well.",
            {
                "created_ts": 1736161200 * 1_000_000,
                "message_id": "one@example.org",
                "recipients": "bob@example.org,cy@example.org,dd@example.org",
                "sender": "ann@example.org",
                "thread_id": "one@example.org",
            },
        ),
    )


HEAD = "From: a@example.org\nMessage-ID: <m@x>\nDate: Mon, 06 Jan 2025 12:00:00 +0000\n"


def test_encoded_headers_and_quoted_printable_are_read(tmp_path: Path) -> None:
    mail = HEAD + (
        "Subject: =?iso-8859-1?Q?Pr=FCfung?= =?utf-8?b?IOKcgw==?=\n"
        "Content-Type: text/plain; charset=iso-8859-15\n"
        "Content-Transfer-Encoding: quoted-printable\n\n"
        "10 =A4, wei=\nter\n"
    )
    found = read(tmp_path, mail)
    assert (found.documents[0].title, found.documents[0].text) == ("Prüfung ✃", "10 €, weiter")
    assert found.notes == ()


def test_base64_with_foreign_line_ends(tmp_path: Path) -> None:
    mail = HEAD + (
        "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n"
        "bGVhc2UNCnJhbiBvdXQ=\n"
    )
    assert one(tmp_path, mail).text == "lease\nran out"


MULTI = HEAD + dedent("""\
    MIME-Version: 1.0
    Content-Type: multipart/mixed; boundary=out

    --out
    Content-Type: multipart/alternative; boundary=in

    --in
    Content-Type: text/plain; charset=utf-8

    plain words
    --in
    Content-Type: text/html

    <p>html words</p>
    --in--
    --out
    Content-Type: text/plain
    Content-Disposition: attachment; filename=log.txt

    attached words
    --out
    Content-Type: image/png
    Content-Transfer-Encoding: base64

    iVBORw0K
    --out--
    """)


def test_of_several_parts_the_plain_text_is_taken(tmp_path: Path) -> None:
    found = read(tmp_path, MULTI)
    assert found.documents[0].text.split() == ["plain", "words"]
    assert found.notes == ()


def test_html_is_taken_where_there_is_no_plain_text_and_told(tmp_path: Path) -> None:
    mail = HEAD + (
        "Content-Type: text/html; charset=utf-8\n\n"
        "<style>p {x}</style><p>lease &amp; <b>quota</b></p><script>no()</script>\n"
    )
    found = read(tmp_path, mail)
    assert found.documents[0].text == "lease & quota"
    assert problems(found) == ["the words of its text/html were taken"]


@pytest.mark.parametrize(
    ("charset", "raw", "text"),
    [
        ("x-no-such", b"caf\xc3\xa9", "café"),
        ("utf-8", b"caf\xe9", "caf\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_wrong_charset_is_told_and_the_mail_kept(
    tmp_path: Path, charset: str, raw: bytes, text: str
) -> None:
    head = f"{HEAD}Content-Type: text/plain; charset={charset}\n\n".encode()
    found = read(tmp_path, head + raw)
    assert found.documents[0].text.strip() == text
    assert problems(found) == [f"its text is not {charset}, as it says"]


@pytest.mark.parametrize(
    ("label", "raw", "text"),
    [
        ("gb2312", "合同\u9555".encode("gbk"), "合同\u9555"),
        ("iso-8859-1", b"\x93caf\xe9\x94 it\x92s", "\u201ccafé\u201d it\u2019s"),
        ("iso-8859-8-i", "חיפה".encode("iso8859-8"), "חיפה"),
        ("ISO-2022-JP", b"\x1b$B-!<!$NBg:e\x1b(B a \x1b(I1\x1b(B", "\u2460次の大阪 a \uff71"),
        ("iso-2022-jp", "次の大阪".encode("iso2022_jp"), "次の大阪"),
        ("euc-jp", b"\xad\xa1\xbc\xa1 \x8e\xb1", "\u2460次 \uff71"),
        ("shift_jis", "\u2460次".encode("cp932"), "\u2460次"),
        ("ks_c_5601-1987", "\ub620".encode("cp949"), "\ub620"),
        ("us-ascii", b"caf\xc3\xa9", "café"),
        ("utf-7", b"caf+AOk-", "café"),
    ],
)
def test_a_charset_is_what_mail_programs_take_it_for(
    tmp_path: Path, label: str, raw: bytes, text: str
) -> None:
    head = f"{HEAD}Content-Type: text/plain; charset={label}\n"
    head += f"Subject: =?{label}?B?{b64encode(raw).decode()}?=\n\n"
    found = read(tmp_path, head.encode() + raw)
    assert (found.documents[0].title, found.documents[0].text.strip()) == (text, text)
    assert found.notes == ()


def test_a_page_says_its_charset_where_its_mail_does_not(tmp_path: Path) -> None:
    page = '<meta http-equiv="Content-Type" content="text/html; charset=gb2312"><p>合同'
    found = read(tmp_path, f"{HEAD}Content-Type: text/html\n\n".encode() + page.encode("gbk"))
    assert found.documents[0].text == "合同"


PART = "--b\nContent-Type: text/{kind}; charset=utf-8\n\n{text}\n"
PARTS = {
    "a blank plain text": (
        "alternative",
        [("plain", "\xa0 \n\u200b"), ("html", "<p>tide")],
        "tide",
    ),
    "two alternatives": ("alternative", [("html", "<p>no"), ("plain", "tide")], "tide"),
    "a footer of a list": ("mixed", [("html", "<p>tide"), ("plain", "footer")], "tide\n\nfooter"),
}


@pytest.mark.parametrize("case", PARTS)
def test_the_part_with_text_in_it_is_taken(tmp_path: Path, case: str) -> None:
    kind, parts, text = PARTS[case]
    mail = f"{HEAD}Content-Type: multipart/{kind}; boundary=b\n\n"
    mail += "".join(PART.format(kind=part, text=said) for part, said in parts)
    assert read(tmp_path, mail.encode()).documents[0].text.strip() == text


def test_a_line_of_a_text_that_begins_with_from_begins_no_mail(tmp_path: Path) -> None:
    one = "Message-ID: <1@x>\n\nHi,\n\nFrom the orchard we took:\nApples: nine\n\n"
    one += "From ann Mon Jan  6 00:00:00 2025\nand no header.\n"
    for first in (b"From ann Mon Jan  6 00:00:00 2025\n", b"From - Mon Jan  6 00:00:00 2025\r\n"):
        path = tmp_path / "box"
        path.write_bytes(first + one.encode() + first + b"Message-ID: <2@x>\n\nsecond\n")
        found = mbox.read(path)
        assert [mail.doc_id for mail in found.documents] == ["1@x", "2@x"]
        assert "Apples: nine" in found.documents[0].text


def test_where_no_line_has_a_date_a_blank_line_and_a_header_make_one(tmp_path: Path) -> None:
    one = b"From a\nMessage-ID: <%d@x>\n\nFrom us all\nsalt\nFrom b\nTo: c\n\n"
    (tmp_path / "box").write_bytes(one % 1 + one % 2)
    found = mbox.read(tmp_path / "box")
    assert [mail.doc_id for mail in found.documents] == ["1@x", "2@x"]


def test_bytes_without_a_charset_are_read_as_utf_8(tmp_path: Path) -> None:
    found = read(tmp_path, f"{HEAD}Subject: x\n\n".encode() + "größer".encode())
    assert found.documents[0].text.strip() == "größer"
    assert found.notes == ()


@pytest.mark.parametrize(
    ("subject", "shown", "problem"),
    [
        (b"=?no-such?Q?x?=", "=?no-such?Q?x?=", "its Subject cannot be decoded"),
        (b"caf\xe9", "café", "its Subject holds bytes of no charset"),
    ],
)
def test_a_broken_header_is_told_and_kept_as_far_as_it_goes(
    tmp_path: Path, subject: bytes, shown: str, problem: str
) -> None:
    found = read(tmp_path, HEAD.encode() + b"Subject: " + subject + b"\n\ntext")
    assert found.documents[0].title == shown
    (told,) = problems(found)
    assert told.startswith(problem)


def test_what_is_missing_is_told_mail_by_mail(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE, "Subject: nothing else\n\n", "Date: soon\nFrom: a@x\n\ntext")
    assert [d.doc_id for d in found.documents] == ["one@example.org", "mbox-2", "mbox-3"]
    assert found.notes == (
        Note(2, "mbox-2", "it has no sender"),
        Note(2, "mbox-2", "it has no text"),
        Note(2, "mbox-2", "it has no date"),
        Note(2, "mbox-2", "it has no Message-ID"),
        Note(3, "mbox-3", "its date 'soon' cannot be read"),
        Note(3, "mbox-3", "it has no Message-ID"),
    )
    assert found.documents[1].metadata["created_ts"] is None


def test_a_message_id_that_comes_again_is_kept_apart_and_told(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE, WHOLE)
    assert [d.doc_id for d in found.documents] == ["one@example.org", "one@example.org#2"]
    assert problems(found) == ["the Message-ID one@example.org comes again"]


def test_a_multipart_that_breaks_off_is_told(tmp_path: Path) -> None:
    found = read(tmp_path, MULTI.partition("--in--")[0])
    assert found.documents[0].text.split() == ["plain", "words"]
    assert any("malformed" in problem for problem in problems(found))


def mail(name: str, *, references: str = "", reply_to: str = "") -> str:
    head = f"From: a@x\nDate: Mon, 06 Jan 2025 12:00:00 +0000\nMessage-ID: <{name}@x>\n"
    head += f"References: {references}\n" if references else ""
    head += f"In-Reply-To: {reply_to}\n" if reply_to else ""
    return head + "\ntext"


def test_references_and_replies_make_threads_in_any_order(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        mail("c", references="<a@x>\n <b@x>"),
        mail("other"),
        mail("a"),
        mail("d", reply_to="<c@x>"),
        mail("e", reply_to="<lost@x>"),
        mail("f", references="<lost@x>"),
    )
    threads = {d.doc_id: d.metadata["thread_id"] for d in found.documents}
    assert threads == {
        "a@x": "a@x",
        "c@x": "a@x",
        "d@x": "a@x",
        "e@x": "lost@x",
        "f@x": "lost@x",
        "other@x": "other@x",
    }


def test_two_threads_that_a_late_mail_joins_are_one(tmp_path: Path) -> None:
    found = read(tmp_path, mail("a"), mail("b"), mail("c", references="<a@x> <b@x>"))
    assert {d.metadata["thread_id"] for d in found.documents} == {"a@x"}


def test_problems_are_counted_by_kind(tmp_path: Path) -> None:
    found = read(tmp_path, "From: a@x\n\ntext", "From: b@x\n\ntext")
    assert list(mbox.problems_of(found)) == [
        "2 of the mails: it has no date (mail 1: mbox-1).",
        "2 of the mails: it has no Message-ID (mail 1: mbox-1).",
    ]


def test_what_is_no_mbox_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "box"
    with pytest.raises(BadFile, match="box: missing file"):
        mbox.read(path)
    path.write_text("no mail\n")
    with pytest.raises(BadFile, match=r"it holds no mail\. A mail begins with a line"):
        mbox.read(path)
