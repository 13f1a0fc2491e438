"""A served query, the answers of both arms to it, and the records of the pair."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from time import time_ns
from types import MappingProxyType
from typing import Any, NamedTuple

from harness import agreement
from harness.core.digest import of_bytes
from harness.core.engine import Answer, Manifest, Searcher
from harness.core.records import Query, Scalar
from harness.core.run import Row, Run, Status
from harness.replay.drive import BrokenAnswer, Noted, copied, observe
from harness.shadow import record

DIGITS = 16
"""Hexadecimal digits of a fingerprint that a generation starts with."""
LONGEST, SHORT = 2_000, 300
"""Characters of a note or an error that an answer keeps, and of a reason in an observation."""
ARMS = "control", "candidate"
SECRET = "secret:"  # noqa: S105  of a name
"""Begins the names of params that are headers, and never written down."""
PERSISTENCE = 0.9
"""The p of RBO."""
LARGEST = 1e300
"""Numbers of a query's params stay below it: a log's reader takes none that is larger."""
Question = tuple[str, int, Mapping[str, Scalar]]
"""Text, k and params."""
Slices = Callable[[str, Mapping[str, Scalar]], tuple[str, ...]]
"""Names the kinds that a query belongs to, from its text and params."""


def generation_of(searcher: Searcher) -> str:
    """Return the generation of an open searcher: of its manifest, and of its own number.

    It is ``FINGERPRINT`` or ``FINGERPRINT:NUMBER``, or empty where it is not known yet. A searcher
    whose index may change while it is open has ``generation``: a value that is another one after
    every change, readable on any thread. It is missing or empty where it never will be known, and
    None where it is not known yet.
    """
    return stated(digits_of(searcher.manifest), getattr(searcher, "generation", ""))


@lru_cache(maxsize=16)
def digits_of(manifest: Manifest) -> str:
    """Return what the generations of an index start with."""
    return manifest.fingerprint[:DIGITS]


def stated(digits: str, number: int | str | None) -> str:
    """Write the generation of an index whose fingerprint starts with ``digits``."""
    if number is None:
        return ""
    return digits if number == "" else f"{digits}:{number}"


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
    """Params that the candidate gets too, and no log; their names begin with ``SECRET``."""

    @property
    def question(self) -> Question:
        """What the candidate is queried with."""
        return self.text, self.k, {**self.params, **self.secret}

    def checked(self) -> "ServedQuery":
        """Return the same in values that a log can hold and that no caller changes."""
        text, k, params = self.text, self.k, dict(self.params)
        if not isinstance(self.client, str):
            raise TypeError(f"a client of {type(self.client).__name__}")
        if not isinstance(text, str) or not isinstance(k, int) or k < 1:
            raise TypeError(f"a query of {type(text).__name__} and {type(k).__name__} for its hits")
        for name, value in params.items():
            if not isinstance(name, str) or not isinstance(value, Scalar):
                raise TypeError(f"the param {name!r} is a {type(value).__name__}")
            if isinstance(value, int | float) and not abs(value) < LARGEST:
                raise ValueError(f"the param {name!r} must be a number below {LARGEST:.0e}")
        return self._replace(k=min(k, agreement.DEEPEST), params=params)


@dataclass(frozen=True)
class Attempt:
    """A served query that is to be compared, numbered; and its outcome, when that is known."""

    number: int
    order: int
    """Number of the query among all that were served."""
    at: int
    """Nanoseconds since 1970 in UTC."""
    served: ServedQuery
    generation: Callable[[], str]
    """Reads the generation of the control's index again."""
    candidate: record.LoggedAnswer | None = None
    after: str = ""
    """Generation of the control's index after the candidate's answer."""
    shed: str = ""

    @cached_property
    def sides(self) -> Mapping[str, record.LoggedAnswer]:
        """What each arm did."""
        candidate = self.candidate or unanswered(Status.NOT_ASKED, "")
        return {"control": of_control(self.served, self.after), "candidate": candidate}

    @cached_property
    def stale(self) -> str:
        """What moved during the pair; empty where nothing did."""
        return "; ".join(
            f"the index of the {arm} moved from {side.before or 'unknown'}"
            f" to {side.after or 'unknown'}"
            for arm, side in self.sides.items()
            if side.before != side.after or (side.status is Status.ANSWERED and not side.before)
        )

    def reason(self, outcome: agreement.Class) -> str:
        """Return why the two were not compared; empty where they were."""
        if outcome not in agreement.UNCOMPARED:
            return ""
        errors = "; ".join(f"{arm}: {side.error}" for arm, side in self.sides.items() if side.error)
        own = {agreement.Class.SHED: self.shed, agreement.Class.STALE: self.stale}
        return own.get(outcome, errors)[:SHORT]


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
    kind: record.ProblemKind, cause: str, about: Attempt | None = None, *, times: int = 1
) -> record.Degradation:
    """Describe what went wrong; the recorder adds whose log it is."""
    number, at = (about.number, about.at) if about else (0, time_ns())
    return record.Degradation(number, "", at, "shadow", kind, clean(cause), times)


