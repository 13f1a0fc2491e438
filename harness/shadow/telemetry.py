"""Attempts of a live comparison as metrics and spans, by the API of OpenTelemetry."""

from collections.abc import Sequence

from harness.core.errors import HarnessError, install, missing_from
from harness.shadow.comparison import Export
from harness.shadow.record import Observation

EXTRA, SCOPE = "opentelemetry", "harness.shadow"
NS_PER_S = 1e9


def to_opentelemetry() -> Export:
    """Return a function that reports attempts to the meter and the tracer of the process.

    A span ``shadow.attempt`` begins when the control had answered, and lasts as long as the
    candidate took. ``shadow.attempts`` counts by outcome; ``shadow.duration``, seconds by arm, and
    ``shadow.jaccard`` are histograms. No text of a query and no client is reported.

    Raises:
        HarnessError: the package opentelemetry-api is not installed.
    """
    if missing_from(EXTRA):
        problem = "the package opentelemetry-api is not installed"
        raise HarnessError(f"{problem}. Run: {install(EXTRA)}")
    from opentelemetry import metrics, trace

    tracer, meter = trace.get_tracer(SCOPE), metrics.get_meter(SCOPE)
    attempts = meter.create_counter("shadow.attempts")
    duration = meter.create_histogram("shadow.duration", unit="s")
    overlap = meter.create_histogram("shadow.jaccard")

    def export(found: Sequence[Observation]) -> None:
        for one in found:
            outcome = {"outcome": one.outcome.value}
            attempts.add(1, outcome)
            if one.jaccard is not None:
                overlap.record(one.jaccard)
            for arm, side in (("control", one.control), ("candidate", one.candidate)):
                if side and side.elapsed_ns is not None:
                    duration.record(side.elapsed_ns / NS_PER_S, {"arm": arm})
            known: dict[str, str | int] = {**outcome, "number": one.number, "k": one.k}
            span = tracer.start_span("shadow.attempt", attributes=known, start_time=one.at)
            span.end(one.at + ((one.candidate and one.candidate.elapsed_ns) or 0))

    return export
