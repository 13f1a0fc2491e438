"""Judge a pool, one pair at a time, and take its judgements into a data set."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from harness.core import digest
from harness.core.errors import DatasetError
from harness.core.files import write_text
from harness.core.qrels import Qrels
from harness.corpus import card, trec
from harness.corpus import pool as pools
from harness.corpus.pool import Overtaken, Pool

SKIP, BACK, QUIT = "s", "u", "q"
HIGHEST_KEY = 9
"""Grades are given by one key."""

Show = Callable[[Pool, int, str], None]
"""Shows the pair at a place, and a word on the key before, empty where that was understood."""


def judge(path: Path, keys: Iterable[str], show: Show) -> Pool:
    """Ask for the grades of a pool, and write each into the pool before the next is asked for.

    A key is a grade of the scale, ``s`` to leave the pair open, ``u`` to take the last pair's
    grade back, ``q`` to stop; the end of the keys stops too. It begins at the first open pair, so
    whoever was interrupted goes on where they were. Others may judge the same pool meanwhile: what
    they judged stays, and is told.

    Raises:
        BadFile: the pool or what lies beside it cannot be read.
        DatasetError: the scale has grades that no key gives.
    """
    pool, pressed = pools.read(path), iter(keys)
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
            case str(key) if key == SKIP:
                at += 1
            case str(key) if key == BACK and at:
                at -= 1
                pool, said = _regraded(path, pool, at, None)
            case str(key) if key == QUIT:
                break
            case key:
                said = f"{key!r} is no key"
    return pool


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
    """Pairs that nobody judged yet."""


def merge(path: Path, dataset: Path, qrels: Path, *, by: str, at: str) -> Merged:
    """Add what was judged to ``<split>.qrels`` in ``qrels``, and say on the card by whom and when.

    ``dataset`` is the folder with the card. What was added is also kept apart, in
    ``<split>.judged.jsonl``, a line a pool. The card's digest is not mended here: ``harness
    prepare --update`` does it, which looks at the data too.

    Raises:
        BadFile: the pool or the judgements cannot be read.
        DatasetError: the judgements of the set are made and not kept in files, or a pair is in
            there with another grade.
    """
    about = card.read(dataset)
    if about.kind != "files":
        raise DatasetError(
            f"{about.name}: its judgements are made from its card, so none can be added;"
            " import its data as files, and merge into that"
        )
    pool = pools.read(path)
    judged = qrels / f"{about.split}.qrels"
    grades = {q: dict(docs) for q, docs in trec.qrels(judged).grades.items()}
    added = []
    for query_id, doc_id, grade in pool.judgements:
        before = grades.setdefault(query_id, {}).setdefault(doc_id, grade)
        if before != grade:
            raise DatasetError(
                f"{judged}: {doc_id} has grade {before} for query {query_id}, and grade {grade} in"
                f" {path}; settle it in one of the two"
            )
        added.append([query_id, doc_id, grade])
    known = frozenset((j.query_id, j.doc_id) for j in trec.qrels(judged).rows())
    fresh = [row for row in added if (row[0], row[1]) not in known]
    if fresh:
        record = {"at": at, "by": by, "pool_sha256": digest.of_file(path), "judgements": fresh}
        _append(qrels / f"{about.split}.judged.jsonl", record)
        trec.write_qrels(judged, _qrels(grades))
        said = f"{len(fresh)} judgements were added on {at} by {by}, from a pool."
        card.write(dataset, about.model_copy(update={"warnings": [*about.warnings, said]}))
    return Merged(len(fresh), len(added) - len(fresh), len(pool.open))


def _append(path: Path, record: Mapping[str, object]) -> None:
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    write_text(path, before + json.dumps(record, ensure_ascii=False, sort_keys=True) + "\n")


def _qrels(grades: dict[str, dict[str, int]]) -> Qrels:
    return Qrels({q: dict(sorted(grades[q].items())) for q in sorted(grades)})
