"""Where the explorer shows one comparison, or one of its queries.

The whole state of the explorer stands behind the ``#`` of its address, so that a view can be pasted
into a message. Names that are left out are chosen by the page.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode

from harness.report.plain import printable

PAGE = "explore.html"


def explore_link(dataset: str, control: str, candidate: str, query_id: str = "") -> str:
    """Give the address of a comparison, relative to the page beside it; of a query, if named."""
    state = {"d": dataset, "a": control, "b": candidate}
    state |= {"q": query_id} if query_id else {}
    named = {key: printable(value) for key, value in state.items()}
    return f"{PAGE}#{urlencode(named, quote_via=quote, safe='')}"
