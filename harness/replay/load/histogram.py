"""Times in a histogram that loses no tail, merges exactly and fits on a line of text.

A High Dynamic Range histogram (Gil Tene) counts a time in a bucket whose width is at most a
thousandth of the time, from a nanosecond to an hour. Two histograms of that one form are merged by
adding counts, so what many workers saw, on many days, is one histogram without any error beside
that of the buckets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from harness.core.errors import EvidenceError

LOWEST_NS, HIGHEST_NS = 1, 3_600_000_000_000
DIGITS = 3
"""Significant decimal digits that are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """How often each time was seen; never written to once it is made."""

    _counts: HdrHistogram

    @classmethod
    def of(cls, times_ns: Iterable[int] | NDArray[np.int64]) -> Self:
        """Count times, nanoseconds.

        Raises:
            EvidenceError: a time is not above 0, or longer than an hour.
        """
        counts = _empty()
        for time_ns in np.asarray(times_ns, dtype=np.int64).tolist():
            if not LOWEST_NS <= time_ns <= HIGHEST_NS:
                raise EvidenceError(
                    f"a time of {time_ns} ns is outside what a histogram holds, {LOWEST_NS} to"
                    f" {HIGHEST_NS} ns: a clock stood still or a trial ran for hours"
                )
            counts.record_value(time_ns)
        return cls(counts)

    @classmethod
    def merged(cls, parts: Iterable[Histogram]) -> Self:
        """Count what all of ``parts`` counted."""
        counts = _empty()
        for part in parts:
            if part.count:
                counts.add(part._counts)  # noqa: SLF001  another of its own kind
        return cls(counts)

    @classmethod
    def decoded(cls, text: str) -> Self:
        """Read what ``encoded`` wrote.

        Raises:
            EvidenceError: it is not a histogram, or one of another form.
        """
        counts = _empty()
        try:
            counts.decode_and_add(text.encode("ascii"))
        except Exception as exc:  # the codec raises what zlib, base64 and ctypes raise
            raise EvidenceError(
                f"not a histogram of times ({type(exc).__name__}: {exc}). Run: harness load"
            ) from exc
        return cls(counts)

    def encoded(self) -> str:
        """Write it as text: HdrHistogram's compressed form, version 2, in base64."""
        return str(self._counts.encode().decode("ascii"))

    @property
    def count(self) -> int:
        """How many times were counted."""
        return int(self._counts.get_total_count())

    def percentile(self, percent: float) -> int | None:
        """Time that ``percent`` of the times do not exceed, nanoseconds; None where there are none.

        Exact to ``DIGITS`` significant digits.
        """
        return self.curve((percent,))[0] if self.count else None

    def curve(self, percents: Iterable[float]) -> tuple[int, ...]:
        """Time at each percentage, nanoseconds, in one pass; empty where nothing was counted.

        The same as HdrHistogram's own, which adds the counts of all buckets one by one.
        """
        if not self.count:
            return ()
        of, wanted = self._counts, list(percents)
        ranks = [of.get_target_count_at_percentile(percent) for percent in wanted]
        places = np.searchsorted(np.ctypeslib.as_array(of.counts).cumsum(), ranks)
        lowest = [of.get_value_from_index(int(place)) for place in places]
        return tuple(
            int(of.get_highest_equivalent_value(value) if percent else value)
            for percent, value in zip(wanted, lowest, strict=True)
        )

    def same_as(self, other: Histogram) -> bool:
        """Tell whether every bucket counts the same."""
        return self.encoded() == other.encoded()


def _empty() -> HdrHistogram:
    return HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
