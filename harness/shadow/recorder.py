"""Pairs into records, written on a thread of its own."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

from harness.agreement import UNCOMPARED, Class, KernelResult, RankPair, classify, jaccard, rbo
from harness.core.digest import of_bytes
from harness.core.records import Scalar
from harness.core.run import Row, Run, Status
from harness.shadow import pair
from harness.shadow.log import LogWriter
from harness.shadow.pair import DIGITS
from harness.shadow.record import (
    DIVERGING,
    Degradation,
    Divergence,
    LoggedAnswer,
    Observation,
    ProblemKind,
    SideObservation,
    dumped,
    query_key,
)
from harness.shadow.settings import Recording

ANSWER_DIGITS = 16
SHORT = 300
"""Characters of a reason that an observation keeps; a divergence has all of it."""

Slices = Callable[[str, Mapping[str, Scalar]], tuple[str, ...]]
"""Names the kinds that a query belongs to, from its text and params."""
Export = Callable[[Sequence[Observation]], None]


class RecordBatch(NamedTuple):
    """A batch of attempts as records."""

    observations: list[Observation]
    divergences: list[Divergence]
    degradations: list[Degradation]


class _Both(NamedTuple):
    attempt: pair.Attempt
    control: LoggedAnswer
    candidate: LoggedAnswer
    stale: str
    """What moved during the pair; empty where nothing did."""


Verdict = tuple[Class, float | None, float | None]
"""Class, Jaccard and RBO; both None where the two were not compared."""


def judged(
    attempts: Sequence[pair.Attempt], *, writer: str, persistence: float, slices: Slices | None
) -> RecordBatch:
    """Classify and measure each attempt at its own k; ``persistence`` is the p of RBO."""
    by_k: dict[int, list[_Both]] = defaultdict(list)
    for attempt in attempts:
        by_k[attempt.served.k].append(_both(attempt))
    found = RecordBatch([], [], [])
    for k, group in by_k.items():
        again = _repeated(group, k, persistence)
        verdicts = _verdicts(group, k, persistence)
        for both, (outcome, shared, order) in zip(group, verdicts, strict=True):
            attempt, served = both.attempt, both.attempt.served
            same: dict[str, Any] = {
                "number": attempt.number,
                "writer": writer,
                "at": attempt.at,
                "served": attempt.order,
                "slices": tuple(slices(served.text, served.params)) if slices else (),
                "outcome": outcome,
                "k": k,
            }
            found.observations.append(
                Observation(
                    **same,
                    query=query_key(pair.clean(served.text), served.params),
                    reason=_reason(both, outcome)[:SHORT],
                    control=_seen(both.control),
                    candidate=_seen(both.candidate),
                    jaccard=shared,
                    rbo=order,
                    client=served.client,
                    again=again.get(attempt.number),
                )
            )
            if outcome in DIVERGING:
                found.divergences.append(
                    Divergence(
                        **same,
                        text=pair.clean(served.text),
                        control=both.control,
                        candidate=both.candidate,
                        params=served.params,
                    )
                )
            found.degradations.extend(_degradations(both, outcome, writer))
    found.degradations.extend(_shed(attempts, writer))
    return found


def _both(attempt: pair.Attempt) -> _Both:
    control = pair.of_control(attempt.served, attempt.after)
    candidate = attempt.candidate or pair.not_asked("")
    moved = [
        f"the index of the {arm} moved from {side.before or 'unknown'} to {side.after or 'unknown'}"
        for arm, side in (("control", control), ("candidate", candidate))
        if side.before != side.after or (side.status is Status.ANSWERED and not side.before)
    ]
    return _Both(attempt, control, candidate, "; ".join(moved))


def _verdicts(group: Sequence[_Both], k: int, persistence: float) -> list[Verdict]:
    ids = [str(both.attempt.number) for both in group]
    control = Run.of("control", map(_row, ids, (both.control for both in group)))
    candidate = Run.of("candidate", map(_row, ids, (both.candidate for both in group)))
    runs = RankPair.of(control, candidate)
    shed = [query for query, both in zip(ids, group, strict=True) if both.attempt.shed]
    stale = [query for query, both in zip(ids, group, strict=True) if both.stale]
    classes = classify(control, candidate, runs, depth=k, shed=shed, stale=stale)
    overlaps = _each(jaccard(runs, k))
    orders = _each(rbo(runs, k, persistence))
    return [
        (outcome, None, None) if outcome in UNCOMPARED else (outcome, a, b)
        for outcome, a, b in zip(classes, overlaps, orders, strict=True)
    ]


def _repeated(group: Sequence[_Both], k: int, persistence: float) -> dict[int, Class]:
    """Classify the control against its own second answer, by the number of the attempt."""
    twice = []
    for both in group:
        attempt, served = both.attempt, both.attempt.served
        if served.again is not None:
            second = pair.of_control(served._replace(answer=served.again), attempt.after)
            twice.append(_Both(attempt._replace(shed=""), both.control, second, stale=""))
    found = _verdicts(twice, k, persistence) if twice else []
    return {both.attempt.number: outcome for both, (outcome, *_) in zip(twice, found, strict=True)}


def _row(query_id: str, side: LoggedAnswer) -> Row:
    return Row(query_id, side.status, side.hits, side.served_by, side.error)


def _each(found: KernelResult) -> list[float | None]:
    values = iter(found.values.tolist())
    return [next(values) if defined else None for defined in found.defined.tolist()]


def _reason(both: _Both, outcome: Class) -> str:
    if outcome is Class.SHED:
        return both.attempt.shed
    if outcome is Class.STALE:
        return both.stale
    if outcome not in UNCOMPARED:
        return ""
    sides = (("control", both.control), ("candidate", both.candidate))
    return "; ".join(f"{arm}: {side.error}" for arm, side in sides if side.error)


def _seen(side: LoggedAnswer) -> SideObservation | None:
    if side.status is Status.NOT_ASKED:
        return None
    ids = list(dict.fromkeys(hit.doc_id for hit in side.hits))
    first = side.hits[0] if side.hits else None
    return SideObservation(
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
    attempt = both.attempt
    here = Degradation(attempt.number, writer, attempt.at, "shadow", ProblemKind.STALE, both.stale)
    found = [here] if outcome is Class.STALE else []
    for arm, side in (("control", both.control), ("candidate", both.candidate)):
        if side.status is Status.ANSWERED and side.before[:DIGITS] != side.served_by[:DIGITS]:
            cause = f"answered by {side.served_by[:SHORT] or 'nobody'}; {side.note}"
            found.append(replace(here, arm=arm, kind=ProblemKind.FALLBACK, cause=cause))
    return found


def _shed(attempts: Sequence[pair.Attempt], writer: str) -> list[Degradation]:
    by_reason: dict[str, list[pair.Attempt]] = defaultdict(list)
    for attempt in attempts:
        if attempt.shed:
            by_reason[attempt.shed].append(attempt)
    return [
        Degradation(some[0].number, writer, some[0].at, "shadow", ProblemKind.SHED,
                    f"{reason}: {len(some)} of the {len(attempts)} attempts of a batch")
        for reason, some in by_reason.items()
    ]  # fmt: skip


LOG = logging.getLogger("harness.shadow")
REMEDY = "Free the space or the rights; until then nothing is compared"
LOOK_S = 0.5
"""How often ``tick`` is called, and a log that cannot be written is tried, where nothing comes."""
NAP_S = 0.0005
"""Pause after each batch. Comparing holds the interpreter's lock; whoever serves gets it then."""


