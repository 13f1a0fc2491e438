"""Every number of a policy, of ``params.yaml`` and of bounds for live traffic has an end above.

No set has 10^20 queries; a hundred thousand million days are no date.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

import pytest
from annotated_types import Le, Lt
from pydantic import BaseModel

from harness.gates.base import rules
from harness.pipeline.params import Params
from harness.policy.model import Demands, Header, StepTable
from harness.shadow.alarms import Bounds
from harness.shadow.comparison import Settings

LABELS = {"seed", "version", "format"}
"""Numbers that only name something."""


def numbers(model: type[BaseModel], within: str = "") -> Iterator[tuple[str, bool]]:
    """Yield each number of a model and its tables, and whether it is bounded above."""
    for name, field in model.model_fields.items():
        place = f"{within}{name}"
        for kind, marks in kinds(field.annotation, field.metadata):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from numbers(kind, f"{place}.")
            elif kind in {int, float} and name not in LABELS:
                yield place, any(isinstance(mark, Le | Lt) for mark in marks)


def kinds(annotation: Any, marks: list[Any]) -> Iterator[tuple[Any, list[Any]]]:  # noqa: ANN401  a type
    """Take unions, tuples and annotations apart."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        more = [one for mark in more for one in getattr(mark, "metadata", [mark])]
        yield from kinds(inner, [*marks, *more])
    elif get_args(annotation) or isinstance(annotation, UnionType):
        for one in get_args(annotation):
            yield from kinds(one, marks)
    else:
        yield annotation, marks


MODELS: dict[str, Any] = {
    "policy": Header,
    "step": StepTable,
    "demands": Demands,
    "params": Params,
    "shadow": Settings,
    "watch": Bounds,
    **{name: rules.load(name).settings for name in rules.names()},
}


@pytest.mark.parametrize("name", MODELS)
def test_every_number_is_bounded_above(name: str) -> None:
    assert [place for place, bounded in numbers(MODELS[name]) if not bounded] == []


def test_a_number_without_an_end_is_seen() -> None:
    class Open(BaseModel):
        width: float
        depth: Annotated[int, Le(5)] | None = None

    assert dict(numbers(Open)) == {"width": False, "depth": True}
