"""Dates as people and programs write them, as bounds in microseconds since 1970 UTC (section 6)."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_INSTANT = re.compile(
    r"(?P<clock>\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(?::\d{2})?)(?:[.,](?P<fraction>\d{1,18}))?"
    r"(?P<zone>[Zz]|[+-]\d{2}:?\d{2})?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY_US = 24 * 60 * 60 * 1_000_000
_DIGITS = 6
FORMS = "YYYY-MM-DD, or YYYY-MM-DDTHH:MM:SS with a fraction and a zone where there is one"


def earliest(text: str) -> int:
    """First microsecond that ``text`` admits as a lower bound: a day from its first on.

    An instant between two microseconds admits the later one. Without a zone it is UTC.

    Raises:
        ValueError: it is not a date.
    """
    start, beyond, _ = _read(text)
    return start + beyond


def latest(text: str) -> int:
    """Last microsecond that ``text`` admits as an upper bound: a day to its last (inclusive).

    Raises:
        ValueError: it is not a date.
    """
    start, _, whole_day = _read(text)
    return start + _DAY_US - 1 if whole_day else start


def written(microseconds: int) -> str:
    """Write an instant so that ``earliest`` and ``latest`` give it back.

    Raises:
        OverflowError: it lies outside the years 1 to 9999.
    """
    return (_EPOCH + microseconds * _MICROSECOND).isoformat().replace("+00:00", "Z")


def _read(text: str) -> tuple[int, bool, bool]:
    """Give microseconds, whether the instant lies beyond them, and whether a day is meant."""
    asked = text.strip()
    if _DAY.fullmatch(asked):
        return (date.fromisoformat(asked) - _EPOCH.date()) // _MICROSECOND, False, True
    match = _INSTANT.fullmatch(asked)
    if match is None:
        raise ValueError(f"{text!r} is not a date; write {FORMS}")
    zone = (match["zone"] or "Z").upper()
    try:
        moment = datetime.fromisoformat(match["clock"].upper().replace(" ", "T") + zone)
    except ValueError as exc:
        raise ValueError(f"{text!r} is not a date: {exc}") from exc
    digits = (match["fraction"] or "").ljust(_DIGITS, "0")
    whole, rest = int(digits[:_DIGITS]), digits[_DIGITS:]
    return (moment - _EPOCH) // _MICROSECOND + whole, bool(rest.strip("0")), False
