"""Numbers and text of strangers as people read them, in rows of words."""

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC

from harness.core.formats import moment_of
from harness.core.printable import one_line
from harness.core.reading import Malformed
from harness.core.scores import Estimate

UNDEFINED = "not defined"
NS_PER_MS = 1e6
MINUS = "\N{MINUS SIGN}"
JSON_DIGITS = 10
"""Significant digits in machine-readable files: more than any decision needs, fewer than two
orders of adding the same floats differ in."""
MOVED = "no single value: it drifted"


def number(value: float | None) -> str:
    """Write ``value`` with digits by its size; words for a missing number."""
    if value is None or not math.isfinite(value):
        return UNDEFINED
    size = abs(value)
    if size < 1e-12:  # noqa: PLR2004  what adding floats leaves of 0
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
    return f"+{text}" if text not in {"0", UNDEFINED} and text[0] != MINUS else text


def three_digits(value: float) -> str:
    """Write ``value`` with three significant digits, and as a whole number from 100 on."""
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")  # noqa: PLR2004
    return text.replace("-", MINUS)


def milliseconds(value_ns: float | None) -> str:
    """Write a time in milliseconds with three significant digits and no unit."""
    if value_ns is None or not math.isfinite(value_ns):
        return UNDEFINED
    return three_digits(value_ns / NS_PER_MS)


def p_value(value: float | None) -> str:
    """Write a p-value; never as 0."""
    if value is None or not math.isfinite(value):
        return ""
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"  # noqa: PLR2004


def interval(estimate: Estimate, unit: str = "") -> str:
    """Write the two ends in brackets as ``in_unit`` does; the unit of times and ratios left out."""
    low, high = (
        _figure(end, unit) if math.isfinite(end) else "unbounded"
        for end in (estimate.low, estimate.high)
    )
    return f"[{low}, {high}]"


def watched(estimate: Estimate) -> str:
    """Write the ends of a confidence sequence, as long as one value explains what was seen."""
    return MOVED if moved(estimate) else interval(estimate)


def moved(estimate: Estimate) -> bool:
    """Return whether a mean lies outside its own confidence sequence, because it drifted."""
    return not estimate.low <= estimate.value <= estimate.high


def _figure(value: float, unit: str) -> str:
    match unit:
        case "ns":
            return milliseconds(value)
        case "ratio":
            return three_digits(value)
        case "share":
            return f"{three_digits(100 * value)} %" if value else "0 %"
        case "count":
            return f"{value:,.0f}".replace("-", MINUS)
        case "p":
            return p_value(value)
        case _:
            return number(value)


def without_unit(value: float | None, unit: str) -> str:
    """Write a value as ``in_unit`` does, where a header names its unit."""
    return UNDEFINED if value is None or not math.isfinite(value) else _figure(value, unit)


def in_unit(value: float | None, unit: str) -> str:
    """Write a value with its unit: ns as milliseconds, a ratio as times, a share as percent."""
    if value is None or not math.isfinite(value):
        return UNDEFINED
    named = {"ns": "ms", "ratio": "times", "share": "", "count": "", "p": ""}.get(unit, unit)
    return f"{_figure(value, unit)} {named}".rstrip()


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


def estimate_for_json(estimate: Estimate | None) -> dict[str, float | int | None] | None:
    """Return an estimate as {value, low, high, n}; None for an unbounded end."""
    if estimate is None:
        return None
    ends = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {**{name: for_json(value) for name, value in ends.items()}, "n": estimate.n}


MARKDOWN = re.compile(r"([\\`*_{}\[\]#|~$])")


def snippet(text: str, query: str, limit: int) -> str:
    """Cut at most ``limit`` characters around the first word of ``query`` found in ``text``."""
    line = one_line(text)
    folded = line.lower()
    words = [word for word in re.findall(r"\w{3,}", query.lower()) if word in folded]
    first = min((folded.find(word) for word in words), default=0)
    start = max(0, min(first - limit // 4, len(line) - limit))
    start = line.rfind(" ", 0, start) + 1 if start else 0
    return ("…" if start else "") + one_line(line[start:], limit)


def minute(moment: str) -> str:
    """Write an ISO time to the minute, in UTC; another text stays as it is."""
    try:
        return f"{moment_of(moment).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except Malformed:
        return moment


def markdown(text: str, limit: int | None = None) -> str:
    """Escape for a Markdown table cell: no markup, no HTML, no link, no mention."""
    line = one_line(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = MARKDOWN.sub(r"\\\1", line)
    return re.sub(r"(?<!\w)@", "&#64;", line.replace("://", "&#58;//"))


def markdown_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table and an empty line; cells are escaped."""
    yield f"| {' | '.join(markdown(name) for name in header)} |"
    yield f"|{' --- |' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(markdown(cell) or ' ' for cell in row)} |"
    yield ""
