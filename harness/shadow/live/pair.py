"""What goes through the comparison: a query that was served, and the two answers to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from harness.agreement.pair import DEEPEST
from harness.core.records import Scalar
from harness.shadow.log.record import Kind, LoggedAnswer

LARGEST = 1e300
"""Numbers of a query's params stay below it: a log's reader takes none that is larger."""


class Served(NamedTuple):
    """One query, and what the control did with it."""

    text: str
    k: int
    params: Mapping[str, Scalar]
    answer: object
    """The control's answer, as it was handed on; None where it raised."""
    error: str
    """What the control raised; empty where it did not."""
    elapsed_ns: int | None
    """None where it is not known."""
    generation: str
    """Of the control's index: before it was queried, or, of a server, as its answer tells."""
    client: str = ""
    """Who sent it, which may be a secret; the log has a key of it. Empty where that is unknown."""
    again: object = None
    """The control's answer to the same query once more; None where it was sent once."""


def comparable(served: Served) -> Served:
    """Give what was served in values that a log can hold and that no caller changes.

    Raises:
        TypeError: the text or the client is not a text, the number of hits not one, or a param not
            a scalar.
        ValueError: a param is a number that JSON cannot hold.
    """
    text, k = served.text, served.k
    if not isinstance(served.client, str):
        raise TypeError(f"a client of {type(served.client).__name__}")
    if not isinstance(text, str) or not isinstance(k, int) or k < 1:
        raise TypeError(f"a query of {type(text).__name__} and {type(k).__name__} for its hits")
    params = dict(served.params)
    for name, value in params.items():
        if not isinstance(name, str) or not isinstance(value, Scalar):
            raise TypeError(f"the param {name!r} is a {type(value).__name__}")
        if isinstance(value, int | float) and not abs(value) < LARGEST:
            raise ValueError(f"the param {name!r} must be a number below {LARGEST:.0e}")
    return served._replace(k=min(k, DEEPEST), params=params)


class Attempt(NamedTuple):
    """A served query that is to be compared, numbered."""

    number: int
    order: int
    """Number of the query among all that were served."""
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
    times: int = 1


class Pair(NamedTuple):
    """An attempt and its outcome."""

    attempt: Attempt
    candidate: LoggedAnswer | None
    """None where the pair was shed."""
    after: str
    """Generation of the control's index after the candidate's answer."""
    shed: str = ""
    """Why; empty where it was not."""
