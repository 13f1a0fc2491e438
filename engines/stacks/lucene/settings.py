"""The table ``[settings]`` of an arm over Lucene."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from engines.contract.settings import StackSettings
from engines.lexical import title_weight


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
        title_weight.check(self)
        return self

    @property
    def weights(self) -> Mapping[str, float]:
        """Weight of each field that is searched."""
        return title_weight.weights(self)

    def indexed(self, title: str, text: str) -> Mapping[str, Sequence[str]]:
        """Give what is indexed in each field."""
        return title_weight.indexed(self, title, text)
