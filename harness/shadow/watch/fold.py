"""What a gate asks of a log: means of live traffic that may be read after every attempt.

Each function gives one value between 0 and 1 an attempt that has one, in the order of the attempts.
``sure`` folds such values into a confidence sequence (method, section 4). Attempts that were
shed, skipped or stale have no value in any of them: they stand in ``streams.Read.tally``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.core.run import Status
from harness.core.scores import Estimate
from harness.shadow.log.record import AGREED, Observation
from harness.stats.sequential.betting import BettingSequence


def overlaps(observations: Iterable[Observation]) -> Iterator[float]:
    """Jaccard@k of each compared pair that has one; two empty lists have none."""
    return (one.jaccard for one in observations if one.jaccard is not None)


def differing(observations: Iterable[Observation]) -> Iterator[float]:
    """1 for each compared pair whose lists differ, also by a tie alone; 0 for one that agrees."""
    return (float(one.outcome not in AGREED) for one in observations if one.compared)


def failures(observations: Iterable[Observation]) -> Iterator[float]:
    """1 where the candidate failed or was too slow though the control answered; 0 where both did.

    A control that failed says nothing about the candidate.
    """
    for one in observations:
        if one.control is None or one.candidate is None or one.control.status != Status.ANSWERED:
            continue
        yield float(one.candidate.status != Status.ANSWERED)


def slower(observations: Iterable[Observation], ratio: float) -> Iterator[float]:
    """1 where the candidate took more than ``ratio`` times what the control took; else 0.

    Of pairs of which both answered, each on its own clock; a time that is not known has no value.
    """
    for one in observations:
        if one.compared and one.control is not None and one.candidate is not None:
            ours, theirs = one.control.elapsed_ns, one.candidate.elapsed_ns
            if ours is not None and theirs is not None:
                yield float(theirs > ratio * ours)


def sure(values: Iterable[float], confidence: float) -> Estimate | None:
    """Bound the mean of ``values`` by a betting sequence; None without a value.

    Raises:
        EvidenceError: the confidence does not lie between 0 and 1.
    """
    sequence = BettingSequence(confidence=confidence, least=0, most=1)
    count = 0
    for value in values:
        sequence.update(value)
        count += 1
    return sequence.interval() if count else None
