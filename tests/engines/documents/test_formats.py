"""Texts of PDF, HTML, Word and e-mail: in reading order, in paragraphs, and never a crash."""

from __future__ import annotations

import random
import sys
import time
from contextlib import closing
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path
from unittest import mock
from zipfile import ZipFile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from pypdf import PdfWriter

from harness.core.errors import BadFile
from harness_engines.stacks.documents import collection, formats, pdf, texts
from harness_engines.stacks.documents.arm import Documents
from harness_engines.stacks.documents.formats import DocumentText
from harness_engines.stacks.documents.library import DocumentSettings
from harness_engines.stacks.documents.recall import words
from harness_engines.stacks.documents.service import follow as documents
from harness_engines.stacks.documents.texts import Cutting, chunks
from tests.engines.documents.small import read_file, settings
from tests.make.pdf import FORM, HELVETICA, drawn, one_page, placed, stream
from tests.make.pdf import pdf as pages_of

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


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ('<meta charset="gb2312">\u9555\u3447'.encode("gb18030"), "\u9555\u3447"),
        ('<meta charset="iso-8859-1">it\u2019s'.encode("cp1252"), "it\u2019s"),
        ('<!-- charset=koi8-r --><meta charset="utf8">\u00e9'.encode(), "\u00e9"),
        (
            '<?xml version="1.0" encoding="windows-1251"?><p>\u0434\u0430'.encode("cp1251"),
            "\u0434\u0430",
        ),
        (
            '<meta http-equiv=x content="text/html; charset=Shift_JIS">\u8868'.encode("cp932"),
            "\u8868",
        ),
        ('\ufeff<meta charset="latin1">\u00e9'.encode("utf-16-le"), "\u00e9"),
        ('<meta charset="utf-16">\u00e9'.encode(), "\u00e9"),
        ('<meta charset="punycode">\u00e9'.encode(), "\u00e9"),
        (b'<meta charset="utf-8">caf\xe9', "caf\ufffd"),
    ],
)
def test_a_page_has_the_charset_that_browsers_find(data: bytes, says: str) -> None:
    assert read("a.html", data).pages[0].text == says


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


def test_a_word_document_is_read_in_paragraphs() -> None:
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
        *("Tides", "The tide comes in.", "port hour\nBrest | 7", "Twice a day.")
    ]
    (only,) = chunks(found, Cutting(200, 20))
    assert only.provenance.cite() == "tides.docx, para. 1-4, l. 1-8"


W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def worded(body: str) -> str:
    """Read a Word document with this body."""
    made = docx.Document()
    other = docx.oxml.parse_xml(f"<w:body {W}>{body}</w:body>")
    made.element.replace(made.element.body, other)
    packed = BytesIO()
    made.save(packed)
    return read("a.docx", packed.getvalue()).pages[0].text


def run(text: str) -> str:
    return f"<w:r><w:t>{text}</w:t></w:r>"


def table(*cells: str) -> str:
    return f"<w:tbl><w:tr>{''.join(cells)}</w:tr></w:tbl>"


def held(inside: str) -> str:
    """Write a content control."""
    return f"<w:sdt><w:sdtContent>{inside}</w:sdtContent></w:sdt>"


P_IN, P_B = f"<w:p>{run('in')}</w:p>", f"<w:p>{run('b')}</w:p>"
TC_IN = f"<w:tc>{P_IN}</w:tc>"
GONE = f"<w:del><w:r><w:delText>no</w:delText></w:r></w:del><w:moveFrom>{run('no')}</w:moveFrom>"
BOX = f"<w:r><w:txbxContent>{P_IN}</w:txbxContent></w:r>"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (held(P_B), "b"),
        (f"<w:p>{run('a ')}{held(run('b'))}</w:p>", "a b"),
        (f"<w:p><w:ins>{run('new')}</w:ins><w:moveTo>{run('er')}</w:moveTo></w:p>", "newer"),
        (f"<w:p>{GONE}{run('yes')}</w:p>", "yes"),
        (table(f"<w:tc>{table(TC_IN)}</w:tc>", held(f"<w:tc>{P_B}</w:tc>")), "in | b"),
        (f"<w:p><w:hyperlink>{run('a')}</w:hyperlink><w:r><w:tab/></w:r>{run('b')}</w:p>", "a\tb"),
        (f"<w:p>{run('out')}{BOX}{run('side')}</w:p>", "out\nin\nside"),
    ],
)
def test_a_word_document_is_read_as_word_shows_it(body: str, says: str) -> None:
    assert worded(body) == says