def asked(searcher: Searcher, question: Question, late_ns: int) -> record.LoggedAnswer:
    """Ask the candidate on its own clock; whatever it does is an answer to log."""
    text, k, params = question
    noted = Noted(searcher)
    before = generation_of(searcher)
    seen = observe(noted, Query("", text, params=params), k, late_ns)
    after = generation_of(searcher)
    row = seen.row
    shown = Answer(tuple(row.hits), row.served_by, noted.note)
    return _logged(row.status, shown, row.error, seen.elapsed_ns, (before or after, after))


def unanswered(status: Status, why: str, elapsed_ns: int = 0) -> record.LoggedAnswer:
    """Return what is logged of a candidate that was not asked, or was lost over a query."""
    return record.LoggedAnswer(status, (), "", "", why[:LONGEST], elapsed_ns, "", "")


def of_control(served: ServedQuery, after: str) -> record.LoggedAnswer:
    """Return what is logged of the control; an answer that breaks the contract failed."""
    shown, error = Answer((), ""), served.error
    try:
        shown = shown if error else copied(served.answer, served.k)
    except BrokenAnswer as exc:
        error = str(exc)
    status = Status.FAILED if error else Status.ANSWERED
    return _logged(status, shown, error, served.elapsed_ns, (served.generation, after))


def _logged(
    status: Status, shown: Answer, error: str, elapsed_ns: int, moved: tuple[str, str]
) -> record.LoggedAnswer:
    return record.LoggedAnswer(
        status=status,
        hits=tuple(hit._replace(doc_id=clean(hit.doc_id)) for hit in shown.hits),
        served_by=clean(shown.served_by),
        note=clean(shown.note)[:LONGEST],
        error=clean(error)[:LONGEST],
        elapsed_ns=elapsed_ns,
        before=moved[0],
        after=moved[1],
    )


class RecordBatch(NamedTuple):
    """A batch of attempts as records."""

    observations: list[record.Observation]
    divergences: list[record.Divergence]
    degradations: list[record.Degradation]


Verdict = tuple[agreement.Class, float | None, float | None]
"""Class, Jaccard and RBO; both None where the two were not compared."""


