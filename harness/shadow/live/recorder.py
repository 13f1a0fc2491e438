"""Turns pairs into records and writes them, on a thread of its own and never for a caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from time import time_ns

from harness.shadow.live.compare import Judged, Slices, degradation, judged
from harness.shadow.live.limits import Recording
from harness.shadow.live.pair import Attempt, Pair, Served, Trouble
from harness.shadow.live.side import not_asked, told
from harness.shadow.log.log import Log
from harness.shadow.log.record import AnyRecord, Kind, dumped

LOOK_S = 0.5
"""How often ``tick`` is called where nothing comes."""
NAP_S = 0.0005
"""Pause after each batch. Comparing holds the interpreter's lock; whoever serves gets it then."""


class Recorder(Thread):
    """Takes pairs and troubles; writes them in batches.

    What cannot be written is counted as lost, and said in the log as soon as that can be written
    again. ``tick`` is called now and then.
    """

    def __init__(
        self,
        log: Log,
        recording: Recording,
        *,
        slices: Slices | None,
        tick: Callable[[], None],
    ) -> None:
        super().__init__(name="shadow recorder", daemon=True)
        self._log, self._recording = log, recording
        self._slices, self._tick = slices, tick
        self._inbox: SimpleQueue[Pair | Trouble | None] = SimpleQueue()
        self._closing = Event()
        self._unsaid = 0
        self._cause = "too many waited to be written"
        self._putting, self._losing = Lock(), Lock()
        self._put = self._taken = 0
        self.lost = 0
        """Attempts that were not written down."""

    def put(self, item: Pair | Trouble) -> None:
        """Hand over a pair or a trouble; where too many wait it is lost."""
        with self._putting:
            if self._inbox.qsize() >= self._recording.backlog:
                self._lose(isinstance(item, Pair))
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
            if items:
                self._write(items)
                self._taken += len(items)
                self._closing.wait(NAP_S)
            try:
                self._tick()
            except Exception as exc:  # noqa: BLE001  the recorder must go on
                self.put(Trouble(0, time_ns(), "shadow", Kind.FAULT, told(exc)))
        if self._unsaid:
            self._write(())
        with suppress(OSError):
            self._log.close()

    def _batch(self) -> tuple[list[Pair | Trouble], bool]:
        """Wait for something, then for more of it; False where that was all."""
        found: list[Pair | Trouble] = []
        try:
            item = self._inbox.get(timeout=LOOK_S)
            if self._inbox.qsize() + 1 < self._recording.batch:
                self._closing.wait(self._recording.linger_ns / 1e9)
            while item is not None:
                found.append(item)
                if len(found) == self._recording.batch:
                    return found, True
                item = self._inbox.get_nowait()
        except Empty:
            return found, True
        return found, False

    def _write(self, items: Sequence[Pair | Trouble]) -> None:
        pairs = [item for item in items if isinstance(item, Pair)]
        told_of = [item for item in items if isinstance(item, Trouble)]
        unsaid = self._unsaid
        if unsaid:
            cause = f"{unsaid} were not written down: {self._cause}"
            told_of.append(Trouble(0, time_ns(), "shadow", Kind.FAULT, cause))
        try:
            found = self._judged(pairs, told_of)
            self._log.append(found.observations, found.divergences, found.degradations)
            with self._losing:
                self._unsaid -= unsaid
        except Exception as exc:  # noqa: BLE001  a full disk must not end the recorder
            self._cause = told(exc)
            self._lose(len(pairs))

    def _judged(self, pairs: Sequence[Pair], told_of: list[Trouble]) -> Judged:
        """Judge a batch, or, where that fails, each of its pairs, so that one spoils no other."""
        try:
            found = self._as_records(pairs, self._slices)
        except Exception:  # noqa: BLE001  found out below, pair by pair
            found = Judged([], [], [])
            for pair in pairs:
                one = self._alone(pair, told_of)
                found.observations.extend(one.observations)
                found.divergences.extend(one.divergences)
                found.degradations.extend(one.degradations)
        writer = self._log.writer
        found.degradations.extend(degradation(trouble, writer) for trouble in told_of)
        return found

    def _alone(self, pair: Pair, told_of: list[Trouble]) -> Judged:
        try:
            return self._as_records([pair], self._slices)
        except Exception as exc:  # noqa: BLE001  becomes a skipped comparison that says why
            attempt, why = pair.attempt, told(exc)
            told_of.append(Trouble(attempt.number, attempt.at, "shadow", Kind.FAULT, why))
            return self._as_records([_bare(attempt, why)], None)

    def _as_records(self, pairs: Sequence[Pair], slices: Slices | None) -> Judged:
        """Judge pairs; what cannot be written raises here, where it spoils no batch."""
        writer = self._log.writer
        found = judged(pairs, writer=writer, persistence=self._p, slices=slices)
        records: Iterable[AnyRecord] = chain(*found)
        for record in records:
            dumped(record)
        return found

    @property
    def _p(self) -> float:
        return self._recording.persistence


def _bare(attempt: Attempt, why: str) -> Pair:
    """Give an attempt of which its place and its text are left: anything else may be at fault."""
    text, elapsed_ns = attempt.served.text, attempt.served.elapsed_ns
    served = Served(text, 1, {}, None, "could not be written down", elapsed_ns, generation="")
    return Pair(attempt._replace(served=served), not_asked(why), after="")
