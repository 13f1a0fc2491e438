"""The candidate in a process of its own, and lanes that ask it."""

import json
import os
import pickle
import signal
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from threading import Thread
from time import monotonic_ns, perf_counter_ns

import psutil
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from harness.core.engine import Searcher
from harness.core.formats import checked
from harness.core.reading import Malformed
from harness.core.run import Status
from harness.shadow import pair
from harness.shadow.pair import LONGEST, Question, told, unanswered
from harness.shadow.record import STRICT, Count, Degradation, LoggedAnswer, ProblemKind
from harness.shadow.settings import NS_PER_MS, NS_PER_S, Limits

Open = Callable[[], AbstractContextManager[Searcher]]
"""Opens the candidate; called where it will be queried. For a process it must be picklable."""
MAX_ANSWER_BYTES = 16 << 20
CHUNK_BYTES = 1 << 16
QUESTION_BYTES = 32_768
"""A longer query might not fit into the pipe, and wait there for a candidate that stopped."""
LOOK_S = 0.05
"""How often the memory of a candidate that is busy is looked at."""
CLOSED = "the comparison was closed before it was queried"
_LENGTH = struct.Struct("!i")


class WorkerLost(Exception):
    """The worker is gone, or given up, and must be replaced."""

    def __init__(self, cause: str, side: LoggedAnswer | None = None) -> None:
        super().__init__(cause)
        self.cause, self.side = cause, side

    @classmethod
    def over(cls, status: Status, cause: str, spent_ns: int) -> "WorkerLost":
        """Make the error of a worker that was lost over a query."""
        return cls(cause, unanswered(status, cause, spent_ns))

    @property
    def kind(self) -> ProblemKind:
        """What the log calls it."""
        late = self.side is not None and self.side.status is Status.TIMED_OUT
        return ProblemKind.TIMEOUT if late else ProblemKind.CRASH


class Garbage(Exception):
    """A candidate said what is not a message."""


@dataclass(frozen=True, slots=True, config=STRICT)
class CandidateReply:
    """What a candidate says: the answer to a query, or, first of all, how it opened."""

    number: Count
    """Of the query, so that an answer is taken for no other one's; 0 of the first message."""
    side: LoggedAnswer | None = None
    problem: str = ""
    """Why it did not open."""


REPLY = TypeAdapter[CandidateReply](CandidateReply)


def heard(frame: bytes) -> CandidateReply:
    """Read what a candidate said."""
    try:
        return REPLY.validate_json(checked(frame.decode("utf-8")))
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
            raise WorkerLost(f"its process did not start: {told(exc)}") from exc
        finally:
            theirs.close()
        try:
            self._seen = psutil.Process(self._process.pid)
            opened = self._wait(round(limits.start_s * NS_PER_S))
            problem = "it answers before any query" if opened.number else opened.problem
        except (WorkerLost, psutil.Error) as exc:
            problem = str(exc)
        if problem:
            self.close()
            raise WorkerLost(f"it did not open: {problem}")

    def ask(self, question: Question, *, late_ns: int, hang_ns: int) -> LoggedAnswer:
        """Ask, and give the candidate up after ``hang_ns``."""
        self._number += 1
        text, k, params = question  # as JSON halves of surrogate pairs get through
        sent = json.dumps([self._number, text, k, dict(params), late_ns]).encode()
        if len(sent) > QUESTION_BYTES:
            why = f"a query of {len(sent)} bytes; a worker takes {QUESTION_BYTES}"
            return unanswered(Status.NOT_ASKED, why)
        try:
            self._ours.send_bytes(sent)
        except OSError:
            raise self._ended(0) from None
        found = self._wait(hang_ns)
        if found.number != self._number or found.side is None:
            raise _babbled("an answer to another query", 0)
        return found.side

    def _wait(self, limit_ns: int) -> CandidateReply:
        start = perf_counter_ns()

        def ready() -> None:
            there = False
            while not there:
                spent_ns = perf_counter_ns() - start
                if spent_ns >= limit_ns:
                    cause = f"no answer after {limit_ns / 1e9:.3f} s; its worker is replaced"
                    raise WorkerLost.over(Status.TIMED_OUT, cause, limit_ns)
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
            raise WorkerLost.over(Status.FAILED, cause, spent_ns)

    def _ended(self, spent_ns: int) -> WorkerLost:
        self._process.join(timeout=1)
        cause = f"its process ended with exit code {self._process.exitcode}"
        return WorkerLost.over(Status.FAILED, cause, spent_ns)

    def close(self) -> None:
        """End it."""
        self._ours.close()
        self._process.kill()
        self._process.join()
        self._process.close()


