"""Cells of a table that a spreadsheet opens: none of them is a formula.

A text that begins as a formula does gets an apostrophe before it, which no spreadsheet shows. Ids
and texts of strangers may be such texts; see OWASP, "CSV Injection".
"""

from __future__ import annotations

from contextlib import suppress

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: object) -> object:
    """Give the value itself, or, of a text that a spreadsheet would run, one that it shows."""
    if not (isinstance(value, str) and value.startswith(FORMULA)):
        return value
    with suppress(ValueError):
        float(value)
        return value
    return f"'{value}"
