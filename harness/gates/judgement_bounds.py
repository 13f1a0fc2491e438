"""The verdict of a quality gate must be the same for all values of the missing judgements."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, field_validator

from harness.core.errors import UnknownName
from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.printable import many
from harness.core.scores import Estimate
from harness.gates.base.paired import Comparison, compare
from harness.gates.base.queries import SampleSettings, too_few
from harness.gates.base.rules import Rules, Where, above, signed, within
from harness.measures.unjudged.bounds import Bounding
from harness.measures.unjudged.runs import bounds


class Settings(SampleSettings):
    """Judge as the rule ``asks``, under every completion of the judgements."""

    asks: Literal["non_inferior", "superior", "equivalent"]
    """The rule to judge by."""
    margin: Annotated[float, Field(ge=0, lt=1)]

    @field_validator("measure")
    @classmethod
    def _has_bounds(cls, measure: str) -> str:
        try:
            Bounding.of(measure, ())
        except UnknownName as error:
            raise ValueError(str(error)) from error
        return measure

    @property
    def bound(self) -> str:
        asked = {
            "non_inferior": f"loses less than {self.margin:g} of {self.where}",
            "superior": f"gains more than {self.margin:g} of {self.where}",
            "equivalent": f"differs by less than {self.margin:g} of {self.where}",
        }
        return f"{asked[self.asks]}, whatever the missing judgements say"

    @property
    def passes(self) -> Where:
        return "within" if self.asks == "equivalent" else "above"

    @property
    def limit(self) -> float:
        return -self.margin if self.asks == "non_inferior" else self.margin

    def verdict(self, estimate: Estimate) -> Verdict:
        """Verdict under one completion (method, section 4)."""
        if self.asks == "equivalent":
            return within(estimate, self.margin)
        return above(estimate, self.limit)


def judge(name: str, settings: Settings, evidence: Evidence, rules: Rules) -> Finding:
    """Give the verdict of ``asks`` if both ends of the bounds agree, else INCONCLUSIVE.

    At the worse end each unjudged document has the grade that is worst for the candidate's
    difference, and each lost query counts as -1. At the better end it is the reverse (method,
    section 2). The interval of the finding goes from the low end of the one to the high end of the
    other.
    """
    found = compare(evidence, settings, versus=None)
    ids = found.paired.query_ids
    if thin := too_few(name, settings, ids, evidence, found.losses):
        return thin
    if evidence.qrels is None:
        return settings.undecided(
            name,
            Cause.NO_EVIDENCE,
            "the judgements were not handed on",
            "give the evidence its judgements",
        )
    runs = evidence.control.run, evidence.candidate.run
    missing = bounds(*runs, evidence.qrels, settings.measure, ids)
    worst, best = (
        _at(found, missing.difference[:, end].tolist()).with_unpaired(unpaired, rules)
        for end, unpaired in ((0, -1.0), (1, 1.0))
    )
    now, count = found.estimate(rules), int(missing.unjudged.sum())
    said = settings.verdict(worst), settings.verdict(best)
    # Too much loss at the one end and too much gain at the other is two answers.
    one = said[0] is said[1] and not (worst.high < 0 < best.low and said[0] is Verdict.FAIL)
    return settings.finding(
        name,
        said[0] if one else Verdict.INCONCLUSIVE,
        f"{settings.where}: {found.means}, difference {signed(now)}{found.losses}; with"
        f" {many(count, 'missing judgement')} at their worst {signed(worst)}, at their best"
        f" {signed(best)}",
        estimate=Estimate(now.value, worst.low, best.high, now.n),
        remedy=_pool(settings, evidence) if count else found.needed(_nearer(settings, now), rules),
        cause=Cause.UNJUDGED if count else Cause.OPEN,
    )


def _at(comparison: Comparison, differences: list[float]) -> Comparison:
    """Put the differences of a completion in the place of those measured."""
    paired = comparison.paired
    return replace(comparison, paired=replace(paired, candidate=paired.control + differences))


def _nearer(settings: Settings, now: Estimate) -> float:
    """Of the two bounds of an equivalence, the one on the side of what was measured."""
    lower = settings.asks == "equivalent" and now.value <= 0
    return -settings.margin if lower else settings.limit


def _pool(settings: Settings, evidence: Evidence) -> str:
    return (
        f"judge the pool: harness pool --dataset {evidence.dataset} --control"
        f" {evidence.control.arm} --candidate {evidence.candidate.arm} --measure"
        f" {settings.measure} --size 100 --out pool.qrels"
    )
