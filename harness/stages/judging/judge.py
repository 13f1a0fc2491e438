"""Judge a pool, one pair at a time, and take its judgements into a data set."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from harness.core import digest
from harness.core.durable.journal import changing
from harness.core.errors import DatasetError
from harness.core.printable import many
from harness.core.qrels import Qrels
from harness.core.reading import text_of
from harness.core.records import Judgement
from harness.corpus import card, trec
from harness.corpus import pool as pools
from harness.corpus.card import Card
from harness.corpus.pool import Overtaken, Pool
from harness.stages.judging.sampling import following

SKIP, BACK, QUIT = "s", "u", "q"
HIGHEST_KEY = 9
"""Grades are given by one key."""

Show = Callable[[Pool, int, str], None]
"""Shows the pair at a place, and a word on the key before, empty where that was understood."""


def judge(path: Path, keys: Iterable[str], show: Show) -> Pool:
    """Ask for the grades of a pool, and write each into the pool before the next is requested.

    A key is a grade of the scale, ``s`` to leave the pair open, ``u`` to take the last pair's
    grade back, ``q`` to stop. The end of the keys stops too. It begins at the first open pair, so
    whoever was interrupted goes on where they were. Others may judge the same pool meanwhile: what
    they judged stays, and is told. A sample goes on until it is whole.

    Raises:
        BadFile: the pool or what lies beside it cannot be read.
        DatasetError: the scale has grades that no key gives.
    """
    pool, pressed = _with_more(path, pools.read(path)), iter(keys)
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
    """Give the pool with the next pairs, where all are judged and the sample is not whole."""
    seen = None if pool.open else following(path)
    return pool if seen is None else seen.pool


def _regraded(path: Path, pool: Pool, at: int, grade: int | None) -> tuple[Pool, str]:
    """Give the pool as it is then, and what came between, if anything did."""
    try:
        return pools.regrade(path, pool.pairs[at], pool.grades[at], grade), ""
    except Overtaken as exc:
        return pools.read(path), str(exc)


class Merged(NamedTuple):
    """What came of taking a pool into a data set."""

    added: int
    known: int
    """Pairs that were in there already, with the same grade."""
    open: int
    """Pairs that no one judged yet."""


def merge(path: Path, dataset: Path, qrels: Path, *, by: str, at: str) -> Merged:
    """Add what was judged to ``<split>.qrels`` in ``qrels``, and say on the card by whom and when.

    ``dataset`` is the folder with the card. What was added is also kept apart, in
    ``<split>.judged.jsonl``, a line a pool. The three files change together, and one merge after
    the other. A merge that was killed is completed by the next command that reads or changes the
    data set, and adds nothing when it is run again.

    Raises:
        BadFile: the pool or the judgements cannot be read.
        DatasetError: the judgements of the set are made and not kept in files, or a pair is in
            there with another grade.
    """
    with changing(dataset, within=(dataset, qrels), what="judge --merge") as change:
        about = card.read(dataset)
        if about.kind != "files":
            raise DatasetError(
                f"{about.name}: its judgements are made from its card, so none can be added;"
                " import its data as files, and merge into that"
            )
        pool, sha256 = pools.read(path), digest.of_file(path)
        judged = qrels / f"{about.split}.qrels"
        grades = {q: dict(docs) for q, docs in trec.qrels(judged).grades.items()}
        fresh = _added(grades, pool, path, judged)
        if fresh:
            record = {"at": at, "by": by, "pool_sha256": sha256, "judgements": fresh}
            kept = qrels / f"{about.split}.judged.jsonl"
            said = f"{many(len(fresh), 'judgement was')} added on {at} by {by}, from a pool."
            change.write(kept, _with_line(kept, record))
            change.write(judged, trec.qrels_text(_qrels(grades)))
            change.write(dataset / card.FILE, card.text_of(_noted(about, _qrels(grades), said)))
    return Merged(len(fresh), len(pool.judgements) - len(fresh), len(pool.open))


def _added(
    grades: dict[str, dict[str, int]], pool: Pool, path: Path, judged: Path
) -> list[Judgement]:
    """Put what was judged into ``grades``, and give what was not there."""
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


def _noted(about: Card, qrels: Qrels, said: str) -> Card:
    """Give the card of the judgements as they are now."""
    return about.model_copy(
        update={
            "judgements": sum(1 for _ in qrels.rows()),
            "sha256": about.sha256.model_copy(update={"qrels": card.of_qrels(qrels)}),
            "warnings": [*about.warnings, said],
        }
    )


def _with_line(path: Path, record: Mapping[str, object]) -> str:
    before = text_of(path) if path.is_file() else ""
    gap = "" if not before or before.endswith("\n") else "\n"
    return f"{before}{gap}{json.dumps(record, ensure_ascii=False, sort_keys=True)}\n"


def _qrels(grades: dict[str, dict[str, int]]) -> Qrels:
    return Qrels({q: dict(sorted(grades[q].items())) for q in sorted(grades)})
