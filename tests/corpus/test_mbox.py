"""Mail in mbox files, whole and broken."""

import time
from base64 import b64encode
from pathlib import Path
from textwrap import dedent

import pytest

from harness.core.errors import BadFile
from harness.core.markup import MAX_HEADER
from harness.core.records import Document
from harness.corpus import mbox
from harness.corpus.mbox import Mbox

# Mail in mbox files, whole and broken
FIRST = b"From x Mon Jan  6 00:00:00 2025\n"


def box(folder: Path, raw: bytes) -> Mbox:
    (folder / "box").write_bytes(raw)
    return mbox.read(folder / "box")


def read(folder: Path, *mails: str | bytes) -> Mbox:
    raw = (mail if isinstance(mail, bytes) else dedent(mail).encode() for mail in mails)
    return box(folder, b"".join(FIRST + one + b"\n\n" for one in raw))


def ids(found: Mbox) -> list[str]:
    return [document.doc_id for document in found.documents]


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


UNREAD = "caf\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("charset", "raw", "text"),
    [("x-no-such", b"caf\xc3\xa9", "café"), ("utf-8", b"caf\xe9", UNREAD)],
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


PART = "--b\nContent-Type: text/{kind}; charset=utf-8\n\n{text}\n"


@pytest.mark.parametrize(
    ("kind", "parts", "text"),
    [
        ("alternative", [("plain", "\xa0 \n\u200b"), ("html", "<p>tide")], "tide"),
        ("alternative", [("html", "<p>no"), ("plain", "tide")], "tide"),
        ("mixed", [("html", "<p>tide"), ("plain", "footer")], "tide\n\nfooter"),
    ],
    ids=["a blank plain text", "two alternatives", "a footer of a list"],
)
def test_the_part_with_text_in_it_is_taken(
    tmp_path: Path, kind: str, parts: list[tuple[str, str]], text: str
) -> None:
    mail = f"{HEAD}Content-Type: multipart/{kind}; boundary=b\n\n"
    mail += "".join(PART.format(kind=part, text=said) for part, said in parts)
    assert read(tmp_path, mail.encode()).documents[0].text.strip() == text


def test_a_line_of_a_text_that_begins_with_from_begins_no_mail(tmp_path: Path) -> None:
    one = "Message-ID: <1@x>\n\nHi,\n\nFrom the orchard we took:\nApples: nine\n\n"
    one += "From ann Mon Jan  6 00:00:00 2025\nand no header.\n"
    for first in (b"From ann Mon Jan  6 00:00:00 2025\n", b"From - Mon Jan  6 00:00:00 2025\r\n"):
        raw = first + one.encode() + first + b"Message-ID: <2@x>\n\nsecond\n"
        found = box(tmp_path, raw)
        assert ids(found) == ["1@x", "2@x"]
        assert "Apples: nine" in found.documents[0].text


def test_a_bare_line_from_begins_a_mail_after_a_blank_line(tmp_path: Path) -> None:
    dated = b"From - Mon Jan  6 00:00:00 2025\r\nMessage-ID: <1@x>\r\n\r\none\r\n"
    bare = b"From \r\nTo: us\r\n\r\nFrom \r\nMessage-ID: <2@x>\r\n\r\ntwo\r\n"
    found = box(tmp_path, dated + bare)
    assert ids(found) == ["1@x", "2@x"]
    assert "To: us" in found.documents[0].text


def test_a_byte_order_mark_hides_no_mail(tmp_path: Path) -> None:
    marked = b"\xef\xbb\xbf" + FIRST + b"Message-ID: <1@x>\n\none\n"
    assert ids(box(tmp_path, marked)) == ["1@x"]


def test_a_message_id_that_comes_again_is_kept_apart_and_told(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE, WHOLE)
    assert ids(found) == ["one@example.org", "one@example.org#2"]
    assert problems(found) == ["the Message-ID one@example.org comes again"]
    found = read(tmp_path, *(f"Message-ID: <{one}>\n\ntext\n" for one in ("x#3", "x", "x")))
    assert ids(found) == ["x#3", "x", "x#3#3"]


def mail(name: str, *, references: str = "", reply_to: str = "") -> str:
    head = f"From: a@x\nDate: Mon, 06 Jan 2025 12:00:00 +0000\nMessage-ID: <{name}@x>\n"
    head += f"References: {references}\n" if references else ""
    head += f"In-Reply-To: {reply_to}\n" if reply_to else ""
    return head + "\ntext"


def test_references_and_replies_make_threads_in_any_order(tmp_path: Path) -> None:
    mails = [mail("c", references="<a@x>\n <b@x>"), mail("other"), mail("a")]
    mails += [mail("d", reply_to="<c@x>"), mail("e", reply_to="<lost@x>")]
    found = read(tmp_path, *mails, mail("f", references="<lost@x>"))
    threads = " ".join(f"{d.doc_id}:{d.metadata['thread_id']}" for d in found.documents)
    wanted = "c@x:a@x other@x:other@x a@x:a@x d@x:a@x e@x:lost@x f@x:lost@x"
    assert threads == wanted


def test_what_is_no_mbox_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"it holds no mail\. A mail begins with a line"):
        box(tmp_path, b"no mail\n")


# One bad mail never ends an import, costs little, and is told; what came before it is there
DATED = b"Date: Mon, 06 Jan 2025 12:00:00 +0000\n"
GOOD = b"From: a@example.org\nMessage-ID: <%d@x>\n" + DATED + b"\nwords\n\n"
SECONDS = 5.0
"""Of a processor: far more than any of these takes, and less than the slowest took."""


def among(folder: Path, mail: bytes, *, first: bytes = FIRST) -> Mbox:
    """Read the mail between two good ones."""
    began = time.thread_time()
    found = box(folder, FIRST + GOOD % 1 + first + mail + b"\n\n" + FIRST + GOOD % 2)
    assert time.thread_time() - began < SECONDS
    first_id, _, last_id = ids(found)
    assert (first_id, last_id) == ("1@x", "2@x")
    return found


def test_a_first_line_that_is_not_ascii(tmp_path: Path) -> None:
    found = among(tmp_path, GOOD % 3, first=b"From J\xf6rg Mon Jan  6 00:00:00 2025\n")
    assert found.documents[1].text == "words"


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


def test_parts_within_parts(tmp_path: Path) -> None:
    levels = 2_000
    heads = (
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (at, at) for at in range(levels)
    )
    found = among(tmp_path, b"Message-ID: <bad@x>\n" + b"".join(heads) + b"\n\nwords\n")
    assert "words" in found.documents[1].text
    assert any("cannot be read" in note.problem for note in found.notes)


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
