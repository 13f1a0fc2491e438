"""The candidate in a process of its own, which may hang, end, leak or be killed."""

from __future__ import annotations

import os
import pickle
import signal
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from threading import Thread
from time import perf_counter_ns

import psutil

from harness.core.run import Status
from harness.shadow.generation import Generation
from harness.shadow.record import Kind, Side
from harness.shadow.side import asked, given_up, told
from harness.shadow.worker import Lost, Open, Question, hung

LOOK_S = 0.05
"""How often the memory of a candidate that is busy is looked at."""
QUESTION_BYTES = 32_768
"""A longer question might not fit into the pipe, and wait there for a candidate that stopped."""
ANSWER_BYTES = 16 << 20
"""A longer answer is not read."""


class ProcessWorker:
    """A candidate in a process, started anew and not forked, so that it shares no lock with ours.

    It ends with ours: by ``close``, and by itself when ours is gone.

    Raises:
        Lost: the candidate did not open, or not in ``start_ns``.
    """

    def __init__(self, opens: Open, *, start_ns: int, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        context = get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(opens, theirs), name="shadow candidate", daemon=True
        )
        try:
            self._process.start()
        except (OSError, pickle.PicklingError, AttributeError, TypeError) as exc:
            self._ours.close()
            raise Lost(Kind.CRASH, f"its process did not start: {told(exc)}") from exc
        finally:
            theirs.close()
        try:
            self._seen = psutil.Process(self._process.pid)
            opened = self._wait(start_ns)
        except (Lost, psutil.Error) as exc:
            self.close()
            raise Lost(Kind.CRASH, f"it did not open: {exc}") from None
        if opened:
            self.close()
            raise Lost(Kind.CRASH, f"it did not open: {opened}")

    def ask(self, question: Question, *, late_ns: int, hang_ns: int) -> Side:
        sent = pickle.dumps((question, late_ns))
        if len(sent) > QUESTION_BYTES:
            why = f"a question of {len(sent)} bytes; a worker takes {QUESTION_BYTES}"
            return given_up(Status.NOT_ASKED, why, 0)
        try:
            self._ours.send_bytes(sent)
        except OSError:
            raise self._ended(0) from None
        found = self._wait(hang_ns)
        if not isinstance(found, Side):
            cause = f"it said {type(found).__name__} where an answer was due"
            raise Lost(Kind.CRASH, cause, given_up(Status.FAILED, cause, 0))
        return found

    def _wait(self, limit_ns: int) -> object:
        """Give the next thing that the candidate says.

        Raises:
            Lost: it hung, ended or grew too large.
        """
        start = perf_counter_ns()
        while True:
            spent_ns = perf_counter_ns() - start
            if spent_ns >= limit_ns:
                raise hung(limit_ns)
            ready = wait([self._ours], timeout=min(LOOK_S, (limit_ns - spent_ns) / 1e9))
            self._look_at_memory(spent_ns)
            if ready:
                try:
                    return pickle.loads(self._ours.recv_bytes(ANSWER_BYTES))  # noqa: S301  ours
                except (EOFError, OSError):
                    raise self._ended(perf_counter_ns() - start) from None

    def _look_at_memory(self, spent_ns: int) -> None:
        try:
            resident = self._seen.memory_info().rss
        except psutil.Error:
            return
        if resident > self._memory_bytes:
            cause = f"it grew to {resident} bytes; it may have {self._memory_bytes}"
            raise Lost(Kind.CRASH, cause, given_up(Status.FAILED, cause, spent_ns))

    def _ended(self, spent_ns: int) -> Lost:
        self._process.join(timeout=1)
        cause = f"its process ended with exit code {self._process.exitcode}"
        return Lost(Kind.CRASH, cause, given_up(Status.FAILED, cause, spent_ns))

    def close(self) -> bool:
        self._ours.close()
        self._process.kill()
        self._process.join()
        self._process.close()
        return False


def _serve(opens: Open, pipe: Connection) -> None:
    """Run in the process: open, say so with an empty text, answer until the pipe closes.

    A Ctrl-C in the terminal is for the process that serves, which then closes the pipe.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        opened = opens()
        searcher = opened.__enter__()
    except Exception as exc:  # noqa: BLE001  told to who waits for it
        pipe.send(told(exc))
        return
    generation = Generation(searcher)
    pipe.send("")
    try:
        while True:
            question, late_ns = pickle.loads(pipe.recv_bytes())  # noqa: S301  from our own parent
            pipe.send(asked(searcher, generation, question, late_ns))
    except (EOFError, OSError):
        opened.__exit__(None, None, None)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
