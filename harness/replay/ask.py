"""Run one query on one arm and observe the outcome."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from time import perf_counter_ns

from harness.core.engine import Answer, Hit, Searcher, TakesParams, surplus
from harness.core.records import Query
from harness.core.run import Row, Status


@dataclass(frozen=True, slots=True)
class TimedOutcome:
    """Outcome of one query on one arm, once."""

    row: Row
    elapsed_ns: int
    """From the text that a person typed to the hits shown; also of a failure."""
    retries: int = 0
    """Attempts that failed before the answer."""
    rate_limited: int = 0
    """Of these, attempts that a server refused to limit the rate."""


def observe(searcher: Searcher, query: Query, k: int, time_limit_ns: int) -> TimedOutcome:
    """Ask once. An exception is an observation, not a crash.

    An answer that came after its time limit is a timeout, whatever it says: a person had left.
    An arm that takes no params gets the text alone, and is judged as one that ignores filters.
    """
    answer: Answer | None = None
    error = ""
    with_params = searcher if query.params and isinstance(searcher, TakesParams) else None
    start = perf_counter_ns()
    try:
        if with_params is None:
            answer = searcher.search(query.text, k)
        else:
            answer = with_params.search_with(query.text, k, query.params)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as exc:  # noqa: BLE001  a panic of a Rust engine is no Exception
        error = _told(exc)
    elapsed_ns = perf_counter_ns() - start
    error = error or fault(answer, k)
    if answer is None or error:
        return TimedOutcome(Row(query.query_id, Status.FAILED, error=error), elapsed_ns)
    if elapsed_ns > time_limit_ns:
        late = f"answered after {elapsed_ns / 1e9:.3f} s, the limit is {time_limit_ns / 1e9:.3f} s"
        late_row = Row(query.query_id, Status.TIMED_OUT, error=late)
        return TimedOutcome(late_row, elapsed_ns, answer.retries, answer.rate_limited)
    row = Row(query.query_id, Status.ANSWERED, answer.hits, answer.served_by)
    return TimedOutcome(row, elapsed_ns, answer.retries, answer.rate_limited)


def _told(exc: BaseException) -> str:
    """Name an exception and what it says, in characters that a file can hold."""
    return f"{type(exc).__name__}: {exc}".encode(errors="backslashreplace").decode()


def fault(answer: object, k: int) -> str:
    """Say what is wrong with an answer; empty where nothing is.

    A value that is not an answer, a NaN or infinite score, and more than ``k`` hits break an
    engine's contract. Hits that come as a generator would be searched for off the clock.
    """
    if not isinstance(answer, Answer) or not isinstance(answer.served_by, str):
        return f"answered {type(answer).__name__} instead of an Answer with its fingerprint"
    if not isinstance(answer.hits, tuple):
        return f"hits are a {type(answer.hits).__name__} instead of a tuple"
    return surplus(len(answer.hits), k) or next(filter(None, map(_wrong, answer.hits)), "")


def _wrong(hit: object) -> str:
    if not isinstance(hit, Hit) or not isinstance(hit.doc_id, str):
        return f"{hit!r} is shown instead of a Hit with a document's id"
    scores = (hit.score, hit.raw_score)
    if not all(isinstance(score, Real) and math.isfinite(score) for score in scores):
        return f"the score of {hit.doc_id} is {hit.score!r} (raw {hit.raw_score!r})"
    return ""
