"""The table ``[settings]`` of an arm over PostgreSQL."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from engines.contract.settings import StackSettings
from engines.stacks.text import dense


class Settings(StackSettings):
    """Which server, what is indexed, and how it ranks."""

    mode: Literal["words", "vectors", "hybrid"]
    dsn_env: str = Field(default="", pattern=r"^([A-Za-z_]\w*)?$")
    """Variable of the environment with the server's DSN; empty starts a server of its own."""
    config: Literal["simple", "english"] = "simple"
    """Text search configuration: words as they are, or stems without stop words."""
    rank: Literal["ts_rank", "ts_rank_cd"] = "ts_rank_cd"
    normalization: int = Field(default=0, ge=0, le=63)
    """Bit mask of PostgreSQL's ranking functions; 0 ignores the document's length."""
    title_weight: float = Field(default=1.0, ge=0, le=1)
    text_weight: float = Field(default=0.5, ge=0, le=1)
    vectors: dense.EmbedderSettings | None = None
    """Embedder of the modes with vectors."""
    nearest: Literal["exact", "hnsw"] = "exact"
    m: int = Field(default=16, ge=2, le=100)
    ef_construction: int = Field(default=64, ge=4, le=1000)
    ef_search: int = Field(default=100, ge=1, le=1000)
    rrf_k: int = Field(default=60, ge=1, le=1000)
    depth: int = Field(default=100, ge=1, le=1000)
    """Candidates of each side before they are fused."""
    timeout_s: float = Field(ge=0.001, le=86_400)
    """For a statement, and for connecting. PostgreSQL counts milliseconds; 0 ends the limit."""
    retries: int = Field(default=3, ge=0, le=10)
    """Times that a lost connection is opened again for one query."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.vectors is None) != (self.mode == "words"):
            raise ValueError(
                'vectors is needed in the modes "vectors" and "hybrid", and only there'
            )
        if self.nearest == "hnsw" and self.ef_search < self.depth:
            raise ValueError("ef_search is below depth, so HNSW could not give that many")
        return self
