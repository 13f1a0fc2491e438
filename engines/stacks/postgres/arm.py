"""PostgreSQL as an arm: documents by COPY, an index in a schema of its own, queries in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines import contract
from engines.lexical.terms import Clause, Occur, exact_clauses, normalise
from engines.ranking import by_best
from engines.stacks.postgres import connection, embedded
from engines.stacks.postgres.connection import Lost, Session, Settings, dsn_of, session
from engines.vector import bulk
from engines.vector.embedder import Embedder, embedder_of
from harness.core.digest import of_json
from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher
from harness.core.errors import IndexNotReady, InvalidArm
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.core.records import Document

WORDS = """
SELECT id, {rank}({weights}, words, asked, {normalization})::float8 AS score
FROM document, to_tsquery('{config}', %(words)s) AS asked
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
ABOUT = "postgres.json"
"""In the index: its schema and generation."""


@dataclass(frozen=True, slots=True)
class Postgres:
    settings: Settings
    cache: Path

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        embedder = self._embedder()
        with self._server(index, keep=True) as dsn, session(dsn, self.settings, "public") as to:

            def fill(passing: Iterable[Document]) -> None:
                rows = connection.rows(passing, embedder, self.cache)
                told = connection.generation(rows)
                schema = f"harness_{of_json([told, self.settings.model_dump()])[:16]}"
                dimension = embedder.dimension if embedder else 0
                connection.load(to, self.settings, connection.Loaded(schema, dimension, told), rows)
                write_json(index / ABOUT, {"schema": schema, "generation": told})

            return contract.record(index, documents, fill, **self._made_by(to, embedder))

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        """Connect to the server that has the index, and prove before and after that it is the same.

        Raises:
            IndexNotReady: it is another one; InvalidArm: it moved or was lost while queries ran.
        """
        made = contract.read(index)
        try:
            about = json_file(index / ABOUT)
            schema, told = str(about["schema"]), str(about["generation"])
        except (OSError, ValueError, TypeError, KeyError) as exc:
            raise IndexNotReady(f"{index / ABOUT}: {exc!r}. Build again: harness index") from exc
        embedder = self._embedder()
        with self._server(index) as dsn, session(dsn, self.settings, schema) as to:
            contract.check_made_by(index, made, **self._made_by(to, embedder))
            contract.check_count(index, made, _proven(to, told))
            keeping = bulk.recorded(embedder, self.cache) if embedder else None
            yield PostgresSearcher(to, made, self.settings, keeping, statement(self.settings))
            if to.lost:
                raise InvalidArm(
                    f"PostgreSQL was lost while queries ran: {to.lost}. Nothing is scored."
                    " Start the server, and replay"
                )
            try:
                _proven(to, told)
            except IndexNotReady as exc:
                raise InvalidArm(f"the index moved while queries ran: {exc}") from exc

    def _server(self, index: Path, *, keep: bool = False) -> AbstractContextManager[str]:
        if self.settings.dsn_env:
            return nullcontext(dsn_of(self.settings))
        return embedded.server(index, keep=keep)

    def _embedder(self) -> Embedder | None:
        given = self.settings.vectors
        return embedder_of(given.embedder, given.max_tokens) if given else None

    def _made_by(self, to: Session, embedder: Embedder | None) -> dict[str, Any]:
        extension = connection.extend(to, self.settings)
        ((server,),), _ = to.rows("SHOW server_version")
        parts = [f"PostgreSQL {server}", f"ranking {digest(self.settings)}"]
        parts += [f"vector {extension}"] if extension else []
        parts += [embedder.identity] if embedder else []
        return {
            "engine": ENGINE,
            "version": ", ".join(parts),
            "settings": self.settings.model_dump(),
        }


@dataclass(frozen=True, slots=True)
class PostgresSearcher:
    to: Session
    manifest: Manifest
    settings: Settings
    embedder: Embedder | None
    sql: str

    def search(self, text: str, k: int) -> Answer:
        """Rank in SQL.

        Raises:
            TimeoutError: the statement took too long; Lost: the server is gone.
        """
        typed = normalise(text)
        asked = tsquery(exact_clauses(text)) if self.settings.mode != "vectors" else ""
        if not typed or (self.settings.mode == "words" and not asked):
            return Answer((), self.manifest.fingerprint, "no word to search for")
        values: dict[str, object] = {"words": asked, "k": k}
        values["depth"] = k if self.settings.mode == "words" else max(k, self.settings.depth)
        if self.embedder:
            values["vector"] = connection.written(self.embedder.embed([typed])[0].tolist())
        rows, retries = self.to.rows(self.sql, values)
        if self.settings.mode == "vectors":
            hits = tuple(Hit(one, min(1.0, (1 + raw) / 2), raw) for one, raw in rows[:k])
        else:
            hits = by_best(rows, k)
        return Answer(hits, self.manifest.fingerprint, retries=retries)


def _proven(to: Session, told: str) -> int:
    """Count the documents of the index, once it has said that it is the one that was built.

    Raises:
        IndexNotReady: it is another one, or is gone.
    """
    import psycopg

    try:
        rows, _ = to.rows("SELECT generation, (SELECT count(*) FROM document) FROM about")
    except (psycopg.Error, Lost, TimeoutError) as exc:
        raise IndexNotReady(f"the server does not have the index: {exc}") from exc
    if len(rows) != 1 or rows[0][0] != told:
        raise IndexNotReady(
            "the server has another generation of the index. Build it again: harness index"
        )
    return int(rows[0][1])


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; vectors are kept below ``cache``.

    Raises:
        ModuleNotFoundError: the extra postgres is not installed.
    """
    import psycopg  # noqa: F401  says early what is missing

    given = Settings.model_validate(settings)
    if not given.dsn_env:
        embedded.binaries()
    return Postgres(given, cache)


def statement(settings: Settings) -> str:
    """Write the query of an arm; text, vector and numbers are its parameters."""
    weights = f"'{{{settings.text_weight}, 0, 0, {settings.title_weight}}}'::float4[]"
    words = WORDS.format(
        rank=settings.rank,
        weights=weights,
        normalization=settings.normalization,
        config=settings.config,
    )
    vectors = HNSW if settings.nearest == "hnsw" else EXACT
    if settings.mode == "hybrid":
        return FUSED.format(words=words, vectors=vectors, rrf_k=settings.rrf_k)
    return words if settings.mode == "words" else vectors


def digest(settings: Settings) -> str:
    """Digest of the ranking SQL."""
    return of_json(statement(settings))[:16]


def tsquery(wanted: Iterable[Clause]) -> str:
    """Write clauses as text for ``to_tsquery``; empty where there are none.

    Words have letters and digits only and stand in quotation marks, so none is taken for syntax.
    """
    groups: dict[Occur, list[str]] = {occur: [] for occur in Occur}
    for clause in wanted:
        groups[clause.occur].append(_one(clause))
    should, must = groups[Occur.SHOULD], groups[Occur.MUST]
    asked = " | ".join(should)
    if must:
        every = " & ".join(must)
        asked = f"({every}) & ({every} | {asked})" if asked else every
    if groups[Occur.NOT]:
        never = f"!({' | '.join(groups[Occur.NOT])})"
        asked = f"({asked}) & {never}" if asked else never
    return asked


def _one(clause: Clause) -> str:
    words = [f"'{word}'" for word in clause.words]
    phrase = f"({' <-> '.join(words)})"
    return phrase if clause.quoted or len(words) == 1 else f"({' | '.join([phrase, *words])})"
