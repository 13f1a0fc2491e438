"""A table as HTML for a notebook; every text in it is escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence

from harness.core.printable import one_line
from harness.report.rows import Cell, Table


def table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str | Cell]],
    note: str = "",
    *,
    of_words: bool = False,
) -> str:
    """Write a table whose first column names the rows, with ``note`` below it.

    With ``of_words``, cells are aligned to the left.
    """
    at = " style='text-align:left'" if of_words else ""
    head = "".join(f"<th{at}>{_text(cell)}</th>" for cell in header)
    body = "".join(
        f"<tr><th style='text-align:left'>{_cell(first)}</th>"
        + "".join(f"<td{at}>{_cell(cell)}</td>" for cell in others)
        + "</tr>"
        for first, *others in rows
    )
    below = f"<p><small>{_text(note)}</small></p>" if note else ""
    return (
        f"<table><caption style='text-align:left;white-space:nowrap'>{_text(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
    )


def shown(found: Table) -> str:
    """Write a table of the report."""
    return table(found.caption, found.header, found.rows, of_words=True)


def line(text: str) -> str:
    """Write a sentence."""
    return f"<p>{_text(text)}</p>"


def _cell(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return _text(cell)
    return _text(cell.text) + (f"<br><small>{_text(cell.note)}</small>" if cell.note else "")


def _text(text: str) -> str:
    return html.escape(one_line(text))
