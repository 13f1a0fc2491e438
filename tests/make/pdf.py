"""A PDF small enough to write byte by byte: pages of lines in one of the fonts every reader has."""

from __future__ import annotations

from collections.abc import Sequence


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
