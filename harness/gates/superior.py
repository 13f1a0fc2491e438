"""The candidate must gain more than a margin of a measure."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from harness.core.evidence import Evidence
from harness.core.gate import OF_VERDICT, Finding, Verdict
from harness.core.run import Run
from harness.gates.base.differences import LookSettings, judge_above
from harness.gates.base.queries import other
from harness.gates.base.rules import Rules, Where


class Settings(LookSettings):
    """The mean of candidate - control must lie above ``margin``, which may be 0."""

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
    def passes(self) -> Where:
        return "above"

    @property
    def limit(self) -> float:
        return self.margin


def judge(name: str, settings: Settings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where even the low end of the interval gains more than the margin.

    FAIL too where both arms show the same list for every query: no query can have a gain. The
    p-value tests "the gain is the margin" against "it is greater".
    """
    found = judge_above(
        name, settings, evidence, rules, limit=settings.limit, versus=settings.versus
    )
    base = evidence.control if settings.versus is None else other(evidence, settings.versus)
    if found.estimate is None or not _same_lists(base.run, evidence.candidate.run):
        return found
    said = "both arms show the same list for every query, so nothing is gained"
    return replace(
        found,
        verdict=Verdict.FAIL,
        cause=OF_VERDICT[Verdict.FAIL],
        reason=f"{found.reason}; {said}",
        remedy="",
    )


def _same_lists(left: Run, right: Run) -> bool:
    return left.shown_sha256 == right.shown_sha256 and bool((left.status == right.status).all())
