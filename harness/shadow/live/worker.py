"""Who runs the candidate, so that whatever it does happens beside the serving engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Protocol

from harness.core.engine import Searcher
from harness.core.records import Scalar
from harness.core.run import Status
from harness.shadow.live.generation import Generation
from harness.shadow.live.side import asked, given_up, told
from harness.shadow.log.record import Kind, LoggedAnswer

Open = Callable[[], AbstractContextManager[Searcher]]
"""Opens the candidate; called where it will be queried. For a process it must be picklable."""
Question = tuple[str, int, Mapping[str, Scalar]]
"""Text, k and params."""


class Lost(Exception):
    """The worker is gone, or given up, and must be replaced.

    ``side`` is what is known of the query that it was lost over; None where it did not start.
    ``left`` tells whether a thread of one that did not start is left.
    """

    def __init__(
        self, kind: Kind, cause: str, side: LoggedAnswer | None = None, *, left: bool = False
    ) -> None:
        super().__init__(cause)
        self.kind, self.cause, self.side, self.left = kind, cause, side, left


class Worker(Protocol):
    """An open candidate that is queried one query at a time."""

    def ask(self, question: Question, *, late_ns: int, hang_ns: int) -> LoggedAnswer:
        """Ask, and give the candidate up after ``hang_ns``.

        Raises:
            Lost: it hung, ended or grew too large; close the worker.
        """
        ...

    def close(self) -> bool:
        """Let go of it; True where something of it is left that cannot be ended."""
        ...


def hung(hang_ns: int) -> Lost:
    """Say that a candidate was given up."""
    cause = f"no answer after {hang_ns / 1e9:.3f} s; its worker is replaced"
    return Lost(Kind.TIMEOUT, cause, given_up(Status.TIMED_OUT, cause, hang_ns))


class ThreadWorker:
    """A candidate on a thread of this process: cheap, and at its mercy.

    An exception, an exit and a hang are borne. What ends a process, and what eats its memory, is
    not: for a candidate that may do so there is ``harness.shadow.live.process``. A thread that
    hangs cannot be ended; it is left alone and ends when its query does.

    Raises:
        Lost: the candidate did not open, or not in ``start_ns``.
    """

    def __init__(self, opens: Open, *, start_ns: int) -> None:
        self._questions: SimpleQueue[tuple[Question, int] | None] = SimpleQueue()
        self._answers: SimpleQueue[LoggedAnswer | BaseException | None] = SimpleQueue()
        self._thread = Thread(target=self._run, args=(opens,), name="shadow", daemon=True)
        self._thread.start()
        try:
            started = self._answers.get(timeout=start_ns / 1e9)
        except Empty:
            cause = f"it was not open after {start_ns / 1e9:.3f} s"
            raise Lost(Kind.CRASH, cause, left=self.close()) from None
        if isinstance(started, BaseException):
            raise Lost(Kind.CRASH, f"it did not open: {told(started)}")

    def _run(self, opens: Open) -> None:
        try:
            with opens() as searcher:
                generation = Generation(searcher)
                self._answers.put(None)
                while (found := self._questions.get()) is not None:
                    question, late_ns = found
                    self._answers.put(asked(searcher, generation, question, late_ns))
        except BaseException as exc:  # noqa: BLE001  whatever a candidate raises stays here
            self._answers.put(exc)

    def ask(self, question: Question, *, late_ns: int, hang_ns: int) -> LoggedAnswer:
        self._questions.put((question, late_ns))
        try:
            found = self._answers.get(timeout=hang_ns / 1e9)
        except Empty:
            raise hung(hang_ns) from None
        if isinstance(found, LoggedAnswer):
            return found
        cause = f"its thread ended: {told(found) if found else 'for no reason'}"
        raise Lost(Kind.CRASH, cause, given_up(Status.FAILED, cause, 0))

    def close(self) -> bool:
        self._questions.put(None)
        self._thread.join(timeout=0.1)
        return self._thread.is_alive()
