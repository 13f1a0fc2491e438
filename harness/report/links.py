"""Where the explorer shows one comparison, or one of its queries.

The whole state of the explorer stands behind the ``#`` of its address, so that a view can be pasted
into a message. Names that are left out are chosen by the page.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode

from harness.core.printable import one_line

PAGE = "explore.html"
NAME = 400
"""Longest name that an address holds, in characters."""


def explore_link(dataset: str, control: str, candidate: str, query_id: str = "") -> str:
    """Give the address of a comparison, relative to the page beside it; of a query, if named."""
    state = {"d": dataset, "a": control, "b": candidate}
    state |= {"q": query_id} if query_id else {}
    said = {key: named(value) for key, value in state.items()}
    return f"{PAGE}#{urlencode(said, quote_via=quote, safe='')}"


def named(name: str) -> str:
    """Write the name of anything as the explorer knows it: printable, on one line, and not long."""
    return one_line(name, NAME)
