"""The candidate must gain more than a margin of a measure."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import Field

from harness.core.evidence import Evidence
from harness.core.gate import OF_VERDICT, Finding, Verdict
from harness.gates.base.completions import Bound
from harness.gates.base.differences import LookSettings, judge_mean
from harness.gates.base.queries import other
from harness.gates.base.rules import Rules, Where


class SuperiorSettings(LookSettings):
    """The mean of candidate - control must lie above ``margin``, which may be 0."""

    passes: ClassVar[Where] = "above"
    margin: Annotated[float, Field(ge=0, lt=1)]
    versus: str | None = None
    """Another arm to compare with, instead of the control."""

    @property
    def arms(self) -> tuple[str, ...]:
        return () if self.versus is None else (self.versus,)

    @property
    def bound(self) -> str:
        over = "the control" if self.versus is None else self.versus
        return f"gains more than {self.margin:g} of {self.where} over {over}{self.at}"

    @property
    def limit(self) -> float:
        return self.margin


def judge(name: str, settings: SuperiorSettings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where even the low end of the interval gains more than the margin.

    FAIL too where both arms show the same list for every query: no query can have a gain. The
    p-value tests "the gain is the margin" against "it is greater".
    """
    bound, versus = Bound(settings.limit), settings.versus
    found = judge_mean(name, settings, evidence, rules, bound=bound, versus=versus)
    base = evidence.control if versus is None else other(evidence, versus)
    if found.estimate is None or not base.run.shows_the_same(evidence.candidate.run):
        return found
    said = "both arms show the same list for every query, so nothing is gained"
    return replace(
        found,
        verdict=Verdict.FAIL,
        cause=OF_VERDICT[Verdict.FAIL],
        reason=f"{found.reason}; {said}",
        remedy="",
    )
