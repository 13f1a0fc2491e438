"""The mean differences that a gate judges, and the side of the bound on which they must lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.gates import equivalent, no_slice_harmed, non_inferior, superior
from harness.gates.base.queries import SampleSettings


@dataclass(frozen=True, slots=True)
class AskedMean:
    """One mean of differences."""

    settings: SampleSettings
    """With the measure and the slice."""
    limit: float
    """The bound; negative for an allowed loss."""
    both_sides: bool = False
    """Whether it must lie within the limit on both sides of 0."""
    versus: str | None = None
    """The arm that takes the control's place."""


def asked_means(settings: object, slices: Iterable[str]) -> Iterator[AskedMean]:
    """Yield the mean differences of a gate; none for other rules.

    ``slices`` are those of the query set, for a gate that looks at all of them.
    """
    if isinstance(settings, superior.Settings):
        yield AskedMean(settings, settings.limit, versus=settings.versus)
    elif isinstance(settings, non_inferior.Settings):
        yield AskedMean(settings, settings.limit)
    elif isinstance(settings, equivalent.Settings):
        yield AskedMean(settings, -settings.margin, both_sides=True)
    elif isinstance(settings, no_slice_harmed.Settings):
        for name in sorted(settings.slices or slices):
            own = settings.model_copy(update={"slice": name})
            yield AskedMean(own, -settings.margin_of(name))
