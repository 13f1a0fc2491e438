"""Texts of files, and their chunks: where they stand, how they are cited, and what keeps them."""

import itertools
import sqlite3
import time
from bisect import bisect_right
from collections import Counter
from contextlib import closing
from dataclasses import replace
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.core.errors import BadFile
from harness_engines.stacks.documents import library, pdf, texts
from harness_engines.stacks.documents.library import words
from harness_engines.stacks.documents.texts import (
    Cutting,
    DocumentText,
    NumberSpan,
    TextPage,
    chunks,
    stretches,
)
from harness_engines.stacks.writing.arm import title_of
from tests.make.files import FORM, Made, drawn, files, one_page, placed, stream
from tests.make.files import pdf as made_pdf
from tests.source import ROOT

SPECIFIED = Cutting(2000, 200)
CUTTING = st.integers(20, 60).flatmap(
    lambda size: st.builds(Cutting, st.just(size), st.integers(0, (size - 1) // 2))
)
SIGNS = st.sampled_from("ab .!\n\r\t\u00e9\u2003\U0001f600\u0301")
TEXT = st.text(SIGNS, max_size=400) | st.text(max_size=200)


def source(*pages: str) -> DocumentText:
    numbered = tuple(TextPage(number, text) for number, text in enumerate(pages, start=1))
    return DocumentText("doc", "doc.pdf", "/somewhere/doc.pdf", numbered)


@settings(max_examples=100)
@example(text="ab" * 100, cutting=Cutting(40, 15))
@given(text=TEXT, cutting=CUTTING)
def test_chunks_cover_the_text_in_order_within_their_bounds(text: str, cutting: Cutting) -> None:
    found = list(stretches(text, cutting))
    covered = {at for start, end in found for at in range(start, end)}
    assert {at for at, one in enumerate(text) if not one.isspace()} <= covered
    for one, other in itertools.pairwise(found):
        assert one[0] < other[0]
        assert one[1] < other[1]
        assert one[1] - one[0] <= cutting.characters
        assert one[1] - other[0] <= cutting.overlap
    for start, end in found[-1:]:
        assert end - start <= cutting.characters + cutting.overlap
    for chunk in chunks(source(text), cutting):
        assert text[chunk.char_start : chunk.char_end] == chunk.text
        assert chunk.text == chunk.text.strip() != ""


def test_a_chunk_ends_with_a_paragraph_else_a_sentence_else_a_word() -> None:
    cutting = Cutting(40, 15)
    rest = "z" * 60
    for head, ended in {
        "a" * 20 + " bc. de\n\nfg. hi jk ": "de",
        "a" * 20 + " bc. de fg. hi jkl mn ": "fg.",
        "a" * 20 + " bc de fg hi jkl mn ": "mn",
        "a" * 90: "a" * 40,
    }.items():
        start, end = next(stretches(head + rest, cutting))
        assert (head + rest)[start:end].endswith(ended)
    assert list(stretches("x" * 2200, SPECIFIED)) == [(0, 2200)]
    assert list(stretches("x" * 2201, SPECIFIED)) == [(0, 2000), (1800, 2201)]
    found = list(stretches("word " * 2000, SPECIFIED))
    assert [end - start for start, end in found[:-1]] == [1999] * (len(found) - 1)
    assert all(one[1] - other[0] == 199 for one, other in itertools.pairwise(found))
    whole = list(stretches("word " * 60, Cutting(42, 10)))
    assert all(start % 5 == 0 and end % 5 == 4 for start, end in whole)


def test_chunks_are_numbered_through_all_pages() -> None:
    (place,) = chunks(source("The first\n\npage and", "its end.\n\nMore"), SPECIFIED)
    assert place.text == "The first\n\npage and\nits end.\n\nMore"
    assert (place.page, place.page_end, place.char_start) == (1, 2, 0)
    assert place.char_end == len("its end.\n\nMore")
    assert (place.paragraphs, place.lines) == ((1, 2), (1, 3))
    assert place.cite() == "doc.pdf, p. 1, para. 1 to p. 2, para. 2"
    assert place.cite_short() == "doc, p. 1-2"
    first, third = chunks(source("first page.", " \n ", "Third page\n\nits end"), SPECIFIED)
    assert (first.page, first.index, first.id) == (1, 0, "doc#000000")
    assert (third.page, third.index, third.id) == (3, 1, "doc#000001")
    assert (third.paragraphs, third.char_start) == ((1, 2), 0)
    box = replace(source("Subject: tea,", "salt"), name="all.mbox")
    assert [(chunk.text, chunk.cite()) for chunk in chunks(box, SPECIFIED)] == [
        ("Subject: tea,", "all.mbox, mail 1, para. 1"),
        ("salt", "all.mbox, mail 2, para. 1"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "pages"),
    [
        ("It ends.", "and so on", [1, 2]),
        ("A title", "Another title", [1, 2]),
        ("words, ", "and more", [1]),
        ("inter-\n", "national", [1]),
        ("东京", "大学。", [1]),
        ("东京。", "大学", [1, 2]),
        ("page", " ", [1]),
        ("", "page", [2]),
        ("page", "12", [1, 2]),
    ],
)
def test_only_a_sentence_joins_pages(before: str, after: str, pages: list[int]) -> None:
    assert [chunk.page for chunk in chunks(source(before, after), SPECIFIED)] == pages


@given(st.text("ab \n\r\t", max_size=60))
def test_lines_are_those_of_reading_with_universal_line_ends(text: str) -> None:
    starts, _ = texts.layout_of(text)
    for at in range(len(text)):
        before = text[:at].replace("\r\n", "\n").replace("\r", "\n")
        expected = before.count("\n") + 1 - text[at - 1 : at + 1].count("\r\n")
        assert bisect_right(starts, at) == expected


ON_A_PAGE = texts.DocumentChunk(
    DocumentText("abc", "Q3.v2.pdf", "/originals/Q3.v2.pdf", ()), index=14, text="",
    page=12, page_end=12, paragraphs=NumberSpan(8, 8), lines=NumberSpan(1, 4),
    char_start=24580, char_end=26580,
)  # fmt: skip
IN_A_TEXT = replace(ON_A_PAGE, page=None, page_end=None)


@pytest.mark.parametrize(
    ("place", "place_in_full", "place_in_short"),
    [
        (ON_A_PAGE, "p. 12, para. 8", "p. 12"),
        (replace(ON_A_PAGE, paragraphs=NumberSpan(8, 9)), "p. 12, para. 8-9", "p. 12"),
        (replace(IN_A_TEXT, lines=NumberSpan(3, 3)), "para. 8, l. 3", "l. 3"),
        (IN_A_TEXT, "para. 8, l. 1-4", "l. 1-4"),
    ],
)
def test_a_citation_in_full_and_in_short(
    place: texts.DocumentChunk, place_in_full: str, place_in_short: str
) -> None:
    assert place.cite() == f"Q3.v2.pdf, {place_in_full}"
    assert place.cite_short() == f"Q3.v2, {place_in_short}"


TEXTS = {
    "unix.txt": "one\ntwo\n\nthree caf\u00e9 \U0001f600 four\n" * 40,
    "windows.md": "\ufeff# Title\r\n\r\nSome text of the file.\r\nAnd more. " * 40,
    "old.rst": "old mac\rline ends\r\rand a form\x0cfeed\x85next " * 40,
    "notes/deep.markdown": "zero\0width\u200bspaces\u2028and separators " * 40,
}
PAGES = [["The first page of a report.", "It has two lines."], [], ["Retention is at 94 per cent."]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in TEXTS.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
    (tmp_path / "report.PDF").write_bytes(made_pdf(PAGES))
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    return tmp_path


def test_places_are_bytes_of_the_original_file(root: Path) -> None:
    paths = sorted(path for path in root.rglob("*") if path.suffix.lower() in texts.SUFFIXES)
    sources = [
        texts.source(path, path.relative_to(root).as_posix(), path.read_bytes()) for path in paths
    ]
    for cutting, source in itertools.product((SPECIFIED, Cutting(60, 20)), sources):
        for chunk in chunks(source, cutting):
            original = Path(source.path).read_bytes().decode("utf-8", "replace")
            if chunk.page is not None:
                original = source.pages[chunk.page - 1].text
            cited = original[chunk.char_start : chunk.char_end]
            assert cited.encode() == chunk.text.encode()
    assert [one.document_id for one in sources] == sorted([*TEXTS, "report.PDF"])
    notes = [note for one in sources for note in one.notes]
    assert notes == ["no text on page 2; it cannot be found"]


def test_what_stands_around_a_chunk_joins_it_without_repetition() -> None:
    words = " ".join(f"word{n}" for n in range(60))
    pages = "first " * 25, "second " * 15
    notes = DocumentText("b.md", "b.md", "/docs/b.md", (TextPage(None, words),))
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(library.TABLES)
        for document in (notes, source(*pages, " "), replace(source(""), document_id="empty")):
            library.put(db, document, Cutting(100, 20), "now")
        made = library.read(db)
    found = [chunk for chunk in made.chunks if chunk.source.name == "b.md"]
    for one, chunk, other in zip(found, found[1:], found[2:], strict=False):
        before, after = made.around(chunk)
        assert before
        assert after
        assert one.text.startswith(before)
        assert other.text.endswith(after)
        assert f"{before} {chunk.text} {after}" in words
    assert made.around(found[0])[0] == ""
    assert made.around(found[-1])[1] == ""
    first, second, *_ = (chunk for chunk in made.chunks if chunk.source.name == "doc.pdf")
    assert (second.page, second.page_end) == (1, 2)
    whole = " ".join(" ".join(pages).split())
    behind, before = made.around(first)[1], made.around(second)[0]
    for text in (f"{first.text} {behind}", f"{before} {second.text}"):
        assert whole.startswith(" ".join(text.split()))


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
    whole = read("a.pdf", placed([drawn]))
    text = "\n\n".join(["\n".join(LEFT), "A new paragraph stands\nbelow.", "\n".join(RIGHT)])
    assert [page.text for page in whole.pages] == [text]
    assert [*chunks(whole, Cutting(60, 10))][-1].cite() == "a.pdf, p. 1, para. 3"
    assert "internationally" in words(text)


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


SAYS_UTF8 = b"Content-Type: text/plain; charset=utf-8\n\n"


@pytest.mark.parametrize(
    ("name", "data", "note"),
    [
        ("a.html", b"<meta charset=cp1252><p>caf\xc3\xa9", "names windows-1252, and is UTF-8"),
        ("a.html", b"<meta charset=utf-8><p>caf\xe9", "is not utf-8, which it names"),
        ("a.eml", SAYS_UTF8 + b"caf\xe9", "its text is not utf-8, as it says"),
        ("a.mbox", b"From x\n\nsalt\n\nFrom x\n" + SAYS_UTF8 + b"caf\xe9", "as mail 2: its text"),
        ("a.html", b"<meta charset=cp1252><p>caf\xe9", ""),
        ("a.html", b"<meta charset=cp1252><p>cafe", ""),
    ],
)
def test_a_charset_that_may_be_wrong_is_said(name: str, data: bytes, note: str) -> None:
    said = read(name, data).notes
    assert bool(said) == bool(note)
    assert note in "".join(said)


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
    assert page == "Revenue\ufffd\ufffd"


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
    return " ".join(texts.joined(pages).split())


@pytest.mark.parametrize("made", files(), ids=lambda made: made.name)
def test_what_a_file_shows_is_read(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PDF is read in this process: none of these is damaged."""
    monkeypatch.setattr(pdf, "pages", lambda _, data: [*pdf.texts(data)])
    said = text_of(made)
    assert made.words in said
    assert not made.hidden or made.hidden not in said


def test_the_table_counts_the_files() -> None:
    page = (ROOT / "docs/stacks/documents.md").read_text()
    counts = Counter(made.format for made in files())
    rows = [[*map(str.strip, line.strip("|").split("|"))] for line in page.splitlines()]
    told = {row[0]: int(row[-3]) for row in rows if row[0] in counts}
    assert told == counts
