"""A library on disk: a table of pages, a table of places, and when they were made."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from engines.stacks.documents.library import Library, ends
from engines.stacks.documents.texts.chunking import Chunk, chunk_id
from engines.stacks.documents.texts.provenance import Provenance, Span
from engines.stacks.documents.texts.sources import Page, Source, joined
from harness.core.errors import IndexNotReady
from harness.core.files import replacing, write_json
from harness.core.formats import json_file

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
