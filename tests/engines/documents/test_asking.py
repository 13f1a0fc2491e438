"""A folder is asked from the command line, with PDF files as another program writes them."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from pypdf import PdfWriter

from engines.stacks.documents import __main__ as asking
from engines.stacks.documents import texts
from harness.core.errors import BadFile

pytestmark = pytest.mark.slow
LINES = [line for line in (np.linalg.lstsq.__doc__ or "").split("\n") if line.strip()]
PAGES = [LINES[start : start + 30] for start in range(0, len(LINES), 30)]
QUESTION = "the Euclidean 2-norm of minimizing solutions"


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


@pytest.fixture
def papers(drawn: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "lstsq.pdf").write_bytes(drawn.read_bytes())
    (folder / "bees.md").write_text("# Bees\n\nA hive of honey bees needs flowers.\n")
    return folder


def typed(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["ask", *map(str, words)])
    return asking.main()


def test_a_pdf_is_cited_by_the_page_and_the_characters_where_it_stands(
    papers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(monkeypatch, papers, QUESTION, "--top", 1, "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["results"]
    place = found["source"]
    assert place["page"] == 1
    assert found["citation"].startswith("lstsq.pdf, p. 1, para. ")
    again = texts.read(Path(place["document_path"]), "a").pages[0].text
    assert again[place["char_start"] : place["char_end"]] == found["text"]
    drawn = [line.split() for line in PAGES[0]]
    cited = [line.split() for line in found["text"].splitlines()]
    assert cited == drawn[place["line_start"] - 1 : place["line_end"]]
    assert "2-norm" in found["text"]


def test_for_people_every_chunk_has_its_citation_and_its_characters(
    papers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(monkeypatch, papers, "honey bees") == 0
    said = capsys.readouterr()
    assert said.out == (
        "1. bees.md, para. 1-2, l. 1-3; characters 0 to 43 of bees.md; score 1.0000\n"
        "   # Bees A hive of honey bees needs flowers.\n\n"
    )
    assert not said.err
    assert typed(monkeypatch, papers, "zebra") == 0
    assert "no chunk has a word of the query" in capsys.readouterr().out


def test_with_models_the_same_folder_is_asked_by_them(papers: Path, tmp_path: Path) -> None:
    (papers / "lstsq.pdf").unlink()
    answer = asking.ask(papers, "insects and flowers", "free", 3, tmp_path / "cache")
    assert answer.stages_used == ("bm25", "semantic")
    assert asking.settings("pro").tier == "pro"


def test_what_cannot_be_asked_is_named_and_the_rest_is_asked(
    papers: Path, drawn: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blank, half = PdfWriter(), PdfWriter(clone_from=drawn)
    blank.add_blank_page(200, 200)
    blank.write(papers / "blank.pdf")
    half.add_blank_page(200, 200)
    half.write(papers / "half.pdf")
    (papers / "cut.pdf").write_bytes(drawn.read_bytes()[:3000])
    assert typed(monkeypatch, papers, "honey bees") == 0
    said = capsys.readouterr().err.splitlines()
    assert "blank.pdf: has no text. Where its pages are pictures, recognise" in said[0]
    assert "cut.pdf: is damaged, or no PDF (" in said[1]
    assert said[2] == f"half.pdf: no text on page {len(PAGES) + 1}; it cannot be found"
    assert len(said) == 3


def test_nothing_to_ask_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(monkeypatch, tmp_path, "honey") == 2
    assert "holds no file that can be read. Put text" in capsys.readouterr().err
    assert typed(monkeypatch, tmp_path / "gone", "honey") == 2
    assert "is not a folder" in capsys.readouterr().err


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256"])
def test_a_password_is_asked_for_nowhere_and_its_lack_is_named(
    drawn: Path, tmp_path: Path, algorithm: str
) -> None:
    for name, password in (("locked.pdf", "secret"), ("open.pdf", "")):
        writer = PdfWriter(clone_from=drawn)
        writer.encrypt(password, "the owner's", algorithm=algorithm)
        writer.write(tmp_path / name)
    with pytest.raises(BadFile, match=r"is encrypted with a password\. Save it anew.*without one"):
        texts.read(tmp_path / "locked.pdf", "locked")
    assert texts.read(tmp_path / "open.pdf", "a").pages == texts.read(drawn, "a").pages


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
    found = texts.folder(tmp_path)
    assert len(found.sources) + len(found.refused) == 1
    assert all(fault.hint for fault in found.refused)
