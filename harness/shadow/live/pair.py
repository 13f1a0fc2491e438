"""What goes through the comparison: a question that was served, and the two answers to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from harness.core.records import Scalar
from harness.shadow.log.record import Kind, Side


class Served(NamedTuple):
    """One question, and what the control did with it."""

    text: str
    k: int
    params: Mapping[str, Scalar]
    answer: object
    """The control's answer, as it was handed on; None where it raised."""
    error: str
    """What the control raised; empty where it did not."""
    elapsed_ns: int
    generation: str
    """Of the control's index: before it was asked, or, of a server, as its answer tells."""


class Attempt(NamedTuple):
    """A served question that is to be compared, numbered."""

    number: int
    order: int
    """Number of the question among all that were served."""
    at: int
    """Nanoseconds since 1970 in UTC."""
    served: Served
    generation: Callable[[], str]
    """Reads the generation of the control's index again."""


class Trouble(NamedTuple):
    """Something that went wrong, on its way to become a ``Degradation``."""

    number: int
    at: int
    arm: str
    kind: Kind
    cause: str


class Pair(NamedTuple):
    """An attempt and what became of it."""

    attempt: Attempt
    candidate: Side | None
    """None where the pair was shed."""
    after: str
    """Generation of the control's index after the candidate's answer."""
    shed: str = ""
    """Why; empty where it was not."""
