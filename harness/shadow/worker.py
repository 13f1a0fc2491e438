"""The candidate in a process of its own, and lanes that ask it."""

import json
import pickle
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from multiprocessing import get_context
from queue import SimpleQueue
from socket import socket, socketpair
from threading import Thread
from time import monotonic_ns, perf_counter_ns

import psutil
from pydantic import TypeAdapter

from harness.core.batches import end_with_parent
from harness.core.engine import Searcher
from harness.core.formats import checked
from harness.core.run import Status
from harness.shadow import pair
from harness.shadow.pair import Question, told, unanswered
from harness.shadow.record import Count, LoggedAnswer
from harness.shadow.settings import NS_PER_MS, NS_PER_S, Limits

Open = Callable[[], AbstractContextManager[Searcher]]
"""Opens the candidate; called where it will be queried. For a process it must be picklable."""
MAX_ANSWER_BYTES = 16 << 20
CHUNK_BYTES = 1 << 16
QUESTION_BYTES = 32_768
"""A longer query might not fit into the socket, and wait there for a candidate that stopped."""
START_S = 60.0
"""A candidate that is not open after this long did not start."""
BACKOFF_MS = 1_000, 60_000
"""Wait before a lost process is replaced; doubled at each loss until a query is answered."""
LOOK_S = 0.05
"""How often the memory of a candidate that is busy is looked at."""
CLOSED = "the comparison was closed before it was queried"


class WorkerLost(Exception):
    """The worker is gone, or given up, and must be replaced; over a query where it has a status."""

    def __init__(self, cause: str, status: Status | None = None, spent_ns: int = 0) -> None:
        super().__init__(cause)
        self.side = None if status is None else unanswered(status, cause, spent_ns)


Reply = tuple[Count, LoggedAnswer]
"""What a candidate says: the number of a query with its answer. It has opened, or why it has not
is its error, with number 0."""
REPLY: TypeAdapter[Reply] = TypeAdapter(Reply)


def heard(line: bytes) -> Reply:
    """Read what a candidate said; raise ValueError where it is not a message."""
    return REPLY.validate_json(checked(line.decode("utf-8")), strict=True)


class ProcessWorker:
    """A candidate in a process, not forked, so that it shares no lock with ours.

    Each side writes lines of JSON into a socket.
    """

    def __init__(self, opens: Open, limits: Limits) -> None:
        self._memory_bytes = limits.memory_mib << 20
        self._number = 0
        self._ours, theirs = socketpair()
        self._process = get_context("spawn").Process(
            target=serve, args=(opens, theirs), name="shadow candidate", daemon=True
        )
        try:
            with theirs:
                self._process.start()
        except (OSError, pickle.PicklingError, AttributeError, TypeError) as exc:
            self._ours.close()
            raise WorkerLost(f"its process did not start: {told(exc)}") from exc
        try:
            self._seen = psutil.Process(self._process.pid)
            problem = self._reply(round(START_S * NS_PER_S)).error
        except (WorkerLost, psutil.Error) as exc:
            problem = str(exc)
        if problem:
            self.close()
            raise WorkerLost(f"it did not open: {problem}")

    def ask(self, question: Question, *, late_ns: int, hang_ns: int) -> LoggedAnswer:
        """Ask, and give the candidate up after ``hang_ns``."""
        self._number += 1
        text, k, params = question  # as JSON halves of surrogate pairs get through
        sent = json.dumps([self._number, text, k, dict(params), late_ns]).encode() + b"\n"
        if len(sent) > QUESTION_BYTES:
            why = f"a query of {len(sent)} bytes; a worker takes {QUESTION_BYTES}"
            return unanswered(Status.NOT_ASKED, why)
        with suppress(OSError):  # it has ended, as its reply tells
            self._ours.sendall(sent)
        return self._reply(hang_ns)

    def _reply(self, limit_ns: int) -> LoggedAnswer:
        """Wait for the reply to the latest query; look at the memory meanwhile."""
        start, spent_ns, found = perf_counter_ns(), 0, bytearray()
        while not found.endswith(b"\n"):
            if spent_ns >= limit_ns:
                cause = f"no answer after {limit_ns / NS_PER_S:.3f} s; its worker is replaced"
                raise WorkerLost(cause, Status.TIMED_OUT, limit_ns)
            self._ours.settimeout(min(LOOK_S, (limit_ns - spent_ns) / NS_PER_S))
            try:
                more = self._ours.recv(CHUNK_BYTES)
            except TimeoutError:
                more = None
            except OSError:
                more = b""
            spent_ns = perf_counter_ns() - start
            found += more or b""
            cause = self._grown()
            if more == b"":
                self._process.join(timeout=1)
                cause = f"its process ended with exit code {self._process.exitcode}"
            elif len(found) > MAX_ANSWER_BYTES:
                cause = f"its answer has over {MAX_ANSWER_BYTES} bytes"
            if cause:
                raise WorkerLost(cause, Status.FAILED, spent_ns)
        try:
            number, side = heard(bytes(found))
        except ValueError as exc:
            cause = f"its answer is invalid: {type(exc).__name__}"
            raise WorkerLost(cause, Status.FAILED, spent_ns) from exc
        if number != self._number:
            raise WorkerLost("it gave an answer to another query", Status.FAILED, spent_ns)
        return side

    def _grown(self) -> str:
        with suppress(psutil.Error):
            if (resident := self._seen.memory_info().rss) > self._memory_bytes:
                return f"it grew to {resident} bytes; it may have {self._memory_bytes}"
        return ""

    def close(self) -> None:
        """End it."""
        self._ours.close()
        self._process.kill()
        self._process.join()
        self._process.close()


