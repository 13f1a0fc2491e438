"""Records of a live comparison made by hand."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from harness.agreement import Class
from harness.core.engine import Hit
from harness.core.run import Status
from harness.shadow.divergences import AcceptedDivergence
from harness.shadow.record import (
    Degradation,
    Divergence,
    LoggedAnswer,
    Observation,
    ProblemKind,
    SideObservation,
    query_key,
)
from harness.shadow.settings import read_bounds
from harness.shadow.summary import AlarmBounds
from tests.source import ROOT

WATCH = ROOT / "policy" / "watch.toml"
START = 1_780_000_000 * 10**9
"""A moment in the year 2026."""
SECOND_NS = 10**9
WRITER = "w1"


def bounds() -> AlarmBounds:
    """Read the bounds that the project ships."""
    return read_bounds(WATCH)


SEEN_SIDE: Mapping[str, Any] = {
    "status": Status.ANSWERED, "elapsed_ns": 1_000_000, "hits": 10, "duplicates": 0, "top": 0.8,
    "answer": "a", "served_by": "engine", "generation": "g1",
}  # fmt: skip


def seen(**changed: object) -> SideObservation:
    """Make one side; who shows nothing has no score."""
    told = {**SEEN_SIDE, **changed}
    told["top"] = told["top_raw"] = told["top"] if told["hits"] else None
    return SideObservation(**told)


def attempt(
    number: int,
    *,
    text: str = "a query",
    outcome: Class = Class.EXACT,
    jaccard: float | None = 1.0,
    **changed: Any,  # noqa: ANN401  fields of Observation
) -> Observation:
    """Make one attempt of a pair that was compared, unless told otherwise."""
    sides = {side: changed.pop(side, None) or seen() for side in ("control", "candidate")}
    usual: Any = {"slices": (), "reason": "", "k": 10, **sides, **changed}
    return Observation(
        number=number, writer=WRITER, at=START + number * SECOND_NS, served=number,
        query=query_key(text, {}), outcome=outcome, jaccard=jaccard, rbo=jaccard, **usual,
    )  # fmt: skip


def accepted(until: date, **about: str) -> AcceptedDivergence:
    """Make an entry of a register."""
    return AcceptedDivergence.model_validate({"reason": "r", "by": "b", "until": until, **about})


def shed(number: int, reason: str = "the queue is full") -> Observation:
    """Make an attempt that was not compared."""
    observation = attempt(number, outcome=Class.SHED, jaccard=None, reason=reason)
    return replace(observation, candidate=None)


def side(ids: Iterable[str], *, error: str = "", elapsed_ns: int = 1_000_000) -> LoggedAnswer:
    """Make one side of a divergence, scores falling."""
    hits = tuple(Hit(doc_id, 1 / (1 + at), 10.0 - at) for at, doc_id in enumerate(ids))
    status = Status.FAILED if error else Status.ANSWERED
    return LoggedAnswer(status, hits, "engine", "", error, elapsed_ns, "g1", "g1")


def divergence(
    number: int, outcome: Class, control: Sequence[str], candidate: Sequence[str], *,
    text: str = "a query", slices: tuple[str, ...] = (), k: int = 10,
) -> Divergence:  # fmt: skip
    """Make what a diverging attempt leaves."""
    return Divergence(
        number=number, writer=WRITER, at=START + number * SECOND_NS, served=number, text=text,
        k=k, outcome=outcome, control=side(control), candidate=side(candidate), slices=slices,
    )  # fmt: skip


SEEN = SideObservation(Status.ANSWERED, 1_000, 2, 0, 1.0, 7.5, "a1", "print", "g1")


def observation(number: int = 1, outcome: Class = Class.EXACT, **changed: Any) -> Observation:  # noqa: ANN401  fields of Observation
    """One comparison of lists of two."""
    made = attempt(number, text="red fox", outcome=outcome, control=SEEN, candidate=SEEN)
    return replace(made, **{"at": START + number, **changed})


def reordered(number: int = 1, outcome: Class = Class.REORDER, **changed: Any) -> Divergence:  # noqa: ANN401  fields of Divergence
    """Show the same two documents in another order."""
    params = {"importance": "high", "limit": 3, "ack": True, "since": None, "weight": 0.5}
    made = divergence(number, outcome, "ab", "ba", text="red fox", slices=("identifier",))
    return replace(made, **{"params": params, **changed})


def degradation(
    number: int = 1, kind: ProblemKind = ProblemKind.TIMEOUT, cause: str = "late"
) -> Degradation:
    """Something that the candidate did."""
    return Degradation(number, "w1", 1_700_000_000_000_000_000, "candidate", kind, cause)
