"""The candidate in a process of its own, which may hang, end, leak or be killed."""

from __future__ import annotations

import json
import os
import pickle
import signal
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from threading import Thread
from time import perf_counter_ns

import psutil

from harness.core.run import Status
from harness.shadow.live.generation import Generation
from harness.shadow.live.messages import Answered, Garbage, Opened, asking, frame_of, heard, said
from harness.shadow.live.side import LONGEST, asked, given_up, told
from harness.shadow.live.worker import Lost, Open, Question, hung
from harness.shadow.log.record import Kind, LoggedAnswer

LOOK_S = 0.05
"""How often the memory of a candidate that is busy is looked at."""
QUESTION_BYTES = 32_768
"""A longer query might not fit into the pipe, and wait there for a candidate that stopped."""


class ProcessWorker:
    """A candidate in a process, started anew and not forked, so that it shares no lock with ours.

    It ends with ours: by ``close``, and by itself when ours is gone.

    Raises:
        Lost: the candidate did not open, or not in ``start_ns``.
    """

    def __init__(self, opens: Open, *, start_ns: int, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._number = 0
        context = get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(
            target=serve, args=(opens, theirs), name="shadow candidate", daemon=True
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
        problem = opened.problem if isinstance(opened, Opened) else "it answers before any query"
        if problem:
            self.close()
            raise Lost(Kind.CRASH, f"it did not open: {problem}")

    def ask(self, question: Question, *, late_ns: int, hang_ns: int) -> LoggedAnswer:
        self._number += 1
        sent = asking(self._number, question, late_ns)
        if len(sent) > QUESTION_BYTES:
            why = f"a query of {len(sent)} bytes; a worker takes {QUESTION_BYTES}"
            return given_up(Status.NOT_ASKED, why, 0)
        try:
            self._ours.send_bytes(sent)
        except OSError:
            raise self._ended(0) from None
        found = self._wait(hang_ns)
        if not isinstance(found, Answered) or found.number != self._number:
            raise _babbled("an answer to another query", 0)
        return found.side

    def _wait(self, limit_ns: int) -> Opened | Answered:
        """Give the next thing that the candidate says.

        Raises:
            Lost: it hung, ended, grew too large or said what is no message.
        """
        start = perf_counter_ns()

        def ready() -> None:
            there = False
            while not there:
                spent_ns = perf_counter_ns() - start
                if spent_ns >= limit_ns:
                    raise hung(limit_ns)
                left_s = (limit_ns - spent_ns) / 1e9
                there = bool(wait([self._ours], timeout=min(LOOK_S, left_s)))
                self._look_at_memory(spent_ns)

        try:
            return heard(frame_of(self._ours.fileno(), ready))
        except (EOFError, OSError):
            raise self._ended(perf_counter_ns() - start) from None
        except Garbage as exc:
            raise _babbled(str(exc), perf_counter_ns() - start) from exc

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


def _babbled(what: str, spent_ns: int) -> Lost:
    cause = f"its answer is invalid: {what}"[:LONGEST]
    return Lost(Kind.CRASH, cause, given_up(Status.FAILED, cause, spent_ns))


def serve(opens: Open, pipe: Connection) -> None:
    """Run in the process; queries come from our own parent.

    A signal that ends all is for the process that serves, which then closes the pipe.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        opened = opens()
        searcher = opened.__enter__()
    except Exception as exc:  # noqa: BLE001  told to who waits for it
        pipe.send_bytes(said(Opened(told(exc))))
        return
    generation = Generation(searcher)
    pipe.send_bytes(said(Opened("")))
    try:
        while True:
            number, text, k, params, late_ns = json.loads(pipe.recv_bytes())
            side = asked(searcher, generation, (text, k, params), late_ns)
            pipe.send_bytes(said(Answered(number, side)))
    except (EOFError, OSError):
        opened.__exit__(None, None, None)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