def test_a_bomb_is_not_unpacked() -> None:
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


def test_text_of_forms_within_forms_is_read() -> None:
    shown = one_page(
        "BT /F1 12 Tf 72 720 Td (On the page) Tj ET /One Do",
        f"/Resources << {HELVETICA} /XObject << /One 5 0 R >> >>",
        stream("/Two Do", f"{FORM} /Resources << /XObject << /Two 6 0 R >> >>"),
        stream("BT /F1 12 Tf 72 600 Td (in a stamp) Tj ET", f"{FORM} /Resources << {HELVETICA} >>"),
    )
    assert pdf.pages(Path("a.pdf"), shown)[0].text == "On the page\n\nin a stamp"


@pytest.mark.parametrize("needs", ["true", "false"])
def test_what_a_field_was_filled_with_is_read(needs: str) -> None:
    drawn = stream("BT /F1 12 Tf 2 5 Td (Delaware) Tj ET", f"{FORM} /Resources << {HELVETICA} >>")
    field = "/Subtype /Widget /FT /Tx /T (law) /V (Delaware) /Rect [72 500 300 520] /F 4"
    filled = one_page(
        "BT /F1 12 Tf 72 720 Td (Law:) Tj ET",
        f"/Resources << {HELVETICA} >> /Annots [5 0 R]",
        f"<< {field} /DA (/F1 12 Tf 0 g) {'' if needs == 'true' else '/AP << /N 6 0 R >>'} >>",
        drawn,
        catalog=f"/AcroForm << /Fields [5 0 R] /NeedAppearances {needs} /DA (/F1 12 Tf 0 g)"
        f" /DR << {HELVETICA} >> >>",
    )
    assert pdf.pages(Path("a.pdf"), filled)[0].text == "Law:\n\nDelaware"


def test_text_from_right_to_left_is_read_in_order() -> None:
    """Its glyphs are drawn from left to right, as every program draws them."""
    said = "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd"
    chars = "".join(f"<{n:04x}> <{ord(c):04x}>\n" for n, c in enumerate(said[::-1], start=1))
    codes = "".join(f"{n:04x}" for n in range(1, len(said) + 1))
    font = (
        "<< /Type /Font /Subtype /Type0 /BaseFont /None /Encoding /Identity-H /ToUnicode 6 0 R"
        " /DescendantFonts [<< /Type /Font /Subtype /CIDFontType2 /BaseFont /None /DW 600"
        " /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>] >>"
    )
    cmap = (
        "begincmap 1 begincodespacerange <0000> <FFFF> endcodespacerange\n"
        f"{len(said)} beginbfchar\n{chars}endbfchar endcmap"
    )
    content = f"BT /F1 12 Tf 72 720 Td <{codes}> Tj ET"
    whole = one_page(content, "/Resources << /Font << /F1 5 0 R >> >>", font, stream(cmap))
    assert pdf.pages(Path("a.pdf"), whole)[0].text == said


@pytest.mark.parametrize(
    ("turn", "matrix"),
    [(90, "0 1 -1 0 100 72"), (180, "-1 0 0 -1 500 700"), (270, "0 -1 1 0 100 700")],
)
def test_the_lines_of_a_turned_page_are_one_paragraph(turn: int, matrix: str) -> None:
    content = f"BT /F1 12 Tf 14 TL {matrix} Tm (first line) Tj T* (second line) Tj ET"
    whole = one_page(content, f"/Rotate {turn} /Resources << {HELVETICA} >>")
    assert pdf.pages(Path("a.pdf"), whole)[0].text == "first line\nsecond line"


@pytest.mark.slow
def test_a_page_that_draws_itself_is_refused_in_time_and_memory() -> None:
    form = "/F Do " * 8
    own = f"{FORM} /Resources << /XObject << /F 5 0 R >> >>"
    whole = one_page(form, "/Resources << /XObject << /F 5 0 R >> >>", stream(form, own))
    before = time.monotonic()
    with pytest.raises(BadFile, match=r"is damaged, or takes more than .* to read"):
        pdf.pages(Path("a.pdf"), whole)
    assert time.monotonic() - before < 60


def test_a_damaged_pdf_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    whole = drawn(["72 720 Td (only) Tj "]).replace(b"/Count 1 ", b"/Count 9999999 ")
    assert pdf.pages(Path("a.pdf"), whole)[0].text == "only"
    with pytest.raises(BadFile, match="is damaged"):
        pdf.pages(Path("a.pdf"), b"%PDF-1.4 broken")
    assert not caplog.records


