"""A lane: takes attempts one by one, has the candidate asked, and replaces it when it is lost."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from time import monotonic_ns

from harness.shadow.live.limits import Limits
from harness.shadow.live.pair import Attempt, Pair, Trouble
from harness.shadow.live.side import not_asked, told
from harness.shadow.live.worker import Lost, Worker
from harness.shadow.log.record import Kind, LoggedAnswer

CLOSED = "the comparison was closed before it was queried"


class Lane(Thread):
    """One worker and its successors.

    ``start`` opens a worker; ``done`` takes every pair that came out, ``tell`` every trouble, and
    ``leaves`` is called where something of a lost worker is left. The lane ends at a None in
    ``inbox``; from ``stop`` on it only says that it did not ask.
    """

    def __init__(
        self,
        inbox: SimpleQueue[Attempt | None],
        *,
        start: Callable[[], Worker],
        limits: Limits,
        done: Callable[[Pair], None],
        tell: Callable[[Trouble], None],
        leaves: Callable[[], None],
    ) -> None:
        super().__init__(name="shadow lane", daemon=True)
        self._inbox, self._start, self._limits = inbox, start, limits
        self._done, self._tell, self._leaves = done, tell, leaves
        self._worker: Worker | None = None
        self._pause_ns = limits.backoff_ns
        self._not_before = 0
        self._why = ""
        self._stopped = False

    def stop(self) -> None:
        """Ask no more."""
        self._stopped = True

    def run(self) -> None:
        while (attempt := self._inbox.get()) is not None:
            try:
                candidate = self._candidate(attempt)
                after = attempt.generation()
            except Exception as exc:  # noqa: BLE001  the lane must go on, and every pair come out
                why = told(exc)
                self._tell(Trouble(attempt.number, attempt.at, "shadow", Kind.FAULT, why))
                candidate, after = not_asked(why), ""
            self._done(Pair(attempt, candidate, after))
        self._close()

    def _candidate(self, attempt: Attempt) -> LoggedAnswer:
        """Ask the candidate; where it is down, say so."""
        if self._stopped:
            return not_asked(CLOSED)
        if self._worker is None and monotonic_ns() < self._not_before:
            return not_asked(f"the candidate is down: {self._why}")
        served, limits = attempt.served, self._limits
        question = (served.text, served.k, served.params)
        try:
            if self._worker is None:
                self._worker = self._start()
            side = self._worker.ask(question, late_ns=limits.late_ns, hang_ns=limits.hang_ns)
        except Lost as lost:
            self._replace(attempt, lost)
            return lost.side or not_asked(f"the candidate is down: {lost.cause}")
        self._pause_ns = limits.backoff_ns
        return side

    def _replace(self, attempt: Attempt, lost: Lost) -> None:
        self._why = lost.cause
        self._tell(Trouble(attempt.number, attempt.at, "candidate", lost.kind, lost.cause))
        self._close()
        if lost.left:
            self._leaves()
        self._not_before = monotonic_ns() + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, self._limits.backoff_most_ns)

    def _close(self) -> None:
        if self._worker is not None and self._worker.close():
            self._leaves()
        self._worker = None
