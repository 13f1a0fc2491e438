"""Diverging queries with both rankings, as tables for a notebook."""

from __future__ import annotations

from dataclasses import dataclass

from harness.api.html import table
from harness.report.shadow.sides import Both, ShownAnswer


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sides:
    """Diverging queries with both rankings, the worst first."""

    queries: tuple[Both, ...]

    def __repr__(self) -> str:
        return "\n".join(f"{_title(one)}, {one.about}" for one in self.queries) or "nothing"

    def _repr_html_(self) -> str:
        return "".join(map(_beside, self.queries)) or table("Nothing diverged", (), ())


def _title(one: Both) -> str:
    return f"{one.text}: {one.outcome}, {one.standing}"


def _beside(one: Both) -> str:
    sides = [side for side in (one.control, one.candidate) if side]
    if not sides:
        return table(_title(one), ("", "its divergence is not in the log"), (), one.about)
    deep = max(len(side.hits) for side in sides)
    rows = [(str(at + 1), *(_hit(side, at) for side in sides)) for at in range(deep)]
    header = ("", *(f"{side.arm}: {side.about}" for side in sides))
    missing = [f"{side.arm} {side.instead}" for side in sides if side.instead]
    note = ". ".join([one.about, *missing])
    return table(_title(one), header, rows, note, of_words=True)


def _hit(side: ShownAnswer, at: int) -> str:
    if at >= len(side.hits):
        return ""
    hit = side.hits[at]
    return f"{hit.doc_id} ({hit.move})" if hit.move else hit.doc_id
