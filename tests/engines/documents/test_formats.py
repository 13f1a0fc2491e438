"""Texts of PDF, HTML, Word and e-mail: in reading order, in paragraphs, and never a crash."""

from __future__ import annotations

import random
import sys
import time
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import BadFile
from harness_engines.stacks.documents import pdf, texts
from harness_engines.stacks.documents.formats import DocumentText
from harness_engines.stacks.documents.recall import words
from harness_engines.stacks.documents.texts import Cutting, chunks
from tests.make.files import FORM, drawn, one_page, placed, stream
from tests.make.files import pdf as pages_of

LEFT = ["Salt water lies in the sea", "and moves with the moon."]
RIGHT = ["Fresh water runs in rivers", "and fills the lakes inter-", "nationally."]
TWO_COLUMNS = [
    *((72, 700 - 14 * at, line) for at, line in enumerate(LEFT)),
    *((330, 700 - 14 * at, line) for at, line in enumerate(RIGHT)),
    *((72, 640 - 14 * at, line) for at, line in enumerate(["A new paragraph stands", "below."])),
]
docx = pytest.importorskip("docx", reason='needs the extra "documents"')


def read(name: str, data: bytes) -> DocumentText:
    return texts.source(Path(name), name, data)


def test_columns_are_read_one_after_the_other() -> None:
    """The file draws line by line over both columns; a reader reads down each."""
    drawn = sorted(TWO_COLUMNS, key=lambda line: (-line[1], line[0]))
    (only,) = pdf.pages(Path("a.pdf"), placed([drawn]))
    assert only.text == "\n\n".join([
        "\n".join(LEFT), "A new paragraph stands\nbelow.", "\n".join(RIGHT)
    ])  # fmt: skip
    found = [*chunks(read("a.pdf", placed([drawn])), Cutting(60, 10))]
    assert found[-1].provenance.cite() == "a.pdf, p. 1, para. 3"
    assert "internationally" in words(only.text)


def test_without_the_extra_its_files_are_refused_with_the_command_that_installs_it() -> None:
    for name, module in (("a.pdf", "pypdfium2"), ("a.docx", "docx")):
        with (
            mock.patch.dict(sys.modules, {module: None}),
            pytest.raises(BadFile, match=f"is a {name[2:]} file") as caught,
        ):
            read(name, b"PK")
        assert "[documents]" in caught.value.hint


PAGE = (
    "<html><head><meta charset=latin1><title>Tea</title><script>no()</script></head><body>"
    "<h1>How to</h1><p>Boil <b>wa</b>ter,\n then<br>wait.</p><ul><li>cup<li>caf\u00e9</ul>"
    "<pre>if x:\n    y()</pre><table><tr><td>a<td>b</table></body></html>"
)


def test_a_page_is_read_in_paragraphs() -> None:
    made = read("tea.html", PAGE.encode("latin-1"))
    assert made.pages[0].text.split("\n\n") == [
        *("Tea", "How to", "Boil water, then\nwait.", "cup", "caf\u00e9"),
        *("if x:\n    y()", "a b"),
    ]
    last = [*chunks(made, Cutting(20, 5))][-1]
    assert last.provenance.cite() == "tea.html, para. 6-7, l. 13-15"


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("a.html", b"<script>only()</script>", "has no text"),
        ("a.html", b"<p>caf\xe9", "names no charset, and is not UTF-8"),
        ("a.html", b"<meta charset=klingon>\xff", "names no charset"),
        ("a.eml", b"", "holds no mail"),
        ("a.mbox", b"Subject: x\n\ny", "holds no mail"),
        ("a.docx", b"PK", "is damaged, or no docx"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_remedy(name: str, data: bytes, problem: str) -> None:
    with pytest.raises(BadFile, match=problem) as caught:
        read(name, data)
    assert caught.value.hint


def letter() -> bytes:
    made = EmailMessage()
    made["Subject"] = "Gezeiten f\u00fcr M\u00e4rz"
    made["From"] = "Ada <ada@example.org>"
    made["To"] = "bo@example.org"
    made.set_content("The tide\ncomes in.\n\nTwice.\n")
    made.add_alternative("<p>The tide comes in.</p>", subtype="html")
    made.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="x.pdf")
    return made.as_bytes()


