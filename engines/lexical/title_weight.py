"""Title and text under one BM25 over the whole document, or under one of each field."""

from __future__ import annotations

from typing import Literal, Protocol

TITLE, TEXT = "title", "text"
Over = Literal["document", "fields"]


class Weighed(Protocol):
    """Settings that weigh a title against a text."""

    @property
    def bm25_over(self) -> Over: ...
    @property
    def title_weight(self) -> float: ...
    @property
    def text_weight(self) -> float: ...


def check(settings: Weighed) -> None:
    """Refuse weights that no repetition of the title gives.

    Raises:
        ValueError: one BM25 counts the whole document, and the title is not repeated whole.
    """
    whole = settings.title_weight.is_integer() and settings.text_weight == 1
    if settings.bm25_over == "document" and not whole:
        raise ValueError("bm25_over = 'document' needs a whole title_weight and text_weight 1")


def weights(settings: Weighed) -> dict[str, float]:
    """Give the weight of each field that is searched."""
    if settings.bm25_over == "document":
        return {TEXT: 1.0}
    return {TITLE: settings.title_weight, TEXT: settings.text_weight}


def indexed(settings: Weighed, title: str, text: str) -> dict[str, list[str]]:
    """Give the texts of each field of a document; no phrase reaches from one to the next."""
    if settings.bm25_over == "document":
        return {TEXT: [title] * int(settings.title_weight) + [text]}
    return {TITLE: [title], TEXT: [text]}
