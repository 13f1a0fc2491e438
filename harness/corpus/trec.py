"""Judgements and runs as TREC wrote them, so that any other tool can check us."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path

from harness.core.engine import Hit
from harness.core.errors import BadFile, RunError
from harness.core.files import write_text
from harness.core.qrels import Qrels
from harness.core.reading import numbered
from harness.core.records import Judgement
from harness.core.run import Row, Run, Status
from harness.corpus.cells import grades
from harness.corpus.lines import SPACES

BETWEEN_FIELDS = re.compile(f"[{SPACES}]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
"""A score as C reads it: ``float`` would also take ``1_000`` and digits of other scripts."""
UNFILLED = "?"
"""The grade of a pair that was put into a pool and not judged yet."""


class Missing(StrEnum):
    """What a query is that a run file has no line for."""

    LOST = "lost"
    """Not asked: what the engine would have shown is unknown."""
    EMPTY = "empty"
    """Asked, and answered with nothing: writers that follow trec_eval leave such queries out."""


def qrels(path: Path) -> Qrels:
    """Read ``query 0 document grade`` lines.

    Raises:
        BadFile: a line does not have four fields, a grade is not an integer, a pair is judged
            twice, or the file has no judgement.
    """
    return collect(path, _judgements(path))


def write_qrels(path: Path, found: Qrels) -> None:
    """Write ``query 0 document grade`` lines, by query and then document."""
    write_text(path, qrels_text(found))


def qrels_text(found: Qrels) -> str:
    """Give the file that ``write_qrels`` writes."""
    return "".join(f"{q} 0 {doc_id} {grade}\n" for q, doc_id, grade in found.rows())


def read_run(
    path: Path,
    arm: str,
    asked: Iterable[str] | None = None,
    *,
    missing: Missing = Missing.LOST,
) -> Run:
    """Read ``query Q0 document rank score tag`` lines, as trec_eval would.

    The order is that of the scores as float64, highest first. Equal scores are ordered by document
    id, in descending UTF-8 byte order. The rank column is not read. A
    document that comes twice for a query stays where it is ranked highest. ``score`` becomes
    the place between the lowest (0) and the highest (1) score of the query, ``raw_score`` is
    the file's.

    With ``asked``, the rows stand in that order. A run file cannot tell a query that found nothing
    from one that was not asked, so ``missing`` says what a query without a line is. Queries of the
    file that are not in ``asked`` follow, in the order of the file.

    Raises:
        BadFile: a line does not have six fields, a score is not finite, or the file is empty.
    """
    shown: dict[str, list[tuple[float, str]]] = {q: [] for q in asked or ()}
    lines = 0
    for number, line in numbered(path):
        query_id, _, doc_id, _, score, _ = _fields(path, number, line, _RUN_LINE)
        shown.setdefault(query_id, []).append((_finite(path, number, score), doc_id))
        lines += 1
    if not lines:
        raise BadFile(path, "the run is empty", "An arm that ran shows something; run it again.")
    return Run.of(arm, (row_of(query_id, hits, missing) for query_id, hits in shown.items()))


def write_run(path: Path, run: Run) -> None:
    """Write what ``run_text`` gives.

    Raises:
        RunError: as ``run_text``.
    """
    write_text(path, run_text(run))


def run_text(run: Run) -> str:
    """Give ``query Q0 document rank score tag`` lines, the score being minus the rank.

    Readers sort by the score and break ties each in their own way; this leaves them one order
    to read. How a query without hits ended is not in such a file.

    Raises:
        RunError: the name of the arm holds white space, so it cannot be the tag.
    """
    if not run.arm or any(space in run.arm for space in SPACES):
        raise RunError(f"arm {run.arm!r} cannot be the tag of a TREC run; rename the arm")
    return "".join(
        f"{row.query_id} Q0 {hit.doc_id} {rank} {-rank} {run.arm}\n"
        for row in run.rows()
        for rank, hit in enumerate(row.hits, start=1)
    )


def collect(path: Path, found: Iterable[tuple[int, Judgement]]) -> Qrels:
    """Collect judgements with their line numbers.

    Raises:
        BadFile: a pair is judged twice, or none is judged.
    """
    seen: dict[tuple[str, str], int] = {}
    kept: list[Judgement] = []
    for number, judgement in found:
        pair = judgement[:2]
        if pair in seen:
            problem = (
                f"{judgement.doc_id} is judged for query {judgement.query_id}"
                f" on line {seen[pair]} already"
            )
            raise BadFile(path, problem, "Keep one of the two lines.", number)
        seen[pair] = number
        kept.append(judgement)
    if not kept:
        raise BadFile(path, "it holds no judgement", "Write one judgement a line.")
    return Qrels.of(kept)


def grade(path: Path, number: int, text: str) -> int:
    """Read a grade (``harness.corpus.cells.grades.whole``).

    Raises:
        BadFile: it is not whole, or ``UNFILLED``.
    """
    if text == UNFILLED:
        raise BadFile(path, "the pair is not judged yet", f"Judge it: harness judge {path}", number)
    found = grades.whole(text)
    if found is None:
        raise BadFile(path, grades.problem(text), grades.HINT, number)
    return found


_RUN_LINE = "query Q0 document rank score tag"
_QRELS_LINE = "query 0 document grade"


def judged_line(path: Path, number: int, line: str) -> tuple[str, str, str]:
    """Take query, document and grade out of a line, the grade as it is written.

    Raises:
        BadFile: it has not four fields.
    """
    query_id, _, doc_id, graded = _fields(path, number, line, _QRELS_LINE)
    return query_id, doc_id, graded


def _judgements(path: Path) -> Iterator[tuple[int, Judgement]]:
    for number, line in numbered(path):
        query_id, doc_id, graded = judged_line(path, number, line)
        yield number, Judgement(query_id, doc_id, grade(path, number, graded))


def _fields(path: Path, number: int, line: str, shape: str) -> list[str]:
    found = BETWEEN_FIELDS.split(line.strip(SPACES))
    if len(found) != (wanted := shape.count(" ") + 1):
        problem = f"the line has {len(found)} fields, not {wanted}"
        raise BadFile(path, problem, f"Write: {shape}.", number)
    return found


def _finite(path: Path, number: int, text: str) -> float:
    found = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(found):
        hint = "Write a finite number, or leave the line out."
        raise BadFile(path, f"the score {text!r} is not a finite number", hint, number)
    return found


def row_of(query_id: str, found: list[tuple[float, str]], missing: Missing) -> Row:
    """Make a row of (score, document) pairs, in the order of ``read_run``; ``found`` is sorted."""
    if not found:
        ended = Status.ANSWERED if missing is Missing.EMPTY else Status.NOT_ASKED
        return Row(query_id, ended)
    found.sort(reverse=True)
    high, low = found[0][0], found[-1][0]
    width = high / 2 - low / 2  # halves, so that the widest range does not overflow
    hits = [
        Hit(doc_id, (score / 2 - low / 2) / width if width > 0 else 1.0, score)
        for score, doc_id in found
    ]
    return Row(query_id, Status.ANSWERED, hits)
