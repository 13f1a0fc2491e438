"""Damaged files of every format: each is read or refused by name, and none stops its folder."""

from __future__ import annotations

import random
from contextlib import closing
from io import BytesIO
from pathlib import Path

import pytest

from engines.stacks.documents.arm import Documents
from engines.stacks.documents.library import Settings
from engines.stacks.documents.service import follow as documents
from tests.make.pdf import pdf

MAIL = b"Subject: quince\nContent-Type: text/plain; charset=utf-8\n\nThe quince is ripe.\n"
TEXTS = {
    ".txt": "The quince is ripe. \u00e9".encode(),
    ".md": b"# Quince\n\nThe quince is ripe.\n",
    ".html": b"<meta charset=utf-8><table><tr><td>The quince<td>is ripe.</table><p>Soon.",
    ".eml": MAIL,
    ".mbox": b"From a\n" + MAIL + b"\nFrom b\n" + MAIL,
    ".pdf": pdf([["The quince is ripe."], ["Soon."]]),
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


@pytest.mark.parametrize("count", [140, pytest.param(2_000, marks=pytest.mark.slow)])
def test_damaged_files_are_read_or_named_and_stop_no_folder(
    whole: dict[str, bytes], tmp_path: Path, count: int
) -> None:
    dice, root = random.Random(count), tmp_path / "folder"
    root.mkdir()
    (root / "good.txt").write_text("An apple is in the folder.")
    settings = Settings.model_validate({**BY_WORDS, "fusion": "specification"})
    live = documents(Documents(settings, tmp_path / "cache"), root, tmp_path / "index")
    with closing(live), live.now() as (opened, _):
        assert opened.search("apple")["results"]
    for number in range(count):
        suffix = [*whole][number % len(whole)]
        (root / f"{number}{suffix}").write_bytes(damaged(whole[suffix], dice))
    with closing(live), live.now() as (opened, done):
        assert opened.search("apple")["results"]
    assert done is not None
    assert len(done.faults) + done.read == count
    assert {fault.path for fault in done.faults} <= {path.name for path in root.iterdir()}
    assert count / 10 < len(done.faults) < count
    assert not [fault for fault in done.faults if "cannot be read (" in fault.why]
