"""How documents are cut, recalled, ranked and reranked."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from engines.contract.settings import StackSettings
from engines.stacks.documents.texts.chunking import Cutting


class Settings(StackSettings):
    """The specification's own choices, and those that stand beside them."""

    tier: Literal["free", "pro"]
    """``free`` recalls and ranks, ``pro`` reranks by late interaction as well."""
    embedder: str
    """E1, a model of ``engines.vector.models``; empty for none."""
    sparse: str
    """E6, a model of ``engines.sparse.models``; empty for none."""
    max_tokens: int = Field(ge=8, le=512)
    """How much of a chunk the models read."""
    fusion: Literal["specification", "rank"]
    """weight / (60 + 1 / score) as written, or weight / (60 + rank)."""
    recall_weight: float = Field(default=0.0, ge=0.0)
    """What the order of recall counts in a fusion by rank; the specification drops it."""
    chunk_characters: int = Field(default=2000, ge=20)
    chunk_overlap: int = Field(default=200, ge=0)
    chunk_ends: Literal["break", "anywhere"] = "break"
    """At a paragraph, a sentence or a word near its last character, or at that character."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if 2 * self.chunk_overlap >= self.chunk_characters:
            raise ValueError("chunk_overlap: must be less than half of chunk_characters")
        if self.tier == "pro" and not self.embedder:
            raise ValueError("embedder: the tier pro reranks by its tokens and needs one")
        if self.recall_weight and self.fusion != "rank":
            raise ValueError('recall_weight: counts only where fusion is "rank"')
        return self

    @property
    def cutting(self) -> Cutting:
        """Sizes of chunks."""
        return Cutting(self.chunk_characters, self.chunk_overlap, self.chunk_ends)