MAIL = b"Subject: quince\nContent-Type: text/plain; charset=utf-8\n\nThe quince is ripe.\n"
TEXTS = {
    ".txt": "The quince is ripe. \u00e9".encode(),
    ".md": b"# Quince\n\nThe quince is ripe.\n",
    ".html": b"<meta charset=utf-8><table><tr><td>The quince<td>is ripe.</table><p>Soon.",
    ".eml": MAIL,
    ".mbox": b"From a\n" + MAIL + b"\nFrom b\n" + MAIL,
    ".pdf": pages_of([["The quince is ripe."], ["Soon."]]),
}
BY_WORDS = {"tier": "free", "embedder": "", "sparse": "", "max_tokens": 64}


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


@pytest.mark.parametrize(
    ("each", "pdfs"), [(20, 20), pytest.param(2_000, 300, marks=pytest.mark.slow)]
)
def test_damaged_files_are_read_or_named_and_stop_no_folder(
    whole: dict[str, bytes], tmp_path: Path, each: int, pdfs: int
) -> None:
    """Each PDF is read in a process of its own, so there are fewer."""
    dice, root = random.Random(each), tmp_path / "folder"
    root.mkdir()
    (root / "good.txt").write_text("An apple is in the folder.")
    settings = DocumentSettings.model_validate({**BY_WORDS, "fusion": "specification"})
    live = documents(Documents(settings, tmp_path / "cache"), root, tmp_path / "index")
    with closing(live), live.now() as (opened, _):
        assert opened.search("apple")["results"]
    count = each * (len(whole) - 1) + pdfs
    for suffix, data in whole.items():
        for number in range(pdfs if suffix == ".pdf" else each):
            (root / f"{number}{suffix}").write_bytes(damaged(data, dice))
    with closing(live), live.now() as (opened, done):
        assert opened.search("apple")["results"]
    assert done is not None
    assert len(done.faults) + done.read == count
    assert {fault.path for fault in done.faults} <= {path.name for path in root.iterdir()}
    assert count / 10 < len(done.faults) < count
    assert not [fault for fault in done.faults if "cannot be read (" in fault.why]


LINES = [line for line in (np.linalg.lstsq.__doc__ or "").split("\n") if line.strip()]
PAGES = [LINES[start : start + 30] for start in range(0, len(LINES), 30)]


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Draw a guide of an installed package, page by page."""
    path = tmp_path_factory.mktemp("drawn") / "lstsq.pdf"
    with PdfPages(path) as pages:
        for lines in PAGES:
            page = Figure(figsize=(8.27, 11.69))
            page.text(0.05, 0.95, "\n".join(lines), va="top", family="monospace", parse_math=False)
            pages.savefig(page)
    return path


@pytest.mark.slow
def test_a_pdf_is_cited_by_page_and_characters(guide: Path, tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    words = settings(tier="free", embedder="", sparse="")
    collection.build([read_file(guide, "lstsq.pdf")], tmp_path / "index", words, tmp_path)
    with collection.opened(tmp_path / "index", words, "papers") as opened:
        found = opened.search("the Euclidean 2-norm of minimizing solutions", 1).to_json()
    (found,) = found["results"]
    place = found["source"]
    assert place["page"] == 1
    assert found["citation"].startswith("lstsq.pdf, p. 1, para. ")
    again = read_file(Path(place["document_path"]), "a").pages[0].text
    assert again[place["char_start"] : place["char_end"]] == found["text"]
    on_page = [line.split() for line in PAGES[0]]
    cited = [line.split() for line in found["text"].splitlines()]
    assert cited == on_page[place["line_start"] - 1 : place["line_end"]]
    assert "2-norm" in found["text"]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256"])
def test_a_missing_password_is_named(guide: Path, tmp_path: Path, algorithm: str) -> None:
    for name, password in (("locked.pdf", "secret"), ("open.pdf", "")):
        writer = PdfWriter(clone_from=guide)
        writer.encrypt(password, "the owner's", algorithm=algorithm)
        writer.write(tmp_path / name)
    with pytest.raises(BadFile, match=r"is encrypted with a password\. Save it anew.*without one"):
        read_file(tmp_path / "locked.pdf", "locked")
    assert read_file(tmp_path / "open.pdf", "a").pages == read_file(guide, "a").pages
