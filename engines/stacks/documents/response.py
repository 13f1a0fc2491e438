"""What a search answers, and its JSON (specification 004, section 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engines.stacks.documents.models import Missing
from engines.stacks.documents.tables import Times
from engines.stacks.documents.texts.provenance import Provenance


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """One chunk that is shown."""

    text: str
    score: float
    """In [0, 1], higher is better; comparable only within one answer."""
    provenance: Provenance
    extraction: str
    context_before: str
    context_after: str
    times: Times

    @property
    def citation(self) -> str:
        """Where it stands, in full."""
        return self.provenance.cite()

    @property
    def citation_short(self) -> str:
        """Where it stands, in short."""
        return self.provenance.cite_short()

    def to_json(self) -> dict[str, Any]:
        """Give the fields of section 7. ``ocr_confidence`` is null: no text here was guessed."""
        place = self.provenance
        return {
            "text": self.text,
            "score": self.score,
            "citation": self.citation,
            "citation_short": self.citation_short,
            "source": {
                "document": place.document,
                "document_path": place.document_path,
                "document_id": place.document_id,
                "chunk_id": place.chunk_id,
                "chunk_index": place.chunk_index,
                "page": place.page,
                "page_end": place.page_end,
                "paragraph_start": place.paragraphs.first,
                "paragraph_end": place.paragraphs.last,
                "line_start": place.lines.first,
                "line_end": place.lines.last,
                "char_start": place.char_start,
                "char_end": place.char_end,
                "extraction_method": self.extraction,
                "ocr_confidence": None,
                "chunk_created_at": self.times.chunk_created_at,
                "chunk_embedded_at": self.times.chunk_embedded_at,
                "document_ingested_at": self.times.document_ingested_at,
            },
            "context": {"before": self.context_before, "after": self.context_after},
        }


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to one query."""

    query: str
    """As typed."""
    collection: str
    search_time_ms: int
    tier: str
    stages_used: tuple[str, ...]
    """Those that ran: a stage without its model did not."""
    results: tuple[FoundChunk, ...]
    missing: tuple[Missing, ...]
    """Models that were requested and are not there; not part of the JSON, which is the
    specification's."""

    def to_json(self) -> dict[str, Any]:
        """Give the fields of section 7, and no other."""
        return {
            "query": self.query,
            "collection": self.collection,
            "results_count": len(self.results),
            "search_time_ms": self.search_time_ms,
            "tier": self.tier,
            "stages_used": list(self.stages_used),
            "results": [result.to_json() for result in self.results],
        }
