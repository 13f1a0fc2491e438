"""A table as HTML for a notebook; every text in it is a stranger's and is escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence

from harness.report.plain import one_line


def table(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
) -> str:
    """Write a table whose first column names the rows; ``note`` stands under it."""
    head = "".join(f"<th>{_text(cell)}</th>" for cell in header)
    body = "".join(
        f"<tr><th style='text-align:left'>{_text(first)}</th>"
        + "".join(f"<td>{_text(cell)}</td>" for cell in others)
        + "</tr>"
        for first, *others in rows
    )
    below = f"<p><small>{_text(note)}</small></p>" if note else ""
    return (
        f"<table><caption style='text-align:left;white-space:nowrap'>{_text(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
    )


def _text(text: str) -> str:
    return html.escape(one_line(text))
