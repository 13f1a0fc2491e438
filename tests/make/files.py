"""Files as programs write them, and what a person reads in each; PDFs byte by byte."""

import tomllib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import NamedTuple


def pdf(pages: Sequence[Sequence[str]]) -> bytes:
    """Write a PDF; each page holds lines of ASCII, below each other."""
    lines_of = ["".join(f"({line}) Tj T* " for line in lines) for lines in pages]
    return drawn([f"14 TL 72 720 Td {shown}" for shown in lines_of])


def placed(pages: Sequence[Sequence[tuple[int, int, str]]]) -> bytes:
    """Write a PDF; each page holds lines of ASCII, x and y from its lower left corner."""
    return drawn(["".join(f"1 0 0 1 {x} {y} Tm ({t}) Tj " for x, y, t in page) for page in pages])


def drawn(pages: Sequence[str]) -> bytes:
    """Write a PDF (ISO 32000, section 7.5) of pages that are drawn so."""
    font = 3 + 2 * len(pages)
    kids = " ".join(f"{3 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
    ]
    for number, page in enumerate(pages):
        shown = f"BT /F1 12 Tf {page}ET"
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792]"
            f" /Contents {4 + 2 * number} 0 R /Resources << /Font << /F1 {font} 0 R >> >> >>"
        )
        objects.append(stream(shown))
    return written([*objects, "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"])


HELVETICA = "/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
FORM = "/Type /XObject /Subtype /Form /BBox [0 0 612 792]"


def one_page(content: str, about: str, *others: str, catalog: str = "") -> bytes:
    """Write a page; its other objects are numbered from 5."""
    return written([
        f"<< /Type /Catalog /Pages 2 0 R {catalog} >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R {about} >>",
        stream(content),
        *others,
    ])


def stream(content: str, about: str = "") -> str:
    """Write an object that holds content, such as what a form draws."""
    return f"<< {about} /Length {len(content)} >>\nstream\n{content}\nendstream"


def written(objects: Sequence[str]) -> bytes:
    """Write a PDF of these objects, numbered from 1; the first is its catalog."""
    whole, places = "%PDF-1.4\n", []
    for number, one in enumerate(objects, start=1):
        places.append(len(whole))
        whole += f"{number} 0 obj\n{one}\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(whole)}\n%%EOF\n"
    return (whole + f"xref\n0 {size}\n0000000000 65535 f \n" + table + end).encode("ascii")


class Made(NamedTuple):
    """One file: its words are those that are read, and ``hidden`` has some that nobody sees.

    Of a note the words are its title.
    """

    format: str
    name: str
    data: bytes
    words: str
    hidden: str = ""


Shown = tuple[bytes, str] | tuple[bytes, str, str]
"""A file, the words that are read in it, and words in it that nobody sees."""
FONT = f"/Resources << {HELVETICA} >>"
WITH_FORM = f"/Resources << {HELVETICA} /XObject << /A 5 0 R >> >>"
LABEL = "/Subtype /Widget /T (law) /Rect [72 500 300 520] /F 4 /DA (/F1 12 Tf 0 g)"
ASKED = f"/AcroForm << /Fields [5 0 R] /NeedAppearances true /DR << {HELVETICA} >> >>"
ANNOTATION = "<< /Type /Annot /Rect [72 500 372 520] /F 4"


def shown(text: str, *, y: int = 720) -> str:
    return f"BT /F1 12 Tf 72 {y} Td ({text}) Tj ET"


def form(text: str, about: str = FONT) -> str:
    return stream(shown(text, y=600), f"{FORM} {about}")


def field(about: str) -> bytes:
    widget = f"<< {LABEL} {about} >>"
    return one_page(shown("Law:"), f"{FONT} /Annots [5 0 R]", widget, catalog=ASKED)


def composite(text: str) -> tuple[str, str, str]:
    """Draw a text from left to right by numbers of glyphs: the page, its font and its map."""
    chars = "".join(f"<{n:04x}> <{ord(c):04x}>\n" for n, c in enumerate(text, start=1))
    codes = "".join(f"{n:04x}" for n in range(1, len(text) + 1))
    font = (
        "<< /Type /Font /Subtype /Type0 /BaseFont /None /Encoding /Identity-H /ToUnicode 6 0 R"
        " /DescendantFonts [<< /Type /Font /Subtype /CIDFontType2 /BaseFont /None /DW 600"
        " /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>] >>"
    )
    coded = (
        "begincmap 1 begincodespacerange <0000> <FFFF> endcodespacerange\n"
        f"{len(text)} beginbfchar\n{chars}endbfchar endcmap"
    )
    return f"BT /F1 12 Tf 72 720 Td <{codes}> Tj ET", font, stream(coded)