class Recorder(Thread):
    """Takes pairs and troubles, writes them in batches, and calls ``tick`` now and then."""

    def __init__(
        self,
        log: LogWriter,
        recording: Recording,
        *,
        slices: Slices | None,
        tick: Callable[[], None],
        export: Export | None = None,
    ) -> None:
        super().__init__(name="shadow recorder", daemon=True)
        self._log, self._recording = log, recording
        self._slices, self._tick, self._export = slices, tick, export
        self._inbox: SimpleQueue[pair.Attempt | Degradation | None] = SimpleQueue()
        self._closing = Event()
        self._unsaid = 0
        self.cause = "too many waited to be written"
        self._owed: list[Degradation] = []
        self.stuck = ""
        """Why the log cannot be written now; empty where it can."""
        self._reported = False
        self._putting, self._losing = Lock(), Lock()
        self._put = self._taken = 0
        self.lost = 0
        """Attempts that were not written down."""

    def put(self, item: pair.Attempt | Degradation) -> None:
        """Hand over a pair or a trouble; where too many wait it is lost."""
        with self._putting:
            if self._inbox.qsize() >= self._recording.backlog:
                self._lose(isinstance(item, pair.Attempt))
            else:
                self._put += 1
                self._inbox.put(item)

    def _lose(self, count: int) -> None:
        with self._losing:
            self.lost += count
            self._unsaid += count

    @property
    def idle(self) -> bool:
        """Whether all that was handed over is written."""
        return self._put == self._taken

    def close(self, timeout_s: float) -> None:
        """Write what is there and end; the log is closed by then, if that takes no longer."""
        self._closing.set()
        self._inbox.put(None)
        self.join(timeout_s)

    def run(self) -> None:
        going = True
        while going:
            items, going = self._batch()
            if items or self.stuck:
                self._write(items)
                self._taken += len(items)
                self._closing.wait(NAP_S)
            try:
                self._tick()
            except Exception as exc:  # noqa: BLE001  the recorder must go on
                self.put(pair.trouble(ProblemKind.FAULT, pair.told(exc)))
        if self._unsaid or self.stuck:
            self._write(())
        with suppress(OSError):
            self._log.close()

    def _batch(self) -> tuple[list[pair.Attempt | Degradation], bool]:
        """Wait for something, then for more of it; False where that was all."""
        found: list[pair.Attempt | Degradation] = []
        try:
            item = self._inbox.get(timeout=LOOK_S)
            if self._inbox.qsize() + 1 < self._recording.batch:
                self._closing.wait(self._recording.linger_ms / 1e3)
            while item is not None:
                found.append(item)
                if len(found) == self._recording.batch:
                    return found, True
                item = self._inbox.get_nowait()
        except Empty:
            return found, True
        return found, False

    def _write(self, items: Sequence[pair.Attempt | Degradation]) -> None:
        attempts = [item for item in items if isinstance(item, pair.Attempt)]
        troubles = self._owed + [item for item in items if isinstance(item, Degradation)]
        unsaid, told_of, unwritten = self._unsaid, troubles.copy(), len(attempts)
        if unsaid:
            cause = f"{unsaid} were not written down: {self.cause}"
            told_of.append(pair.trouble(ProblemKind.FAULT, cause))
        try:
            found = self._judged(attempts, told_of)
            writer = self._log.writer
            found.degradations.extend(replace(one, writer=writer) for one in told_of)
            self._log.append(found.observations, found.divergences, ())
            unwritten = 0
            self._log.append((), (), found.degradations)
            self._owed, self.stuck = [], ""
            self._reported = self._reported and not attempts
            with self._losing:
                self._unsaid -= unsaid
        except Exception as exc:  # noqa: BLE001  a full disk must not end the recorder
            self.cause, self._owed = pair.told(exc), troubles[: self._recording.backlog]
            if not self._reported:
                LOG.error("%s: the log cannot be written (%s). %s", self._log.folder, exc, REMEDY)  # noqa: TRY400  no traceback
            self.stuck, self._reported = self.cause, True
            self._lose(unwritten)
            return
        try:
            if self._export:
                self._export(found.observations)
        except Exception as exc:  # noqa: BLE001  the log has them; who else hears of them has not
            self._export = None
            self.put(
                pair.trouble(
                    ProblemKind.FAULT, f"nothing is exported from here on: {pair.told(exc)}"
                )
            )

    def _judged(self, attempts: Sequence[pair.Attempt], told_of: list[Degradation]) -> RecordBatch:
        """Judge a batch, or, where that fails, each of it, so that one spoils no other."""
        try:
            return self._as_records(attempts, self._slices)
        except Exception:  # noqa: BLE001  found out below, one by one
            alone = [self._alone(attempt, told_of) for attempt in attempts]
            return RecordBatch(
                *(list(chain.from_iterable(kind)) for kind in zip(*alone, strict=True))
            )

    def _alone(self, attempt: pair.Attempt, told_of: list[Degradation]) -> RecordBatch:
        try:
            return self._as_records([attempt], self._slices)
        except Exception as exc:  # noqa: BLE001  becomes a skipped comparison that says why
            why, served = pair.told(exc), attempt.served
            told_of.append(pair.trouble(ProblemKind.FAULT, why, attempt))
            bare = pair.ServedQuery(
                served.text, 1, {}, None, "could not be written down", served.elapsed_ns, ""
            )
            kept = attempt._replace(served=bare, candidate=pair.not_asked(why), after="", shed="")
            return self._as_records([kept], None)

    def _as_records(self, attempts: Sequence[pair.Attempt], slices: Slices | None) -> RecordBatch:
        persistence = self._recording.persistence
        found = judged(attempts, writer=self._log.writer, persistence=persistence, slices=slices)
        for records in found:
            for record in records:
                dumped(record)
        return found
