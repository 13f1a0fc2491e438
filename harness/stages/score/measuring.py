"""What is measured where a policy of its own is judged: its gates' measures too."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ValidationError

from harness.core.errors import HarnessError
from harness.measures.name import parse
from harness.stages.params import Params


def measuring(params: Params, more: Iterable[str]) -> Params:
    """Measure ``more`` beside what ``params`` names.

    Raises:
        UnknownName: one of them is not a measure.
        HarnessError: one of them looks deeper than runs are deep.
    """
    names = tuple(dict.fromkeys((*params.score.measures, *more)))
    for name in names:
        parse(name)
    score = {**params.score.model_dump(), "measures": names}
    try:
        return Params.model_validate({**params.model_dump(), "score": score})
    except ValidationError as exc:
        said = exc.errors()[0]["msg"].removeprefix("Value error, ")
        raise HarnessError(f"the policy asks for too much: {said}") from exc
