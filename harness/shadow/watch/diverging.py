"""Which queries diverge: one trace a query, however often it was sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from harness.agreement.classes import Class
from harness.shadow.log.record import DIVERGING, Divergence, Observation, query_key
from harness.shadow.watch.suppressions import ACCEPTABLE, BLOCKING, Standing, Suppressions

TEXT = 300
"""Characters kept of a query."""
WORST = (
    Class.SHADOW_EMPTY,
    Class.DISJOINT,
    Class.TRUNCATION,
    Class.OVERLAP,
    Class.SERVING_EMPTY,
    Class.EXPANSION,
    Class.REORDER,
    Class.TIE_ORDER,
    Class.ERROR,
    Class.TIMEOUT,
)
"""Diverging classes, first those that a person who searches would mind most, then failures."""
NONE_SHARED = 0.0


@dataclass(frozen=True, slots=True)
class Trace:
    """One query as it diverged in one class."""

    query: str
    """Its key."""
    outcome: Class
    slices: tuple[str, ...]
    times: int
    jaccard: float | None
    """The lowest; None where it is not defined."""
    writer: str
    number: int
    """Of the latest observation of this class; its divergence has the whole."""
    text: str = ""

    @property
    def severity(self) -> tuple[int, float, int, str]:
        """Sorts the worst first."""
        shared = NONE_SHARED if self.jaccard is None else self.jaccard
        return WORST.index(self.outcome), shared, -self.times, self.query


class Diverging:
    """Folds observations and divergences, in any order, into traces.

    Memory grows with the queries that diverge, not with the attempts.
    """

    def __init__(self) -> None:
        self._traces: dict[tuple[str, Class], Trace] = {}
        self._texts: dict[str, str] = {}

    def see(self, seen: Observation) -> None:
        """Take one attempt."""
        if seen.outcome not in DIVERGING:
            return
        known = self._traces.get((seen.query, seen.outcome))
        values = (known.jaccard if known else None, seen.jaccard)
        shared = [value for value in values if value is not None]
        self._traces[seen.query, seen.outcome] = Trace(
            query=seen.query,
            outcome=seen.outcome,
            slices=seen.slices,
            times=known.times + 1 if known else 1,
            jaccard=min(shared, default=None),
            writer=seen.writer,
            number=seen.number,
        )

    def tell(self, divergence: Divergence) -> None:
        """Take what was typed."""
        self._texts.setdefault(
            query_key(divergence.text, divergence.params), divergence.text[:TEXT]
        )

    def traces(self) -> tuple[Trace, ...]:
        """All traces, the worst first."""
        told = (
            replace(trace, text=self._texts.get(trace.query, "")) for trace in self._traces.values()
        )
        return tuple(sorted(told, key=lambda trace: trace.severity))


@dataclass(frozen=True, slots=True)
class Judged:
    """Traces compared with the suppression list on one day."""

    standing: tuple[tuple[Trace, Standing], ...]
    """Those that block a step first, each part the worst first."""

    @classmethod
    def of(cls, traces: Sequence[Trace], suppressions: Suppressions, *, today: date) -> Judged:
        """Compare each trace with the suppression list."""
        said = [(trace, _standing(trace, suppressions, today)) for trace in traces]
        return cls(tuple(sorted(said, key=lambda pair: pair[1] not in BLOCKING)))

    @property
    def counts(self) -> Counter[Standing]:
        """Diverging attempts by what the suppression list says of them."""
        found: Counter[Standing] = Counter()
        for trace, standing in self.standing:
            found[standing] += trace.times
        return found

    @property
    def blocking(self) -> tuple[Trace, ...]:
        """Traces that no one has accepted, or not until today; the worst first."""
        return tuple(trace for trace, standing in self.standing if standing in BLOCKING)


def _standing(trace: Trace, suppressions: Suppressions, today: date) -> Standing:
    """Compare one trace with the suppression list; a failure not accepted stands in no way."""
    said = suppressions.standing(trace.outcome, trace.slices, trace.query, today=today)
    return Standing.FAILED if said in BLOCKING and trace.outcome not in ACCEPTABLE else said
