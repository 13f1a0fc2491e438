"""The same query gets the same answer: repeated, opened again, on several threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier

from harness.core.engine import Searcher
from harness.core.printable import many
from harness.stages.contract.check import Check
from harness.stages.contract.subject import QueryOutcome, ShownHits, Subject, ask, raised, shown

TIMES = 3
THREADS = 3
TOGETHER_S = 60.0
"""How long the threads wait for each other to open the index."""


def _repetitions(subject: Subject) -> Iterator[str]:
    before = subject.answered()
    for time in range(2, TIMES + 1):
        again = _asked(subject.searcher, before[:: -1 if time % 2 else 1])
        yield from _differences(before, again, f"at repetition {time}")


def _opened_again(subject: Subject) -> Iterator[str]:
    before = subject.answered()
    with subject.engine.open(subject.index) as searcher:
        yield from _differences(before, _asked(searcher, before), "opened again")


def _threads(subject: Subject) -> Iterator[str]:
    """Let each thread open the index for itself, as ``harness load`` does, and ask at once."""
    before = subject.answered()
    ready = Barrier(THREADS)

    def work(turn: int) -> tuple[tuple[QueryOutcome, ...], str]:
        with ExitStack() as opened:
            try:
                searcher = opened.enter_context(subject.engine.open(subject.index))
                ready.wait(TOGETHER_S)
            except BaseException as exc:  # noqa: BLE001  an exit on a thread is a failure too
                ready.abort()
                return (), raised(exc)
            return _asked(searcher, [*before[turn:], *before[:turn]]), ""

    with ThreadPoolExecutor(THREADS) as pool:
        for turn, (again, error) in enumerate(pool.map(work, range(THREADS)), start=1):
            if error:
                yield f"on thread {turn} of {THREADS} the index cannot be opened: {error}"
            else:
                yield from _differences(before, again, f"on thread {turn} of {THREADS}")


def _asked(searcher: Searcher, queries: Sequence[QueryOutcome]) -> tuple[QueryOutcome, ...]:
    return tuple(ask(searcher, one.text, one.k) for one in queries)


def _differences(
    before: Sequence[QueryOutcome], after: Sequence[QueryOutcome], when: str
) -> Iterator[str]:
    """Yield what differs from the answers before; those after may stand in another order."""
    known = {one.text: one for one in before}
    for one in after:
        was = known[one.text]
        if one.error:
            yield f"{one}: {one.error}, {when}"
        elif shown(one.hits) != shown(was.hits):
            yield f"{one}: {difference(shown(was.hits), shown(one.hits))}, {when}"
        elif one.answer and was.answer and one.answer.served_by != was.answer.served_by:
            yield f"{one}: another index answers, {when}"


def difference(was: ShownHits, now: ShownHits) -> str:
    """Name the first hit that differs."""
    for rank, ((old_id, old), (new_id, new)) in enumerate(zip(was, now, strict=False), start=1):
        if old_id != new_id:
            return f"{new_id!r} instead of {old_id!r} at rank {rank}"
        if old != new:
            return f"{old_id!r} scores {new!r} instead of {old!r}"
    return f"{many(len(now), 'hit')} instead of {len(was)}"


SETS = (
    "Order by (-score, doc_id). Keep no state between queries, and draw nothing at random"
    " without a fixed seed"
)
CHECKS = (
    Check("repetitions", "The same query gets the same answer each time.", SETS, _repetitions),
    Check(
        "opened again",
        "An index that is opened again answers the same.",
        "Write all that ranking rests on into the index folder",
        _opened_again,
    ),
    Check(
        "threads",
        "Several threads, each with an index opened for itself, get the same answers.",
        "Share nothing that changes between searchers: give each open its own connection",
        _threads,
    ),
)
