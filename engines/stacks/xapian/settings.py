"""The table ``[settings]`` of an arm over Xapian."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engines.contract.settings import StackSettings


class Settings(StackSettings):
    """How many shards, how texts become terms, and how they are ranked."""

    shards: int = Field(default=2, ge=1, le=64)
    """Files that documents are dealt to, one by one; each has a server."""
    stemmer: Literal["none", "english"] = "none"
    """Words in lower case, or their English stems."""
    k1: float = Field(default=1.2, ge=0, le=10)
    b: float = Field(default=0.75, ge=0, le=1)
    title_weight: int = Field(default=2, ge=0, le=100)
    """How often the title counts in the one BM25 over the document; 0 ignores it."""
    joined: Literal["phrase", "words", "both"] = "both"
    """A joined word such as ``read_csv`` asks for the phrase, for its words, or for both."""
