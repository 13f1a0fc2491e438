"""Grades as tools write them, read in one way by every reader of judgements."""

from __future__ import annotations

import math
import re
from numbers import Real

GRADE = re.compile(r"([+-]?[0-9]{1,9})(?:\.0*)?", re.ASCII)
MOST = 10**9
HINT = "Map the scale to integers (gains are linear in the grade)."


def whole(found: object) -> int | None:
    """Read a grade: an integer of at most nine digits, also written ``2.0``; None for all else."""
    if isinstance(found, bool):
        return None
    if isinstance(found, Real):
        value = float(found)
        fits = math.isfinite(value) and value == int(value) and abs(value) < MOST
        return int(value) if fits else None
    match = GRADE.fullmatch(found.strip()) if isinstance(found, str) else None
    return int(match[1]) if match else None


def problem(found: object) -> str:
    """Say what is wrong with a grade that is not whole."""
    return f"the grade {found!r} is not an integer"
