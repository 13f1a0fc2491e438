"""The table ``[settings]`` of an arm over Lucene."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from engines.contract.settings import StackSettings

TITLE, TEXT = "title", "text"


class Settings(StackSettings):
    """Which Lucene, how texts become words, and how they are ranked."""

    jars: str = "/usr/share/java"
    """Folder with the jars of Lucene."""
    analyzer: Literal["standard", "english"] = "standard"
    """Words in lower case, or their stems without stop words."""
    k1: float = Field(default=1.2, ge=0, le=10)
    b: float = Field(default=0.75, ge=0, le=1)
    bm25_over: Literal["document", "fields"] = "document"
    """One BM25 over the whole document, its title counted ``title_weight`` times, as Tantivy's arms
    count it; or one of each field, added."""
    title_weight: float = Field(default=2.0, ge=0, le=100)
    text_weight: float = Field(default=1.0, gt=0, le=100)

    @model_validator(mode="after")
    def _title_is_repeated(self) -> Self:
        whole = self.title_weight.is_integer() and self.text_weight == 1
        if self.bm25_over == "document" and not whole:
            raise ValueError("bm25_over = 'document' needs a whole title_weight and text_weight 1")
        return self

    @property
    def weights(self) -> Mapping[str, float]:
        """Weight of each field that is searched."""
        if self.bm25_over == "document":
            return {TEXT: 1.0}
        return {TITLE: self.title_weight, TEXT: self.text_weight}

    def fields(self, title: str, text: str) -> Mapping[str, Sequence[str]]:
        """Give what is indexed in each field."""
        if self.bm25_over == "document":
            return {TEXT: [title] * int(self.title_weight) + [text]}
        return {TITLE: [title], TEXT: [text]}
