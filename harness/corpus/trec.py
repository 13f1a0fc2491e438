"""Topics, judgements and runs as TREC wrote them."""

import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

import numpy as np

from harness.core.errors import BadFile, RunError
from harness.core.files import write_text
from harness.core.reading import numbered
from harness.core.records import Judgement, Qrels, Query
from harness.core.run import Run, Status
from harness.corpus import cells

SPACES = " \t\n\r\v\f"
"""What separates the fields of a TREC line, and so may not be in an id."""
UNCARRIED = SPACES + "\0"
_UNCARRIED = frozenset(UNCARRIED)

LEFT_OUT = "left_out.txt"
"""In the folder of a data set: ids of queries that the import left out, one a line."""


def either(folder: Path, name: str) -> Path:
    """Choose ``name`` in ``folder``, or ``name.gz`` where only that exists."""
    plain, packed = folder / name, folder / f"{name}.gz"
    return packed if packed.exists() and not plain.exists() else plain


def checked_id(path: Path, number: int | None, what: str, found: str) -> str:
    """Return the id, which every file format we write must be able to carry."""
    if not found or not _UNCARRIED.isdisjoint(found):
        raise BadFile(
            path,
            f"the {what} id {found!r} is empty or holds white space or a NUL",
            "Use ids that a TREC file can carry.",
            number,
        )
    return found


def check_once(path: Path, number: int, seen: dict[object, int], key: object, said: str) -> None:
    """Check that a key stands on no earlier line, and note the line of it."""
    if key in seen:
        problem = f"{said} on line {seen[key]} already"
        raise BadFile(path, problem, "Keep one of the two lines.", number)
    seen[key] = number


TAG = re.compile(r"<(/?[A-Za-z][A-Za-z0-9_-]*)>")
LABEL = {"num": re.compile(r"Number:", re.IGNORECASE), "title": re.compile(r"Topic:")}


def tagged(path: Path) -> tuple[Query, ...]:
    """Read ``<top> <num> Number: 301 <title> words ... </top>`` blocks; the title is the query."""
    return _collect(path, _blocks(path))


def table(path: Path) -> tuple[Query, ...]:
    """Read ``id<TAB>text`` lines (a text may hold tabs), or columns by their names."""
    return _collect(path, _rows(path))


