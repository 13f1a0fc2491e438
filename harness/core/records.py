"""Documents, queries and judgements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Scalar = str | int | float | bool | None
FIELDS = ("title", "text")
"""Searched fields of a document."""


@dataclass(frozen=True, slots=True)
class Document:
    """One unit of retrieval."""

    doc_id: str
    title: str
    text: str
    metadata: Mapping[str, Scalar] = field(default_factory=dict)


class Drawn(NamedTuple):
    """How a query came into a sample of a log: what an estimate for the traffic needs."""

    stratum: str
    inclusion: float
    """Probability of being in the sample, above 0 and at most 1."""
    requests: int
    """Requests of the log with this query."""


@dataclass(frozen=True, slots=True)
class Query:
    """What a person typed, untouched.

    ``slices`` name the kinds it belongs to (for example ``identifier``); queries that share an
    ``intent`` are one need in several wordings, and are resampled together. ``params`` are set in
    addition to the text, such as filters: names and values of the stack's own query. They are part
    of the query. ``drawn`` is set where the query was sampled from a log.
    """

    query_id: str
    text: str
    slices: tuple[str, ...] = ()
    intent: str | None = None
    params: Mapping[str, Scalar] = field(default_factory=dict, hash=False)
    drawn: Drawn | None = None


class Judgement(NamedTuple):
    """One relevance judgement; grade 0 is judged and not relevant, absent is unjudged."""

    query_id: str
    doc_id: str
    grade: int
