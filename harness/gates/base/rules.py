"""What every rule is given, and how it says what it found."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from harness.core.gate import OF_VERDICT, Cause, Finding, Verdict
from harness.core.scores import Estimate

FINEST, WIDEST = 1e-6, 0.9


def _shown(bound: float) -> float:
    """Refuse a bound that no evidence could show to be kept, or to be broken."""
    if 0 < bound < FINEST or 1 - FINEST < bound < 1:
        raise ValueError(
            f"{bound!r} is nearer than {FINEST:g} to 0 or to 1, and it would take millions of"
            " queries to show on which side of it anything lies"
        )
    return bound


def _held(margin: float) -> float:
    """Refuse a margin that holds nobody to anything."""
    if WIDEST < margin < 1:
        raise ValueError(
            f"a margin of {margin!r} lets a candidate lose nearly everything; write {WIDEST:g} or"
            " less"
        )
    return margin


Share = Annotated[float, Field(gt=0, lt=1), AfterValidator(_shown)]
"""A bound between 0 and 1, and at least a millionth from either."""
Margin = Annotated[Share, AfterValidator(_held)]
"""How much may be lost of a measure: a share that leaves something to lose."""
MinQueries = Annotated[int, Field(ge=2)]
"""Fewest independent queries that a gate may be judged on; one has no spread."""
Where = Literal["above", "below", "within"]
CUT_OFF = re.compile(r"@([0-9]+)$")
TOUCH = 1e-12
"""An end of an interval as near as this to the bound lies on it, rounding aside."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How sure a gate must be, from the policy and never from code; and on how many threads."""

    confidence: float
    """Of the two-sided intervals, e.g. 0.95."""
    resamples: int
    """Of bootstrap and randomization."""
    seed: int
    power: float
    """With which a number of queries "would settle" an INCONCLUSIVE, e.g. 0.8."""
    threads: int = 1
    """How many draw the resamples; no number and no verdict depends on it."""


class GateSettings(BaseModel, ABC):
    """What a policy writes for one gate; every key is explicit and an unknown key an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    timed: ClassVar[bool] = False
    loaded: ClassVar[bool] = False
    """Whether it rests on a load test."""

    @property
    @abstractmethod
    def bound(self) -> str:
        """The bound in words and numbers."""

    @property
    def limit(self) -> float | None:
        """The bound on the estimate's scale; None where there is no number."""
        return None

    @property
    def passes(self) -> Where | None:
        """Where the interval of a PASS lies; None where the interval does not decide.

        ``within`` means between ``-limit`` and ``limit``.
        """
        return None

    @property
    def fewest(self) -> int:
        """Queries without which there is no PASS."""
        return 0

    @property
    def every_look(self) -> bool:
        """Whether judging it again on more evidence gives it no further chance to err."""
        return False

    @property
    def arms(self) -> tuple[str, ...]:
        """Arms that the gate looks at beside control and candidate."""
        return ()

    @property
    def measures(self) -> tuple[str, ...]:
        """Measures of quality that the gate reads."""
        return ()

    @property
    def deepest(self) -> int:
        """Hits of a list that the gate looks at; 0 where no cut-off is named."""
        found = (CUT_OFF.search(measure) for measure in self.measures)
        return max((int(one[1]) for one in found if one), default=0)

    @property
    @abstractmethod
    def unit(self) -> str:
        """What is measured."""

    def finding(
        self,
        gate: str,
        verdict: Verdict,
        reason: str,
        *,
        estimate: Estimate | None = None,
        settle: str = "",
        p_value: float | None = None,
        cause: Cause | None = None,
    ) -> Finding:
        """Give a finding under this gate's bound; the rule is the module of the settings.

        ``cause`` explains an INCONCLUSIVE that is not the interval's own.
        """
        own = OF_VERDICT[verdict]
        return Finding(
            gate=gate,
            rule=type(self).__module__.rpartition(".")[2],
            verdict=verdict,
            cause=cause or own if verdict is Verdict.INCONCLUSIVE else own,
            reason=reason,
            bound=self.bound,
            estimate=estimate,
            limit=self.limit,
            unit=self.unit,
            settle=settle if verdict is Verdict.INCONCLUSIVE else "",
            p_value=p_value,
            timed=self.timed,
        )

    def undecided(
        self,
        gate: str,
        cause: Cause,
        reason: str,
        settle: str,
        *,
        estimate: Estimate | None = None,
    ) -> Finding:
        """Give an INCONCLUSIVE finding and what would settle it."""
        said = Verdict.INCONCLUSIVE
        return self.finding(gate, said, reason, estimate=estimate, settle=settle, cause=cause)


def above(estimate: Estimate, bound: float) -> Verdict:
    """PASS where the whole interval lies above ``bound``, FAIL where it lies below (section 4).

    Here as in the other two, NaN compares as false and so never passes.
    """
    if estimate.low > bound + TOUCH:
        return Verdict.PASS
    return Verdict.FAIL if estimate.high < bound - TOUCH else Verdict.INCONCLUSIVE


def below(estimate: Estimate, bound: float) -> Verdict:
    """PASS where the whole interval lies below ``bound``, FAIL where it lies above."""
    if estimate.high < bound - TOUCH:
        return Verdict.PASS
    return Verdict.FAIL if estimate.low > bound + TOUCH else Verdict.INCONCLUSIVE


def within(estimate: Estimate, bound: float) -> Verdict:
    """PASS where the interval lies inside (-bound, bound), FAIL where it lies wholly outside."""
    inner, outer = bound - TOUCH, bound + TOUCH
    if -inner < estimate.low and estimate.high < inner:
        return Verdict.PASS
    outside = estimate.low > outer or estimate.high < -outer
    return Verdict.FAIL if outside else Verdict.INCONCLUSIVE


def signed(estimate: Estimate) -> str:
    """Write a difference with its interval."""
    return f"{estimate.value:+.4f} [{estimate.low:+.4f}, {estimate.high:+.4f}]"


def plain(estimate: Estimate) -> str:
    """Write a level with its interval."""
    return f"{estimate.value:.4f} [{estimate.low:.4f}, {estimate.high:.4f}]"


def some(ids: tuple[str, ...]) -> str:
    """Name the first few of many ids."""
    first = 3
    return ", ".join(ids[:first]) + (", ..." if len(ids) > first else "")
