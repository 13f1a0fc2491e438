"""Counts of the calls of a server, and the text format in which Prometheus collects them.

Labels name tools, modes, engines and signals alone: no text of a query, and no viewer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from threading import Lock

from engines.contract.errors import SearchError
from engines.stacks.agent_mail.mcp_tools.diagnostics import Signal
from engines.stacks.agent_mail.mcp_tools.refused import Code
from engines.stacks.agent_mail.mcp_tools.results import SearchResult
from engines.stacks.agent_mail.pipeline.fresh import Fresh, Reached

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the histogram's buckets, in seconds."""
Labels = tuple[tuple[str, str], ...]


class Outcome(StrEnum):
    """What a call of a tool came to."""

    ANSWERED = "answered"
    DEGRADED = "degraded"
    REFUSED = "refused"
    FAILED = "failed"


class Metrics:
    """Counts calls from any thread, and writes them down with how far the indexes are."""

    def __init__(self, fresh: Fresh) -> None:
        self._fresh = fresh
        self._lock = Lock()
        self._calls: Counter[Labels] = Counter()
        self._queries: Counter[Labels] = Counter()
        self._signals: Counter[Labels] = Counter()
        self._buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS_S) + 1))
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def answered(self, tool: str, answer: object, elapsed_s: float) -> None:
        """Count a call that was answered; of a search its mode, tier and signals too."""
        outcome = Outcome.ANSWERED
        with self._lock:
            if isinstance(answer, SearchResult):
                told, by = answer.diagnostics, answer.served_by
                if told is not None and Signal.SEARCH_FAILED in told.signals:
                    outcome = Outcome.FAILED
                elif told is not None and told.degraded:
                    outcome = Outcome.DEGRADED
                asked = (told and told.requested_mode) or by.mode
                self._queries[
                    ("mode", asked), ("engine", by.engine), ("outcome", outcome.value)
                ] += 1
                self._signals.update((("signal", one),) for one in (told.signals if told else ()))
            self._calls[("tool", tool), ("outcome", outcome.value)] += 1
            self._buckets[tool][bisect_left(BOUNDS_S, elapsed_s)] += 1
            self._seconds[tool] += elapsed_s

    def refused(self, tool: str, code: Code) -> None:
        """Count a call whose answer was an error."""
        outcome = Outcome.FAILED if code is Code.FAILED else Outcome.REFUSED
        with self._lock:
            self._calls[("tool", tool), ("outcome", outcome.value)] += 1

    def text(self) -> str:
        """Write everything down; what cannot be read of the indexes is left out."""
        with self._lock:
            lines = [
                *_counter("mail_calls_total", "Calls of tools.", self._calls),
                *_counter("mail_queries_total", "Queries by mode and tier.", self._queries),
                *_counter("mail_signals_total", "Signals in diagnostics.", self._signals),
                *_histogram("mail_call_seconds", self._buckets, self._seconds),
            ]
        return "\n".join([*lines, *_positions(self._fresh)]) + "\n"


def _positions(fresh: Fresh) -> Iterator[str]:
    """Write the generation of the messages, and how far behind each index is."""
    try:
        reached = fresh.reached()
    except SearchError:
        return
    if reached is None:
        return
    yield from _gauge("mail_generation", "Changes of messages so far.", {(): reached.messages})
    for name, about, of in (
        ("mail_index_generation", "Changes that an index holds.", Reached.indexed),
        ("mail_index_lag", "Changes that an index lacks.", Reached.lag),
    ):
        yield from _gauge(name, about, {(("index", one),): n for one, n in of(reached).items()})


def _counter(name: str, about: str, counts: Mapping[Labels, int]) -> Iterator[str]:
    return _family(name, about, "counter", counts)


def _gauge(name: str, about: str, values: Mapping[Labels, int]) -> Iterator[str]:
    return _family(name, about, "gauge", values)


def _family(name: str, about: str, kind: str, values: Mapping[Labels, int]) -> Iterator[str]:
    yield from _head(name, about, kind)
    yield from (_sample(name, labels, value) for labels, value in sorted(values.items()))


def _histogram(
    name: str, buckets: Mapping[str, list[int]], seconds: Mapping[str, float]
) -> Iterator[str]:
    yield from _head(name, "Seconds that an answered call took.", "histogram")
    for tool, counts in sorted(buckets.items()):
        total = 0
        for bound, count in zip([*map(str, BOUNDS_S), "+Inf"], counts, strict=True):
            total += count
            yield _sample(f"{name}_bucket", (("tool", tool), ("le", bound)), total)
        yield _sample(f"{name}_sum", (("tool", tool),), seconds[tool])
        yield _sample(f"{name}_count", (("tool", tool),), total)


def _head(name: str, about: str, kind: str) -> Iterable[str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _sample(name: str, labels: Labels, value: float) -> str:
    said = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels)
    return f"{name}{{{said}}} {value}" if said else f"{name} {value}"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
