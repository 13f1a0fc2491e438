"""Queries that diverge, those that are accepted, and those that still diverge offline."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import Annotated, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from harness.agreement import UNCOMPARED, Class, RankPair, classify
from harness.core.engine import Searcher
from harness.core.errors import EvidenceError
from harness.core.records import Query
from harness.core.run import Row, Run
from harness.replay.drive import observe
from harness.shadow.record import AGREED, KEY_DIGITS, Divergence, Observation

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

    @classmethod
    def of(cls, reason: str, by: str, until: date, **about: str) -> "AcceptedDivergence":
        """Make an entry of the fields that say something."""
        named = {name.replace("kind", "class"): text for name, text in about.items() if text}
        try:
            return cls.model_validate({"reason": reason, "by": by, "until": until, **named})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            what = first["msg"].removeprefix("Value error, ")
            raise EvidenceError(f"{where}: {what}" if where else what) from error

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

    def toml(self) -> str:
        """Write the entry as the suppression list has it."""
        texts = {"class": self.kind or "", "slice": self.slice, "query": self.query}
        texts |= {"reason": self.reason, "by": self.by}
        quoted = {key: json.dumps(text, ensure_ascii=False) for key, text in texts.items() if text}
        lines = [f"{key} = {text}".replace("\x7f", "\\u007f") for key, text in quoted.items()]
        return "\n".join(["[[accepted]]", *lines, f"until = {self.until.isoformat()}", ""])


class Suppressions(BaseModel):
    """The whole register: all entries, in the order of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    entries: tuple[AcceptedDivergence, ...] = Field(default=(), alias="accepted")

    @cached_property
    def _by_query(self) -> dict[str, list[AcceptedDivergence]]:
        """Entries by the query that they are about, so that a long list is not read for each."""
        found: dict[str, list[AcceptedDivergence]] = {}
        for entry in self.entries:
            found.setdefault(entry.query, []).append(entry)
        return found

    def standing(
        self, kind: Class, slices: Collection[str], query: str, *, today: date
    ) -> SuppressionStatus:
        """Return whether a divergence is accepted on the day ``today`` (UTC)."""
        about = chain.from_iterable(self._by_query.get(name, ()) for name in {query, ""})
        until = [entry.until for entry in about if entry.fits(kind, slices, query)]
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


class Now(StrEnum):
    """Outcome of a divergence."""

    FIXED = "fixed"
    STILL = "still diverges"
    """In the class that was recorded."""
    CHANGED = "changed"


class DivergentQuery(NamedTuple):
    """One text with its params and depth, however often it diverged."""

    latest: Divergence
    times: int


class Again(NamedTuple):
    """One query, compared once more on both arms."""

    question: DivergentQuery
    outcome: Class
    now: Now
    control_moved: bool
    """Whether the control shows other documents, or another order, than it did: its index or its
    settings are not those of the live comparison."""
    control: Row
    candidate: Row


def questions(divergences: Iterable[Divergence]) -> tuple[DivergentQuery, ...]:
    """Assemble what asks the same, those that came most often first; equals by their time."""
    found: dict[tuple[str, str, int], list[Divergence]] = {}
    for one in divergences:
        params = json.dumps(dict(one.params), sort_keys=True)
        found.setdefault((one.text, params, one.k), []).append(one)
    asked = [DivergentQuery(max(same, key=_moment), len(same)) for same in found.values()]
    return tuple(sorted(asked, key=lambda each: (-each.times, _moment(each.latest))))


def again(
    found: Sequence[DivergentQuery], control: Searcher, candidate: Searcher, *, time_limit_ns: int
) -> Iterator[Again]:
    """Ask both arms each query, and classify as the live comparison did (method, section 3)."""
    for question in found:
        one = question.latest
        query = Query("", one.text, params=one.params)
        ours, theirs = (
            observe(arm, query, one.k, time_limit_ns).row for arm in (control, candidate)
        )
        runs = Run.of("control", [ours]), Run.of("candidate", [theirs])
        (outcome,) = classify(*runs, RankPair.of(*runs), depth=one.k, shed=(), stale=())
        now = Now.STILL if outcome is one.outcome else Now.CHANGED
        moved = [hit.doc_id for hit in ours.hits] != [hit.doc_id for hit in one.control.hits]
        yield Again(question, outcome, Now.FIXED if outcome in AGREED else now, moved, ours, theirs)


def _moment(one: Divergence) -> tuple[int, str, int]:
    return one.at, one.writer, one.number