def lettered(text: str) -> bytes:
    content, *others = composite(text)
    return one_page(content, "/Resources << /Font << /F1 5 0 R >> >>", *others)


def turned(angle: int, matrix: str) -> bytes:
    content = f"BT /F1 12 Tf 14 TL {matrix} Tm (salt water) Tj T* (moves slowly) Tj ET"
    return one_page(content, f"/Rotate {angle} {FONT}")


COLUMNS = placed([
    [
        (x, y, text)
        for y, *row in ((700, "salt water", "fresh water"), (686, "in the sea", "in rivers"))
        for x, text in zip((72, 330), row, strict=True)
    ]
])
ABOVE = f"/MediaBox [0 0 612 792] {WITH_FORM.replace('5 0 R', '7 0 R')}"
TWO_PAGES = written([
    "<< /Type /Catalog /Pages 2 0 R >>",
    f"<< /Type /Pages /Kids [3 0 R 4 0 R] /Count 2 {ABOVE} >>",
    "<< /Type /Page /Parent 2 0 R /Contents 5 0 R >>",
    "<< /Type /Page /Parent 2 0 R /Contents 6 0 R >>",
    stream(f"{shown('first leaf')} /A Do"),
    stream("/A Do"),
    form("letterhead"),
])
PDFS = {
    "plain": (pdf([["The tide comes in."], ["Twice a day."]]), "The tide comes in. Twice a day."),
    "columns": (COLUMNS, "salt water in the sea fresh water in rivers"),
    "form": (one_page(f"{shown('On it')} /A Do", WITH_FORM, form("a stamp")), "On it a stamp"),
    "form in a form": (
        one_page(
            "/A Do",
            WITH_FORM,
            stream("/B Do", f"{FORM} /Resources << /XObject << /B 6 0 R >> >>"),
            form("a seal"),
        ),
        "a seal",
    ),
    "scaled form": (one_page("q .5 0 0 .5 9 9 cm /A Do Q", WITH_FORM, form("mildew")), "mildew"),
    "form of the page's fonts": (one_page("/A Do", WITH_FORM, form("canker", "")), "canker"),
    "form on two pages": (TWO_PAGES, "first leaf letterhead letterhead"),
    "layer": (
        one_page(
            f"/OC /L BDC {shown('sorrel rust')} EMC",
            f"/Resources << {HELVETICA} /Properties << /L 5 0 R >> >>",
            "<< /Type /OCG /Name (L) >>",
            catalog="/OCProperties << /OCGs [5 0 R] /D << /ON [5 0 R] >> >>",
        ),
        "sorrel rust",
    ),
    "stamp": (
        one_page(
            shown("Lease"),
            f"{FONT} /Annots [5 0 R]",
            f"{ANNOTATION} /Subtype /Stamp /AP << /N 6 0 R >> >>",
            stream(
                "BT /F1 12 Tf 2 5 Td (approved) Tj ET",
                f"/Type /XObject /Subtype /Form /BBox [0 0 300 20] {FONT}",
            ),
        ),
        "Lease approved",
    ),
    "filled field": (field("/FT /Tx /V (Delaware)"), "Law: Delaware"),
    "chosen field": (
        field("/FT /Ch /Ff 131072 /Opt [(Kent) (Delaware)] /V (Delaware)"),
        "Law: Delaware",
    ),
    "right to left": (lettered("שלום עולום"[::-1]), "שלום עולום"),
    "beyond Latin": (lettered("Ελλάδα 京都"), "Ελλάδα 京都"),
    "ligature": (lettered("e\ufb03cient"), "efficient"),
    "turned by 90": (turned(90, "0 1 -1 0 100 72"), "salt water moves slowly"),
    "turned by 180": (turned(180, "-1 0 0 -1 500 700"), "salt water moves slowly"),
    "turned by 270": (turned(270, "0 -1 1 0 100 700"), "salt water moves slowly"),
    "kerned": (drawn(["72 720 Td [(Qu) -20 (in) 15 (ce)] TJ "]), "Quince"),
    "spaced by kerning": (drawn(["72 720 Td [(dry) -400 (dock)] TJ "]), "dry dock"),
    "octal": (
        one_page(
            shown("caf\\351 cr\\350me"),
            "/Resources << /Font << /F1 << /Type /Font"
            " /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >> >> >>",
        ),
        "café crème",
    ),
    "hexadecimal": (drawn(["72 720 Td <5175696E6365> Tj "]), "Quince"),
    "next line": (drawn(["14 TL 72 720 Td (one) Tj (two) ' 0 0 (three) \" "]), "one two three"),
    "stretched": (drawn(["72 720 Td 150 Tz 3 Tc (spread) Tj "]), "spread"),
    "unseen mode": (drawn(["72 720 Td 3 Tr (recognised words) Tj "]), "recognised words"),
    "parts of content": (
        one_page(
            "BT /F1 12 Tf 72 720 Td (first)",
            FONT.replace("/Res", "/Contents [4 0 R 5 0 R] /Res"),
            stream("Tj 0 -14 Td (second) Tj ET"),
        ),
        "first second",
    ),
}