def judged(attempts: Sequence[Attempt], *, writer: str, slices: Slices | None) -> RecordBatch:
    """Classify and measure each attempt at its own k."""
    by_k: dict[int, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_k[attempt.served.k].append(attempt)
    found = RecordBatch([], [], [])
    for k, group in by_k.items():
        verdicts = _verdicts(
            [(one.sides["control"], one.sides["candidate"]) for one in group],
            k,
            shed=[str(at) for at, one in enumerate(group) if one.shed],
            stale=[str(at) for at, one in enumerate(group) if one.stale],
        )
        again = _repeated(group, k)
        for attempt, (outcome, shared, order) in zip(group, verdicts, strict=True):
            served, text = attempt.served, clean(attempt.served.text)
            same: dict[str, Any] = {
                "number": attempt.number,
                "writer": writer,
                "at": attempt.at,
                "served": attempt.order,
                "slices": tuple(slices(served.text, served.params)) if slices else (),
                "outcome": outcome,
                "k": k,
            }
            observation = record.Observation(
                **same,
                query=record.query_key(text, served.params),
                reason=attempt.reason(outcome),
                control=_seen(attempt.sides["control"]),
                candidate=_seen(attempt.sides["candidate"]),
                jaccard=shared,
                rbo=order,
                client=served.client,
                again=again.get(attempt.number),
            )
            found.observations.append(observation)
            if outcome in record.DIVERGING:
                same |= attempt.sides
                found.divergences.append(record.Divergence(**same, text=text, params=served.params))
            found.degradations.extend(_fallbacks(attempt, writer))
    return found


def _verdicts(
    sides: Sequence[tuple[record.LoggedAnswer, record.LoggedAnswer]],
    k: int,
    *,
    shed: Sequence[str] = (),
    stale: Sequence[str] = (),
) -> list[Verdict]:
    """Compare pairs of answers; ``shed`` and ``stale`` are places among them."""
    control, candidate = (
        Run.of(arm, [Row(str(at), one.status, one.hits, one.served_by, one.error)
                     for at, one in enumerate(each)])
        for arm, each in zip(ARMS, zip(*sides, strict=True), strict=True)
    )  # fmt: skip
    runs = agreement.RankPair.of(control, candidate)
    classes = agreement.classify(control, candidate, runs, depth=k, shed=shed, stale=stale)
    shared, order = _each(agreement.jaccard(runs, k)), _each(agreement.rbo(runs, k, PERSISTENCE))
    return [
        (one, None, None) if one in agreement.UNCOMPARED else (one, jaccard, rbo)
        for one, jaccard, rbo in zip(classes, shared, order, strict=True)
    ]


def _each(found: agreement.KernelResult) -> list[float | None]:
    values = iter(found.values.tolist())
    return [next(values) if defined else None for defined in found.defined.tolist()]


def _repeated(group: Sequence[Attempt], k: int) -> dict[int, agreement.Class]:
    """Classify the control against its own second answer, by the number of the attempt."""
    twice = {
        one.number: (
            one.sides["control"],
            of_control(one.served._replace(answer=one.served.again), one.after),
        )
        for one in group
        if one.served.again is not None
    }
    found = _verdicts([*twice.values()], k) if twice else []
    return {number: outcome for number, (outcome, *_) in zip(twice, found, strict=True)}


def _seen(side: record.LoggedAnswer) -> record.SideObservation | None:
    if side.status is Status.NOT_ASKED:
        return None
    ids = list(dict.fromkeys(hit.doc_id for hit in side.hits))
    first = side.hits[0] if side.hits else None
    return record.SideObservation(
        status=side.status,
        elapsed_ns=side.elapsed_ns,
        hits=len(ids),
        duplicates=len(side.hits) - len(ids),
        top=first.score if first else None,
        top_raw=first.raw_score if first else None,
        answer=of_bytes("\n".join(ids).encode())[:16],
        served_by=side.served_by,
        generation=side.before,
    )


def _fallbacks(attempt: Attempt, writer: str) -> Iterator[record.Degradation]:
    for arm, side in attempt.sides.items():
        if side.status is Status.ANSWERED and side.before[:DIGITS] != side.served_by[:DIGITS]:
            cause = f"answered by {side.served_by[:SHORT] or 'nobody'}; {side.note}"
            yield record.Degradation(
                attempt.number, writer, attempt.at, arm, record.ProblemKind.FALLBACK, cause
            )
