"""One grade a pair from several people: where all agree theirs, else that of a second look."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from harness.core.durable.journal import changing, completed
from harness.core.durable.owned import check_new
from harness.corpus import pool as pools
from harness.corpus.pool import Pair, Pool
from harness.stages.judging.several import Panel


class Settled(NamedTuple):
    """What was settled."""

    settled: int
    unjudged: int
    """Pairs that no one judged."""
    open: int
    """Disagreements that no second look has settled; nothing is written while there are some."""


def second_look(to: Path) -> Path:
    """Return where pairs lie that were judged differently, to be judged once more."""
    return to.with_name(f"{to.stem}.disagreements{to.suffix}")


def settle(panel: Panel, to: Path, files: Sequence[Path]) -> Settled:
    """Write a pool of what is settled into ``to``, once each disagreement has its second look.

    Disagreements are put into a pool of their own beside it, the farthest apart first. Grades that
    were given there stay. ``files`` are those of the panel, which are never written to.

    Raises:
        NotOurs: ``to`` is there already, or is one of the files.
        BadFile: the disagreements cannot be read.
    """
    completed(to, within=(to.parent,))
    for file in (to, pools.beside(to)):
        check_new(file, reads=files)
    pairs = {(p.query_id, p.doc_id): p for part in panel.parts.values() for p in part.pairs}
    agreed: dict[Pair, int] = {}
    apart: dict[Pair, int] = {}
    unjudged = 0
    for key, by in panel.grades.items():
        grades = {*by.values()}
        if not grades:
            unjudged += 1
        elif len(grades) == 1:
            agreed[pairs[key]] = grades.pop()
        else:
            apart[pairs[key]] = max(grades) - min(grades)
    looked = _disagreements(second_look(to), sorted(apart, key=lambda pair: -apart[pair]))
    agreed |= {
        pair: grade
        for pair, grade in zip(looked.pairs, looked.grades, strict=True)
        if grade is not None
    }
    if not looked.open and agreed:
        pools.begin(to, Pool(tuple(agreed), tuple(agreed.values())))
    return Settled(len(agreed), unjudged, len(looked.open))


def _disagreements(path: Path, pairs: list[Pair]) -> Pool:
    """Bring the pool of disagreements up to what differs now, and return it."""
    if not pairs and not path.exists():
        return Pool((), ())
    with changing(path, within=(path.parent,), what="panel settle") as change:
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
