"""Run one query on one arm and observe the outcome."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
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
    """From the text that a person typed to plain hits; also of a failure."""
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
            answer = copied(searcher.search(query.text, k), k)
        else:
            answer = copied(with_params.search_with(query.text, k, query.params), k)
    except BrokenAnswer as exc:
        error = str(exc).encode(errors="backslashreplace").decode()
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as exc:  # noqa: BLE001  a panic of a Rust engine is no Exception
        error = _told(exc)
    elapsed_ns = perf_counter_ns() - start
    if answer is None:
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


class BrokenAnswer(ValueError):
    """An answer that breaks an engine's contract."""


def copied(answer: object, k: int) -> Answer:
    """Copy an answer into plain values, none of which runs code of the engine when it is read.

    A type of the engine's own may work when it is iterated over or read, so the copy is made while
    the clock runs. Hits that come as a generator are refused; those of a tuple are read once.

    Raises:
        BrokenAnswer: the value is not an answer, has more than ``k`` hits, or a score that is not
            a finite number.
    """
    if not isinstance(answer, Answer) or not isinstance(answer.served_by, str):
        raise BrokenAnswer(
            f"answered {type(answer).__name__} instead of an Answer with its fingerprint"
        )
    hits = answer.hits
    if not isinstance(hits, tuple):
        raise BrokenAnswer(f"hits are a {type(hits).__name__} instead of a tuple")
    if type(hits) is not tuple:
        hits = tuple(islice(hits, k + 1))
    if more := surplus(len(hits), k):
        raise BrokenAnswer(more)
    counts = int(answer.retries), int(answer.rate_limited)
    return Answer(tuple(map(_hit, hits)), _text(answer.served_by), _text(answer.note), *counts)


def _hit(hit: object) -> Hit:
    if not isinstance(hit, Hit) or not isinstance(hit.doc_id, str):
        raise BrokenAnswer(f"{hit!r} is shown instead of a Hit with a document's id")
    scores = (hit.score, hit.raw_score)
    if type(hit) is Hit and type(hit.doc_id) is str and type(scores[0]) is type(scores[1]) is float:
        plain = hit
    elif all(isinstance(score, Real) for score in scores):
        plain = Hit(_text(hit.doc_id), float(scores[0]), float(scores[1]))
    else:
        plain = Hit(_text(hit.doc_id), math.nan, math.nan)
    if not (math.isfinite(plain.score) and math.isfinite(plain.raw_score)):
        raise BrokenAnswer(f"the score of {plain.doc_id} is {scores[0]!r} (raw {scores[1]!r})")
    return plain


def _text(text: object) -> str:
    """Copy the characters of a string, past what a type of its own makes of them."""
    return str.__str__(text) if isinstance(text, str) else str(text)
