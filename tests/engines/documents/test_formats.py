"""Texts of files: in reading order, in paragraphs, counted by a page, and never a crash."""

import time
from collections import Counter
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness_engines.stacks.documents import pdf, texts
from harness_engines.stacks.documents.formats import DocumentText, joined
from harness_engines.stacks.documents.recall import words
from harness_engines.stacks.documents.texts import Cutting, chunks
from harness_engines.stacks.writing.arm import title_of
from tests.make.files import FORM, Made, drawn, files, one_page, placed, stream
from tests.source import ROOT

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
    assert found[-1].cite() == "a.pdf, p. 1, para. 3"
    assert "internationally" in words(only.text)


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


def test_a_box_may_begin_with_a_byte_order_mark() -> None:
    data = b"\xef\xbb\xbfFrom x Mon Jan  6 00:00:00 2025\nSubject: tides\n\nsalt\n"
    assert read("a.mbox", data).pages[0].text == "Subject: tides\n\nsalt"


def test_notes_and_formulas_of_a_word_file_are_read() -> None:
    from docx.opc.constants import RELATIONSHIP_TYPE
    from docx.opc.packuri import PackURI
    from docx.opc.part import Part

    spaces = " ".join(f'xmlns:{one}="{docx.oxml.ns.nsmap[one]}"' for one in "wm")
    made, packed = docx.Document(), BytesIO()
    formula = f"<w:p {spaces}><m:oMath><m:r><m:t>avocet</m:t></m:r></m:oMath></w:p>"
    made.element.body.insert(0, docx.oxml.parse_xml(formula))
    for kind, text in (("FOOTNOTES", "stonechat"), ("ENDNOTES", "wheatear")):
        said = f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"
        notes = f"<w:notes {spaces}><w:note w:id='2'>{said}</w:note></w:notes>".encode()
        named = PackURI(f"/word/{kind.lower()}.xml")
        about = Part(named, "application/xml", notes, made.part.package)
        made.part.relate_to(about, getattr(RELATIONSHIP_TYPE, kind))
    made.save(packed)
    assert read("a.docx", packed.getvalue()).pages[0].text == "avocet\n\nstonechat\n\nwheatear"


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


def text_of(made: Made) -> str:
    if made.format == "titles of notes":
        return title_of(made.name, made.data.decode())[0]
    pages = texts.source(Path(made.name), made.name, made.data).pages
    if made.format == "mbox":
        assert len(pages) == 2
        pages = pages[:1]
    return " ".join(joined(pages).split())


@pytest.mark.parametrize("made", files(), ids=lambda made: made.name)
def test_what_a_file_shows_is_read(made: Made) -> None:
    said = text_of(made)
    assert made.words in said
    assert not made.hidden or made.hidden not in said


def test_the_table_counts_the_files() -> None:
    page = (ROOT / "docs/stacks/documents.md").read_text()
    counts = Counter(made.format for made in files())
    rows = [[*map(str.strip, line.strip("|").split("|"))] for line in page.splitlines()]
    told = {row[0]: int(row[-3]) for row in rows if row[0] in counts}
    assert told == counts