NAMES = {
    "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
    "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
}


def word(body: str) -> bytes:
    """Write a Word document with this body."""
    from docx import Document
    from docx.oxml import parse_xml

    made, packed = Document(), BytesIO()
    spaces = " ".join(f'xmlns:{name}="{space}"' for name, space in NAMES.items())
    other = parse_xml(f"<w:body {spaces}>{body}</w:body>")
    made.element.replace(made.element.body, other)
    made.save(packed)
    return packed.getvalue()


def r(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def p(*runs: str) -> str:
    return f"<w:p>{''.join(runs)}</w:p>"


def held(inside: str) -> str:
    """Write a content control."""
    return f"<w:sdt><w:sdtContent>{inside}</w:sdtContent></w:sdt>"


def new(*inside: str) -> str:
    return f"<w:ins>{''.join(inside)}</w:ins>"


def gone(text: str) -> str:
    return f"<w:del><w:r><w:delText>{text}</w:delText></w:r></w:del>"


def row(*cells: str, about: str = "") -> str:
    return f"<w:tr>{about}{''.join(f'<w:tc>{cell}</w:tc>' for cell in cells)}</w:tr>"


CHOICE = (
    "<mc:AlternateContent><mc:Choice Requires='wps'><w:r><w:drawing><wps:txbx><w:txbxContent>"
    f"{p(r('fennel'))}</w:txbxContent></wps:txbx></w:drawing></w:r></mc:Choice><mc:Fallback>"
    f"<w:r><w:pict><w:txbxContent>{p(r('old form'))}</w:txbxContent></w:pict></w:r></mc:Fallback>"
    "</mc:AlternateContent>"
)
IN_CELL = f"<w:tc>{p(r('Brest'))}</w:tc>"
INNER = f"<w:tbl>{row(p(r('inner')))}</w:tbl>"
FRESH = row(p(new(r("fresh"))), about="<w:trPr><w:ins/></w:trPr>")
HEMLOCK = row(p(gone("hemlock")), about="<w:trPr><w:del/></w:trPr>")
NUMBER = '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>'
SIGNS = "<w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t><w:noBreakHyphen/><w:t>d</w:t>"


def mark(kind: str) -> str:
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


CODE = "<w:r><w:instrText> PAGE </w:instrText></w:r>"
PAGE_FIELD = (mark("begin"), CODE, mark("separate"), r("7"), mark("end"))
WORDS: dict[str, tuple[str, ...]] = {
    "paragraphs": (p(r("The tide")) + p(r("comes in.")), "The tide comes in."),
    "control": (held(p(r("Delaware"))), "Delaware"),
    "control in a line": (p(r("law of "), held(r("Delaware"))), "law of Delaware"),
    "control in a control": (held(held(p(new(r("bilberry"))))), "bilberry"),
    "control of a cell": (f"<w:tbl><w:tr>{held(IN_CELL)}</w:tr></w:tbl>", "Brest"),
    "insertion": (p(r("in "), new(r("fourteen")), gone("thirty")), "in fourteen", "thirty"),
    "move": (
        p(f"<w:moveFrom>{r('old')}</w:moveFrom><w:moveTo>{r('new')}</w:moveTo>"),
        "new",
        "old",
    ),
    "inserted link": (p(new(r("of "), f"<w:hyperlink>{r('grace')}</w:hyperlink>")), "of grace"),
    "rows": (f"<w:tbl>{row(p(r('kept')))}{FRESH}{HEMLOCK}</w:tbl>", "kept fresh", "hemlock"),
    "table in a cell": (f"<w:tbl>{row(INNER, p(r('outer')))}</w:tbl>", "inner | outer"),
    "field": (p(f"<w:fldSimple w:instr=' REF x '>{r('19')}</w:fldSimple>"), "19", "REF"),
    "field of parts": (p(*PAGE_FIELD), "7", "PAGE"),
    "smart tag": (p(f"<w:smartTag>{r('Larkspur')}</w:smartTag>"), "Larkspur"),
    "box of text": (p(r("beside"), CHOICE), "beside fennel", "old form"),
    "signs": (p(f"<w:r>{SIGNS}</w:r>"), "a b c-d"),
    "list": (p(NUMBER, r("oat flakes")), "oat flakes"),
}


FROM = "From: a@corp.example\nTo: b@corp.example\nMIME-Version: 1.0\n"


def several(*parts: str, kind: str = "alternative") -> bytes:
    inside = "".join(f"--cut\n{part}\n" for part in parts)
    return f'{FROM}Content-Type: multipart/{kind}; boundary="cut"\n\n{inside}--cut--\n'.encode()


def part(kind: str, text: str, about: str = "") -> str:
    return f"Content-Type: text/{kind}; charset=utf-8\n{about}\n{text}"


def both(plain: str, html: str, about: str = "", kind: str = "alternative") -> bytes:
    return several(part("plain", plain, about), part("html", html), kind=kind)


def coded(label: str, text: str, codec: str) -> bytes:
    about = f"{FROM}Content-Type: text/plain; charset={label}\nContent-Transfer-Encoding: 8bit\n\n"
    return about.encode() + text.encode(codec) + b"\n"


RELATED = "\n".join([
    'Content-Type: multipart/related; boundary="in"\n',
    "--in",
    part("html", "<p>sprocket"),
    "--in--",
])
ATTACHED = "Content-Disposition: attachment; filename=x.txt\n"
MAILS: dict[str, Shown] = {
    "plain": (
        f"{FROM}Subject: tides\n\nThe tide comes in.\n".encode(),
        "Subject: tides From: a@corp.example To: b@corp.example The tide comes in.",
    ),
    "both": (both("plain words", "<p>others"), "plain words", "others"),
    "blank": (both(" \n\n", "<p>compressor"), "compressor"),
    "no-break space": (both("\xa0\xa0", "<p>gearbox"), "gearbox"),
    "no width": (both("\u200b\ufeff\u200c", "<p>turbine"), "turbine"),
    "related": (several(part("plain", ""), RELATED), "sprocket"),
    "attached": (
        both("not read", "<p>fly<b>wheel", ATTACHED, kind="mixed"),
        "flywheel",
        "not read",
    ),
    "empty base64": (
        both("", "<p>camshaft", "Content-Transfer-Encoding: base64\n"),
        "camshaft",
    ),
    "html first": (several(part("html", "<p>piston"), part("plain", " \t")), "piston"),
    "header": (
        f"Subject: =?gb2312?B?{b64encode('镕合同'.encode('gbk')).decode()}?=\n{FROM}\nx\n".encode(),
        "镕合同",
    ),
    "iso-2022-jp": (
        coded("iso-2022-jp", "大阪", "iso2022_jp").replace(b"\x1b$B", b"\x1b$B-!"),
        "①大阪",
    ),
}

SENT = (
    "From ann@x Tue Feb  3 09:00:00 2026\nSubject: One\n\n{}\n\n"
    "From ann@x Wed Feb  4 09:00:00 2026\nSubject: Two\n\nThe second.\n"
)


@cache
def files() -> tuple[Made, ...]:
    """Return all made files."""
    return tuple(_files())


def _files() -> Iterator[Made]:
    given = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    for name, (data, words) in PDFS.items():
        yield Made("PDF", f"{name}.pdf", data, words)
    for name, (body, *told) in WORDS.items():
        yield Made("Word", f"{name}.docx", word(body), *told)
    for name, (text, codec, *told) in given["html"].items():
        yield Made("HTML", f"{name}.html", text.encode(codec), *told)
    for name, (data, *told) in MAILS.items():
        yield Made("e-mail", f"{name}.eml", data, *told)
    for name, (text, codec) in given["mail"].items():
        yield Made("e-mail", f"{name}.eml", coded(name, text, codec), text)
    for end in ("\n", "\r\n"):
        for name, (body, words) in given["boxes"].items():
            whole = SENT.format(body).replace("\n", end).encode()
            yield Made("mbox", f"{name}, {len(end)}.mbox", whole, words)
    for name, (text, title) in given["notes"].items():
        yield Made("titles of notes", name, text.encode(), title)
