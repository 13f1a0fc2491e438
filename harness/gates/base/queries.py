"""The queries of a gate, and the number of independent ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from pydantic import field_validator

from harness.core.clusters import independent
from harness.core.errors import EvidenceError, UnknownName
from harness.core.evidence import ArmResult, Evidence
from harness.core.gate import Cause, Finding
from harness.core.printable import many
from harness.core.scores import Scores
from harness.gates.base.rules import OF_QUERIES, GateSettings, MinQueries, some
from harness.measures.name import parse
from harness.measures.spans import span_of
from harness.stats.bootstrap import FEWEST


class SampleSettings(GateSettings):
    """A gate on the mean of one measure over the query set or one slice of it."""

    granted: ClassVar[tuple[str, ...]] = OF_QUERIES
    measure: str
    """In ir-measures notation, e.g. ``nDCG@10``; or an agreement, e.g. ``Jaccard@50``."""
    slice: str | None = None
    """Only queries of this slice; absent for the whole query set."""
    min_queries: MinQueries | None = None
    """Fewest independent queries, if a policy wants more than the interval needs."""

    @field_validator("measure")
    @classmethod
    def _has_a_span(cls, measure: str) -> str:
        if span_of(measure) is None:
            _known(measure)
            raise ValueError(
                f"{measure} has no known least and greatest value, which every interval needs;"
                " judge by a measure such as nDCG@10, R@50, Jaccard@50 or tau"
            )
        return measure

    @property
    def required_queries(self) -> int:
        return FEWEST if self.min_queries is None else self.min_queries

    @property
    def measures(self) -> tuple[str, ...]:
        return (self.measure,)

    @property
    def unit(self) -> str:
        return self.measure

    @property
    def where(self) -> str:
        """The measure and its slice, in words."""
        return self.measure if self.slice is None else f"{self.measure} on slice {self.slice}"


def _known(measure: str) -> None:
    """Refuse a name that no measure has, with the one that may be meant."""
    try:
        parse(measure)
    except UnknownName as exc:
        if exc.meant:
            raise ValueError(f"no measure is named so; did you mean {exc.meant}") from exc


def other(evidence: Evidence, arm: str) -> ArmResult:
    """Give another arm of the evidence.

    Raises:
        EvidenceError: the evidence has no arm of that name.
    """
    if arm not in evidence.others:
        raise EvidenceError(
            f"no arm {arm} was measured beside {evidence.control.arm} and"
            f" {evidence.candidate.arm}, only {', '.join(sorted(evidence.others)) or 'none'};"
            " replay and score it"
        )
    return evidence.others[arm]


def scores_of(side: ArmResult, measure: str) -> Scores:
    """Scores of one arm.

    Raises:
        EvidenceError: the arm was not scored by ``measure``.
    """
    return checked(side.scores, measure, side.arm)


def checked(scores: Mapping[str, Scores], measure: str, owner: str) -> Scores:
    """Scores by name, all finite.

    Raises:
        EvidenceError: scores of that name are missing, or one is NaN or infinite.
    """
    if measure not in scores:
        raise EvidenceError(
            f"{owner} has no {measure}, only {', '.join(sorted(scores)) or 'nothing'};"
            f" add {measure} to the measures and score again"
        )
    found = scores[measure]
    broken = tuple(
        q for q, fine in zip(found.query_ids, np.isfinite(found.values), strict=True) if not fine
    )
    if broken:
        raise EvidenceError(
            f"{owner}: {measure} is NaN or infinite for {many(len(broken), 'query')}"
            f" ({some(broken)}); a query without a value belongs among the undefined ones"
        )
    return found


def in_slice(scores: Scores, evidence: Evidence, name: str | None) -> Scores:
    """Keep the queries of slice ``name``; None keeps all."""
    return scores if name is None else scores.only(evidence.slices.get(name, frozenset()))


def too_few(
    gate: str,
    settings: SampleSettings,
    query_ids: Sequence[str],
    evidence: Evidence,
    missing: str = "",
) -> Finding | None:
    """Give INCONCLUSIVE if the independent queries are fewer than the policy requires."""
    units = independent(query_ids, evidence.clusters)
    if units >= settings.required_queries:
        return None
    if settings.slice is not None and settings.slice not in evidence.slices:
        return settings.undecided(
            gate,
            Cause.NO_EVIDENCE,
            f"no query of {evidence.dataset} is of slice {settings.slice}",
            f"write a slice that exists: {', '.join(sorted(evidence.slices)) or 'there is none'}",
        )
    asks = "an interval needs" if settings.min_queries is None else "the policy asks for"
    of = (
        f" ({many(len(query_ids), 'query')} in {many(units, 'cluster')})"
        if units < len(query_ids)
        else ""
    )
    return settings.undecided(
        gate,
        Cause.TOO_FEW,
        f"{settings.where} is known for {many(units, 'independent query')}{of}, fewer than the"
        f" {settings.required_queries} that {asks}{missing}",
        f"judge {settings.required_queries - units} more independent queries",
    )
