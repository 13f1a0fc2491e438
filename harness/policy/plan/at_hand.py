"""What a query set has for gates to be judged on, before anything is run on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from harness.core.clusters import independent
from harness.core.qrels import Qrels


class Counted(NamedTuple):
    """Some queries, and how many of them do not depend on each other."""

    queries: int
    independent: int


class Raced(NamedTuple):
    """How a race was run, or is set up to be run."""

    processes: int
    queries: int


@dataclass(frozen=True, slots=True)
class AtHand:
    """A query set with its judgements, and its race."""

    queries: frozenset[str]
    answerable: frozenset[str]
    """With a relevant document."""
    negative: frozenset[str]
    """Judged, without one."""
    slices: Mapping[str, frozenset[str]]
    clusters: Mapping[str, str]
    """Cluster by query id; one that is not in there stands alone."""
    race: Raced | None

    @classmethod
    def of(
        cls,
        queries: Iterable[str],
        qrels: Qrels,
        slices: Mapping[str, frozenset[str]],
        clusters: Mapping[str, str],
        race: Raced | None,
    ) -> AtHand:
        """Count judgements of queries that are in the set."""
        ids = frozenset(queries)
        answerable, negative = (ids & frozenset(one) for one in (qrels.answerable, qrels.negative))
        return cls(ids, answerable, negative, slices, clusters, race)

    def every(self) -> Counted:
        """Count all queries, judged or not."""
        return self._counted(self.queries)

    def of_quality(self, name: str | None) -> Counted:
        """Count the queries of a slice, or of the set, that have a value of quality."""
        return self._counted(self.answerable & self._slice(name))

    def of_agreement(self, name: str | None) -> Counted:
        """Count the queries of a slice, or of the set; agreement needs no judgement."""
        return self._counted(self._slice(name))

    def without_answer(self) -> Counted:
        """Count the negative queries."""
        return self._counted(self.negative)

    def _slice(self, name: str | None) -> frozenset[str]:
        return self.queries if name is None else self.slices.get(name, frozenset())

    def _counted(self, ids: frozenset[str]) -> Counted:
        return Counted(len(ids), independent(sorted(ids), self.clusters))
