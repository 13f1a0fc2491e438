"""Records made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.agreement import Class
from harness.core.engine import Hit
from harness.core.run import Status
from harness.shadow.record import (
    Degradation,
    Divergence,
    LoggedAnswer,
    Observation,
    ProblemKind,
    SideObservation,
    query_key,
)

SIDE = LoggedAnswer(Status.ANSWERED, (), "print", "", "", 1_000, "g1", "g1")
SEEN = SideObservation(Status.ANSWERED, 1_000, 2, 0, 1.0, 7.5, "a1", "print", "g1")


def side(ids: Sequence[str], **changed: object) -> LoggedAnswer:
    """One side that showed ``ids``, each with a lower score than the one before."""
    hits = tuple(Hit(one, 1 - at / 100, 50.0 - at) for at, one in enumerate(ids))
    return replace(SIDE, hits=hits, **changed)  # type: ignore[arg-type]


def observation(number: int = 1, outcome: Class = Class.EXACT, **changed: object) -> Observation:
    """One comparison of lists of two."""
    made = Observation(
        number=number,
        writer="w1",
        at=1_700_000_000_000_000_000 + number,
        served=number,
        query=query_key("red fox", {}),
        slices=(),
        outcome=outcome,
        reason="",
        k=10,
        control=SEEN,
        candidate=SEEN,
        jaccard=1.0,
        rbo=1.0,
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def divergence(number: int = 1, outcome: Class = Class.REORDER, **changed: object) -> Divergence:
    """Show the same two documents in another order."""
    made = Divergence(
        number=number,
        writer="w1",
        at=1_700_000_000_000_000_000 + number,
        served=number,
        text="red fox",
        k=10,
        outcome=outcome,
        control=side("ab"),
        candidate=side("ba"),
        params={"importance": "high", "limit": 3, "ack": True, "since": None, "weight": 0.5},
        slices=("identifier",),
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def degradation(
    number: int = 1, kind: ProblemKind = ProblemKind.TIMEOUT, cause: str = "late"
) -> Degradation:
    """Something that the candidate did."""
    return Degradation(number, "w1", 1_700_000_000_000_000_000, "candidate", kind, cause)
