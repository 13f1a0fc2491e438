"""The documents and chunks of an index, as they were read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from engines.stacks.documents.texts.chunking import Chunk, Cutting, chunks
from engines.stacks.documents.texts.provenance import Provenance
from engines.stacks.documents.texts.sources import Page, Source, joined, starts


@dataclass(frozen=True)
class Library:
    """What can be found and cited. Chunks come in the order of their ids."""

    sources: dict[str, Source]
    """By document id."""
    chunks: tuple[Chunk, ...]

    @classmethod
    def of(cls, sources: Iterable[Source], cutting: Cutting) -> Library:
        """Cut documents.

        Raises:
            ValueError: two documents have one id.
        """
        known: dict[str, Source] = {}
        for source in sources:
            if source.document_id in known:
                raise ValueError(f"two documents have the id {source.document_id!r}")
            known[source.document_id] = source
        cut = (chunk for source in known.values() for chunk in chunks(source, cutting))
        return cls(known, tuple(sorted(cut, key=lambda chunk: chunk.provenance.chunk_id)))

    @cached_property
    def numbers(self) -> dict[tuple[str, int], int]:
        """Position of each chunk, by its document and its index there."""
        return {
            (chunk.provenance.document_id, chunk.provenance.chunk_index): number
            for number, chunk in enumerate(self.chunks)
        }

    def of_document(self, document_id: str) -> tuple[int, ...]:
        """Positions of a document's chunks; none where it has none or is not known."""
        return self._by_document.get(document_id, ())

    @cached_property
    def _by_document(self) -> dict[str, tuple[int, ...]]:
        by_id = sorted(self.numbers.items())
        return {
            document: tuple(number for _, number in group)
            for document, group in groupby(by_id, key=lambda item: item[0][0])
        }

    def read(self, place: Provenance) -> str:
        """Read a cited stretch out of the document as it is kept."""
        pages = self.sources[place.document_id].pages
        return joined(pages)[slice(*ends(pages, place))]

    def around(self, chunk: Chunk) -> tuple[str, str]:
        """Give what the chunks before and after add to a chunk; empty where there is none."""
        place = chunk.provenance
        return self._beside(place, -1), self._beside(place, 1)

    def _beside(self, place: Provenance, step: int) -> str:
        number = self.numbers.get((place.document_id, place.chunk_index + step))
        if number is None:
            return ""
        other = self.chunks[number]
        pages = self.sources[place.document_id].pages
        start, end = ends(pages, place)
        begin, _ = ends(pages, other.provenance)
        if step < 0:
            return other.text[: max(0, start - begin)].rstrip()
        return other.text[max(0, end - begin) :].lstrip()


def ends(pages: Sequence[Page], place: Provenance) -> tuple[int, int]:
    """Say where a stretch begins and ends in the text of ``joined`` pages."""
    begins = dict(zip((page.number for page in pages), starts(pages), strict=True))
    last = place.page if place.page_end is None else place.page_end
    return begins[place.page] + place.char_start, begins[last] + place.char_end
