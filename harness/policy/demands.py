"""What a policy demands of the conditions under which its evidence was measured."""

from __future__ import annotations

from typing import Annotated

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
