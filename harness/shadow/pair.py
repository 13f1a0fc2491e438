"""A query that was served, and the answers of both arms to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import time_ns
from types import MappingProxyType
from typing import NamedTuple, Protocol, runtime_checkable

from harness.agreement import DEEPEST
from harness.core.engine import Answer, Hit, Manifest, Searcher
from harness.core.records import Query, Scalar
from harness.core.run import Status
from harness.replay.drive import BrokenAnswer, Noted, copied, observe
from harness.shadow.record import Degradation, LoggedAnswer, ProblemKind

DIGITS = 16
"""Hexadecimal digits of a fingerprint that a generation starts with."""


@runtime_checkable
class TellsGeneration(Protocol):
    """A searcher whose index may change while it is open."""

    @property
    def generation(self) -> int | str | None:
        """A value that is another one after every change; cheap, and readable on any thread.

        None where it is not known yet, the empty text where it never will be.
        """
        ...


class Generation:
    """The generation of one open searcher, as text: of its manifest, and of its own number."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher
        self._tells = searcher if isinstance(searcher, TellsGeneration) else None
        self._manifest: Manifest | None = None
        self._digits = ""

    def __call__(self) -> str:
        """Read it now: ``FINGERPRINT`` or ``FINGERPRINT:NUMBER``; empty where not known yet."""
        manifest = self._searcher.manifest
        if manifest is not self._manifest:
            self._digits = manifest.fingerprint[:DIGITS]
            self._manifest = manifest
        if self._tells is None:
            return self._digits
        return stated(self._digits, self._tells.generation)


def stated(digits: str, number: int | str | None) -> str:
    """Write the generation of an index whose fingerprint starts with ``digits``."""
    if number is None:
        return ""
    return digits if number == "" else f"{digits}:{number}"


SECRET = "secret:"  # noqa: S105  of a name
"""Begins the names of params that are handed on, and never written down."""
LARGEST = 1e300
"""Numbers of a query's params stay below it: a log's reader takes none that is larger."""


class ServedQuery(NamedTuple):
    """One query, and what the control did with it."""

    text: str
    k: int
    params: Mapping[str, Scalar]
    answer: object
    """The control's answer, as it was handed on; None where it raised."""
    error: str
    elapsed_ns: int
    generation: str
    """Of the control's index: before it was queried, or, of a server, as its answer tells."""
    client: str = ""
    """Who sent it, which may be a secret; the log has a key of it. Empty where that is unknown."""
    again: object = None
    """The control's answer to the same query once more; None where it was sent once."""
    secret: Mapping[str, str] = MappingProxyType({})
    """Headers that the candidate gets with its params, and no log."""

    @property
    def question(self) -> tuple[str, int, Mapping[str, Scalar]]:
        """What the candidate is queried with: text, k and params."""
        secret = {f"{SECRET}{name}": value for name, value in self.secret.items()}
        return self.text, self.k, {**self.params, **secret} if secret else self.params


def comparable(served: ServedQuery) -> ServedQuery:
    """Return what was served in values that a log can hold and that no caller changes."""
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
    """A served query that is to be compared, numbered; and its outcome, when that is known."""

    number: int
    order: int
    """Number of the query among all that were served."""
    at: int
    """Nanoseconds since 1970 in UTC."""
    served: ServedQuery
    generation: Callable[[], str]
    """Reads the generation of the control's index again."""
    candidate: LoggedAnswer | None = None
    after: str = ""
    """Generation of the control's index after the candidate's answer."""
    shed: str = ""


LONGEST = 2_000
"""Characters of a note or of an error that are kept."""


def clean(text: str) -> str:
    """Return the text itself, or, where it holds half of a character, one that can be written."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def told(exc: BaseException) -> str:
    """Name an exception and what it says, where that can be said."""
    try:
        return clean(f"{type(exc).__name__}: {exc}")[:LONGEST]
    except Exception:  # noqa: BLE001  must not reach who is served
        return type(exc).__name__


def trouble(
    kind: ProblemKind,
    cause: str,
    about: Attempt | None = None,
    *,
    arm: str = "shadow",
    times: int = 1,
) -> Degradation:
    """Describe what went wrong; the recorder adds whose log it is."""
    number, at = (about.number, about.at) if about else (0, time_ns())
    return Degradation(number, "", at, arm, kind, clean(cause), times)


def asked(
    searcher: Searcher,
    generation: Callable[[], str],
    question: tuple[str, int, Mapping[str, Scalar]],
    late_ns: int,
) -> LoggedAnswer:
    """Ask the candidate text, k and params on its own clock; whatever it does is a side."""
    text, k, params = question
    noted = Noted(searcher)
    before = generation()
    seen = observe(noted, Query("", text, params=params), k, late_ns)
    after = generation()
    return LoggedAnswer(
        status=seen.row.status,
        hits=_written(seen.row.hits),
        served_by=clean(seen.row.served_by),
        note=clean(noted.note)[:LONGEST],
        error=clean(seen.row.error)[:LONGEST],
        elapsed_ns=seen.elapsed_ns,
        before=before or after,
        after=after,
    )


def not_asked(why: str) -> LoggedAnswer:
    """Return the side of a candidate that could not be queried."""
    return LoggedAnswer(Status.NOT_ASKED, (), "", "", why[:LONGEST], 0, "", "")


def given_up(status: Status, why: str, elapsed_ns: int) -> LoggedAnswer:
    """Return the side of a candidate that was lost over a query; its index is not known."""
    return LoggedAnswer(status, (), "", "", why[:LONGEST], elapsed_ns, "", "")


def of_control(served: ServedQuery, after: str) -> LoggedAnswer:
    """Return the control's side of what was served; an answer that breaks the contract failed."""
    shown, error = Answer((), ""), served.error
    try:
        shown = shown if error else copied(served.answer, served.k)
    except BrokenAnswer as exc:
        error = str(exc)
    return LoggedAnswer(
        status=Status.FAILED if error else Status.ANSWERED,
        hits=_written(shown.hits),
        served_by=clean(shown.served_by),
        note=clean(shown.note)[:LONGEST],
        error=clean(error)[:LONGEST],
        elapsed_ns=served.elapsed_ns,
        before=served.generation,
        after=after,
    )


def _written(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    return tuple(hit._replace(doc_id=clean(hit.doc_id)) for hit in hits)
