"""A trial and where it was run, as one line of text that is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from harness.core.errors import EvidenceError
from harness.core.formats import json_of
from harness.core.printable import many
from harness.core.run import Status
from harness.core.scores import Estimate
from harness.replay.load.histogram import Histogram
from harness.replay.load.trial import Trial

FORMAT = 1
HISTOGRAMS = ("response", "service", "cold")
COUNTS = ("arrivals", "strays", "lag_ns", "cpu_ns", "opened_bytes", "resident_bytes", "peak_bytes")


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One trial of one arm."""

    arm: str
    twin: bool
    """Whether this is the arm's second opening, for the A/A check."""
    rate: float | None
    """Arrivals a second that were intended; None for a closed loop."""
    number: int
    """Round, or number of the trial within a search."""
    purpose: str
    """``curve`` for a trial at a given rate, ``search`` for one of a search."""
    trial: Trial
    about: Mapping[str, Any]
    """Machine, its load before the trial, time, fingerprints and settings."""

    def objection(self, max_lag: float) -> str:
        """Say why the times count for nothing; empty where they count."""
        if self.trial.strays:
            return f"{many(self.trial.strays, 'answer was')} not those of the arm's run"
        if self.rate is not None and self.trial.lags(max_lag):
            return (
                f"the generator was {self.trial.lag_ns / 1e6:.2f} ms late (p99), more than"
                f" {max_lag:g} of what it measured"
            )
        return ""

    def line(self) -> str:
        """Write it as one line of JSON."""
        trial = self.trial
        told = {
            "format": FORMAT,
            "arm": self.arm,
            "twin": self.twin,
            "rate": self.rate,
            "number": self.number,
            "purpose": self.purpose,
            "about": dict(self.about),
            "seconds": trial.seconds,
            "ends": {status.name: count for status, count in trial.ends.items()},
            "within": {str(budget): share for budget, share in trial.within.items()},
            "percentiles": {
                name: [found.value, found.low, found.high, found.n]
                for name, found in trial.percentiles.items()
            },
            **{name: getattr(trial, name) for name in COUNTS},
            **{
                name: {of: each.encoded() for of, each in getattr(trial, name).items()}
                for name in HISTOGRAMS
            },
        }
        return json.dumps(told, sort_keys=True, allow_nan=False)

    @classmethod
    def of_line(cls, line: str) -> Self:
        """Read what ``line`` wrote.

        Raises:
            EvidenceError: it is not a trial, or one of another format.
        """
        try:
            told = json_of(line)
            if told["format"] != FORMAT:
                raise EvidenceError(
                    f"a trial of format {told['format']}, where {FORMAT} is read: move the file"
                    " away, and run: harness load"
                )
            counts: dict[str, Any] = {name: int(told[name]) for name in COUNTS}
            histograms: dict[str, Any] = {
                name: {of: Histogram.decoded(text) for of, text in told[name].items()}
                for name in HISTOGRAMS
            }
            trial = Trial(
                seconds=float(told["seconds"]),
                ends={Status[name]: int(count) for name, count in told["ends"].items()},
                within={int(budget): float(share) for budget, share in told["within"].items()},
                percentiles={name: Estimate(*of) for name, of in told["percentiles"].items()},
                **counts,
                **histograms,
            )
            return cls(
                arm=told["arm"],
                twin=told["twin"],
                rate=told["rate"],
                number=told["number"],
                purpose=told["purpose"],
                trial=trial,
                about=told["about"],
            )
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise EvidenceError(
                f"not a trial ({type(exc).__name__}: {exc}). Run: harness load"
            ) from exc
