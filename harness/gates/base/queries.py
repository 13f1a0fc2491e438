"""The queries of a gate, their classes, and the verdict on shares of them."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator

from harness.agreement import UNCOMPARED, Class
from harness.core.errors import EvidenceError, UnknownName
from harness.core.evidence import ArmResult, Evidence
from harness.core.gate import Cause, Finding, together
from harness.core.printable import many
from harness.core.run import Status
from harness.core.scores import Estimate, Scores, codes, independent
from harness.gates.base.rules import (
    OF_QUERIES,
    GateSettings,
    MinQueries,
    Rules,
    Share,
    Where,
    below,
    plain,
    some,
)
from harness.measures.name import parse, span_of
from harness.stats.bootstrap import FEWEST
from harness.stats.bounded import ValueRange
from harness.stats.interval import interval, share, size_for


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
            try:
                parse(measure)
            except UnknownName as exc:
                if exc.meant:
                    problem = f"no measure is named so; did you mean {exc.meant}"
                    raise ValueError(problem) from exc
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


def other(evidence: Evidence, arm: str) -> ArmResult:
    """Return another arm of the evidence."""
    if arm not in evidence.others:
        raise EvidenceError(
            f"no arm {arm} was measured beside {evidence.control.arm} and"
            f" {evidence.candidate.arm}, only {', '.join(sorted(evidence.others)) or 'none'};"
            " replay and score it"
        )
    return evidence.others[arm]


def checked(scores: Mapping[str, Scores], measure: str, owner: str) -> Scores:
    """Scores by name, all finite."""
    if measure not in scores:
        raise EvidenceError(
            f"{owner} has no {measure}, only {', '.join(sorted(scores)) or 'nothing'};"
            f" add {measure} to the measures and score again"
        )
    found = scores[measure]
    if broken := tuple(compress(found.query_ids, ~np.isfinite(found.values))):
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
    """Return INCONCLUSIVE if the independent queries are fewer than the policy requires."""
    units = independent(query_ids, evidence.clusters)
    if units >= settings.required_queries:
        return None
    if settings.slice is not None and settings.slice not in evidence.slices:
        return settings.undecided(
            gate,
            Cause.NO_EVIDENCE,
            f"no query of {evidence.dataset} is of slice {settings.slice}",
            f"write a slice that exists: {', '.join(sorted(evidence.slices)) or 'it has none'}",
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


COMPARED = frozenset(Class) - UNCOMPARED


def check_compared(evidence: Evidence) -> None:
    """Refuse an agreement over other queries than both arms answered (method, section 3).

    A query is refused that counts as compared although an arm did not answer it, and one that has
    an agreement without a comparison. So is one that both answered and nothing compared.
    """
    agreement = evidence.agreement
    found = dict(zip(agreement.query_ids, agreement.classes, strict=True))
    compared = {query_id for query_id, named in found.items() if named in COMPARED}
    runs = evidence.control.run, evidence.candidate.run
    each = [set(compress(run.query_ids, (run.status == Status.ANSWERED).tolist())) for run in runs]
    for run, answered in zip(runs, each, strict=True):
        if silent := tuple(q for q in run.query_ids if q in compared and q not in answered):
            raise EvidenceError(
                f"{run.arm} did not answer {many(len(silent), 'query')} that count as compared"
                f" ({some(silent)}); an error is not an empty answer: compare the runs once more"
            )
    for name, scores in agreement.scores.items():
        if wrong := tuple(q for q in scores.query_ids if q not in compared):
            raise EvidenceError(
                f"{many(len(wrong), 'query has')} a {name} and no comparison ({some(wrong)});"
                " a skipped comparison is not an equal one: compare the runs once more"
            )
    if passed := tuple(sorted(set.intersection(*each) - compared)):
        whys = ", ".join(sorted({found.get(q, "never tried") for q in passed}))
        raise EvidenceError(
            f"{many(len(passed), 'query')} that both arms answered were not compared"
            f" ({some(passed)}: {whys}); compare the runs once more"
        )


class ShareSettings(GateSettings):
    """A share of the queries of each arm must lie below ``max_share``."""

    granted: ClassVar[tuple[str, ...]] = OF_QUERIES
    passes: ClassVar[Where] = "below"
    bounded_by: ClassVar[str] = "max_share"
    unit: ClassVar[str] = "share"
    max_share: Share

    @abstractmethod
    def bad(self, side: ArmResult) -> tuple[NDArray[np.bool_], str]:
        """Return which queries of an arm count, shape (queries,), and what befell them."""

    def judge(self, gate: str, evidence: Evidence, rules: Rules) -> Finding:
        """Judge both arms by the interval of their shares; the candidate's is the estimate.

        One arm above the bound fails the gate; to pass, both intervals must lie below it.
        """
        clusters, sides = evidence.clusters, (evidence.control, evidence.candidate)
        if any(not len(side.run) for side in sides):
            remedy = "replay both arms on a query set"
            return self.undecided(gate, Cause.NO_EVIDENCE, "no query was run", remedy)
        estimates: list[Estimate] = []
        said: list[str] = []
        worst = 0
        for side in sides:
            bad, what = self.bad(side)
            worst = max(worst, int(bad.sum()))
            groups = codes(side.run.query_ids, clusters)
            estimates.append(share_of(bad, groups, rules))
            within = "" if groups is None else f" in {many(int(groups.max()) + 1, 'cluster')}"
            shown = f"{bad.sum()} of {len(bad)}{within} {what}, share {plain(estimates[-1])}"
            said.append(f"{side.arm}: {shown}")
        if clusters:
            high = max(one.high for one in estimates)
            queries = math.ceil(len(evidence.control.run) * high / self.max_share)
            needed = f"about {many(queries, 'query')} in clusters like these"
        else:
            size = size_for(worst, ceiling=self.max_share, confidence=rules.confidence)
            needed = many(size, "independent query")
        return self.finding(
            gate,
            together(below(one, self.max_share) for one in estimates),
            "; ".join(reversed(said)),
            estimate=estimates[-1],
            remedy=f"{needed}, if no more of them go wrong than the {worst} seen",
        )


def share_of(bad: NDArray[np.bool_], groups: NDArray[np.int64] | None, rules: Rules) -> Estimate:
    """Return the share of bad queries with its interval; both arrays have shape (queries,).

    It is exact (Clopper and Pearson) where no two queries depend on each other, and else the bound
    by clusters that decides means.
    """
    queries = len(bad)
    if groups is None and rules.largest_cluster * queries <= 1:
        return share(int(bad.sum()), queries, confidence=rules.confidence)
    values = bad.astype(np.float64)
    return interval(values, span=ValueRange(0.0, 1.0), inference=rules, clusters=groups)
