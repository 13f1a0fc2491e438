"""Queries that diverge, and those of them that are accepted."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from harness.agreement import UNCOMPARED, Class
from harness.shadow.record import AGREED, KEY_DIGITS, Observation

ACCEPTABLE = frozenset(Class) - UNCOMPARED - AGREED
"""Classes that can be accepted. A failure can be for one query only, never as a class."""


class SuppressionStatus(StrEnum):
    """What the suppression list says of a divergence."""

    ACCEPTED = "accepted"
    EXPIRED = "expired"
    """It was accepted, and the day has passed: it blocks again."""
    OPEN = "open"
    FAILED = "failed"
    """An arm failed, which is not a divergence: how often it may is a bound of its own."""


BLOCKING = frozenset({SuppressionStatus.EXPIRED, SuppressionStatus.OPEN})


def _acceptable(value: object) -> object:
    if not isinstance(value, str) or value not in ACCEPTABLE:
        raise ValueError(f"can be accepted are {', '.join(sorted(ACCEPTABLE))}")
    return Class(value)


class AcceptedDivergence(BaseModel):
    """One entry, a table ``[[accepted]]``: what it names must all fit."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Annotated[Class | None, BeforeValidator(_acceptable)] = Field(default=None, alias="class")
    slice: str = Field(default="", min_length=1)
    """Empty for every slice."""
    query: str = Field(default="", pattern=f"^[0-9a-f]{{{KEY_DIGITS}}}$")
    """Key of the only query that is meant; empty for every query."""
    reason: str = Field(pattern=r"\S")
    by: str = Field(pattern=r"\S")
    until: date
    """The last day, UTC, on which it counts."""

    @model_validator(mode="after")
    def _about_something(self) -> Self:
        if not (self.kind or self.query):
            raise ValueError("name a class or a query; a slice alone would accept everything in it")
        return self

    def fits(self, kind: Class, slices: Collection[str], query: str) -> bool:
        """Return whether a divergence is one that the entry is about, whatever the day."""
        return (
            self.kind in {None, kind}
            and (not self.slice or self.slice in slices)
            and (not self.query or self.query == query)
        )

    @property
    def about(self) -> str:
        """What is accepted, in words."""
        parts = [
            f"class {self.kind}" if self.kind else "",
            f"slice {self.slice}" if self.slice else "",
            f"query {self.query}" if self.query else "",
        ]
        return ", ".join(filter(None, parts))


class Suppressions(BaseModel):
    """The whole register: all entries, in the order of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    entries: tuple[AcceptedDivergence, ...] = Field(default=(), alias="accepted")

    def standing(
        self, kind: Class, slices: Collection[str], query: str, *, today: date
    ) -> SuppressionStatus:
        """Return whether a divergence is accepted on the day ``today`` (UTC)."""
        until = [entry.until for entry in self.entries if entry.fits(kind, slices, query)]
        if not until:
            return SuppressionStatus.OPEN
        return SuppressionStatus.ACCEPTED if today <= max(until) else SuppressionStatus.EXPIRED


WORST = (
    Class.SHADOW_EMPTY,
    Class.DISJOINT,
    Class.TRUNCATION,
    Class.OVERLAP,
    Class.SERVING_EMPTY,
    Class.EXPANSION,
    Class.REORDER,
    Class.TIE_CUT,
    Class.TIE_ORDER,
    Class.ERROR,
    Class.TIMEOUT,
)
"""Diverging classes, first those that a person who searches would mind most, then failures."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One query as it diverged in one class."""

    query: str
    outcome: Class
    slices: tuple[str, ...]
    times: int
    jaccard: float | None
    """The lowest; None where it is not defined."""
    writer: str
    number: int
    """Of the latest observation of this class; its divergence has the whole."""
    text: str = ""
    """What was typed; empty where the log has no divergence of it."""
    register: SuppressionStatus = SuppressionStatus.OPEN

    @property
    def severity(self) -> tuple[bool, int, float, int, str]:
        """Sorts what blocks a step first, then the worst."""
        bad = WORST.index(self.outcome), self.jaccard or 0.0, -self.times, self.query
        return self.register not in BLOCKING, *bad

    def again(self, seen: Observation) -> "Trace":
        """Return the same, seen once more."""
        values = [value for value in (self.jaccard, seen.jaccard) if value is not None]
        return replace(
            self,
            slices=seen.slices,
            times=self.times + 1,
            jaccard=min(values, default=None),
            writer=seen.writer,
            number=seen.number,
        )

    def told(self, text: str, suppressions: Suppressions, today: date) -> "Trace":
        """Add the text, and what the suppression list says of it on the day ``today`` (UTC)."""
        said = suppressions.standing(self.outcome, self.slices, self.query, today=today)
        failed = said in BLOCKING and self.outcome not in ACCEPTABLE
        return replace(self, text=text, register=SuppressionStatus.FAILED if failed else said)
