"""People judge a pool: by keys, several of them, and into a data set."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.core import digest
from harness.core.errors import BadFile, DatasetError, EvidenceError, HarnessError
from harness.core.folders import changing, check_new, completed
from harness.core.names import checked
from harness.core.printable import many
from harness.core.reading import text_of
from harness.core.records import Judgement, Qrels
from harness.core.scores import Estimate
from harness.corpus import card, judgements, trec
from harness.corpus.card import DatasetCard
from harness.corpus.judgements import JudgingPair, Overtaken, Pool
from harness.judge.pool import following
from harness.stats.raters import Codes, alpha, kappa

SKIP, BACK, QUIT = "s", "u", "q"
HIGHEST_KEY = 9

Show = Callable[[Pool, int, str], None]
"""Shows the pair at a place, and a word on the key before, empty where that was understood."""


def judge(path: Path, keys: Iterable[str], show: Show) -> Pool:
    """Ask for the grades of a pool, and write each before the next is requested.

    A key is a grade, ``s`` leaves the pair open, ``u`` takes the last grade back, ``q`` stops.
    Others may judge the same pool meanwhile: what they judged stays, and is told.
    """
    pool, pressed = _with_more(path, judgements.read_pool(path)), iter(keys)
    if max(pool.pairs[0].scale) > HIGHEST_KEY:
        raise DatasetError(f"{path}: grades above {HIGHEST_KEY} have no key; write them in by hand")
    at, said = min(pool.open, default=len(pool.pairs)), ""
    while at < len(pool.pairs):
        known = pool.grades[at]
        show(pool, at, said or (f"judged {known} already" if known is not None else ""))
        said = ""
        match next(pressed, QUIT):
            case key if key.isdecimal() and int(key) in pool.pairs[at].scale:
                pool, said = _regraded(path, pool, at, int(key))
                at += not said
                pool = _with_more(path, pool)
            case str(key) if key == SKIP:
                at += 1
            case str(key) if key == BACK and at:
                at -= 1
                pool, said = _regraded(path, pool, at, None)
            case str(key) if key == QUIT:
                break
            case key:
                said = f"{key!r} is not a key"
    return pool


def _with_more(path: Path, pool: Pool) -> Pool:
    """Return the pool with the next pairs, where all are judged and the sample is not whole."""
    seen = None if pool.open else following(path)
    return pool if seen is None else seen.pool


def _regraded(path: Path, pool: Pool, at: int, grade: int | None) -> tuple[Pool, str]:
    """Return the pool as it is then, and what came between, if anything did."""
    try:
        return judgements.regrade(path, pool.pairs[at], pool.grades[at], grade), ""
    except Overtaken as exc:
        return judgements.read_pool(path), str(exc)


class Merged(NamedTuple):
    """Pairs of a pool that were added to a data set, were in there already, or are not judged."""

    added: int
    known: int
    open: int


def merge(path: Path, dataset: Path, qrels: Path, *, by: str, at: str) -> Merged:
    """Add what was judged to ``<split>.qrels``, and say on the card by whom and when.

    It is also kept apart, in ``<split>.judged.jsonl``. The three files change together; a merge
    that was killed is completed by the next command that reads or changes the data set.
    """
    with changing(dataset, within=(dataset, qrels), what="judge --merge") as change:
        about = card.read(dataset)
        if about.kind != "files":
            raise DatasetError(
                f"{about.name}: its judgements are made from its card, so none can be added;"
                " import its data as files, and merge into that"
            )
        pool, sha256 = judgements.read_pool(path), digest.of_file(path)
        judged = qrels / f"{about.split}.qrels"
        grades = {q: dict(docs) for q, docs in trec.qrels(judged).grades.items()}
        fresh = _added(grades, pool, path, judged)
        if fresh:
            record = {"at": at, "by": by, "pool_sha256": sha256, "judgements": fresh}
            kept = qrels / f"{about.split}.judged.jsonl"
            said = f"{many(len(fresh), 'judgement was')} added on {at} by {by}, from a pool."
            before = text_of(kept) if kept.is_file() else ""
            gap = "" if not before or before.endswith("\n") else "\n"
            line = json.dumps(record, ensure_ascii=False, sort_keys=True)
            change.write(kept, f"{before}{gap}{line}\n")
            change.write(judged, trec.qrels_text(_qrels(grades)))
            change.write(dataset / card.FILE, card.text_of(_noted(about, _qrels(grades), said)))
    return Merged(len(fresh), len(pool.judgements) - len(fresh), len(pool.open))


def _added(
    grades: dict[str, dict[str, int]], pool: Pool, path: Path, judged: Path
) -> list[Judgement]:
    """Add what was judged to ``grades``, and return what was not there."""
    fresh = []
    for found in pool.judgements:
        of = grades.setdefault(found.query_id, {})
        before = of.get(found.doc_id)
        if before not in {None, found.grade}:
            raise DatasetError(
                f"{judged}: {found.doc_id} has grade {before} for query {found.query_id}, and"
                f" grade {found.grade} in {path}; settle it in one of the two"
            )
        if before is None:
            of[found.doc_id] = found.grade
            fresh.append(found)
    return fresh


def _noted(about: DatasetCard, qrels: Qrels, said: str) -> DatasetCard:
    """Return the card of the judgements as they are now."""
    return about.model_copy(
        update={
            "judgements": sum(1 for _ in qrels.rows()),
            "sha256": about.sha256.model_copy(update={"qrels": card.of_qrels(qrels)}),
            "warnings": [*about.warnings, said],
        }
    )


def _qrels(grades: dict[str, dict[str, int]]) -> Qrels:
    return Qrels({q: dict(sorted(grades[q].items())) for q in sorted(grades)})


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
                given = found.setdefault(_pair(pair), {})
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


def read_panel(files: Sequence[Path], *, machines: bool) -> Panel:
    """Read the files of several people who judge the same pairs, and labels of ``machines``."""
    labelled = [path for path in files if judgements.is_labels(path)]
    if labelled and not machines:
        problem = "it holds labels of a machine, which settle nothing"
        raise BadFile(labelled[0], problem, "Name files of people alone")
    people = [path for path in files if path not in labelled]
    if len(files) < FEWEST or not people:
        raise HarnessError(
            "agreement takes the files of two people, or of one and a machine's labels; begin one"
            " each: harness judge POOL --by NAME"
        )
    parts: dict[str, Pool] = {}
    for path in people:
        part = judgements.read_pool(path, strict=True)
        _add(parts, path, path.stem.rpartition(".")[2], part)
    pairs = next(iter(parts.values())).pairs
    for path in labelled:
        labels = judgements.read_labels(path)
        given = {(one.query_id, one.doc_id): one.grade for one in labels}
        grades = tuple(given.pop(_pair(one), None) for one in pairs)
        if given or len({(one.by, one.model, one.template) for one in labels}) > 1:
            problem = "it holds labels of other pairs, or of several judges or models"
            raise BadFile(path, problem, f"Name what one judge said of {people[0].name}")
        _add(parts, path, labels[0].by, Pool(pairs, grades))
    return Panel(parts)


def _pair(of: JudgingPair) -> Pair:
    return of.query_id, of.doc_id


def _add(parts: dict[str, Pool], path: Path, name: str, part: Pool) -> None:
    """Add what one judge said, of the same pairs as the others."""
    first = next(iter(parts.values()), part)
    if {_pair(one) for one in part.pairs} != {_pair(one) for one in first.pairs}:
        of = f"the {len(first.pairs)} of {next(iter(parts))}"
        problem = f"its {many(len(part.pairs), 'pair')} are not {of}"
        raise BadFile(path, problem, f"Restore it and {judgements.texts_path(path).name}")
    if name in parts:
        raise HarnessError(f"{path}: {name} has another file; name one file a person")
    parts[name] = part


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
    cohen: tuple[tuple[str, str, Estimate | None], ...]
    """Quadratically weighted kappa of each two assessors who share pairs."""


def agreement(panel: Panel, confidence: float) -> RaterAgreement:
    """Compare all that was judged twice."""
    both = {pair: grades for pair, grades in panel.grades.items() if len(grades) > 1}
    units = [tuple(of.values()) for of in both.values()]
    clusters = _codes([query_id for query_id, _ in both])
    apart = [max(unit) - min(unit) for unit in units]
    return RaterAgreement(
        assessors=tuple(
            (name, len(part.judgements), len(part.pairs)) for name, part in panel.parts.items()
        ),
        twice=len(units),
        differ=sum(gap > 0 for gap in apart),
        far=sum(gap > 1 for gap in apart),
        alpha=_enough(lambda: alpha(units, clusters, confidence=confidence)),
        cohen=tuple(
            (one, other, _cohen(both, one, other, confidence))
            for one, other in combinations(panel.parts, 2)
            if any(one in grades and other in grades for grades in both.values())
        ),
    )


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
    pairs = {_pair(one): one for part in panel.parts.values() for one in part.pairs}
    agreed: dict[JudgingPair, int] = {}
    apart: dict[JudgingPair, int] = {}
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


def _disagreements(path: Path, pairs: list[JudgingPair]) -> Pool:
    """Bring the pool of disagreements up to what differs now, and return it."""
    if not pairs and not path.exists():
        return Pool((), ())
    with changing(path, within=(path.parent,), what="panel settle") as change:
        before = judgements.read_held(path, strict=True) if path.exists() else Pool((), ())
        given = {_pair(one): grade for one, grade in zip(before.pairs, before.grades, strict=True)}
        grades = tuple(given.get(_pair(pair)) for pair in pairs)
        found = Pool(tuple(pairs), grades)
        if pairs and found != before:
            judgements.put(change, path, found)
    return found
