"""What a person reads in a file is read; the table of readers counts these files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from harness_engines.stacks.documents import texts
from harness_engines.stacks.documents.formats import joined
from harness_engines.stacks.writing.arm import title_of
from tests.make.files import Made, files
from tests.source import ROOT


def read(made: Made) -> str:
    if made.format == "titles of notes":
        return title_of(made.name, made.data.decode())[0]
    pages = texts.source(Path(made.name), made.name, made.data).pages
    if made.format == "mbox":
        assert len(pages) == 2
        pages = pages[:1]
    return " ".join(joined(pages).split())


@pytest.mark.parametrize("made", files(), ids=lambda made: made.name)
def test_what_a_file_shows_is_read(made: Made) -> None:
    said = read(made)
    assert made.words in said
    assert not made.hidden or made.hidden not in said


def test_the_table_counts_the_files() -> None:
    page = (ROOT / "docs/stacks/documents.md").read_text()
    counts = Counter(made.format for made in files())
    rows = [[*map(str.strip, line.strip("|").split("|"))] for line in page.splitlines()]
    told = {row[0]: int(row[-3]) for row in rows if row[0] in counts}
    assert told == counts