def _babbled(what: str, spent_ns: int) -> WorkerLost:
    cause = f"its answer is invalid: {what}"[:LONGEST]
    return WorkerLost.over(Status.FAILED, cause, spent_ns)


def serve(opens: Open, pipe: Connection) -> None:
    """Run in the process; queries come from our own parent."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        opened = opens()
        searcher = opened.__enter__()
    except Exception as exc:  # noqa: BLE001  told to who waits for it
        pipe.send_bytes(REPLY.dump_json(CandidateReply(0, problem=told(exc))))
        return
    generation = pair.Generation(searcher)
    pipe.send_bytes(REPLY.dump_json(CandidateReply(0)))
    try:
        while True:
            number, text, k, params, late_ns = json.loads(pipe.recv_bytes())
            side = pair.asked(searcher, generation, (text, k, params), late_ns)
            pipe.send_bytes(REPLY.dump_json(CandidateReply(number, side)))
    except (EOFError, OSError):
        opened.__exit__(None, None, None)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class Lane(Thread):
    """One worker and its successors."""

    def __init__(
        self,
        inbox: SimpleQueue[pair.Attempt | None],
        *,
        start: Callable[[], ProcessWorker],
        limits: Limits,
        done: Callable[[pair.Attempt], None],
        tell: Callable[[Degradation], None],
    ) -> None:
        super().__init__(name="shadow lane", daemon=True)
        self._inbox, self._start, self._limits = inbox, start, limits
        self._done, self._tell = done, tell
        self._worker: ProcessWorker | None = None
        self._pause_ms = limits.backoff_ms
        self._not_before = 0.0
        self._why = ""
        self.stopped = False
        """Ask no more."""

    def run(self) -> None:
        while (attempt := self._inbox.get()) is not None:
            try:
                candidate = self._candidate(attempt)
                after = attempt.generation()
            except Exception as exc:  # noqa: BLE001  the lane must go on, and every pair come out
                why = told(exc)
                self._tell(pair.trouble(ProblemKind.FAULT, why, attempt))
                candidate, after = unanswered(Status.NOT_ASKED, why), ""
            self._done(attempt._replace(candidate=candidate, after=after))
        self._close()

    def _candidate(self, attempt: pair.Attempt) -> LoggedAnswer:
        if self.stopped:
            return unanswered(Status.NOT_ASKED, CLOSED)
        if self._worker is None and monotonic_ns() < self._not_before:
            return self._down()
        late_ns, hang_ns = (
            round(of * NS_PER_MS) for of in (self._limits.late_ms, self._limits.hang_ms)
        )
        try:
            self._worker = self._worker or self._start()
            side = self._worker.ask(attempt.served.question, late_ns=late_ns, hang_ns=hang_ns)
        except WorkerLost as lost:
            self._why = lost.cause
            self._tell(pair.trouble(lost.kind, lost.cause, attempt, arm="candidate"))
            self._close()
            self._not_before = monotonic_ns() + self._pause_ms * NS_PER_MS
            self._pause_ms = min(2 * self._pause_ms, self._limits.backoff_most_ms)
            return lost.side or self._down()
        self._pause_ms = self._limits.backoff_ms
        return side

    def _down(self) -> LoggedAnswer:
        return unanswered(Status.NOT_ASKED, f"the candidate is down: {self._why}")

    def _close(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._worker = None
