"""What a person typed as a query of Lucene: each clause over the fields, weights added."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engines.lexical.typed import Clause, Occur
from engines.stacks.lucene.java import Classes
from engines.stacks.lucene.settings import Settings

MAX_CLAUSES = 10_000
RULES = "clauses over fields, 1"
"""Version of what stands here; another one ranks otherwise."""


class QueryMaker:
    """Makes queries for one analyzer."""

    def __init__(self, classes: Classes, analyzer: Any, settings: Settings) -> None:  # noqa: ANN401  a Java object
        self._builder = classes("util.QueryBuilder")(analyzer)
        self._boolean = classes("search.BooleanQuery$Builder")
        self._boost = classes("search.BoostQuery")
        occur = classes("search.BooleanClause$Occur")
        self._occur = {
            Occur.SHOULD: occur.SHOULD, Occur.MUST: occur.MUST, Occur.NOT: occur.MUST_NOT,
        }  # fmt: skip
        self._weights = settings.weights
        classes("search.BooleanQuery").setMaxClauseCount(MAX_CLAUSES)

    def query(self, wanted: Iterable[Clause]) -> Any | None:  # noqa: ANN401  a Java object
        """Make a query of all clauses; None where no word is left to search for."""
        all_of, any_word = self._boolean(), False
        for clause in wanted:
            if (one := self._clause(clause)) is not None:
                all_of.add(one, self._occur[clause.occur])
                any_word = any_word or clause.occur is not Occur.NOT
        return all_of.build() if any_word else None

    def _clause(self, clause: Clause) -> Any | None:  # noqa: ANN401
        text, found = " ".join(clause.words), []
        for field, weight in self._weights.items():
            if not weight:
                continue
            if len(clause.words) > 1:
                found.append((self._builder.createPhraseQuery(field, text), weight))
            if len(clause.words) == 1 or not clause.quoted:
                found.append((self._builder.createBooleanQuery(field, text), weight))
        some = self._boolean()
        for query, weight in found:
            if query is not None:
                some.add(self._boost(query, weight), self._occur[Occur.SHOULD])
        return some.build() if any(query is not None for query, _ in found) else None
