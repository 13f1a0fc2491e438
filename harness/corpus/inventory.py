"""What a decision is judged on, item by item: small enough to keep, exact enough to compare.

Two digests tell that judgements differ, and not which. Here every query has a digest of its own,
and the judgements of every query have one with their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from harness.core.digest import of_json, of_queries
from harness.core.printable import counted
from harness.core.qrels import Qrels
from harness.core.records import Query

DIGITS = 16
"""Of a digest: 64 bits tell the items of one data set apart."""
SOME = 3
Short = Annotated[str, Field(pattern=f"^[0-9a-f]{{{DIGITS}}}$")]
Judged = Annotated[tuple[int, Short], Field(strict=False)]
"""How many judgements a query has, and their digest."""


class Inventory(BaseModel):
    """Queries and judgements, by query id."""

    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(cached_property,))
    queries: dict[str, Short]
    judgements: dict[str, Judged]

    @classmethod
    def of(cls, queries: Iterable[Query], qrels: Qrels) -> Inventory:
        """Take stock of a data set."""
        return cls(
            queries={query.query_id: of_queries([query])[:DIGITS] for query in queries},
            judgements={
                query_id: (len(grades), of_json(dict(grades))[:DIGITS])
                for query_id, grades in qrels.grades.items()
            },
        )

    @cached_property
    def sha256(self) -> str:
        """Digest of the whole."""
        return of_json(self.model_dump(mode="json"))

    @property
    def judged(self) -> int:
        """Number of judgements."""
        return sum(count for count, _ in self.judgements.values())


class Moved(NamedTuple):
    """Ids of what was added, removed and changed, each in byte order."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """What is other in one inventory than in an earlier one."""

    queries: Moved
    judgements: Moved
    """Queries whose judgements are new, are gone, or are others."""
    judged: tuple[int, int]
    """Number of judgements before and after."""

    def __bool__(self) -> bool:
        """Tell whether anything changed."""
        return any((*self.queries, *self.judgements))

    @property
    def said(self) -> tuple[str, ...]:
        """Say each change, with its number and the first few ids."""
        found = [
            f"{counted(len(ids), 'query')} {what} ({_some(ids)})"
            for ids, what in (
                (self.queries.removed, "removed"),
                (self.queries.added, "added"),
                (self.queries.changed, "changed"),
                (self.judgements.removed, "without judgements that had some"),
                (self.judgements.added, "with judgements that had none"),
                (self.judgements.changed, "with other judgements"),
            )
            if ids
        ]
        if any(self.judgements):
            found.append("{:,} judgements, {:,} before".format(*reversed(self.judged)))
        return tuple(found)


def changes(before: Inventory, after: Inventory) -> Changes:
    """Compare two inventories, item by item."""
    return Changes(
        _moved(before.queries, after.queries),
        _moved(before.judgements, after.judgements),
        (before.judged, after.judged),
    )


def _moved(before: Mapping[str, object], after: Mapping[str, object]) -> Moved:
    both = before.keys() & after.keys()
    return Moved(
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(before.keys() - after.keys())),
        tuple(sorted(item for item in both if before[item] != after[item])),
    )


def _some(ids: tuple[str, ...]) -> str:
    return ", ".join(ids[:SOME]) + (", ..." if len(ids) > SOME else "")
