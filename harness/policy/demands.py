"""What a policy demands of its evidence, and what it takes for granted about it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

AtLeastOne = Annotated[int, Field(ge=1, le=1_000_000)]


class Demands(BaseModel):
    """The table ``[policy.evidence]``; each key is optional, an unknown one an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    k: AtLeastOne | None = None
    """Fewest hits requested from every arm."""
    time_limit_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """Longest time limit of a query."""
    depth: AtLeastOne | None = None
    """Hits at which RBO, the taus and the classes were computed, exactly."""


NOTHING = Demands()
"""What a policy without the table demands."""


def _why(granted: str) -> Any:  # noqa: ANN401  a field of pydantic
    """Return a field that holds why ``granted`` may be taken for granted."""
    return Field(default=None, min_length=1, description=granted)


class Premises(BaseModel):
    """The table ``[policy.premises]``: why each may be taken for granted; the page shows it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    drawn: str | None = _why("these queries are like those to come")
    needs: str | None = _why("no need is put twice in unlike words")
    judges: str | None = _why("the grades of a judged sample are right")
    starts: str | None = _why("the timed processes stand for every start")
    slowest: str | None = _why("the slowest answers, which no percentile counts, may take any time")


UNDECLARED = Premises()
"""What a policy without the table declares."""
