"""The base of all settings: frozen, and strict about names and types; and values by dotted key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from pydantic import BaseModel, ConfigDict

from harness.core.errors import UnknownName
from harness.core.records import Scalar


class StackSettings(BaseModel):
    """Settings of a stack as an arm's TOML file gives them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def with_values(settings: Mapping[str, Any], instead: Mapping[str, Scalar]) -> dict[str, Any]:
    """Copy settings, and put a value in the place of each dotted key.

    Raises:
        UnknownName: the settings have no value of this key.
    """
    changed = deepcopy(dict(settings))
    for key, value in instead.items():
        *tables, last = key.split(".")
        within: Any = changed
        for table in tables:
            within = within.get(table) if isinstance(within, dict) else None
        if not isinstance(within, dict) or isinstance(within.get(last, {}), dict):
            raise UnknownName("setting of the arm", key, sorted(value_keys(settings)))
        within[last] = value
    return changed


def value_keys(settings: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield the dotted key of each value."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from value_keys(value, f"{above}{key}.")
        else:
            yield f"{above}{key}"
