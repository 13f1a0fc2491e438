"""The meaning of a loss of a measure's mean for users, in words."""

from __future__ import annotations

import re

PAGE = 10
"""Hits of a first page."""
NEARLY = 0.67
"""A larger share is no longer one in two."""
CLOSE = 0.005
"""Numbers nearer than this share of them are one number in words."""
RANKED = frozenset({"nDCG", "NDCG", "AP", "MAP", "ERR", "RBP"})
RECIPROCAL = frozenset({"RR", "MRR"})
FALL = {
    **dict.fromkeys(RANKED, "loses its whole {page}"),
    **dict.fromkeys(RECIPROCAL, "has its first relevant document at rank 2, not 1"),
    **dict.fromkeys(("R", "Recall"), "is no longer in the {page}"),
    "Success": "has no relevant document left in its {page}",
}
"""What happens to one query, or to one relevant document."""
COST = dict.fromkeys(RECIPROCAL, 0.5)
"""What it costs that query; where nothing is said, all that it can have."""
COUNTED = {
    "P": "relevant document",
    "Precision": "relevant document",
    "Judged": "judged document",
    "Empty": "empty place",
}
"""Measures that count hits, and what they count."""


def loss_in_words(measure: str, loss: float) -> str:
    """Describe a mean loss, if it were all of one kind and in as few queries as possible.

    ``measure`` is named as in a policy, and ``loss`` lies above 0 and at most 1.
    """
    name, cut_off = _parts(measure)
    if name in COUNTED and cut_off:
        return _fewer(loss * cut_off, COUNTED[name], cut_off)
    page = "first page" if cut_off == PAGE else f"first {cut_off}" if cut_off else "list"
    what = "relevant document" if name in {"R", "Recall"} else "query"
    fall = FALL.get(name, f"loses all of its {name}").format(page=page)
    return f"{_one_in(loss / COST.get(name, 1), what)} {fall}"


def gain_in_words(measure: str, gain: float) -> str:
    """Describe a mean gain by the loss that it would compensate."""
    return f"it makes up for a change by which {loss_in_words(measure, gain)}"


def floor_in_words(measure: str, floor: float) -> str:
    """Describe a mean agreement of ``floor``, if it were the same for every query."""
    name, cut_off = _parts(measure)
    if name == "Jaccard" and cut_off:
        shared = 2 * cut_off * floor / (1 + floor)
        return f"of {cut_off} documents in each list {shared:.1f} are shared"
    return f"each query agrees to {floor:g}"


def share_in_words(share: float) -> str:
    """Describe a share of the queries."""
    return _one_in(share, "query")


def _parts(measure: str) -> tuple[str, int]:
    """Give the name of a measure before its settings, and its cut-off or 0."""
    cut_off = re.search(r"@([0-9]+)", measure)
    return re.split(r"[(@]", measure, maxsplit=1)[0], int(cut_off[1]) if cut_off else 0


def _fewer(each: float, what: str, cut_off: int) -> str:
    """Say how many hits fewer there are on average."""
    if each > NEARLY:
        plural = "" if each == 1 else "s"
        return f"each query has {each:.3g} {what}{plural} less in {cut_off}"
    return f"{_one_in(each, 'query')} has one {what} less in {cut_off}"


def _one_in(share: float, what: str) -> str:
    """Say a share as one in a number; a larger one than two in three as all."""
    number = 1 / min(share, 1.0)
    rounded = round(number)
    about = "" if abs(number - rounded) < CLOSE * number else "about "
    return f"{about}one {what} in {rounded:,}" if rounded > 1 else f"{about}every {what}"
