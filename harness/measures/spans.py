"""Least and greatest value of a measure for one query."""

from __future__ import annotations

import re

from harness.stats.bounded import Span

SHARE, CORRELATION = Span(0.0, 1.0), Span(-1.0, 1.0)
SHARES = frozenset({
    "AP", "MAP", "Bpref", "BPref", "ERR", "IPrec", "Judged", "nDCG", "NDCG", "P",
    "Precision", "R", "Recall", "RBP", "RR", "MRR", "Rprec", "RPrec", "SetAP", "SetF", "SetP",
    "SetR", "Success", "infAP", "Empty", "Jaccard", "RBO",
})  # fmt: skip
"""Measures of quality and of agreement, by the name before their settings and cut-off."""
CORRELATIONS = frozenset({"tau", "tauAP"})


def span_of(measure: str) -> Span | None:
    """Give the least and the greatest value of ``measure``; None if they are unknown.

    ``measure`` is named as in a policy: ``nDCG@10``, ``RR(rel=2)@10``, ``Jaccard@50``, ``tau``,
    ``nDCG@10-of-serving``. Counts such as ``NumRet`` have no greatest value.
    """
    name = re.split(r"[(@]", measure, maxsplit=1)[0]
    if name in CORRELATIONS:
        return CORRELATION
    return SHARE if name in SHARES else None


def span_of_difference(measure: str) -> Span | None:
    """Give the same for the difference of two arms."""
    span = span_of(measure)
    return None if span is None else span.differences
