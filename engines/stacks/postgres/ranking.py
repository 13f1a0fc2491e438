"""The SQL that ranks. Equal scores are ordered by document id, by bytes."""

from __future__ import annotations

from collections.abc import Iterable

from engines.lexical.typed import Clause, Occur
from engines.stacks.postgres.settings import Settings
from harness.core.digest import of_json

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
