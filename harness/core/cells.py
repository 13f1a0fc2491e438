"""Cells of a table for spreadsheets, escaped so that none is run as a formula.

A text that begins like a formula gets an apostrophe before it, which spreadsheets hide. Untrusted
ids and texts may be formulas; see OWASP, "CSV Injection".
"""

from __future__ import annotations

from contextlib import suppress

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: object) -> object:
    """Give the value itself, or the escaped text if a spreadsheet would run it."""
    if not (isinstance(value, str) and value.startswith(FORMULA)):
        return value
    with suppress(ValueError):
        float(value)
        return value
    return f"'{value}"
