"""Comparing in a process of its own, so that whoever serves waits for no interpreter's lock.

On a thread beside the event loop, reading and comparing 500 exchanges a second cost clients 9 ms at
the 99th percentile (docs/decisions/0053). Here a thread hands exchanges over and does nothing else.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from typing import NamedTuple

from harness.core.errors import EvidenceError, HarnessError
from harness.shadow.live.comparison import Comparison
from harness.shadow.live.side import told
from harness.shadow.proxy.backlog import Backlog
from harness.shadow.proxy.http_exchange import Exchange
from harness.shadow.proxy.http_offer import FULL, Offers, is_compared, offers_of
from harness.shadow.proxy.reading import Reading

Compares = Callable[[], AbstractContextManager[Comparison]]
"""Opens the comparison, in its process; picklable."""
SPARE_S = 30.0
"""How long the process may take to end, beside what the candidate may."""


class Handed(NamedTuple):
    """What is sent to the process; it comes from our own, and is pickled."""

    exchange: Exchange | None
    """None where exchanges were lost and no more is known of them."""
    untaken: str = ""
    """Why it cannot be compared; empty where it can."""
    lost: int = 0
    """Exchanges before this one that were too many to wait."""
    parts: int = 0
    """Parts of its answer, which follow one by one: whole, they would be copied at once."""


class Apart(Thread):
    """Takes what was served, whenever, for a comparison in another process.

    ``tell`` is called once, on this thread, where that process ends before it should.
    """

    def __init__(
        self, compares: Compares, server: str, reading: Reading, tell: Callable[[str], object]
    ) -> None:
        super().__init__(name="shadow handing over", daemon=True)
        self._reading, self._tell = reading, tell
        self._inbox: Backlog[Handed] = Backlog()
        self._lost = self._unknown = 0
        context = get_context("spawn")
        self._pipe, self._theirs = context.Pipe()
        self._process = context.Process(
            target=_compare, args=(compares, server, reading, self._theirs), name="shadow comparing"
        )

    def start(self) -> None:
        """Start the process, and wait until it compares.

        Raises:
            HarnessError: the comparison could not be opened.
        """
        self._process.start()
        self._theirs.close()
        try:
            problem = self._pipe.recv()
        except EOFError:
            problem = f"the process that compares ended at its start: {self._ended()}"
        if problem:
            self._process.join()
            raise HarnessError(problem)
        super().start()

    def put(self, exchange: Exchange) -> None:
        """Take an exchange that is over, well or not."""
        self._take(exchange, "")

    def untaken(self, exchange: Exchange, why: str) -> None:
        """Count an exchange that cannot be compared; what came of it is let go."""
        exchange.body.clear()
        exchange.answer.clear()
        self._take(exchange, why)

    def close(self) -> None:
        """Hand over what waits; return when all of it is compared and written.

        Raises:
            EvidenceError: the process ended early or hangs, so that the log is not complete.
        """
        self._inbox.end()
        self.join()
        self._pipe.close()
        self._process.join(self._reading.bounds.timeout_s + SPARE_S)
        how = self._ended()
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        if self._unknown or how:
            raise EvidenceError(
                f"the process that compares ended early ({how or 'in order'}): {self._unknown:,}"
                " exchanges are not in the log. All of them were served"
            )

    def run(self) -> None:
        while (handed := self._inbox.get()) is not None:
            lost, self._lost = self._lost, 0
            self._hand(handed._replace(lost=lost))
        if self._lost:
            self._hand(Handed(None, lost=self._lost))

    def _take(self, exchange: Exchange, untaken: str) -> None:
        if not is_compared(exchange, self._reading):
            return
        if not self._inbox.put(Handed(exchange, untaken), exchange.kept):
            self._lost += 1

    def _hand(self, handed: Handed) -> None:
        if self._unknown:
            self._unknown += handed.lost + (handed.exchange is not None)
            return
        parts: list[bytes] = []
        if handed.exchange is not None:
            parts = handed.exchange.answer.parts
            handed.exchange.answer.clear()
        try:
            self._pipe.send(handed._replace(parts=len(parts)))
            for part in parts:
                self._pipe.send_bytes(part)
        except OSError:
            self._unknown += handed.lost + 1
            self._process.join(1)
            how = self._ended() or "it closed its pipe"
            self._tell(f"nothing is compared any more, and all is served: {how}")

    def _ended(self) -> str:
        """Say how the process ended; empty where it ended in order."""
        if self._process.is_alive():
            return "it does not end"
        code = self._process.exitcode
        return f"exit code {code}" if code else ""


def _compare(compares: Compares, server: str, reading: Reading, pipe: Connection) -> None:
    """Be the process: compare until the pipe closes, then write what is left.

    Signals are for the process that serves, which then closes the pipe.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        opened = compares()
    except HarnessError as exc:
        pipe.send(str(exc))
        return
    with opened as comparison:
        offers = offers_of(server, reading, comparison)
        offers.start()
        pipe.send("")
        with suppress(EOFError, OSError):
            while True:
                handed: Handed = pipe.recv()
                for _ in range(handed.parts):
                    part = pipe.recv_bytes()
                    if handed.exchange is not None:
                        handed.exchange.answer += part
                _take_over(handed, offers, comparison)
        offers.close()
        comparison.drain(reading.bounds.timeout_s)


def _take_over(handed: Handed, offers: Offers, comparison: Comparison) -> None:
    for _ in range(handed.lost):
        comparison.fault(EvidenceError(FULL))
    if handed.exchange is None:
        return
    try:
        if handed.untaken:
            offers.untaken(handed.exchange, handed.untaken)
        else:
            offers.put(handed.exchange)
    except Exception as exc:  # noqa: BLE001  one exchange must not end the process
        comparison.fault(EvidenceError(told(exc)))
