"""PDF files as another program writes them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from pypdf import PdfWriter

from engines.stacks.documents import collection
from harness.core.errors import BadFile
from tests.engines.documents.small import read_file, read_folder, settings

pytestmark = pytest.mark.slow
LINES = [line for line in (np.linalg.lstsq.__doc__ or "").split("\n") if line.strip()]
PAGES = [LINES[start : start + 30] for start in range(0, len(LINES), 30)]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Draw a guide of an installed package, page by page."""
    path = tmp_path_factory.mktemp("drawn") / "lstsq.pdf"
    with PdfPages(path) as pages:
        for lines in PAGES:
            page = Figure(figsize=(8.27, 11.69))
            page.text(0.05, 0.95, "\n".join(lines), va="top", family="monospace", parse_math=False)
            pages.savefig(page)
    return path


def test_a_pdf_is_cited_by_the_page_and_the_characters_where_it_stands(
    drawn: Path, tmp_path: Path
) -> None:
    (tmp_path / "index").mkdir()
    words = settings(tier="free", embedder="", sparse="")
    collection.build([read_file(drawn, "lstsq.pdf")], tmp_path / "index", words, tmp_path)
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


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256"])
def test_a_password_is_asked_for_nowhere_and_its_lack_is_named(
    drawn: Path, tmp_path: Path, algorithm: str
) -> None:
    for name, password in (("locked.pdf", "secret"), ("open.pdf", "")):
        writer = PdfWriter(clone_from=drawn)
        writer.encrypt(password, "the owner's", algorithm=algorithm)
        writer.write(tmp_path / name)
    with pytest.raises(BadFile, match=r"is encrypted with a password\. Save it anew.*without one"):
        read_file(tmp_path / "locked.pdf", "locked")
    assert read_file(tmp_path / "open.pdf", "a").pages == read_file(drawn, "a").pages


@pytest.mark.parametrize("seed", range(12))
def test_a_file_that_was_damaged_on_its_way_is_read_or_refused(
    drawn: Path, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    content = bytearray(drawn.read_bytes())
    for _ in range(5):
        content[dice.randrange(len(content) - 1500, len(content))] = dice.choice(
            b"0123456789 <>/R[]"
        )
    if seed % 3 == 0:
        del content[dice.randrange(len(content)) :]
    (tmp_path / "damaged.pdf").write_bytes(bytes(content))
    sources, refused = read_folder(tmp_path)
    assert len(sources) + len(refused) == 1
    assert all(fault.hint for fault in refused.values())