def test_a_mail_is_its_headers_and_its_text() -> None:
    said = read("a.eml", letter()).pages[0].text
    assert said.split("\n\n") == [
        "Subject: Gezeiten f\u00fcr M\u00e4rz\nFrom: Ada <ada@example.org>\nTo: bo@example.org",
        "The tide\ncomes in.",
        "Twice.",
    ]
    bad = b"Subject: =?punycode?q?x?=\nContent-Type: text/plain; charset=punycode\n\nbody"
    pages = read("all.mbox", b"From a\n" + letter() + b"\nFrom b \xff\n" + bad).pages
    assert [one.number for one in pages] == [1, 2]
    assert "The tide" in pages[0].text
    assert "body" in pages[1].text


@given(st.binary(max_size=200))
def test_no_bytes_break_a_reader(data: bytes) -> None:
    for name, prefix in (("a.eml", b""), ("a.mbox", b"From "), ("a.html", b"<p>")):
        try:
            made = read(name, prefix + data)
        except BadFile:
            continue
        assert made.pages


def table(*cells: str) -> str:
    return f"<w:tbl><w:tr>{''.join(cells)}</w:tr></w:tbl>"


def test_a_glyph_without_a_character_is_one_mark() -> None:
    """The last glyphs are of a font that says nothing of its characters."""
    font = (
        "<< /Type /Font /Subtype /Type0 /BaseFont /None /Encoding /Identity-H /DescendantFonts"
        " [<< /Type /Font /Subtype /CIDFontType2 /BaseFont /None /CIDSystemInfo"
        " << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >>"
        " /FontDescriptor << /Type /FontDescriptor /FontName /None /Flags 4 >> >>] >>"
    )
    shown = "/F1 12 Tf 72 720 Td (Revenue) Tj /F2 12 Tf <00070008> Tj "
    whole = drawn([shown]).replace(b"/Font << /F1", b"/Font << /F2 " + font.encode() + b" /F1")
    (page,) = pdf.pages(Path("a.pdf"), whole)
    assert page.text == "Revenue\ufffd\ufffd"


@pytest.mark.slow
def test_a_page_that_draws_itself_is_refused_in_time_and_memory() -> None:
    form = "/F Do " * 8
    own = f"{FORM} /Resources << /XObject << /F 5 0 R >> >>"
    whole = one_page(form, "/Resources << /XObject << /F 5 0 R >> >>", stream(form, own))
    before = time.monotonic()
    with pytest.raises(BadFile, match=r"is damaged, or takes more than .* to read"):
        pdf.pages(Path("a.pdf"), whole)
    assert time.monotonic() - before < 60


MAIL = b"Subject: quince\nContent-Type: text/plain; charset=utf-8\n\nThe quince is ripe.\n"
TEXTS = {
    ".txt": "The quince is ripe. \u00e9".encode(),
    ".md": b"# Quince\n\nThe quince is ripe.\n",
    ".html": b"<meta charset=utf-8><table><tr><td>The quince<td>is ripe.</table><p>Soon.",
    ".eml": MAIL,
    ".mbox": b"From a\n" + MAIL + b"\nFrom b\n" + MAIL,
    ".pdf": pages_of([["The quince is ripe."], ["Soon."]]),
}


@pytest.fixture(scope="module")
def whole() -> dict[str, bytes]:
    """One file of each format, by the end of its name."""
    docx = pytest.importorskip("docx", reason='needs the extra "documents"')
    made, packed = docx.Document(), BytesIO()
    made.add_paragraph("The quince is ripe.")
    made.save(packed)
    return {**TEXTS, ".docx": packed.getvalue()}


def damaged(data: bytes, dice: random.Random) -> bytes:
    """Cut a file, flip some of its bits, write over a stretch of it, or leave a stretch out."""
    content = bytearray(data)
    at, length = dice.randrange(len(content)), dice.randrange(1, 40)
    match dice.randrange(4):
        case 0:
            del content[at:]
        case 1:
            for _ in range(length):
                content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        case 2:
            content[at : at + length] = dice.randbytes(length)
        case _:
            del content[at : at + length]
    return bytes(content)
