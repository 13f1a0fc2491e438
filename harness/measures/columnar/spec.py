"""Parameters of a measure for its kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ir_measures import Measure

CUT_OR_NOT = frozenset({"nDCG", "RR", "AP", "Judged"})
CUT = frozenset({"P", "R", "Success"})
UNCUT = frozenset({"Rprec", "Bpref", "NumRet"})


class MeasureSpec(NamedTuple):
    """One measure, as ``ir_measures`` names and defines it."""

    name: str
    cutoff: int | None = None
    rel: int = 1
    """The lowest grade that counts as relevant. ``NumRet`` without one has 0 here."""
    gains: Mapping[int, int] | None = None
    """Of each grade, in nDCG; without them a grade is its gain."""
    judged_only: bool = False

    @classmethod
    def of(cls, measure: Measure) -> MeasureSpec | None:
        """Read a measure, its gains written out (``as_gains``); None without a kernel."""
        name, given = str(measure.NAME), dict(measure.params)
        cutoff = given.pop("cutoff", None)
        wanted = cls(
            name,
            cutoff,
            given.pop("rel", 0 if name == "NumRet" else 1),
            given.pop("gains", None),
            given.pop("judged_only", False),
        )
        given.pop("dcg", None)
        fits = name in CUT_OR_NOT or name in (UNCUT if cutoff is None else CUT)
        return wanted if fits and not given else None
