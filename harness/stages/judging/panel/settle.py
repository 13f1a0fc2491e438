"""One grade a pair from a panel: where all agree theirs, else that of a second look."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from harness.core.durable.journal import changing, completed
from harness.core.durable.owned import check_new
from harness.corpus import pool as pools
from harness.corpus.pool import Pair, Pool
from harness.stages.judging.panel.panel import Panel


class Settled(NamedTuple):
    """What was settled."""

    settled: int
    unjudged: int
    """Pairs that an assessor has still open."""
    open: int
    """Disagreements that no second look has settled; nothing is written while there are some."""


def settle(panel: Panel, to: Path) -> Settled:
    """Write a pool of what is settled into ``to``, once each disagreement has its second look.

    Disagreements are put into a pool of their own, in the panel's folder, the farthest apart first.
    Grades that were given there stay.

    Raises:
        NotOurs: ``to`` is there already, or is in the panel's folder.
        BadFile: a part cannot be read.
    """
    completed(to, within=(to.parent,))
    for file in (to, pools.beside(to)):
        check_new(file, reads=(panel.folder,))
    pairs = {(p.query_id, p.doc_id): p for part in panel.parts.values() for p in part.pairs}
    agreed: dict[Pair, int] = {}
    apart: dict[Pair, int] = {}
    unjudged = 0
    for key, by in panel.grades.items():
        grades = {grade for grade in by.values() if grade is not None}
        if None in by.values():
            unjudged += 1
        elif len(grades) == 1:
            agreed[pairs[key]] = grades.pop()
        else:
            apart[pairs[key]] = max(grades) - min(grades)
    looked = _disagreements(panel, sorted(apart, key=lambda pair: -apart[pair]))
    agreed |= {
        pair: grade
        for pair, grade in zip(looked.pairs, looked.grades, strict=True)
        if grade is not None
    }
    if not looked.open and agreed:
        pools.begin(to, Pool(tuple(agreed), tuple(agreed.values())))
    return Settled(len(agreed), unjudged, len(looked.open))


def _disagreements(panel: Panel, pairs: list[Pair]) -> Pool:
    """Bring the pool of disagreements up to what differs now, and give it."""
    path = panel.disagreements
    if not pairs and not path.exists():
        return Pool((), ())
    with changing(path, within=(panel.folder,), what="panel settle") as change:
        before = pools.read_held(path, strict=True) if path.exists() else Pool((), ())
        given = {
            (p.query_id, p.doc_id): g for p, g in zip(before.pairs, before.grades, strict=True)
        }
        grades = tuple(given.get((pair.query_id, pair.doc_id)) for pair in pairs)
        found = Pool(tuple(pairs), grades)
        if pairs and found != before:
            change.write(pools.beside(path), pools.texts_of(found))
            change.write(path, pools.grades_of(found))
    return found
