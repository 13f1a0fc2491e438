"""Pages of a PDF in reading order: columns one after the other, blank lines between paragraphs.

PDFium finds the characters of a page, those of forms, fields and stamps too, and puts text that
runs from right to left in order. pdfminer.six groups its lines to paragraphs and columns. Each file
is read in a process of its own: a damaged one of 600 bytes can take any time and memory.
"""

import ctypes
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.errors import BadFile

ANEW = "Save it anew as a PDF, from the program that made it"
PAGE_SECONDS = 20
"""Of a processor, for one page."""
MOST_BYTES = 1 << 30
"""Of memory, for one file."""
MOST_BOXES = 400
"""Paragraphs of a page up to which columns are told; the time for them grows with the square."""
COLUMN_GAP = 2.0
"""Least gap between two columns in widths of a character: ``char_margin`` of pdfminer.six."""
THINNEST = 0.01
_HYPHENS = frozenset({0x02, 0xAD, 0xFFFE})
"""What PDFium writes for a hyphen at the end of a line."""
_LINE_ENDS = frozenset({0x0A, 0x0D})
_WRONG_PASSWORD = 4


Box = tuple[float, float, float, float]


class _Line(NamedTuple):
    """A line of one column."""

    text: str
    box: Box
    """Its left, lower, right and upper edge."""


def pages(path: Path, data: bytes) -> list[str]:
    """Read the pages of a PDF; each is as it lies there."""
    for package in ("pdfminer.layout", "pypdfium2"):
        import_module(package)
    reader = (sys.executable, "-P", "-m", __name__)
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(reader, input=data, capture_output=True, env=here, check=False)  # noqa: S603  ours
    if done.returncode:
        most = f"{PAGE_SECONDS} s a page or {MOST_BYTES >> 30} GiB"
        raise BadFile(path, f"is damaged, or takes more than {most} to read", ANEW)
    found, fault = json.loads(done.stdout)
    if fault:
        raise BadFile(path, *fault)
    if not any(text.strip() for text in found):
        hint = "Where its pages are pictures, recognise their text first"
        raise BadFile(path, "has no text", hint)
    return list(found)


def texts(data: bytes) -> Iterator[str]:
    """Yield the text of each page; it is empty where a page is damaged."""
    import pypdfium2
    from pypdfium2 import raw

    document = pypdfium2.PdfDocument(data)
    document.init_forms()
    for number in range(min(len(document), len(data))):  # a file can claim any number of pages
        try:
            page = document[number]
            raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY)  # fields and stamps become text
            page.close()
            page = document[number]
            lines = [*_lines(page.get_textpage(), page.get_rotation() // 90)]
            lines = [line for line in lines if line.text]
            page.close()
        except pypdfium2.PdfiumError:
            lines = []
        yield "\n\n".join(_paragraphs(lines))


def _lines(page: Any, turns: int) -> Iterator[_Line]:  # noqa: ANN401  of a package without types
    """Yield lines in the order of the file; a wide gap ends one, as between columns."""
    from pypdfium2 import raw

    place, text = raw.FS_RECTF(), ""
    boxes: list[Box] = []
    for at in range(raw.FPDFText_CountChars(page)):
        code = raw.FPDFText_GetUnicode(page, at)
        is_known = not raw.FPDFText_HasUnicodeMapError(page, at)
        said = "-" if code in _HYPHENS else chr(code) if is_known else "\ufffd"
        is_drawn = code in _HYPHENS or raw.FPDFText_IsGenerated(page, at) != 1
        raw.FPDFText_GetLooseCharBox(page, at, place)
        box = (place.left, place.bottom, place.right, place.top)
        for _ in range(turns):
            box = (box[1], -box[2], box[3], -box[0])
        is_apart = bool(boxes) and is_drawn and _is_apart(boxes[-1], box)
        if is_apart and text[-1:].isspace():  # PDFium gives one space for many that are drawn
            drawn = [raw.FPDFText_GetTextObject(page, one) for one in (at, at - 1)]
            is_apart = len({ctypes.cast(one, ctypes.c_void_p).value for one in drawn}) > 1
        if boxes and (is_apart or code in _LINE_ENDS):
            yield _line(text, boxes)
            text, boxes = "", []
        text += "" if code in _LINE_ENDS else said
        boxes += [box] if is_drawn else []
    if boxes:
        yield _line(text, boxes)


def _is_apart(one: Box, other: Box) -> bool:
    gap = max(other[0] - one[2], one[0] - other[2])
    return gap > COLUMN_GAP * max(one[2] - one[0], other[2] - other[0])


def _line(text: str, boxes: Sequence[Box]) -> _Line:
    left, lower, right, upper = zip(*boxes, strict=True)
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").rstrip()
    x, y = min(left), min(lower)
    return _Line(whole, (x, y, max(*right, x + THINNEST), max(*upper, y + THINNEST)))


def _paragraphs(lines: Sequence[_Line]) -> list[str]:
    """Group lines to paragraphs, in the order in which they are read."""
    from pdfminer import layout

    class Placed(layout.LTTextLineHorizontal):
        def __init__(self, line: _Line) -> None:
            super().__init__(0)
            self.set_bbox(line.box)
            self.text = line.text

        def get_text(self) -> str:
            return f"{self.text}\n"

    if not lines:
        return []
    how = layout.LAParams()
    page = layout.LTLayoutContainer(_line("", [line.box for line in lines]).box)
    found = [*page.group_textlines(how, [Placed(line) for line in lines])]
    if len(found) <= MOST_BOXES:
        for group in page.group_textboxes(how, found):
            group.analyze(how)
            layout.IndexAssigner().run(group)
        found.sort(key=lambda box: box.index)
    else:
        found.sort(key=lambda box: (-box.y1, box.x0))
    return [box.get_text().strip() for box in found]


def _answer() -> None:
    """Read the file on standard input, within limits, and write its texts or its fault."""
    import pypdfium2

    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, last = resource.getrlimit(resource.RLIMIT_CPU)
    found: list[str] = []
    fault: tuple[str, str] | None = None
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (PAGE_SECONDS, last))
        for text in texts(sys.stdin.buffer.read()):
            found.append(text)
            used = resource.getrusage(resource.RUSAGE_SELF)
            until = int(used.ru_utime + used.ru_stime) + PAGE_SECONDS
            resource.setrlimit(resource.RLIMIT_CPU, (until, last))
    except pypdfium2.PdfiumError as exc:
        fault = (f"is damaged, or no PDF ({str(exc).rstrip('.')})", ANEW)
        if exc.err_code == _WRONG_PASSWORD:
            fault = ("is encrypted with a password", f"{ANEW}, without one")
    json.dump((found, fault), sys.stdout)


if __name__ == "__main__":
    _answer()
