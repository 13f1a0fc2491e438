"""Runs and judgements from files, and from other tools' objects."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from numbers import Real
from pathlib import Path

from harness.api.given import GRADE, SCORE, Kind, QrelsLike, RunLike, Value, values
from harness.core.errors import DatasetError, RunError
from harness.core.names import checked
from harness.core.qrels import Qrels
from harness.core.records import Judgement
from harness.core.run import Run
from harness.corpus import beir, runs, trec
from harness.corpus.cells import grades

PARQUET, TABBED = ".parquet", ".tsv"
UNNAMED = "run"
RUN = Kind(
    "run", "score", SCORE, RunError,
    "Give {query: {document: score}}, a frame with the columns query_id, doc_id and score, a ranx"
    " Run, an iterable of ir_measures.ScoredDoc, or the path of a TREC file",
)  # fmt: skip
QRELS = Kind(
    "qrels", "grade", GRADE, DatasetError,
    "Give {query: {document: grade}}, a frame with the columns query_id, doc_id and relevance, ranx"
    " Qrels, an iterable of ir_measures.Qrel, or the path of a TREC file",
)  # fmt: skip


def load_run(run: RunLike, arm: str = "", *, empty: Iterable[str] = ()) -> Run:
    """Read a run from a file or another tool's object.

    A path that ends in ``.parquet`` is a run of the harness; any other file has TREC lines. Besides
    a path it accepts a mapping ``{query: {document: score}}``, a ranx Run, and a ``Run``, which is
    returned. It also accepts a pandas frame (columns ``query_id``, ``doc_id`` and ``score``, or the
    names of ranx and PyTerrier), and an iterable of ``ir_measures.ScoredDoc`` or of tuples.

    Higher scores are better. All but the Parquet file are ordered as by
    ``harness.corpus.trec.read_run``. ``arm`` names the run; without it, the name in the Parquet
    file, the TREC file or the ranx Run is used, or ``run``. A query without a line is missing from
    the run. Queries of ``empty``, and ``{query: {}}`` in a mapping, count as answered with nothing.

    Raises:
        BadFile: the file is missing, damaged or malformed.
        RunError: the object is not a run, or a score is not finite; the message names the place.
        BadName: the name is invalid for an arm; give another one with ``arm``.
    """
    return named_run(run, arm, "", empty)


def named_run(run: RunLike, arm: str, otherwise: str, empty: Iterable[str] = ()) -> Run:
    """Read a run as ``load_run`` does; one without a name is called ``otherwise``."""
    if isinstance(run, str | Path):
        return _of_file(Path(run), arm, empty)
    if isinstance(run, Run):
        return replace(run, arm=checked("an arm", arm)) if arm else run
    found, answered = values(run, RUN)
    shown = trec.Scored()
    for value in found:
        shown.add(value.query_id, value.doc_id, _score(value))
    for query_id in (*answered, *empty):
        shown.ask(query_id)
    if not shown.queries:
        raise RunError(f"{RUN.name}: it is empty. {RUN.shapes}")
    own = getattr(run, "name", None)
    named = arm or (own if isinstance(own, str) else "") or otherwise or UNNAMED
    return shown.run(checked("an arm", named), trec.Missing.EMPTY)


def load_qrels(qrels: QrelsLike) -> Qrels:
    """Read judgements from a file or another tool's object.

    A path that ends in ``.tsv`` has BEIR's ``query document grade`` with tabs; any other file has
    TREC lines. Besides a path it accepts a mapping ``{query: {document: grade}}``, ranx Qrels, and
    ``Qrels``, which are returned. It also accepts a pandas frame (columns ``query_id``, ``doc_id``
    and ``relevance``, or the names of ranx, PyTerrier and BEIR), and an iterable of
    ``ir_measures.Qrel`` or of tuples.

    Raises:
        BadFile: the file is missing or malformed, or judges a pair twice.
        DatasetError: the object is not judgements, a grade is not a whole number, or a pair is
            judged twice; the message names the place.
    """
    if isinstance(qrels, str | Path):
        file = Path(qrels)
        return beir.qrels(file) if file.suffix == TABBED else trec.qrels(file)
    if isinstance(qrels, Qrels):
        return qrels
    found, _ = values(qrels, QRELS)
    judged = Qrels.of(Judgement(one.query_id, one.doc_id, _grade(one)) for one in found)
    if not judged.grades:
        raise DatasetError(f"{QRELS.name}: it holds no judgement. {QRELS.shapes}")
    return judged


def _of_file(file: Path, arm: str, empty: Iterable[str]) -> Run:
    if file.suffix == PARQUET:
        found = runs.read_run(file)
        return replace(found, arm=checked("an arm", arm or found.arm))
    name = checked("an arm", arm or file.stem)
    return trec.read_run(file, name, empty, missing=trec.Missing.EMPTY)


def _score(found: Value) -> float:
    value = found.value
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise RunError(
            f"run{found.place}: the score {value!r} of {found.doc_id} is not a finite number. Give"
            " a number, or leave the document out"
        )
    return float(value)


def _grade(found: Value) -> int:
    grade = grades.whole(found.value)
    if grade is None:
        raise DatasetError(
            f"qrels{found.place}: {grades.problem(found.value)} (of {found.doc_id}). {grades.HINT}"
        )
    return grade
