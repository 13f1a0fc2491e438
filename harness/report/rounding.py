"""Numbers as people read them. Nothing else in the harness rounds."""

from __future__ import annotations

import math

from harness.core.scores import Estimate

UNDEFINED = "not defined"
NS_PER_MS = 1e6
MINUS = "\N{MINUS SIGN}"
JSON_DIGITS = 10
"""Significant digits in machine-readable files: more than any decision needs, fewer than two
orders of adding the same floats differ in."""
MOVED = "no one value: it moved"


def number(value: float | None) -> str:
    """Write ``value`` with digits by its size; words for a missing number."""
    if value is None or not math.isfinite(value):
        return UNDEFINED
    size = abs(value)
    if size == 0:
        return "0"
    if size < 0.00005:  # noqa: PLR2004  below half of the last digit shown
        text = f"{value:.1e}"
    elif size < 1:
        text = f"{value:.4f}"
    elif size < 100:  # noqa: PLR2004
        text = f"{value:.3f}"
    else:
        text = f"{value:,.1f}"
    return text.replace("-", MINUS)


def signed(value: float | None) -> str:
    """Write a difference: ``number`` with a plus sign where it is above 0."""
    text = number(value)
    return f"+{text}" if value is not None and math.isfinite(value) and value > 0 else text


def milliseconds(value_ns: float | None) -> str:
    """Write a time in milliseconds with three significant digits and no unit."""
    if value_ns is None or not math.isfinite(value_ns):
        return UNDEFINED
    value = value_ns / NS_PER_MS
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")  # noqa: PLR2004


def p_value(value: float | None) -> str:
    """Write a p-value; never as 0."""
    if value is None or not math.isfinite(value):
        return ""
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"  # noqa: PLR2004


def interval(estimate: Estimate) -> str:
    """Write the two ends in brackets; an end that is infinite is called unbounded."""
    low, high = (
        number(end) if math.isfinite(end) else "unbounded" for end in (estimate.low, estimate.high)
    )
    return f"[{low}, {high}]"


def watched(estimate: Estimate) -> str:
    """Write the ends of a confidence sequence; where they have crossed, no one value is left."""
    return MOVED if estimate.low > estimate.high else interval(estimate)


def interval_ms(estimate: Estimate) -> str:
    """Write the two ends of a time in milliseconds."""
    low, high = (
        milliseconds(end) if math.isfinite(end) else "unbounded"
        for end in (estimate.low, estimate.high)
    )
    return f"[{low}, {high}]"


def in_unit(value: float | None, unit: str) -> str:
    """Write a value with its unit; nanoseconds are shown as milliseconds."""
    if value is None or not math.isfinite(value):
        return UNDEFINED
    return f"{milliseconds(value)} ms" if unit == "ns" else f"{number(value)} {unit}".rstrip()


def share(part: int, whole: int) -> str:
    """Write ``part`` of ``whole`` as a percentage; words if the whole is 0."""
    return f"{100 * part / whole:.1f} %" if whole else UNDEFINED


def percent(value: float | None) -> str:
    """Write a chance or a share that is known as one number."""
    return UNDEFINED if value is None else f"{100 * value:.1f} %"


def for_json(value: float | None) -> float | None:
    """Cut to ``JSON_DIGITS`` significant digits; None where there is not a finite number."""
    if value is None or not math.isfinite(value):
        return None
    cut = float(f"{value:.{JSON_DIGITS}g}")
    return cut if math.isfinite(cut) else value