def serve(opens: Open, to_parent: socket) -> None:
    """Run in the process; queries come from our own parent."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    Thread(target=end_with_parent, daemon=True).start()

    def say(number: int, side: LoggedAnswer) -> None:
        to_parent.sendall(REPLY.dump_json((number, side)) + b"\n")

    with suppress(OSError), ExitStack() as until_closed, to_parent.makefile("rb") as queries:
        try:
            searcher = until_closed.enter_context(opens())
        except Exception as exc:  # noqa: BLE001  told to who waits for it
            say(0, unanswered(Status.NOT_ASKED, told(exc)))
            return
        say(0, unanswered(Status.NOT_ASKED, ""))
        for line in queries:
            number, text, k, params, late_ns = json.loads(line)
            say(number, pair.asked(searcher, (text, k, params), late_ns))


class Lane(Thread):
    """One worker and its successors."""

    def __init__(
        self,
        inbox: SimpleQueue[pair.Attempt | None],
        *,
        start: Callable[[], ProcessWorker],
        limits: Limits,
        done: Callable[[pair.Attempt], None],
    ) -> None:
        super().__init__(name="shadow lane", daemon=True)
        self._inbox, self._start, self._limits, self._done = inbox, start, limits, done
        self._worker: ProcessWorker | None = None
        self._pause_ms, self._most_ms = BACKOFF_MS
        self._not_before = 0.0
        self._why = ""
        self.stopped = False
        """Ask no more."""

    def run(self) -> None:
        for attempt in iter(self._inbox.get, None):
            try:
                candidate = self._candidate(attempt)
                after = attempt.generation()
            except Exception as exc:  # noqa: BLE001  the lane must go on, and every pair come out
                candidate, after = unanswered(Status.NOT_ASKED, told(exc)), ""
            self._done(replace(attempt, candidate=candidate, after=after))
        self._close()

    def _candidate(self, attempt: pair.Attempt) -> LoggedAnswer:
        limits = self._limits
        if self.stopped:
            return unanswered(Status.NOT_ASKED, CLOSED)
        if self._worker is None and monotonic_ns() < self._not_before:
            return self._down()
        try:
            self._worker = self._worker or self._start()
            side = self._worker.ask(
                attempt.served.question,
                late_ns=round(limits.late_ms * NS_PER_MS),
                hang_ns=round(limits.hang_ms * NS_PER_MS),
            )
        except WorkerLost as lost:
            self._why = str(lost)
            self._close()
            self._not_before = monotonic_ns() + self._pause_ms * NS_PER_MS
            self._pause_ms = min(2 * self._pause_ms, self._most_ms)
            return lost.side or self._down()
        self._pause_ms = BACKOFF_MS[0]
        return side

    def _down(self) -> LoggedAnswer:
        return unanswered(Status.NOT_ASKED, f"the candidate is down: {self._why}")

    def _close(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._worker = None
