"""Files: what is read is what lies there, and what cannot be read is named with its hint."""

from __future__ import annotations

from pathlib import Path

import pytest
from pypdf import PdfWriter

from engines.stacks.documents.texts import Cutting, chunks
from tests.engines.documents.small import read_file, read_folder
from tests.make.pdf import pdf

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
    (tmp_path / "report.PDF").write_bytes(pdf(PAGES))
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    return tmp_path


@pytest.mark.parametrize("cutting", [Cutting(2000, 200), Cutting(60, 20)])
def test_places_give_the_chunks_out_of_the_original_file_byte_for_byte(
    root: Path, cutting: Cutting
) -> None:
    counted = 0
    for source in read_folder(root)[0]:
        for chunk in chunks(source, cutting):
            place = chunk.provenance
            path = Path(place.document_path)
            if place.page is None:
                original = path.read_bytes().decode("utf-8")
            else:
                original = source.pages[place.page - 1].text
            cited = original[place.char_start : place.char_end]
            assert cited.encode() == chunk.text.encode()
            counted += 1
    assert counted >= len(TEXTS) + 2


def test_a_folder_gives_its_files_in_order_with_their_paths_as_ids(root: Path) -> None:
    sources, refused = read_folder(root)
    assert [source.document_id for source in sources] == sorted([*TEXTS, "report.PDF"])
    assert sources[0].name == "deep.markdown"
    assert not refused


def test_pages_of_a_pdf_are_numbered_as_they_lie_there(root: Path) -> None:
    source = read_file(root / "report.PDF", "report")
    assert [page.number for page in source.pages] == [1, 2, 3]
    found = list(chunks(source, Cutting(2000, 200)))
    assert [chunk.provenance.page for chunk in found] == [1, 3]
    assert found[0].text == "\n".join(PAGES[0])
    assert found[0].provenance.lines == (1, 2)
    assert found[1].provenance.cite() == "report.PDF, p. 3, para. 1"


def test_what_cannot_be_read_is_named_and_does_not_stop_the_rest(root: Path) -> None:
    (root / "latin.txt").write_bytes("first\ncaf\u00e9\n".encode("latin-1"))
    (root / "cut.pdf").write_bytes(pdf(PAGES)[:30])
    (root / "no.pdf").write_bytes(b"")
    (root / "blank.pdf").write_bytes(pdf([[]]))
    writer = PdfWriter(clone_from=root / "report.PDF")
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(root / "locked.pdf")
    sources, said = read_folder(root)
    assert len(sources) == len(TEXTS) + 1
    assert set(said) == {"latin.txt", "cut.pdf", "no.pdf", "blank.pdf", "locked.pdf"}
    assert said["latin.txt"].line == 2
    assert "UTF-8" in said["latin.txt"].problem
    assert "has no text" in said["blank.pdf"].problem
    assert all(fault.hint for fault in said.values())
