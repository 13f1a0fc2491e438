"""The documents and chunks of an index, as they were read and as they lie on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, model_validator

from engines.contract import StackSettings
from engines.stacks.documents.formats import Page, Source, joined, starts
from engines.stacks.documents.texts import Chunk, Cutting, Provenance, Span, chunk_id, chunks
from harness.core.errors import IndexNotReady
from harness.core.files import replacing, write_json
from harness.core.formats import json_file


class Settings(StackSettings):
    """The specification's own choices, and those that stand beside them."""

    tier: Literal["free", "pro"]
    """``free`` recalls and ranks, ``pro`` reranks by late interaction as well."""
    embedder: str
    """E1, a model of ``engines.vector.embedder``; empty for none."""
    sparse: str
    """E6, a model of ``engines.sparse``; empty for none."""
    max_tokens: int = Field(ge=8, le=512)
    """How much of a chunk the models read."""
    fusion: Literal["specification", "rank"]
    """weight / (60 + 1 / score) as written, or weight / (60 + rank)."""
    recall_weight: float = Field(default=0.0, ge=0.0)
    """What the order of recall counts in a fusion by rank; the specification drops it."""
    chunk_characters: int = Field(default=2000, ge=20)
    chunk_overlap: int = Field(default=200, ge=0)
    chunk_ends: Literal["break", "anywhere"] = "break"
    """At a paragraph, a sentence or a word near its last character, or at that character."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if 2 * self.chunk_overlap >= self.chunk_characters:
            raise ValueError("chunk_overlap: must be less than half of chunk_characters")
        if self.tier == "pro" and not self.embedder:
            raise ValueError("embedder: the tier pro reranks by its tokens and needs one")
        if self.recall_weight and self.fusion != "rank":
            raise ValueError('recall_weight: counts only where fusion is "rank"')
        return self

    @property
    def cutting(self) -> Cutting:
        """Sizes of chunks."""
        return Cutting(self.chunk_characters, self.chunk_overlap, self.chunk_ends)


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


PAGES, PLACES, TIMES = "pages.parquet", "places.parquet", "times.json"
_PAGE = pa.schema([
    ("document_id", pa.string()),
    ("name", pa.string()),
    ("path", pa.string()),
    ("extraction", pa.string()),
    ("page", pa.int32()),
    ("text", pa.string()),
])
_PLACE = pa.schema([
    ("document_id", pa.string()),
    ("chunk_index", pa.int32()),
    ("page", pa.int32()),
    ("page_end", pa.int32()),
    ("paragraph_first", pa.int32()),
    ("paragraph_last", pa.int32()),
    ("line_first", pa.int32()),
    ("line_last", pa.int32()),
    ("char_start", pa.int64()),
    ("char_end", pa.int64()),
])


class Times(NamedTuple):
    """When a collection was made, in UTC as ISO 8601; all of it is made in one go."""

    document_ingested_at: str
    chunk_created_at: str
    chunk_embedded_at: str | None
    """None where no model read the chunks."""


def write(folder: Path, library: Library, times: Times) -> None:
    """Write a library. A chunk's text is not written: it is read at its place."""
    pages = [
        (source.document_id, source.name, source.path, source.extraction, *page)
        for source in library.sources.values()
        for page in source.pages
    ]
    places = [
        (
            *(place.document_id, place.chunk_index, place.page, place.page_end),
            *(*place.paragraphs, *place.lines, place.char_start, place.char_end),
        )
        for place in (chunk.provenance for chunk in library.chunks)
    ]
    for name, schema, rows in ((PAGES, _PAGE, pages), (PLACES, _PLACE, places)):
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
        with replacing(folder / name) as beside:
            pq.write_table(pa.table(arrays, schema=schema), beside, compression="zstd")
    write_json(folder / TIMES, times._asdict())


def read(folder: Path) -> tuple[Library, Times]:
    """Read what ``write`` wrote.

    Raises:
        IndexNotReady: a file is missing or broken, or a place is not in its document.
    """
    try:
        pages = pq.read_table(folder / PAGES, schema=_PAGE).to_pylist()
        places = pq.read_table(folder / PLACES, schema=_PLACE).to_pylist()
        times = Times(**json_file(folder / TIMES))
        sources = {
            document_id: _source(list(rows))
            for document_id, rows in groupby(pages, key=lambda row: row["document_id"])
        }
        texts = {document_id: joined(source.pages) for document_id, source in sources.items()}
        chunks = tuple(_chunk(row, sources, texts) for row in places)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as exc:
        raise IndexNotReady(f"{folder}: {exc!r}. Build it again: harness index") from exc
    if not all(chunk.text for chunk in chunks):
        raise IndexNotReady(f"{folder}: a chunk has no text. Build it again: harness index")
    return Library(sources, chunks), times


def _source(pages: list[Mapping[str, Any]]) -> Source:
    first = pages[0]
    return Source(
        first["document_id"],
        first["name"],
        first["path"],
        tuple(Page(row["page"], row["text"]) for row in pages),
        first["extraction"],
    )


def _chunk(
    row: Mapping[str, Any],
    sources: Mapping[str, Source],
    texts: Mapping[str, str],
) -> Chunk:
    document_id, index = row["document_id"], row["chunk_index"]
    source = sources[document_id]
    place = Provenance(
        document=source.name,
        document_path=source.path,
        document_id=document_id,
        chunk_id=chunk_id(document_id, index),
        chunk_index=index,
        page=row["page"],
        page_end=row["page_end"],
        paragraphs=Span(row["paragraph_first"], row["paragraph_last"]),
        lines=Span(row["line_first"], row["line_last"]),
        char_start=row["char_start"],
        char_end=row["char_end"],
    )
    return Chunk(place, texts[document_id][slice(*ends(source.pages, place))])
