"""How a place is cited."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engines.stacks.documents.texts import Provenance, Span

REPORT = Provenance(
    document="Q3_Report.pdf",
    document_path="/originals/Q3_Report.pdf",
    document_id="abc-123",
    chunk_id="abc-123#000014",
    chunk_index=14,
    page=12,
    paragraphs=Span(8, 8),
    lines=Span(1, 4),
    char_start=24580,
    char_end=26580,
)


@pytest.mark.parametrize(
    ("place", "full", "short"),
    [
        (REPORT, "Q3_Report.pdf, p. 12, para. 8", "Q3_Report, p. 12"),
        (
            replace(REPORT, paragraphs=Span(8, 9)),
            "Q3_Report.pdf, p. 12, para. 8-9",
            "Q3_Report, p. 12",
        ),
        (
            replace(REPORT, document="notes.v2.md", page=None, lines=Span(3, 3)),
            "notes.v2.md, para. 8, l. 3",
            "notes.v2, l. 3",
        ),
        (replace(REPORT, page=None), "Q3_Report.pdf, para. 8, l. 1-4", "Q3_Report, l. 1-4"),
    ],
)
def test_a_citation_in_full_and_in_short(place: Provenance, full: str, short: str) -> None:
    assert place.cite() == full
    assert place.cite_short() == short
