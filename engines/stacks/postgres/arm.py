"""PostgreSQL as an arm: documents by COPY, an index in a schema of its own, queries in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines import contract
from engines.lexical.grammar import Dialect, Group, note_refusals, parse
from engines.lexical.terms import Clause, normalise
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
        """Connect to the server that has the index; check before and after that it is the same."""
        made = contract.read(index)
        try:
            about = json_file(index / ABOUT)
            schema, told = str(about["schema"]), str(about["generation"])
        except (OSError, ValueError, TypeError, KeyError) as exc:
            raise IndexNotReady(
                f"{index / ABOUT}: {exc!r}. Build again: harness stage index"
            ) from exc
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
        """Rank in SQL."""
        typed = normalise(text)
        values: dict[str, object] = {"k": k}
        asked = tsquery(parse(text), self.settings.config, values)
        if not typed or (self.settings.mode == "words" and not asked):
            return Answer((), self.manifest.fingerprint, "no word to search for")
        values["depth"] = k if self.settings.mode == "words" else max(k, self.settings.depth)
        if self.embedder:
            values["vector"] = connection.written(self.embedder.embed([typed])[0].tolist())
        rows, retries = self.to.rows(self.sql.replace(ASKED, asked or NOTHING), values)
        if self.settings.mode == "vectors":
            hits = tuple(Hit(one, min(1.0, (1 + raw) / 2), raw) for one, raw in rows[:k])
        else:
            hits = by_best(rows, k)
        note = "" if self.settings.mode == "vectors" else note_refusals(text)
        return Answer(hits, self.manifest.fingerprint, note, retries)


def _proven(to: Session, told: str) -> int:
    """Count the documents of the index, once it has said that it is the one that was built."""
    import psycopg

    try:
        rows, _ = to.rows("SELECT generation, (SELECT count(*) FROM document) FROM about")
    except (psycopg.Error, Lost, TimeoutError) as exc:
        raise IndexNotReady(f"the server does not have the index: {exc}") from exc
    if len(rows) != 1 or rows[0][0] != told:
        raise IndexNotReady(
            "the server has another generation of the index. Build it again: harness stage index"
        )
    return int(rows[0][1])


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; vectors are kept below ``cache``."""
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
    )
    vectors = HNSW if settings.nearest == "hnsw" else EXACT
    if settings.mode == "hybrid":
        return FUSED.format(words=words, vectors=vectors, rrf_k=settings.rrf_k)
    return words if settings.mode == "words" else vectors


def digest(settings: Settings) -> str:
    """Digest of the ranking SQL."""
    return of_json(statement(settings))[:16]


NOTHING = "''::tsquery"
WHERE_THERE = (
    "(SELECT CASE WHEN EXISTS (SELECT FROM document WHERE words @@ own) THEN own ELSE {words} END"
    " FROM (SELECT {own}) AS typed(own))"
)


def tsquery(tree: Group, config: str, values: dict[str, object]) -> str:
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
        whole = f"phraseto_tsquery('{config}', {named(clause.text)})"
        any_part = f"regexp_replace({whole}::text, ' <[-0-9]+> ', ' | ', 'g')::tsquery"
        own = whole if clause.quoted else f"{whole} || {any_part}"
        return WHERE_THERE.format(own=own, words=phrase(named(joined + each)))

    expression, complement = TSQUERY.select(tree, one)
    return f"!!({expression})" if complement else expression
