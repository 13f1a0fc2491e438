"""Settings of code search, as an arm's TOML file gives them."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from engines.contract.settings import StackSettings
from engines.lexical.analysis import Language


class FieldWeights(StackSettings):
    """How often a word counts, by the field that it stands in; whole numbers."""

    name: int = Field(ge=0)
    signature: int = Field(ge=0)
    doc: int = Field(ge=0)
    comment: int = Field(ge=0)
    body: int = Field(ge=0)

    @model_validator(mode="after")
    def _something_counts(self) -> Self:
        if not any(self.model_dump().values()):
            raise ValueError("no field has a weight above 0")
        return self


class Shares(StackSettings):
    """What each source of candidates counts in a fusion."""

    sparse: float = Field(gt=0)
    ann: float = Field(gt=0)
    minhash: float = Field(gt=0)


class Rrf(Shares):
    """``search.rrf``: the sum of share / (k + rank)."""

    k: int = Field(ge=1, le=1000)


class Fusion(StackSettings):
    """Table ``search``: one of the two ways in which sources are put together."""

    rrf: Rrf | None = None
    score_blend: Shares | None = Field(default=None, alias="scoreBlend")

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.rrf is None) == (self.score_blend is None):
            raise ValueError("name one of search.rrf and search.scoreBlend")
        return self


class ModeWeights(StackSettings):
    """What each mode counts where several are fused."""

    code: float = Field(gt=0)
    prose: float = Field(gt=0)
    records: float = Field(gt=0)


class Boosts(StackSettings):
    """Factors on the score of what was found; 1 changes nothing, and ``phrase`` 0 neither."""

    definition: float = Field(ge=1, le=10)
    """For a unit that defines what the query names."""
    export: float = Field(ge=1, le=10)
    """For such a unit that users may name."""
    phrase: float = Field(ge=0, le=1)
    """For each two words that stand together in the query and in the unit; five count."""


class Graph(StackSettings):
    """Graph ranking; a table that is left out leaves it off."""

    degree: float = Field(ge=0, le=1)
    proximity: float = Field(ge=0, le=1)
    seed_selection: Literal["top1", "topK", "none"] = Field(alias="seedSelection")
    seed_k: int | None = Field(default=None, ge=1, le=50, alias="seedK")

    @model_validator(mode="after")
    def _k_where_it_is_meant(self) -> Self:
        if (self.seed_selection == "topK") != (self.seed_k is not None):
            raise ValueError("seedK goes with seedSelection = 'topK', and with no other")
        return self


class Context(StackSettings):
    """Context expansion; a table that is left out leaves it off."""

    per_hit: int = Field(ge=1, le=50)
    total: int = Field(ge=1, le=500)


class Settings(StackSettings):
    """Everything that changes an answer."""

    backend: Literal["sqlite", "tantivy"]
    language: Language
    mode: Literal["code", "prose", "records", "mixed"]
    depth: int = Field(ge=1, le=10_000)
    """Candidates taken from each source; at least as many as are requested."""
    fields: FieldWeights
    embedder: str
    """A model of ``engines.vector.models``, ``hash``, or empty for none."""
    max_tokens: int = Field(ge=8, le=512)
    near_duplicate: float = Field(gt=0, le=1)
    """Estimated likeness (Jaccard) from which a unit counts as a near duplicate of the query."""
    search: Fusion
    modes: ModeWeights
    mode_rrf_k: int = Field(ge=1, le=1000)
    mixed: Literal["rrf", "scores"] = "rrf"
    """How modes are put together: by reciprocal rank, or in one ranking whose scores count by
    the weight of their mode."""
    boosts: Boosts
    graph: Graph | None = None
    context: Context | None = None
