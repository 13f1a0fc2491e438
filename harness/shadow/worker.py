"""The candidate in a process of its own, and lanes that ask it."""

from __future__ import annotations

import json
import os
import pickle
import signal
import struct
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from threading import Thread
from time import monotonic_ns, perf_counter_ns
from typing import Annotated, Protocol

import psutil
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from harness.core.engine import Searcher
from harness.core.formats import checked
from harness.core.reading import Malformed
from harness.core.records import Scalar
from harness.core.run import Status
from harness.shadow import pair
from harness.shadow.record import Degradation, LoggedAnswer, ProblemKind
from harness.shadow.settings import NS_PER_MS, NS_PER_S, Limits

Open = Callable[[], AbstractContextManager[Searcher]]
"""Opens the candidate; called where it will be queried. For a process it must be picklable."""
Question = tuple[str, int, Mapping[str, Scalar]]


class WorkerLost(Exception):
    """The worker is gone, or given up, and must be replaced."""

    def __init__(self, kind: ProblemKind, cause: str, side: LoggedAnswer | None = None) -> None:
        super().__init__(cause)
        self.kind, self.cause, self.side = kind, cause, side


class CandidateWorker(Protocol):
    """An open candidate that is queried one query at a time."""

    def ask(self, question: Question, *, late_ns: int, hang_ns: int) -> LoggedAnswer:
        """Ask, and give the candidate up after ``hang_ns``."""
        ...

    def close(self) -> None:
        """End it."""
        ...


MAX_ANSWER_BYTES = 16 << 20
CHUNK_BYTES = 1 << 16
_LENGTH = struct.Struct("!i")
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Garbage(Exception):
    """A candidate said what is not a message."""


@dataclass(frozen=True, slots=True, config=_STRICT)
class OpeningReply:
    """The first thing that a candidate says: why it did not open, or nothing."""

    problem: str


@dataclass(frozen=True, slots=True, config=_STRICT)
class Answered:
    """The answer to one query."""

    number: Annotated[int, Field(ge=1)]
    """Of the query, so that an answer is taken for no other one's."""
    side: LoggedAnswer


Said = TypeAdapter[OpeningReply | Answered](OpeningReply | Answered)


def asking(number: int, question: Question, late_ns: int) -> bytes:
    """Write a query; halves of surrogate pairs in it get through."""
    text, k, params = question
    return json.dumps([number, text, k, dict(params), late_ns]).encode()


def said(message: OpeningReply | Answered) -> bytes:
    """Write what a candidate says."""
    return Said.dump_json(message)


def heard(frame: bytes) -> OpeningReply | Answered:
    """Read what a candidate said."""
    try:
        return Said.validate_json(checked(frame.decode("utf-8")))
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        raise Garbage(f"{first['loc']}: {first['msg']}") from exc
    except (UnicodeDecodeError, Malformed) as exc:
        raise Garbage(f"{type(exc).__name__}: {exc}") from exc


def frame_of(pipe: int, ready: Callable[[], object]) -> bytes:
    """Read one frame of the file ``pipe``; before each read ``ready`` waits, and may raise."""
    found = bytearray()
    while len(found) < _LENGTH.size or len(found) < _LENGTH.size + _size(found):
        ready()
        more = os.read(pipe, CHUNK_BYTES)
        if not more:
            raise EOFError
        found += more
    if len(found) > _LENGTH.size + _size(found):
        raise Garbage("it said more than was requested")
    return bytes(found[_LENGTH.size :])


def _size(found: bytearray) -> int:
    (size,) = _LENGTH.unpack_from(found)
    if not 0 <= size <= MAX_ANSWER_BYTES:
        raise Garbage(f"a message of {size} bytes; at most {MAX_ANSWER_BYTES} are read")
    return int(size)


LOOK_S = 0.05
"""How often the memory of a candidate that is busy is looked at."""
QUESTION_BYTES = 32_768
"""A longer query might not fit into the pipe, and wait there for a candidate that stopped."""


