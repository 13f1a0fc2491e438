"""The table ``[settings]`` of an arm over Typesense."""

from __future__ import annotations

from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from engines.contract.settings import StackSettings


class Settings(StackSettings):
    """Which nodes, and how they match and rank."""

    nodes: list[str] = Field(default_factory=list)
    """Addresses of a cluster that is there; empty starts one."""
    key_env: str = Field(default="", pattern=r"^([A-Za-z_]\w*)?$")
    """Variable of the environment with the API key of these nodes."""
    start: Literal[1, 3, 5] = 3
    """Nodes of a cluster that is started."""
    title_weight: int = Field(default=2, ge=0, le=127)
    text_weight: int = Field(default=1, ge=1, le=127)
    num_typos: int = Field(default=2, ge=0, le=2)
    """Letters in which a word of a document may differ from the query's."""
    prefix: bool = True
    """Whether the last word may be the beginning of a longer one."""
    drop_tokens_threshold: int = Field(default=1, ge=0, le=10_000)
    """Words are dropped from a query until it has this many hits; 0 drops none."""
    typo_tokens_threshold: int = Field(default=1, ge=0, le=10_000)
    """Typos are looked for until a query has this many hits."""
    timeout_s: float = Field(ge=0.001, le=86_400)
    """For a query with all its attempts; each node has an equal part of it."""
    replicas_s: float = Field(default=60.0, gt=0, le=86_400)
    """How long every node may take to hold every document."""
    retries: int = Field(default=5, ge=0, le=20)
    """Attempts at one query after the first."""

    @field_validator("nodes")
    @classmethod
    def _addresses(cls, given: list[str]) -> list[str]:
        for url in given:
            try:
                parts = urlsplit(url)
                port = parts.port
            except ValueError as exc:
                raise ValueError(f"{url!r} is not an address ({exc})") from exc
            known = parts.scheme in {"http", "https"} and parts.hostname and port != 0
            if not known or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
                raise ValueError(f"{url!r} is not an address. Write http://HOST:PORT")
        if len(set(given)) != len(given):
            raise ValueError("a node stands here twice. Name each once")
        return given

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if bool(self.nodes) != bool(self.key_env):
            raise ValueError("key_env is needed with nodes, and only there")
        return self

    @property
    def fields(self) -> dict[str, int]:
        """Weight of each field that is searched."""
        weights = {"title": self.title_weight, "text": self.text_weight}
        return {name: weight for name, weight in weights.items() if weight}
