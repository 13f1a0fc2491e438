"""Pairs to records: what each pair is, by the same classes and measures as a replay.

A batch is compared as two runs whose queries are the attempts, so there is one classifier. Its
cost, which is mostly one of starting, is shared by the batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from harness.agreement.classes import UNCOMPARED, Class, classify
from harness.agreement.jaccard import jaccard
from harness.agreement.pair import Pair as Runs
from harness.agreement.partial import Partial
from harness.agreement.rbo import rbo
from harness.core.digest import of_bytes
from harness.core.records import Scalar
from harness.core.run import Row, Run, Status
from harness.shadow.live.generation import answers_for
from harness.shadow.live.pair import Pair, Trouble
from harness.shadow.live.side import clean, not_asked, of_control
from harness.shadow.log.record import (
    DIVERGING,
    Degradation,
    Divergence,
    Kind,
    LoggedAnswer,
    Observation,
    Seen,
    query_key,
)

ANSWER_DIGITS = 16
SHORT = 300
"""Characters of a reason that an observation keeps; a divergence has all of it."""

Slices = Callable[[str, Mapping[str, Scalar]], tuple[str, ...]]
"""Names the kinds that a query belongs to, from its text and params."""


class Judged(NamedTuple):
    """A batch of pairs as records."""

    observations: list[Observation]
    divergences: list[Divergence]
    degradations: list[Degradation]


class _Both(NamedTuple):
    pair: Pair
    control: LoggedAnswer
    candidate: LoggedAnswer
    stale: str
    """What moved during the pair; empty where nothing did."""


class _Verdict(NamedTuple):
    outcome: Class
    jaccard: float | None
    rbo: float | None


def judged(
    pairs: Sequence[Pair], *, writer: str, persistence: float, slices: Slices | None
) -> Judged:
    """Classify and measure each pair at its own k; ``persistence`` is the p of RBO."""
    by_k: dict[int, list[_Both]] = defaultdict(list)
    for pair in pairs:
        by_k[pair.attempt.served.k].append(_both(pair))
    found = Judged([], [], [])
    for k, group in by_k.items():
        again = _repeated(group, k, persistence)
        for both, verdict in zip(group, _verdicts(group, k, persistence), strict=True):
            names = tuple(slices(both.pair.attempt.served.text, both.pair.attempt.served.params)
                          ) if slices else ()  # fmt: skip
            seen = _observation(both, verdict, writer, names)
            noise = again.get(both.pair.attempt.number)
            found.observations.append(replace(seen, again=noise))
            if verdict.outcome in DIVERGING:
                found.divergences.append(_divergence(both, verdict.outcome, writer, names))
            found.degradations.extend(_degradations(both, verdict.outcome, writer))
    found.degradations.extend(_shed(pairs, writer))
    return found


def degradation(trouble: Trouble, writer: str) -> Degradation:
    """Give what is written of a trouble."""
    number, at, arm, kind, cause, times = trouble
    return Degradation(number, writer, at, arm, kind, clean(cause), times)


def _both(pair: Pair) -> _Both:
    control = of_control(pair.attempt.served, pair.after)
    candidate = pair.candidate or not_asked("")
    moved = [
        f"the index of the {arm} moved from {side.before or 'unknown'} to {side.after or 'unknown'}"
        for arm, side in (("control", control), ("candidate", candidate))
        if side.before != side.after or (side.status is Status.ANSWERED and not side.before)
    ]
    return _Both(pair, control, candidate, "; ".join(moved))


def _verdicts(group: Sequence[_Both], k: int, persistence: float) -> list[_Verdict]:
    ids = [str(both.pair.attempt.number) for both in group]
    control = Run.of("control", map(_row, ids, (both.control for both in group)))
    candidate = Run.of("candidate", map(_row, ids, (both.candidate for both in group)))
    runs = Runs.of(control, candidate)
    shed = [query for query, both in zip(ids, group, strict=True) if both.pair.shed]
    stale = [query for query, both in zip(ids, group, strict=True) if both.stale]
    classes = classify(control, candidate, runs, depth=k, shed=shed, stale=stale)
    overlaps = _each(jaccard(runs, k))
    orders = _each(rbo(runs, k, persistence))
    return [
        _Verdict(outcome, None, None) if outcome in UNCOMPARED else _Verdict(outcome, a, b)
        for outcome, a, b in zip(classes, overlaps, orders, strict=True)
    ]


def _repeated(group: Sequence[_Both], k: int, persistence: float) -> dict[int, Class]:
    """Classify the control against its own second answer, by the number of the attempt."""
    twice = [
        both._replace(
            candidate=of_control(
                both.pair.attempt.served._replace(answer=both.pair.attempt.served.again),
                both.pair.after,
            ),
            pair=both.pair._replace(shed=""),
            stale="",
        )
        for both in group
        if both.pair.attempt.served.again is not None
    ]
    if not twice:
        return {}
    numbers = [both.pair.attempt.number for both in twice]
    found = _verdicts(twice, k, persistence)
    return {number: one.outcome for number, one in zip(numbers, found, strict=True)}


def _row(query_id: str, side: LoggedAnswer) -> Row:
    return Row(query_id, side.status, side.hits, side.served_by, side.error)


def _each(found: Partial) -> list[float | None]:
    """One value a query, None where it has none."""
    values = iter(found.values.tolist())
    return [next(values) if defined else None for defined in found.defined.tolist()]


def _observation(
    both: _Both, verdict: _Verdict, writer: str, slices: tuple[str, ...]
) -> Observation:
    attempt, served = both.pair.attempt, both.pair.attempt.served
    return Observation(
        number=attempt.number,
        writer=writer,
        at=attempt.at,
        served=attempt.order,
        query=query_key(clean(served.text), served.params),
        slices=slices,
        outcome=verdict.outcome,
        reason=_reason(both, verdict.outcome)[:SHORT],
        k=served.k,
        control=_seen(both.control),
        candidate=_seen(both.candidate),
        jaccard=verdict.jaccard,
        rbo=verdict.rbo,
        client=served.client,
    )


def _divergence(both: _Both, outcome: Class, writer: str, slices: tuple[str, ...]) -> Divergence:
    attempt, served = both.pair.attempt, both.pair.attempt.served
    return Divergence(
        number=attempt.number,
        writer=writer,
        at=attempt.at,
        served=attempt.order,
        text=clean(served.text),
        k=served.k,
        outcome=outcome,
        control=both.control,
        candidate=both.candidate,
        params=served.params,
        slices=slices,
    )


def _reason(both: _Both, outcome: Class) -> str:
    if outcome is Class.SHED:
        return both.pair.shed
    if outcome is Class.STALE:
        return both.stale
    if outcome not in UNCOMPARED:
        return ""
    sides = (("control", both.control), ("candidate", both.candidate))
    return "; ".join(f"{arm}: {side.error}" for arm, side in sides if side.error)


def _seen(side: LoggedAnswer) -> Seen | None:
    if side.status is Status.NOT_ASKED:
        return None
    ids = list(dict.fromkeys(hit.doc_id for hit in side.hits))
    first = side.hits[0] if side.hits else None
    return Seen(
        status=side.status,
        elapsed_ns=side.elapsed_ns,
        hits=len(ids),
        duplicates=len(side.hits) - len(ids),
        top=first.score if first else None,
        top_raw=first.raw_score if first else None,
        answer=of_bytes("\n".join(ids).encode())[:ANSWER_DIGITS],
        served_by=side.served_by,
        generation=side.before,
    )


def _degradations(both: _Both, outcome: Class, writer: str) -> list[Degradation]:
    attempt = both.pair.attempt
    here = Degradation(attempt.number, writer, attempt.at, "shadow", Kind.STALE, both.stale)
    found = [here] if outcome is Class.STALE else []
    for arm, side in (("control", both.control), ("candidate", both.candidate)):
        if side.status is Status.ANSWERED and not answers_for(side.before, side.served_by):
            cause = f"answered by {side.served_by[:SHORT] or 'nobody'}; {side.note}"
            found.append(replace(here, arm=arm, kind=Kind.FALLBACK, cause=cause))
    return found


def _shed(pairs: Sequence[Pair], writer: str) -> list[Degradation]:
    """One for each reason in the batch, at its first attempt."""
    by_reason: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if pair.shed:
            by_reason[pair.shed].append(pair)
    return [
        Degradation(
            number=some[0].attempt.number,
            writer=writer,
            at=some[0].attempt.at,
            arm="shadow",
            kind=Kind.SHED,
            cause=f"{reason}: {len(some)} of the {len(pairs)} attempts of a batch",
        )
        for reason, some in by_reason.items()
    ]
