"""Several assessors of one pool: their agreement, and one grade a pair."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.core.folders import changing, check_new, completed
from harness.core.names import checked
from harness.core.printable import many
from harness.core.scores import Estimate
from harness.corpus import judgements
from harness.corpus.judgements import JudgingPair as PoolPair
from harness.corpus.judgements import Pool
from harness.stats.raters import Codes, alpha, fleiss, kappa

FEWEST = 2
Pair = tuple[str, str]


@dataclass(frozen=True)
class Panel:
    """What each person judged, by name."""

    parts: Mapping[str, Pool]

    @cached_property
    def grades(self) -> Mapping[Pair, Mapping[str, int]]:
        """Of each pair the grades that were given, by name."""
        found: dict[Pair, dict[str, int]] = {}
        for name, part in self.parts.items():
            for pair, grade in zip(part.pairs, part.grades, strict=True):
                given = found.setdefault((pair.query_id, pair.doc_id), {})
                if grade is not None:
                    given[name] = grade
        return found


def own_file(pool: Path, name: str) -> Path:
    """Return the file of one person beside a pool, begun without grades where there is none."""
    checked("an assessor", name)
    path = pool.with_name(f"{pool.stem}.{name}{pool.suffix}")
    if not path.exists():
        pairs = judgements.read_pool(pool).pairs
        judgements.begin(path, Pool(pairs, (None,) * len(pairs)))
    return path


def read(files: Sequence[Path]) -> Panel:
    """Read the files of several people who judge the same pairs."""
    if len(files) < FEWEST:
        raise HarnessError(
            "agreement takes the files of two people; begin one each: harness judge POOL --by NAME"
        )
    parts: dict[str, Pool] = {}
    known: set[Pair] = set()
    for path in files:
        part, name = judgements.read_pool(path, strict=True), path.stem.rpartition(".")[2]
        pairs = {(pair.query_id, pair.doc_id) for pair in part.pairs}
        if parts and pairs != known:
            problem = f"its {many(len(pairs), 'pair')} are not the {len(known)} of {files[0].name}"
            raise BadFile(path, problem, f"Restore it and {judgements.texts_path(path).name}")
        if name in parts:
            raise HarnessError(f"{path}: {name} has another file; name one file a person")
        parts[name], known = part, pairs
    return Panel(parts)


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """What they say together; None for a figure where too few queries were judged twice."""

    assessors: tuple[tuple[str, int, int], ...]
    """Of each person the name, and how many pairs of how many are judged."""
    twice: int
    differ: int
    far: int
    """Of these, with grades two or more apart."""
    alpha: Estimate | None
    fleiss: Estimate | None
    cohen: tuple[tuple[str, str, Estimate | None], ...]
    """Quadratically weighted kappa of each two assessors who share pairs."""


def agreement(panel: Panel, confidence: float) -> RaterAgreement:
    """Compare all that was judged twice."""
    both = {pair: grades for pair, grades in panel.grades.items() if len(grades) > 1}
    units, clusters = _units(both)
    whole = _units({pair: of for pair, of in both.items() if len(of) == len(panel.parts)})
    apart = [max(unit) - min(unit) for unit in units]
    return RaterAgreement(
        assessors=tuple(
            (name, len(part.judgements), len(part.pairs)) for name, part in panel.parts.items()
        ),
        twice=len(units),
        differ=sum(gap > 0 for gap in apart),
        far=sum(gap > 1 for gap in apart),
        alpha=_enough(lambda: alpha(units, clusters, confidence=confidence)),
        fleiss=_enough(lambda: fleiss(*whole, confidence=confidence)),
        cohen=tuple(
            (one, other, _cohen(both, one, other, confidence))
            for one, other in combinations(panel.parts, 2)
            if any(one in grades and other in grades for grades in both.values())
        ),
    )


def _units(grades: Mapping[Pair, Mapping[str, int]]) -> tuple[list[tuple[int, ...]], Codes]:
    return [tuple(of.values()) for of in grades.values()], _codes([one for one, _ in grades])


def _cohen(
    both: Mapping[Pair, Mapping[str, int]], one: str, other: str, confidence: float
) -> Estimate | None:
    shared = {pair: of for pair, of in both.items() if one in of and other in of}
    grades = [np.array([of[name] for of in shared.values()]) for name in (one, other)]
    clusters = _codes([query_id for query_id, _ in shared])
    return _enough(lambda: kappa(grades[0], grades[1], clusters, confidence=confidence))


def _codes(names: Sequence[str]) -> Codes:
    code = {name: at for at, name in enumerate(Counter(names))}
    return np.array([code[name] for name in names], dtype=np.int64)


def _enough(estimate: Callable[[], Estimate | None]) -> Estimate | None:
    try:
        return estimate()
    except EvidenceError:
        return None


class Settled(NamedTuple):
    """What was settled."""

    settled: int
    unjudged: int
    open: int
    """Disagreements that no second look has settled; nothing is written while there are some."""


def second_look(to: Path) -> Path:
    """Return where pairs lie that were judged differently, to be judged once more."""
    return to.with_name(f"{to.stem}.disagreements{to.suffix}")


def settle(panel: Panel, to: Path, files: Sequence[Path]) -> Settled:
    """Write a pool of what is settled into ``to``, once each disagreement has its second look."""
    completed(to, within=(to.parent,))
    for file in (to, judgements.texts_path(to)):
        check_new(file, reads=files)
    pairs = {(p.query_id, p.doc_id): p for part in panel.parts.values() for p in part.pairs}
    agreed: dict[PoolPair, int] = {}
    apart: dict[PoolPair, int] = {}
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
        judgements.begin(to, Pool(tuple(agreed), tuple(agreed.values())))
    return Settled(len(agreed), unjudged, len(looked.open))


def _disagreements(path: Path, pairs: list[PoolPair]) -> Pool:
    """Bring the pool of disagreements up to what differs now, and return it."""
    if not pairs and not path.exists():
        return Pool((), ())
    with changing(path, within=(path.parent,), what="panel settle") as change:
        before = judgements.read_held(path, strict=True) if path.exists() else Pool((), ())
        given = {
            (p.query_id, p.doc_id): g for p, g in zip(before.pairs, before.grades, strict=True)
        }
        grades = tuple(given.get((pair.query_id, pair.doc_id)) for pair in pairs)
        found = Pool(tuple(pairs), grades)
        if pairs and found != before:
            judgements.put(change, path, found)
    return found
