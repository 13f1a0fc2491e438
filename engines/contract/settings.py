"""The base of all settings: frozen, and strict about names and types."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StackSettings(BaseModel):
    """Settings of a stack as an arm's TOML file gives them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