class ProcessWorker:
    """A candidate in a process, not forked, so that it shares no lock with ours."""

    def __init__(self, opens: Open, limits: Limits) -> None:
        self._memory_bytes = limits.memory_mib << 20
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
            raise WorkerLost(
                ProblemKind.CRASH, f"its process did not start: {pair.told(exc)}"
            ) from exc
        finally:
            theirs.close()
        try:
            self._seen = psutil.Process(self._process.pid)
            opened = self._wait(round(limits.start_s * NS_PER_S))
        except (WorkerLost, psutil.Error) as exc:
            self.close()
            raise WorkerLost(ProblemKind.CRASH, f"it did not open: {exc}") from None
        problem = (
            opened.problem if isinstance(opened, OpeningReply) else "it answers before any query"
        )
        if problem:
            self.close()
            raise WorkerLost(ProblemKind.CRASH, f"it did not open: {problem}")

    def ask(self, question: Question, *, late_ns: int, hang_ns: int) -> LoggedAnswer:
        self._number += 1
        sent = asking(self._number, question, late_ns)
        if len(sent) > QUESTION_BYTES:
            why = f"a query of {len(sent)} bytes; a worker takes {QUESTION_BYTES}"
            return pair.given_up(Status.NOT_ASKED, why, 0)
        try:
            self._ours.send_bytes(sent)
        except OSError:
            raise self._ended(0) from None
        found = self._wait(hang_ns)
        if not isinstance(found, Answered) or found.number != self._number:
            raise _babbled("an answer to another query", 0)
        return found.side

    def _wait(self, limit_ns: int) -> OpeningReply | Answered:
        start = perf_counter_ns()

        def ready() -> None:
            there = False
            while not there:
                spent_ns = perf_counter_ns() - start
                if spent_ns >= limit_ns:
                    cause = f"no answer after {limit_ns / 1e9:.3f} s; its worker is replaced"
                    side = pair.given_up(Status.TIMED_OUT, cause, limit_ns)
                    raise WorkerLost(ProblemKind.TIMEOUT, cause, side)
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
            raise WorkerLost(
                ProblemKind.CRASH, cause, pair.given_up(Status.FAILED, cause, spent_ns)
            )

    def _ended(self, spent_ns: int) -> WorkerLost:
        self._process.join(timeout=1)
        cause = f"its process ended with exit code {self._process.exitcode}"
        return WorkerLost(ProblemKind.CRASH, cause, pair.given_up(Status.FAILED, cause, spent_ns))

    def close(self) -> None:
        self._ours.close()
        self._process.kill()
        self._process.join()
        self._process.close()


def _babbled(what: str, spent_ns: int) -> WorkerLost:
    cause = f"its answer is invalid: {what}"[: pair.LONGEST]
    return WorkerLost(ProblemKind.CRASH, cause, pair.given_up(Status.FAILED, cause, spent_ns))


def serve(opens: Open, pipe: Connection) -> None:
    """Run in the process; queries come from our own parent."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        opened = opens()
        searcher = opened.__enter__()
    except Exception as exc:  # noqa: BLE001  told to who waits for it
        pipe.send_bytes(said(OpeningReply(pair.told(exc))))
        return
    generation = pair.Generation(searcher)
    pipe.send_bytes(said(OpeningReply("")))
    try:
        while True:
            number, text, k, params, late_ns = json.loads(pipe.recv_bytes())
            side = pair.asked(searcher, generation, (text, k, params), late_ns)
            pipe.send_bytes(said(Answered(number, side)))
    except (EOFError, OSError):
        opened.__exit__(None, None, None)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


CLOSED = "the comparison was closed before it was queried"


class Lane(Thread):
    """One worker and its successors."""

    def __init__(
        self,
        inbox: SimpleQueue[pair.Attempt | None],
        *,
        start: Callable[[], CandidateWorker],
        limits: Limits,
        done: Callable[[pair.Attempt], None],
        tell: Callable[[Degradation], None],
    ) -> None:
        super().__init__(name="shadow lane", daemon=True)
        self._inbox, self._start, self._limits = inbox, start, limits
        self._done, self._tell = done, tell
        self._late_ns = round(limits.late_ms * NS_PER_MS)
        self._hang_ns = round(limits.hang_ms * NS_PER_MS)
        self._worker: CandidateWorker | None = None
        self._pause_ms = limits.backoff_ms
        self._not_before = 0.0
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
                why = pair.told(exc)
                self._tell(pair.trouble(ProblemKind.FAULT, why, attempt))
                candidate, after = pair.not_asked(why), ""
            self._done(attempt._replace(candidate=candidate, after=after))
        self._close()

    def _candidate(self, attempt: pair.Attempt) -> LoggedAnswer:
        if self._stopped:
            return pair.not_asked(CLOSED)
        if self._worker is None and monotonic_ns() < self._not_before:
            return pair.not_asked(f"the candidate is down: {self._why}")
        try:
            if self._worker is None:
                self._worker = self._start()
            side = self._worker.ask(
                attempt.served.question, late_ns=self._late_ns, hang_ns=self._hang_ns
            )
        except WorkerLost as lost:
            self._replace(attempt, lost)
            return lost.side or pair.not_asked(f"the candidate is down: {lost.cause}")
        self._pause_ms = self._limits.backoff_ms
        return side

    def _replace(self, attempt: pair.Attempt, lost: WorkerLost) -> None:
        self._why = lost.cause
        self._tell(pair.trouble(lost.kind, lost.cause, attempt, arm="candidate"))
        self._close()
        self._not_before = monotonic_ns() + self._pause_ms * NS_PER_MS
        self._pause_ms = min(2 * self._pause_ms, self._limits.backoff_most_ms)

    def _close(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._worker = None
