"""Texts of PDF, HTML, Word and e-mail: in reading order, in paragraphs, and never a crash."""

from __future__ import annotations

from email.message import EmailMessage
from io import BytesIO
from pathlib import Path
from unittest import mock
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.stacks.documents import formats, pdf, texts
from engines.stacks.documents.formats import Source
from engines.stacks.documents.recall import words
from engines.stacks.documents.texts import Cutting, chunks
from harness.core.errors import BadFile
from tests.make.pdf import drawn, placed

LEFT = ["Salt water lies in the sea", "and moves with the moon."]
RIGHT = ["Fresh water runs in rivers", "and fills the lakes inter-", "nationally."]
TWO_COLUMNS = [
    *((72, 700 - 14 * at, line) for at, line in enumerate(LEFT)),
    *((330, 700 - 14 * at, line) for at, line in enumerate(RIGHT)),
    *((72, 640 - 14 * at, line) for at, line in enumerate(["A new paragraph stands", "below."])),
]


def needs_layout() -> None:
    pytest.importorskip("pdfminer", reason='needs the extra "documents"')


def read(name: str, data: bytes) -> Source:
    return texts.source(Path(name), name, data)


def test_columns_are_read_one_after_the_other() -> None:
    """The file draws line by line over both columns; a reader reads down each."""
    needs_layout()
    drawn = sorted(TWO_COLUMNS, key=lambda line: (-line[1], line[0]))
    (only,) = pdf.pages(Path("a.pdf"), placed([drawn]))
    assert only.text == "\n\n".join([
        "\n".join(LEFT), "A new paragraph stands\nbelow.", "\n".join(RIGHT)
    ])  # fmt: skip
    found = [*chunks(read("a.pdf", placed([drawn])), Cutting(60, 10))]
    assert found[-1].provenance.cite() == "a.pdf, p. 1, para. 3"
    assert "internationally" in words(only.text)


def test_without_the_extra_the_order_is_that_of_the_file() -> None:
    with mock.patch.object(pdf, "has_layout", return_value=False):
        (only,) = pdf.pages(Path("a.pdf"), placed([TWO_COLUMNS]))
    assert [line.strip() for line in only.text.splitlines()][:2] == LEFT
    assert "\n\n" not in only.text


def test_a_sentence_over_two_pages_is_one_chunk() -> None:
    made = read("a.pdf", placed([[(72, 100, "The tide comes")], [(72, 700, "twice a day.")]]))
    (found,) = chunks(made, Cutting(200, 20))
    assert " ".join(found.text.split()) == "The tide comes twice a day."
    assert found.provenance.cite() == "a.pdf, p. 1, para. 1 to p. 2, para. 1"


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
        ("a.html", b"<p>caf\xe9", "is not in utf-8"),
        ("a.html", b"<meta charset=klingon>x", "is not in klingon"),
        ("a.eml", b"", "holds no mail"),
        ("a.mbox", b"Subject: x\n\ny", "holds no mail"),
        ("a.docx", b"PK", "is damaged, or no Word document"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_remedy(name: str, data: bytes, problem: str) -> None:
    if name.endswith("docx"):
        pytest.importorskip("docx", reason='needs the extra "documents"')
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


def test_mails_of_a_file_are_numbered_and_one_bad_mail_does_not_end_it() -> None:
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


def test_a_word_document_is_read_in_paragraphs() -> None:
    docx = pytest.importorskip("docx", reason='needs the extra "documents"')
    made = docx.Document()
    made.add_heading("Tides")
    made.add_paragraph("The tide comes in.")
    table = made.add_table(2, 2)
    for at, text in enumerate(["port", "hour", "Brest", "7"]):
        table.cell(at // 2, at % 2).text = text
    table.cell(0, 0).merge(table.cell(0, 1))
    made.add_paragraph("")
    made.add_paragraph("Twice a day.")
    written = BytesIO()
    made.save(written)
    found = read("tides.docx", written.getvalue())
    assert found.pages[0].text.split("\n\n") == [
        *("Tides", "The tide comes in.", "port hour\nBrest | 7", "Twice a day."),
    ]
    (only,) = chunks(found, Cutting(200, 20))
    assert only.provenance.cite() == "tides.docx, para. 1-4, l. 1-8"


def test_a_bomb_is_not_unpacked() -> None:
    pytest.importorskip("docx", reason='needs the extra "documents"')
    packed = BytesIO()
    with ZipFile(packed, "w") as parts:
        parts.writestr("word/document.xml", b"x" * 100)
    with (
        mock.patch.object(formats, "MAX_UNPACKED_BYTES", 99),
        pytest.raises(BadFile, match="unpacks to 100 bytes"),
    ):
        formats.text_of_word(Path("a.docx"), packed.getvalue())


def test_a_glyph_without_a_character_is_one_mark() -> None:
    """The last glyphs are of a font that says nothing of its characters."""
    needs_layout()
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


def test_a_damaged_pdf_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(BadFile, match="is damaged"):
        pdf.pages(Path("a.pdf"), b"%PDF-1.4 broken")
    assert not caplog.records
