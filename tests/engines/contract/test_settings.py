"""Settings are frozen and strict."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from engines.contract import StackSettings


class Weighed(StackSettings):
    """Settings to test with."""

    weight: float
    depth: int


def test_what_is_given_is_kept_and_frozen() -> None:
    settings = Weighed.model_validate({"weight": 1, "depth": 2})
    assert settings.model_dump() == {"weight": 1.0, "depth": 2}
    with pytest.raises(ValidationError):
        settings.depth = 3


@pytest.mark.parametrize(
    "given",
    [
        {"weight": 1.0},
        {"weight": 1.0, "depth": 2, "more": 3},
        {"weight": "1.0", "depth": 2},
        {"weight": 1.0, "depth": 2.0},
        {"weight": 1.0, "depth": True},
        {"weight": float("nan"), "depth": 2},
        {"weight": float("inf"), "depth": 2},
    ],
)
def test_missing_unknown_and_wrong_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Weighed.model_validate(given)