def _blocks(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, number and title of each topic."""
    opened, inside = 0, ""
    parts: dict[str, list[str]] = {}
    for number, line in numbered(path):
        before, *tags = TAG.split(line)
        if opened:
            parts.setdefault(inside, []).append(before)
        for tag, text in zip(tags[::2], tags[1::2], strict=True):
            name = tag.lower()
            if name == "top":
                _check_closed(path, opened)
                opened, parts = number, {}
            elif name == "/top" and opened:
                yield (
                    opened,
                    _field(path, opened, "num", parts),
                    _field(path, opened, "title", parts),
                )
                opened = 0
            inside = "" if name == "top" or name.startswith("/") else name
            if opened:
                parts.setdefault(inside, []).append(text)
    _check_closed(path, opened)


def _check_closed(path: Path, opened: int) -> None:
    if opened:
        raise BadFile(path, "this <top> is not closed", "End it with </top>.", opened)


def _field(path: Path, opened: int, name: str, parts: Mapping[str, Sequence[str]]) -> str:
    found = " ".join(LABEL[name].sub("", " ".join(parts.get(name, ())), count=1).split())
    if not found:
        raise BadFile(path, f"this topic has no <{name}>", f"Add a line <{name}> ...", opened)
    return found


def _rows(path: Path) -> Iterator[tuple[int, str, str]]:
    at: tuple[int, ...] | None = ()
    for number, line in numbered(path):
        if at == ():
            at = cells.places(line.split("\t"), (cells.ID, cells.TEXT))
            if at:
                continue
        query_id, tab, text = line.partition("\t")
        if at:
            row = line.split("\t")
            query_id, text = (row[place] if place < len(row) else "" for place in at)
        if not tab or not text.strip():
            raise BadFile(path, "the line has no second column", "Write: id<TAB>text.", number)
        yield number, query_id.strip(SPACES), text


def _collect(path: Path, found: Iterable[tuple[int, str, str]]) -> tuple[Query, ...]:
    seen: dict[object, int] = {}
    kept: list[Query] = []
    for number, query_id, text in found:
        checked_id(path, number, "query", query_id)
        check_once(path, number, seen, query_id, f"the query {query_id} is")
        kept.append(Query(query_id, text))
    if not kept:
        raise BadFile(path, "it holds no query", "Check that this is a file of topics.")
    return tuple(kept)


BETWEEN_FIELDS = re.compile(f"[{SPACES}]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?", re.ASCII)
"""A score as C reads it: ``float`` would also take ``1_000`` and digits of other scripts."""
UNFILLED = "?"


class MissingQuery(StrEnum):
    """What a query is that a run file has no line for."""

    LOST = "lost"
    """Not asked: what the engine would have shown is unknown."""
    EMPTY = "empty"
    """Asked, and answered with nothing: writers that follow trec_eval leave such queries out."""


def qrels(path: Path) -> Qrels:
    """Read ``query 0 document grade`` lines."""
    return collect(path, _judgements(path))


def write_qrels(path: Path, found: Qrels) -> None:
    """Write ``query 0 document grade`` lines, by query and then document."""
    write_text(path, qrels_text(found))


def qrels_text(found: Qrels) -> str:
    """Return the file that ``write_qrels`` writes."""
    return "".join(f"{q} 0 {doc_id} {grade}\n" for q, doc_id, grade in found.rows())


def read_run(
    path: Path,
    arm: str,
    asked: Iterable[str] | None = None,
    *,
    missing: MissingQuery = MissingQuery.LOST,
) -> Run:
    """Read ``query Q0 document rank score tag`` lines, as trec_eval would.

    Documents are ordered by score as float64, equal ones by id in descending byte order. One that
    comes twice stays where it is ranked highest. ``score`` becomes the place between the lowest (0)
    and the highest (1) of the query. With ``asked``, rows stand in that order, ``missing`` says
    what a query without a line is, and other queries follow in the order of the file.
    """
    shown = ScoredDocuments(asked or ())
    for number, line in numbered(path):
        query_id, _, doc_id, _, text, _ = _fields(path, number, line, _RUN_LINE)
        score = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not math.isfinite(score):
            hint = "Write a finite number, or leave the line out."
            raise BadFile(path, f"the score {text!r} is not a finite number", hint, number)
        shown.add(query_id, doc_id, score)
    if not shown:
        raise BadFile(path, "the run is empty", "An arm that ran shows something; run it again.")
    return shown.run(arm, missing)


class ScoredDocuments:
    """Scored documents of many queries, as columns of numbers; ``run`` ranks them."""

    def __init__(self, queries: Iterable[str] = ()) -> None:
        self.queries: dict[str, int] = {}
        for query_id in queries:
            self.ask(query_id)
        self._documents: dict[str, int] = {}
        self._query, self._document, self._score = array("i"), array("i"), array("d")

    def __len__(self) -> int:
        """Count the scores."""
        return len(self._score)

    def ask(self, query_id: str) -> int:
        """Return the place of a query, which is the next one where it is new."""
        return self.queries.setdefault(query_id, len(self.queries))

    def add(self, query_id: str, doc_id: str, score: float) -> None:
        """Take in one score, which is finite."""
        self._query.append(self.ask(query_id))
        self._document.append(self._documents.setdefault(doc_id, len(self._documents)))
        self._score.append(score)

    def run(self, arm: str, missing: MissingQuery) -> Run:
        """Rank the documents of each query in the order of ``read_run``."""
        vocabulary, count = tuple(sorted(self._documents)), len(self.queries)
        code = np.empty(len(vocabulary), dtype=np.int32)
        code[[self._documents[doc_id] for doc_id in vocabulary]] = np.arange(len(vocabulary))
        query, score = np.array(self._query), np.array(self._score)
        docs = code[np.array(self._document)]
        order = np.lexsort((-docs, -score, query))
        query, score, docs = query[order], score[order], docs[order]
        hits = np.bincount(query, minlength=count)
        asked = hits > 0
        end = hits.cumsum()
        high, low = np.zeros(count), np.zeros(count)
        high[asked], low[asked] = score[(end - hits)[asked]], score[end[asked] - 1]
        width = (high / 2 - low / 2)[query]  # halves, so that the widest range does not overflow
        place = np.ones(len(score))
        np.divide(score / 2 - low[query] / 2, width, out=place, where=width > 0)
        alike = np.lexsort((docs, query))  # stable: of equal documents, the best comes first
        again = np.zeros(len(score), dtype=bool)
        again[alike[1:]] = (np.diff(query[alike]) == 0) & (np.diff(docs[alike]) == 0)
        repeated = np.bincount(query[again], minlength=count)
        otherwise = Status.ANSWERED if missing is MissingQuery.EMPTY else Status.NOT_ASKED
        return Run(
            arm=arm,
            query_ids=tuple(self.queries),
            vocabulary=vocabulary,
            offsets=np.concatenate([[0], (hits - repeated).cumsum()]).astype(np.int64),
            docs=docs[~again],
            score=place[~again],
            raw_score=score[~again],
            status=np.where(asked, Status.ANSWERED, otherwise).astype(np.uint8),
            served_by=("",) * count,
            errors=("",) * count,
            duplicates=repeated.astype(np.int32),
        )


def write_run(path: Path, run: Run) -> None:
    """Write what ``run_text`` gives."""
    write_text(path, run_text(run))


def run_text(run: Run) -> str:
    """Return ``query Q0 document rank score tag`` lines, the score being minus the rank."""
    if not run.arm or any(space in run.arm for space in SPACES):
        raise RunError(f"arm {run.arm!r} cannot be the tag of a TREC run; rename the arm")
    return "".join(
        "".join(f"{query_id} Q0 {one} {at} {-at} {run.arm}\n" for at, one in enumerate(shown, 1))
        for query_id, shown in run.rankings(run.query_ids).items()
    )


def collect(path: Path, found: Iterable[tuple[int, Judgement]]) -> Qrels:
    """Collect judgements with their line numbers."""
    seen: dict[object, int] = {}
    kept: list[Judgement] = []
    for number, judgement in found:
        said = f"{judgement.doc_id} is judged for query {judgement.query_id}"
        check_once(path, number, seen, judgement[:2], said)
        kept.append(judgement)
    if not kept:
        raise BadFile(path, "it holds no judgement", "Write one judgement a line.")
    return Qrels.of(kept)


_whole = lru_cache(maxsize=1 << 10)(cells.whole)


def grade(path: Path, number: int, text: str) -> int:
    """Read a grade (``harness.corpus.cells.whole``)."""
    if text == UNFILLED:
        raise BadFile(path, "the pair is not judged yet", f"Judge it: harness judge {path}", number)
    found = _whole(text)
    if found is None:
        raise BadFile(path, cells.problem(text), cells.HINT, number)
    return found


_RUN_LINE = "query Q0 document rank score tag"
_QRELS_LINE = "query 0 document grade"


def judged_line(path: Path, number: int, line: str) -> tuple[str, str, str]:
    """Take query, document and grade out of a line, the grade as it is written."""
    query_id, _, doc_id, graded = _fields(path, number, line, _QRELS_LINE)
    return query_id, doc_id, graded


def _judgements(path: Path) -> Iterator[tuple[int, Judgement]]:
    for number, line in numbered(path):
        query_id, doc_id, graded = judged_line(path, number, line)
        yield number, Judgement(query_id, doc_id, grade(path, number, graded))


def _fields(path: Path, number: int, line: str, shape: str) -> list[str]:
    found, wanted = line.split(" "), shape.count(" ") + 1
    if len(found) != wanted or "" in found or not line.isprintable():
        found = BETWEEN_FIELDS.split(line.strip(SPACES))
    if len(found) != wanted:
        problem = f"the line has {len(found)} fields, not {wanted}"
        raise BadFile(path, problem, f"Write: {shape}.", number)
    return found
