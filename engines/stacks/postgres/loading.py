"""Documents into PostgreSQL: rows with their vectors, sent by COPY, and the indexes over them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from engines.stacks.postgres.connection import Session
from engines.stacks.postgres.settings import Settings
from engines.vector.bulk import embed_all
from engines.vector.embedder import Embedder
from harness.core.digest import of_json
from harness.core.errors import IndexNotReady
from harness.core.printable import one_line
from harness.core.records import Document

_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")


class Row(NamedTuple):
    """A document as the table has it."""

    doc_id: str
    title: str
    text: str
    vector: str
    """As pgvector reads it; empty without vectors."""


class Loaded(NamedTuple):
    """What an index is called, and what it holds."""

    schema: str
    dimension: int
    """Of a vector; 0 without any."""
    generation: str


def rows(documents: Iterable[Document], embedder: Embedder | None, cache: Path) -> list[Row]:
    """Prepare documents, in the order of their ids; what PostgreSQL cannot hold becomes a space."""
    found = sorted((one.doc_id, one.title, one.text) for one in documents)
    vectors = [""] * len(found)
    if embedder:
        made = embed_all([f"{title} {text}".strip() for _, title, text in found], embedder, cache)
        vectors = [written(one.tolist()) for one in made]
    return [
        Row(doc_id, _NO_CHARACTER.sub(" ", title), _NO_CHARACTER.sub(" ", text), vector)
        for (doc_id, title, text), vector in zip(found, vectors, strict=True)
    ]


def written(vector: Sequence[float]) -> str:
    """Write a vector as pgvector reads it."""
    return f"[{','.join(map(repr, vector))}]"


def generation(of: Sequence[Row]) -> str:
    """Digest of all that is loaded."""
    return of_json(of)


def extend(to: Session, settings: Settings) -> str:
    """Make sure that pgvector is there where it is needed, and give its version.

    Raises:
        IndexNotReady: the server does not have it, or does not let this user create it.
    """
    import psycopg

    if settings.mode == "words":
        return ""
    try:
        to.run("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    except psycopg.Error as exc:
        raise IndexNotReady(
            f"the extension vector cannot be used ({one_line(str(exc), 200)}). Install pgvector on"
            ' the server, run CREATE EXTENSION vector as its owner, or set mode = "words"'
        ) from exc
    ((version,),), _ = to.rows("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    return str(version)


def load(to: Session, settings: Settings, what: Loaded, of: Sequence[Row]) -> None:
    """Fill a schema of its own, which replaces one of that name, in one transaction."""
    schema, dimension, told = what
    vectors = f", vector vector({dimension})" if dimension else ""
    parts = (("title", "A"), ("text", "D"))
    weights = " || ".join(
        f"setweight(to_tsvector('{settings.config}', {name}), '{weight}')" for name, weight in parts
    )
    with to.transaction() as within:
        within.execute("SET LOCAL statement_timeout = 0")
        within.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
        within.execute(f'CREATE SCHEMA "{schema}"')
        within.execute(f'SET LOCAL search_path = "{schema}", public')
        within.execute(
            f'CREATE TABLE document (id text COLLATE "C" PRIMARY KEY, title text NOT NULL,'
            f" text text NOT NULL{vectors}, words tsvector GENERATED ALWAYS AS ({weights}) STORED)"
        )
        columns = "id, title, text, vector" if dimension else "id, title, text"
        with (
            within.cursor() as cursor,
            cursor.copy(f"COPY document ({columns}) FROM STDIN") as into,
        ):
            for row in of:
                into.write_row(row if dimension else row[:3])
        within.execute("CREATE INDEX document_words ON document USING gin (words)")
        if settings.nearest == "hnsw" and dimension:
            within.execute("SET LOCAL max_parallel_maintenance_workers = 0")
            within.execute(
                "CREATE INDEX document_vector ON document USING hnsw (vector vector_ip_ops)"
                f" WITH (m = {settings.m}, ef_construction = {settings.ef_construction})"
            )
        within.execute("CREATE TABLE about (generation text NOT NULL)")
        within.execute("INSERT INTO about VALUES (%s)", (told,))
        within.execute("ANALYZE document")
